"""Where runs and capsules are put: known before anything runs, and never written over."""

import errno
import fcntl
import os
import pwd
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from capsule import cli, localpaths
from capsule.trust import ledger
from tests.support.command import REPORT, User, write_manifest, write_script

# tells that it ran in a place that no run folder hides
TELLING = 'open({trace!r}, "w").write("")\n' + REPORT + 'report("loss", 1.0)\n'

# tells what others may do with the run folder
LOOKING = """
import os
from pathlib import Path
folder = next(one for one in Path(__file__).parents if (one / "run.json").exists())
Path({trace!r}).write_text(oct(folder.stat().st_mode & 0o7777))
"""


@pytest.fixture
def trace(author: User) -> Path:
    """What the workload makes when it runs."""
    trace = author.home / "ran"
    write_script(author.folder, TELLING.replace("{trace!r}", repr(str(trace))))
    write_manifest(author.folder, seeds=[1])
    return trace


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB, which the measuring code alone overflows."""
    if os.getuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a small file system needs root")
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--output", "none/a.zip"], 2, "none: the folder for none/a.zip does not exist"),
        (["--output", "tiny.py/a.zip"], 2, "tiny.py: the folder for tiny.py/a.zip does not exist"),
        (["--output", "tiny.json"], 2, "tiny.json: already exists"),
        (["--output", "."], 2, "already exists"),
        (["--output", "/proc/a.zip"], 5, "/proc: cannot write a capsule to this folder"),
        (["--work", "."], 2, "the run folder already exists"),
        (["--work", "tiny.json"], 2, "already exists"),
        (["--work", "tiny.json/a.run"], 5, "cannot make the run folder"),
        (["--work", "/proc/a.run"], 5, "cannot make the run folder"),
    ],
)
def test_a_place_that_cannot_be_is_one_error_before_anything_runs(
    author: User, trace: Path, arguments: list[str], code: int, words: str
) -> None:
    before = sorted(author.folder.iterdir())
    ended = author.run("run", "tiny.json", *arguments)
    assert ended.returncode == code, ended.stderr
    assert words in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not trace.exists()
    assert sorted(author.folder.iterdir()) == before


def test_a_full_disk_while_the_run_folder_is_made_is_one_clear_error(
    author: User, trace: Path, small: Path
) -> None:
    ended = author.run("run", "tiny.json", "--work", small / "a.run")
    assert ended.returncode == 5, ended.stderr
    assert f"{small / 'a.run'}: cannot make the run folder" in ended.stderr
    assert "No space left on device" in ended.stderr
    assert "--work" in ended.stderr
    assert not trace.exists()
    assert list(small.iterdir()) == []


def test_a_run_folder_may_be_in_folders_that_are_still_to_be_made(
    author: User, trace: Path
) -> None:
    ended = author.run("run", "tiny.json", "--work", "a/b/c.run", "--output", "a.zip")
    assert ended.returncode == 0, ended.stderr
    assert trace.exists()
    assert not (author.folder / "a/b/c.run").exists()


def test_the_readmes_pattern_means_the_original_alone_also_the_second_time(
    author: User, trace: Path
) -> None:
    assert author.run("run", "tiny.json").returncode == 0
    for _ in range(2):
        (original,) = author.folder.glob("tiny-*.capsule.zip")
        ended = author.run("verify", original)
        assert ended.returncode in (0, 3), ended.stderr
    assert len(list(author.folder.glob("tiny-*.verification.zip"))) == 2


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["verify"], "verify accepts one capsule"),
        (["check"], "check accepts one capsule"),
        (["show", "--json"], "show accepts one capsule"),
        (["lint"], "lint accepts one manifest"),
        (["run"], "run accepts one manifest"),
    ],
)
def test_several_files_where_one_is_meant_are_named(
    author: User, words: list[str], what: str
) -> None:
    ended = author.run(*words, "a.zip", "b.zip", "c.zip")
    assert ended.returncode == 2
    assert f"{what}, found 3: a.zip, b.zip, c.zip" in ended.stderr
    assert ended.stdout == ""


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_capsule_has_the_permissions_that_the_umask_leaves(
    author: User, trace: Path, umask: int, mode: int
) -> None:
    ended = subprocess.run(
        author.argv("run", "tiny.json", "--output", "a.zip"),
        cwd=author.folder,
        env=author.environment(),
        capture_output=True,
        check=False,
        umask=umask,
    )
    assert ended.returncode == 0, ended.stderr
    assert (author.folder / "a.zip").stat().st_mode & 0o777 == mode
    # what one noted is believed again, whatever the umask was
    assert author.run("verify", "a.zip").returncode in (0, 3)


def test_what_a_host_printed_of_its_paths_is_sealed_as_words(author: User) -> None:
    write_script(author.folder, "print(__file__)\nraise RuntimeError(__file__)\n")
    manifest = write_manifest(author.folder, seeds=[1])
    ended = author.run("run", manifest, "--keep-going", "--output", "a.zip")
    assert ended.returncode == 5, ended.stderr
    with zipfile.ZipFile(author.folder / "a.zip") as opened:
        everything = b"".join(map(opened.read, opened.namelist()))
    assert str(author.folder).encode() not in everything
    assert b"$RUN/work/inputs/tiny.py" in everything


@pytest.mark.parametrize("umask", [0, 0o022, 0o277, 0o777])
def test_nobody_else_enters_a_run_folder_whatever_the_umask(
    author: User, trace: Path, umask: int
) -> None:
    write_script(author.folder, LOOKING.replace("{trace!r}", repr(str(trace))))
    ended = subprocess.run(
        author.argv("run", "tiny.json", "--output", "a.zip", "--work", "seen.run"),
        cwd=author.folder,
        env=author.environment(),
        capture_output=True,
        check=False,
        umask=umask,
    )
    assert trace.read_text() == "0o700", ended.stderr


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
@pytest.mark.parametrize("words", [[], ["--try"], ["--work", "a.run"]])
def test_a_file_system_without_locks_is_named_and_nothing_is_left(
    author: User,
    trace: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: int,
    words: list[str],
) -> None:
    lose_locks(monkeypatch, author, number)
    before = sorted(author.folder.iterdir())
    assert cli.main(["run", "tiny.json", *words]) == 6
    said = " ".join(capsys.readouterr().err.split())
    assert f"no file locks (flock: {os.strerror(number)})" in said
    assert ("TMPDIR" if "--try" in words else "--work") in said
    assert sorted(author.folder.iterdir()) == before
    assert not trace.exists()


def test_a_run_folder_that_was_moved_to_where_no_locks_are_is_kept(
    author: User,
    trace: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_script(author.folder, "raise SystemExit(3)")
    ended = author.run("run", "tiny.json", "--work", "a.run")
    assert ended.returncode == 5, ended.stderr
    lose_locks(monkeypatch, author, errno.ENOLCK)
    assert cli.main(["run", "--resume", "a.run"]) == 6
    assert "no file locks" in capsys.readouterr().err
    assert (author.folder / "a.run" / "run.json").exists()


def test_a_user_without_any_home_seals_and_verifies_with_a_note(
    author: User,
    trace: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def find_nobody(number: int) -> NoReturn:
        raise KeyError(number)

    monkeypatch.chdir(author.folder)
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", find_nobody)
    monkeypatch.setattr(ledger, "state_folder", lambda: Path("/proc/nowhere"))
    assert localpaths.home() == Path("/nonexistent")
    assert cli.main(["run", "tiny.json", "--output", "a.zip"]) == 0
    said = capsys.readouterr()
    assert "could not be listed as yours" in said.err
    assert "tiny/default/command/loss" in said.out
    assert cli.main(["verify", "a.zip", "--trust", "--allow-host"]) in (0, 3)


def lose_locks(monkeypatch: pytest.MonkeyPatch, author: User, number: int) -> None:
    """Work in the author's folder, whose file system has no locks from now on."""

    def flock(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.chdir(author.folder)
    monkeypatch.setenv("HOME", str(author.home))
    monkeypatch.setattr(fcntl, "flock", flock)
