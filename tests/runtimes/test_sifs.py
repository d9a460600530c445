"""A SIF is executed only when this user made it, from where nobody else can exchange it."""

from __future__ import annotations

import os
import stat
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from capsule import places
from capsule.digest import of_bytes, of_file
from capsule.errors import CannotRunError
from capsule.runtimes import ledger, sifs

IMAGE = of_bytes(b"an image")
NAME = f"{IMAGE.hex}.sif"
SOMEBODY = 54321

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to other users")


class Maker:
    """Makes a file, another one each time, as Apptainer does."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self, path: Path) -> None:
        self.made += 1
        path.write_bytes(b"SIF %d of %d" % (self.made, id(self)))


@pytest.fixture
def make() -> Maker:
    return Maker()


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home that others may enter, where no folder above keeps them out."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        for kind in ("STATE", "CACHE"):
            monkeypatch.setenv(f"XDG_{kind}_HOME", str(folder / kind.lower()))
        yield folder


@pytest.fixture
def shared(home: Path) -> Path:
    """A cache that is the user's own, until a test opens it."""
    folder = home / "shared"
    (folder / "sif").mkdir(parents=True)
    return folder


def own(home: Path) -> Path:
    return home / "cache/capsule/sif" / NAME


def test_it_is_made_once_and_known_again(shared: Path, make: Maker) -> None:
    first = sifs.obtain(IMAGE, shared, make)
    assert first.path == shared / "sif" / NAME
    assert first.digest == of_file(first.path)
    again = sifs.obtain(IMAGE, shared, make)
    assert (again.path, again.digest, make.made) == (first.path, first.digest, 1)
    assert [path.name for path in (shared / "sif").iterdir()] == [NAME]


def test_a_look_tells_without_hashing_whether_it_would_be_made(
    home: Path, shared: Path, make: Maker
) -> None:
    assert not sifs.is_kept(IMAGE, shared)
    (shared / "sif" / NAME).write_bytes(b"planted")
    assert not sifs.is_kept(IMAGE, shared)
    sifs.obtain(IMAGE, shared, make)
    assert sifs.is_kept(IMAGE, shared)
    assert not sifs.is_kept(IMAGE, home / "another")
    (shared / "sif").chmod(0o777)
    assert not sifs.is_kept(IMAGE, shared)


def test_another_image_is_another_file(shared: Path, make: Maker) -> None:
    one, two = (sifs.obtain(of_bytes(word), shared, make) for word in (b"one", b"two"))
    (shared / "sif" / f"{of_bytes(b'two').hex}.sif").write_bytes(one.path.read_bytes())
    assert sifs.obtain(of_bytes(b"two"), shared, make).digest not in (one.digest, two.digest)


def test_bytes_that_this_user_did_not_make_are_made_again(shared: Path, make: Maker) -> None:
    first = sifs.obtain(IMAGE, shared, make)
    first.path.write_bytes(b"planted")
    again = sifs.obtain(IMAGE, shared, make)
    assert again.path.read_bytes() != b"planted"
    assert again.digest in ledger.read(IMAGE)
    assert make.made == 2


def test_what_another_user_made_is_made_again(
    shared: Path, home: Path, make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = sifs.obtain(IMAGE, shared, make)
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "another"))
    assert sifs.obtain(IMAGE, shared, make).digest != first.digest


@pytest.mark.parametrize("part", ["shared", "shared/sif"])
def test_a_cache_that_others_may_write_is_left_alone(
    home: Path, shared: Path, make: Maker, part: str
) -> None:
    theirs = shared / "sif" / NAME
    theirs.write_bytes(b"planted")
    (home / part).chmod(0o777)
    sif = sifs.obtain(IMAGE, shared, make)
    assert sif.path == own(home)
    assert theirs.read_bytes() == b"planted"
    assert sifs.obtain(IMAGE, shared, make).digest == sif.digest
    assert make.made == 1


def test_a_file_that_others_may_write_is_made_again(home: Path, shared: Path, make: Maker) -> None:
    first = sifs.obtain(IMAGE, shared, make)
    first.path.chmod(0o666)
    again = sifs.obtain(IMAGE, shared, make)
    assert make.made == 2
    assert not again.path.stat().st_mode & 0o022


def test_a_sticky_folder_keeps_others_from_what_is_not_theirs(shared: Path, make: Maker) -> None:
    (shared / "sif").chmod(0o1777)
    assert sifs.obtain(IMAGE, shared, make).path == shared / "sif" / NAME


@root_only
def test_a_file_of_somebody_else_is_neither_run_nor_replaced(
    home: Path, shared: Path, make: Maker
) -> None:
    known = sifs.obtain(IMAGE, shared, make)
    os.chown(known.path, SOMEBODY, SOMEBODY)
    (shared / "sif").chmod(0o1777)
    sif = sifs.obtain(IMAGE, shared, make)
    assert (sif.path, make.made) == (own(home), 2)
    assert of_file(known.path) == known.digest


