"""Untrusted archives are unpacked rightly or refused, and nothing is written outside."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from capsule.datasets.unpack import unpack
from capsule.errors import DamagedError
from tests.support.hostile_archives import (
    MANY_FILES,
    REFUSED_TARS,
    REFUSED_ZIPS,
    RIGHT_TARS,
    RIGHT_ZIPS,
    Files,
)

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
    archive.write_bytes(data)
    signal.setitimer(signal.ITIMER_PROF, _CPU_SECONDS)
    try:
        unpack(archive, target, most_bytes=_MOST_BYTES, most_files=_MOST_FILES, where="a")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        beside = {path for folder in list(target.parents)[:3] for path in folder.iterdir()}
        assert beside == {archive, base / "here", target.parent, target}
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


@pytest.mark.long
@named(MANY_FILES)
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
