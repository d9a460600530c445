"""A SIF is executed for its bytes, from where nobody else can exchange it."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from capsule import places
from capsule.digest import Digest, of_bytes, of_file
from capsule.errors import CannotRunError, DamagedError
from capsule.image import Image, files
from capsule.runtimes import sifs
from tests.support.sifs import plain_sif

IMAGE = of_bytes(b"an image")
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


@pytest.fixture
def home() -> Iterator[Path]:
    """A home that others may enter, where no folder above keeps them out."""
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        folder = Path(made)
        folder.chmod(0o755)
        yield folder


@pytest.fixture
def shared(home: Path) -> Path:
    """A cache that is the user's own, until a test opens it."""
    folder = home / "shared"
    (folder / "sif").mkdir(parents=True)
    return folder


def name(sif: Digest, image: Digest = IMAGE) -> str:
    return f"{image.hex}-{sif.hex}.sif"


def kept(cache: Path) -> set[str]:
    return {path.name for path in (cache / "sif").iterdir() if not path.name.endswith(".lock")}


def test_it_is_made_once_and_known_again(shared: Path, make: Maker) -> None:
    first = sifs.obtain(IMAGE, shared, make)
    assert first.path == shared / "sif" / name(first.digest)
    assert first.digest == of_file(first.path)
    again = sifs.obtain(IMAGE, shared, make)
    assert (again.path, again.digest, make.made) == (first.path, first.digest, 1)
    assert kept(shared) == {first.path.name}


def test_a_look_tells_without_hashing_whether_it_would_be_made(
    home: Path, shared: Path, make: Maker
) -> None:
    assert not sifs.is_kept(IMAGE, shared)
    sifs.obtain(IMAGE, shared, make)
    assert sifs.is_kept(IMAGE, shared)
    assert not sifs.is_kept(of_bytes(b"another"), shared)
    assert not sifs.is_kept(IMAGE, home / "another")
    (shared / "sif").chmod(0o777)
    assert not sifs.is_kept(IMAGE, shared)


def test_another_image_is_another_file(shared: Path, make: Maker) -> None:
    one, two = (sifs.obtain(of_bytes(word), shared, make) for word in (b"one", b"two"))
    two.path.write_bytes(one.path.read_bytes())
    assert sifs.obtain(of_bytes(b"two"), shared, make).digest not in (one.digest, two.digest)


def test_bytes_that_are_not_those_of_the_name_are_made_again(shared: Path, make: Maker) -> None:
    first = sifs.obtain(IMAGE, shared, make)
    first.path.write_bytes(b"half of it")
    (shared / "sif" / f"{IMAGE.hex}.sif").write_bytes(b"of an earlier version")
    again = sifs.obtain(IMAGE, shared, make)
    assert again.path.name == name(again.digest)
    assert again.digest == of_file(again.path) != first.digest
    assert sifs.obtain(IMAGE, shared, make).digest == again.digest
    assert make.made == 2
    # which would be hashed again at every start
    assert not first.path.exists()


@pytest.mark.parametrize("part", ["shared", "shared/sif"])
def test_a_cache_that_others_may_write_is_refused(
    home: Path, shared: Path, make: Maker, part: str
) -> None:
    made = sifs.obtain(IMAGE, shared, make)
    (home / part).chmod(0o777)
    with pytest.raises(CannotRunError, match="other users can write") as caught:
        sifs.obtain(IMAGE, shared, make)
    assert str(home / part) in str(caught.value)
    assert "CAPSULE_CACHE" in str(caught.value.advice)
    assert (kept(shared), make.made) == ({made.path.name}, 1)


def test_a_file_that_others_may_write_is_made_again(shared: Path, make: Maker) -> None:
    first = sifs.obtain(IMAGE, shared, make)
    first.path.chmod(0o666)
    again = sifs.obtain(IMAGE, shared, make)
    assert make.made == 2
    assert not again.path.stat().st_mode & 0o022