@root_only
def test_a_folder_of_somebody_else_is_left_alone(home: Path, shared: Path, make: Maker) -> None:
    os.chown(shared, SOMEBODY, SOMEBODY)
    assert sifs.obtain(IMAGE, shared, make).path == own(home)


def test_a_cache_that_cannot_be_written_is_left_alone(home: Path, make: Maker) -> None:
    (home / "file").write_text("")
    assert sifs.obtain(IMAGE, home / "file", make).path == own(home)


def test_a_pipe_in_the_cache_is_not_read(shared: Path, make: Maker) -> None:
    sifs.obtain(IMAGE, shared, make)
    path = shared / "sif" / NAME
    path.unlink()
    os.mkfifo(path)
    assert sifs.obtain(IMAGE, shared, make).path == path
    assert path.is_file()


def test_without_a_place_of_ones_own_nothing_is_made(home: Path, shared: Path, make: Maker) -> None:
    (home / "cache").mkdir()
    for folder in (home / "cache", shared):
        folder.chmod(0o777)
    with pytest.raises(CannotRunError, match="others may write") as caught:
        sifs.obtain(IMAGE, shared, make)
    assert str(home / "cache") in str(caught.value)
    assert "CAPSULE_CACHE" in str(caught.value.advice)
    assert make.made == 0


@pytest.fixture
def open_mask() -> Iterator[None]:
    """Files are made for everybody to write."""
    mask = os.umask(0)
    yield
    os.umask(mask)


def test_no_mask_lets_others_write_what_is_made(open_mask: None, home: Path, make: Maker) -> None:
    sif = sifs.obtain(IMAGE, home / "new/cache", make)
    assert sif.path == home / "new/cache/sif" / NAME
    assert places.weak_spot(sif.path) is None
    assert stat.S_IMODE(ledger.path().stat().st_mode) == 0o700


def test_two_at_once_make_it_once(shared: Path, make: Maker) -> None:
    begun, go = threading.Event(), threading.Event()

    def slowly(path: Path) -> None:
        begun.set()
        go.wait()
        make(path)

    made: list[sifs.Sif] = []
    runs = [
        threading.Thread(target=lambda: made.append(sifs.obtain(IMAGE, shared, slowly)))
        for _ in range(2)
    ]
    for run in runs:
        run.start()
    begun.wait()
    go.set()
    for run in runs:
        run.join()
    assert make.made == 1
    assert made[0].digest == made[1].digest


def test_what_cannot_be_made_leaves_nothing(shared: Path) -> None:
    def fail(path: Path) -> None:
        path.write_bytes(b"half")
        raise CannotRunError("no such image")

    with pytest.raises(CannotRunError, match="no such image"):
        sifs.obtain(IMAGE, shared, fail)
    assert list((shared / "sif").iterdir()) == []


# --- the ledger -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o777])
def test_a_ledger_that_is_open_to_others_is_refused(shared: Path, make: Maker, mode: int) -> None:
    sifs.obtain(IMAGE, shared, make)
    ledger.path().chmod(mode)
    with pytest.raises(CannotRunError, match=r"must be yours alone.*open to others"):
        sifs.obtain(IMAGE, shared, make)
    assert make.made == 1


@root_only
@pytest.mark.parametrize("name", ["", f"{IMAGE.hex}.txt"])
def test_a_ledger_of_somebody_else_is_refused(shared: Path, make: Maker, name: str) -> None:
    sifs.obtain(IMAGE, shared, make)
    os.chown(ledger.path() / name, SOMEBODY, SOMEBODY)
    with pytest.raises(CannotRunError, match=f"owned by user {SOMEBODY}"):
        sifs.obtain(IMAGE, shared, make)


def test_a_ledger_that_cannot_be_kept_makes_the_image_anew(
    home: Path, shared: Path, make: Maker
) -> None:
    (home / "state").mkdir()
    (home / "state/capsule").write_text("no folder")
    for number in (1, 2):
        assert sifs.obtain(IMAGE, shared, make).path == shared / "sif" / NAME
        assert make.made == number


def test_lines_that_are_no_digests_are_none(shared: Path, make: Maker) -> None:
    made = sifs.obtain(IMAGE, shared, make)
    (file,) = ledger.path().iterdir()
    file.write_bytes(b"\xff\xfe\n../../x\n" + b"a" * 65 + b"\n" + file.read_bytes())
    assert ledger.read(IMAGE) == {made.digest}


def test_a_folder_that_nobody_else_enters_shields_all_below(home: Path) -> None:
    inner = home / "closed/open"
    inner.mkdir(parents=True)
    inner.chmod(0o777)
    assert places.weak_spot(inner / "file") == inner
    inner.parent.chmod(0o700)
    assert places.weak_spot(inner / "file") is None
