"""Inputs that a workload wrote in are the sealed ones again, and unchanged ones are not read."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from capsule.digest import of_bytes
from capsule.errors import DamagedError
from capsule.execute.workingcopy import WorkingCopy

FILES = {
    "inputs/run.py": b"print(1)\n",
    "inputs/repo/a.txt": b"a" * 5000,
    "inputs/repo/sub/b.txt": b"",
    "inputs/repo/sub/deep/c.bin": bytes(range(256)),
}


@pytest.fixture
def pristine(tmp_path: Path) -> Path:
    for name, data in FILES.items():
        path = tmp_path / "run" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return tmp_path / "run"


@pytest.fixture
def copy(pristine: Path) -> WorkingCopy:
    digests = {name: of_bytes(data) for name, data in FILES.items()}
    return WorkingCopy(pristine / "work", pristine, digests, ["inputs"])


def seen(pristine: Path) -> dict[str, object]:
    """All that a workload can tell of its inputs, but for times of reading and inodes."""
    work, known = pristine / "work", dict[str, object]()
    for folder, folders, files in os.walk(work):
        for name in [*folders, *files, "."]:
            path = Path(folder, name)
            status = path.lstat()
            known[str(path.relative_to(work))] = (
                status.st_mode,
                status.st_uid,
                path.read_bytes() if path.is_file() else None,
                status.st_mtime_ns,
                os.listxattr(path),
                status.st_nlink,
            )
    return known


def io_bytes() -> int:
    """What this process has read so far."""
    return int(re.findall(r"rchar: (\d+)", Path("/proc/self/io").read_text())[0])


def append(path: Path) -> None:
    with path.open("ab") as stream:
        stream.write(b"x")


def overwrite_and_hide(path: Path) -> None:
    status = path.stat()
    path.write_bytes(b"b" * status.st_size)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def move_and_link(path: Path) -> None:
    moved = Path("moved").absolute()
    path.rename(moved)
    path.symlink_to(moved)


def put_folder(path: Path) -> None:
    path.unlink()
    (path / "x").mkdir(parents=True)


def put_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def link_from_outside(path: Path) -> None:
    os.link(path, path.parents[3] / "outside")


def swap(path: Path) -> None:
    other = path.with_name("other")
    shutil.copy2(path, other)
    other.replace(path)


def set_attribute(path: Path) -> None:
    try:
        os.setxattr(path, "user.count", b"1")
    except OSError:
        pytest.skip("this file system has no attributes of users")


# what is done to inputs/repo/a.txt or inputs/repo, and what is said to have changed there
A, SUB = "a.txt", "sub"
CHANGES: dict[str, tuple[Callable[[Path], object], set[str]]] = {
    "a file of its own": (lambda repo: (repo / "last.ckpt").touch(), {"last.ckpt"}),
    "a file appended to": (lambda repo: append(repo / A), {A}),
    "a file of the same size": (lambda repo: (repo / A).write_bytes(b"b" * 5000), {A}),
    "a file with its times set back": (lambda repo: overwrite_and_hide(repo / A), {A}),
    "a file cut off": (lambda repo: os.truncate(repo / A, 0), {A}),
    "a file removed": (lambda repo: (repo / A).unlink(), {A}),
    "a file renamed": (lambda repo: (repo / A).rename(repo / "z"), {A, "z"}),
    "files exchanged": (lambda repo: (repo / A).replace(repo / SUB / "b.txt"), {A, "sub/b.txt"}),
    "a file's mode": (lambda repo: (repo / A).chmod(0o600), {A}),
    "a file that nobody may read": (lambda repo: (repo / A).chmod(0), {A}),
    "a link to a file's copy": (lambda repo: move_and_link(repo / A), {A}),
    "a folder for a file": (lambda repo: put_folder(repo / A), {A}),
    "a pipe for a file": (lambda repo: put_pipe(repo / A), {A}),
    "a second name": (lambda repo: link_from_outside(repo / A), {A}),
    "an attribute": (lambda repo: set_attribute(repo / A), {A}),
    "a file's copy in its place": (lambda repo: swap(repo / A), {A}),
    "a folder": (lambda repo: (repo / "new" / "er").mkdir(parents=True), {"new"}),
    "a folder removed": (
        lambda repo: shutil.rmtree(repo / SUB),
        {"sub", "sub/b.txt", "sub/deep", "sub/deep/c.bin"},
    ),
    "a folder that nobody may enter": (lambda repo: (repo / SUB).chmod(0), {"sub"}),
    "a folder's mode": (lambda repo: (repo / SUB / "deep").chmod(0o711), {"sub/deep"}),
    "a link for a folder": (
        lambda repo: move_and_link(repo / SUB),
        {"sub", "sub/b.txt", "sub/deep", "sub/deep/c.bin"},
    ),
    "a link out of it": (lambda repo: (repo / "out").symlink_to("/etc"), {"out"}),
    "a file beside all inputs": (lambda repo: (repo.parents[1] / "x").touch(), {"../../x"}),
    "a file among inputs": (lambda repo: (repo.parent / "x").touch(), {"../x"}),
    "times alone": (lambda repo: os.utime(repo / A), set()),
    "a folder's time": (lambda repo: os.utime(repo, ns=(7, 7)), set()),
    "a folder's attribute": (lambda repo: set_attribute(repo / SUB), set()),
    "bytecode": (lambda repo: (repo / "__pycache__" / "a.pyc").parent.mkdir(), set()),
    "nothing": (lambda repo: (repo / A).read_bytes(), set()),
}


@pytest.mark.parametrize("what", CHANGES)
def test_whatever_was_changed_is_as_it_was_sealed(
    pristine: Path,
    copy: WorkingCopy,
    what: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    before = seen(pristine)
    change, wrong = CHANGES[what]
    repo = pristine / "work" / "inputs" / "repo"
    for _ in range(2):
        change(repo)
        told = {os.path.relpath(pristine / "work" / name, repo) for name in copy.restore()}
        assert told == wrong
        assert seen(pristine) == before
        assert copy.restore() == []
        for left in (tmp_path / "moved", pristine / "outside"):
            if left.is_dir():
                shutil.rmtree(left)
            left.unlink(missing_ok=True)
    for name, data in FILES.items():
        assert (pristine / name).read_bytes() == data
        assert not (pristine / name).samefile(pristine / "work" / name)


def test_unchanged_inputs_are_not_read_again(pristine: Path) -> None:
    size = 32 << 20
    data = os.urandom(size)
    (pristine / "inputs" / "large").write_bytes(data)
    names = {**FILES, "inputs/large": data}
    digests = {name: of_bytes(content) for name, content in names.items()}
    copy = WorkingCopy(pristine / "work", pristine, digests, ["inputs"])
    before = io_bytes()
    copy.restore()
    assert io_bytes() - before < size / 100
    # and of others that changed none but those
    (pristine / "work" / "inputs" / "run.py").write_text("changed")
    before = io_bytes()
    assert copy.restore() == ["inputs/run.py"]
    assert io_bytes() - before < size / 100


def test_a_change_right_after_the_copy_is_seen(pristine: Path) -> None:
    digests = {name: of_bytes(data) for name, data in FILES.items()}
    path = pristine / "work" / "inputs" / "repo" / "a.txt"
    for _ in range(20):
        copy = WorkingCopy(pristine / "work", pristine, digests)
        with path.open("r+b") as stream:
            stream.write(b"b")
        assert copy.restore() == ["inputs/repo/a.txt"]
        with path.open("r+b") as stream:
            stream.write(b"b")
        assert copy.restore() == ["inputs/repo/a.txt"]


def test_a_pristine_file_that_was_changed_is_no_input(pristine: Path, copy: WorkingCopy) -> None:
    (pristine / "inputs" / "run.py").write_text("print(2)\n")
    # it is not needed while the copy is right
    assert copy.restore() == []
    (pristine / "work" / "inputs" / "run.py").unlink()
    with pytest.raises(DamagedError, match=r"inputs/run\.py was changed"):
        copy.restore()


def test_what_a_dead_run_left_is_made_anew(pristine: Path, copy: WorkingCopy) -> None:
    assert copy.restore() == []
    (pristine / "work" / "inputs" / "run.py").write_text("changed")
    (pristine / "work" / "inputs" / "more").mkdir(mode=0)
    digests = {"inputs/run.py": of_bytes(FILES["inputs/run.py"])}
    WorkingCopy(pristine / "work", pristine, digests)
    assert [path.name for path in (pristine / "work" / "inputs").iterdir()] == ["run.py"]
    assert (pristine / "work" / "inputs" / "run.py").read_bytes() == FILES["inputs/run.py"]