def test_a_sticky_folder_keeps_others_from_what_is_not_theirs(shared: Path, make: Maker) -> None:
    (shared / "sif").chmod(0o1777)
    assert sifs.obtain(IMAGE, shared, make).path.parent == shared / "sif"


@root_only
def test_a_file_of_somebody_else_is_neither_run_nor_replaced(shared: Path, make: Maker) -> None:
    known = sifs.obtain(IMAGE, shared, make)
    os.chown(known.path, SOMEBODY, SOMEBODY)
    (shared / "sif").chmod(0o1777)
    sif = sifs.obtain(IMAGE, shared, make)
    assert (sif.path.name, make.made) == (name(sif.digest), 2)
    assert of_file(known.path) == known.digest


@root_only
def test_a_folder_of_somebody_else_is_refused(shared: Path, make: Maker) -> None:
    os.chown(shared, SOMEBODY, SOMEBODY)
    with pytest.raises(CannotRunError, match=f"other users can write {shared}"):
        sifs.obtain(IMAGE, shared, make)


def test_a_cache_that_cannot_be_written_is_refused(home: Path, make: Maker) -> None:
    (home / "file").write_text("")
    with pytest.raises(CannotRunError, match=r"needs a private folder.*cannot make the folder"):
        sifs.obtain(IMAGE, home / "file", make)
    assert make.made == 0


def test_a_pipe_in_the_cache_is_not_read(shared: Path, make: Maker) -> None:
    path = sifs.obtain(IMAGE, shared, make).path
    path.unlink()
    os.mkfifo(path)
    assert sifs.obtain(IMAGE, shared, make).path.is_file()


@pytest.fixture
def open_mask() -> Iterator[None]:
    """Files are made for everybody to write."""
    mask = os.umask(0)
    yield
    os.umask(mask)


def test_no_mask_lets_others_write_what_is_made(open_mask: None, home: Path, make: Maker) -> None:
    sif = sifs.obtain(IMAGE, home / "new/cache", make)
    assert sif.path.parent == home / "new/cache/sif"
    assert places.weak_spot(sif.path) is None


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
    assert kept(shared) == set()


# --- SIFs that a user names -----------------------------------------------------------------------


def read(path: Path) -> Image:
    file = files.locate(str(path), None)
    assert file is not None
    return files.read(file)


def test_a_sif_that_changed_where_it_lies_is_not_taken_for_the_image(
    home: Path, shared: Path, make: Maker
) -> None:
    path = home / "mine.sif"
    path.write_bytes(plain_sif())
    image = read(path)
    identity = image.identity.digest
    assert sifs.adopt(image, shared).path == path
    assert sifs.obtain(identity, shared, make).path == path
    path.write_bytes(b"built anew")
    assert sifs.obtain(identity, shared, make).path != path
    assert make.made == 1
    with pytest.raises(DamagedError, match="changed after hashing"):
        sifs.adopt(image, shared)


def test_the_tree_of_a_sif_is_read_once(home: Path, shared: Path) -> None:
    path = home / "mine.sif"
    path.write_bytes(plain_sif())
    sif = sifs.adopt(read(path), shared)
    digest = sifs.tree(sif, shared)
    assert digest is not None
    (kept_tree,) = (shared / "sif").glob("*.tree")
    path.unlink()
    assert sifs.tree(sif, shared) == digest
    # what others may write, or half of it, is not believed
    kept_tree.chmod(0o666)
    assert sifs.tree(sif, shared) is None
    kept_tree.chmod(0o644)
    kept_tree.write_text(digest.hex[:40])
    assert sifs.tree(sif, shared) is None


def test_a_folder_that_nobody_else_enters_shields_all_below(home: Path) -> None:
    inner = home / "closed/open"
    inner.mkdir(parents=True)
    inner.chmod(0o777)
    assert places.weak_spot(inner / "file") == inner
    inner.parent.chmod(0o700)
    assert places.weak_spot(inner / "file") is None
