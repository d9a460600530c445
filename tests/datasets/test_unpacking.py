"""Untrusted archives are unpacked rightly or refused, and nothing is written outside."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import signal
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsule.datasets.unpack import unpack
from capsule.errors import DamagedError
from tests.support.hostile_archives import (
    END,
    MANY_FILES,
    REFUSED_TARS,
    REFUSED_ZIPS,
    RIGHT_TARS,
    RIGHT_ZIPS,
    D,
    F,
    Files,
    H,
    S,
    Zip,
    file,
    header,
    link,
    stamp,
)
from tests.support.properties import examples

_CPU_SECONDS = 5
_MOST_BYTES, _MOST_FILES = 100 << 30, 2_000_000


class _TooLongError(BaseException):
    """More CPU than an archive may take."""


@pytest.fixture(autouse=True)
def _limit() -> Iterator[None]:
    """Stop an archive that takes too much CPU, of the user and the system."""

    def stop(*_: object) -> None:
        raise _TooLongError

    before = signal.signal(signal.SIGPROF, stop)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, before)


def send(data: bytes, base: Path) -> Path:
    """Unpack it deep in a folder, and look whether anything else was made."""
    archive, target = base / "archive", base / "here" / "deep" / "target"
    before = set(base.iterdir())
    archive.write_bytes(data)
    signal.setitimer(signal.ITIMER_PROF, _CPU_SECONDS)
    try:
        unpack(archive, target, most_bytes=_MOST_BYTES, most_files=_MOST_FILES, where="a")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        beside = {path for folder in list(target.parents)[:3] for path in folder.iterdir()}
        assert beside == {*before, archive, base / "here", target.parent, target}
        assert not any(path.is_symlink() for path in target.rglob("*"))
    return target


def read(folder: Path) -> Files:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if not path.is_dir()
    }


def named(table: dict[str, Callable[[], bytes]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("make", [pytest.param(table[name], id=name) for name in table])


@named(REFUSED_TARS | REFUSED_ZIPS)
def test_a_hostile_archive_is_refused(tmp_path: Path, make: Callable[[], bytes]) -> None:
    with pytest.raises(DamagedError) as caught:
        send(make(), tmp_path)
    assert caught.value.where == "a"


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(make, id=name, marks=[] if name == "gzip-of-files" else [pytest.mark.long])
        for name, make in MANY_FILES.items()
    ],
)
def test_more_files_than_real_data_has_are_refused(
    tmp_path: Path, make: Callable[[], bytes]
) -> None:
    with pytest.raises(DamagedError, match="files and folders"):
        send(make(), tmp_path)


@pytest.mark.parametrize(
    ("make", "files"),
    [pytest.param(*right, id=name) for name, right in (RIGHT_TARS | RIGHT_ZIPS).items()],
)
def test_an_odd_archive_is_unpacked(
    tmp_path: Path, make: Callable[[], bytes], files: Files
) -> None:
    assert read(send(make(), tmp_path)) == files


# --- archives as people make them ---


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with long and foreign names, links, and a file with holes."""
    top = tmp_path_factory.mktemp("usual") / "src"
    deep = top / "d" / ("x" * 90)
    deep.mkdir(parents=True)
    (deep / ("y" * 90)).write_bytes(b"long")
    (top / "a.txt").write_bytes(b"one")
    (top / "d/\u00e9\u6f22").write_bytes(b"two")
    (top / "d/link").symlink_to("../a.txt")
    (top / "hard.txt").hardlink_to(top / "a.txt")
    with (top / "holes").open("wb") as stream:
        for place in range(1 << 20, 30 << 20, 4 << 20):
            stream.seek(place)
            stream.write(b"data")
        stream.truncate(31 << 20)
    return top


_TAR_WORDS = [
    *([f"--format={name}"] for name in ("ustar", "oldgnu", "gnu", "posix")),
    *([f"--format={name}", "-S"] for name in ("oldgnu", "gnu", "posix")),
    *([word] for word in ("-z", "-j", "-J", "-b2048")),
]


@pytest.mark.parametrize("words", _TAR_WORDS, ids=" ".join)
def test_what_gnu_tar_makes_is_the_same_data(usual: Path, tmp_path: Path, words: list[str]) -> None:
    archive = tmp_path / "made.tar"
    subprocess.run(["tar", *words, "-cf", archive, "-C", usual.parent, "src"], check=True)
    assert read(send(archive.read_bytes(), tmp_path)) == read(usual.parent)


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_what_python_makes_is_the_same_data(usual: Path, tmp_path: Path, form: int) -> None:
    with tarfile.open(tmp_path / "made.tar", "w", format=form) as tar:
        tar.add(usual, "src")
    assert read(send((tmp_path / "made.tar").read_bytes(), tmp_path)) == read(usual.parent)


# --- what a kernel makes of the same entries ---

_PLACES = ("a", "b", "d", "d/a", "d/e", "d/e/a", "l", "d/l", "m")
_TARGETS = ("a", "b", "d", "d/a", "e/a", "../a", "l", "../l", "d/l", "m", "..", ".", "d/../a")
_Entry = tuple[str, bytes, str]
_ENTRIES = st.lists(
    st.tuples(
        st.sampled_from(_PLACES),
        st.sampled_from((F, F, D, S, S, S, H)),
        st.sampled_from(_TARGETS),
    ),
    min_size=1,
    max_size=7,
)


def as_tar(entries: Sequence[_Entry]) -> bytes:
    data = b""
    for name, kind, target in entries:
        if kind == F:
            data += file(name, name.encode())
        else:
            data += header(f"{name}/", D) if kind == D else link(name, target, kind)
    return data


def as_zip(entries: Sequence[_Entry]) -> bytes:
    archive = Zip()
    for name, kind, target in entries:
        if kind == D:
            archive.add(f"{name}/", b"", mode=0o040755)
        else:
            data, mode = (name, 0o100644) if kind == F else (target, 0o120777)
            archive.add(name, data.encode(), mode=mode)
    return archive.end()


def extract(entries: Sequence[_Entry], top: Path) -> Files | None:
    """What the links of an archive lead to where a kernel follows them; None if not to files."""
    top.mkdir()
    taken: dict[str, bytes] = {}
    for name, kind, _ in entries:
        if not (taken.get(name, kind) == kind == D) and name in taken:
            return None
        taken[name] = kind
    for name in [*taken]:
        for parent in list(Path(name).parents)[:-1]:
            if taken.setdefault(str(parent), D) != D:
                return None
    for name in sorted(name for name, kind in taken.items() if kind == D):
        (top / name).mkdir(parents=True, exist_ok=True)
    for name, kind, target in entries:
        if kind == F:
            (top / name).write_text(name)
        elif kind != D:
            up = "../" * name.count("/") if kind == H else ""
            (top / name).symlink_to(up + target)
    found = {}
    for name, kind in taken.items():
        if kind != D:
            real = Path(os.path.realpath(top / name))
            if not (real.is_file() and real.is_relative_to(top.resolve())):
                return None
            found[name] = real.read_bytes()
    return found


@given(entries=_ENTRIES)
@examples(60)
def test_a_link_becomes_what_the_kernel_finds_there(entries: list[_Entry]) -> None:
    with tempfile.TemporaryDirectory() as name:
        expected = extract(entries, Path(name, "kernel"))
        tar = as_tar(entries) + END
        packed = [tar, gzip.compress(tar), bz2.compress(tar), lzma.compress(tar)]
        if all(kind != H for _, kind, _ in entries):
            packed.append(as_zip(entries))
        for number, data in enumerate(packed):
            base = Path(name, str(number))
            base.mkdir()
            if expected is None:
                with pytest.raises(DamagedError):
                    send(data, base)
            else:
                assert read(send(data, base)) == expected


# --- headers that were changed ---


@st.deferred
def _small_tars() -> st.SearchStrategy[bytes]:
    """Made when a test begins: it takes seconds, which whoever collects tests need not wait for."""
    tars = [*REFUSED_TARS.values(), *(make for make, _ in RIGHT_TARS.values())]
    return st.sampled_from([data for make in tars if 0 < len(data := make()) < 1 << 16])


@st.deferred
def _small_zips() -> st.SearchStrategy[bytes]:
    zips = [data for make in REFUSED_ZIPS.values() if len(data := make()) < 1 << 16]
    return st.sampled_from([*zips, *(make() for make, _ in RIGHT_ZIPS.values())])


_CHANGES = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 511), st.binary(min_size=1, max_size=13)),
    min_size=1,
    max_size=4,
)


@given(data=_small_tars, changes=_CHANGES, is_stamped=st.booleans())
@examples(150)
def test_a_changed_tar_is_unpacked_inside_or_refused(
    data: bytes, changes: list[tuple[int, int, bytes]], is_stamped: bool
) -> None:
    changed = bytearray(data)
    for block, place, value in changes:
        at = block % (len(data) // 512 or 1) * 512
        changed[at + place : at + place + len(value)] = value
        if is_stamped and len(changed) >= at + 512:
            changed[at : at + 512] = stamp(bytes(changed[at : at + 512]))
    with tempfile.TemporaryDirectory() as name, suppress(DamagedError):
        send(bytes(changed), Path(name))


@given(
    data=_small_zips,
    changes=st.lists(
        st.tuples(st.integers(0, 1 << 16), st.binary(min_size=1, max_size=8)),
        min_size=1,
        max_size=4,
    ),
)
@examples(150)
def test_a_changed_zip_is_unpacked_inside_or_refused(
    data: bytes, changes: list[tuple[int, bytes]]
) -> None:
    changed = bytearray(data)
    for place, value in changes:
        at = place % len(data)
        changed[at : at + len(value)] = value
    with tempfile.TemporaryDirectory() as name, suppress(DamagedError):
        send(bytes(changed), Path(name))
