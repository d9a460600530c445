"""Datasets that a stranger sends: folders that lead elsewhere, files that lie of themselves."""

from __future__ import annotations

import json
import os
import pickle
import socket
import struct
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy

from capsule.levels.data import generators
from capsule.levels.data.formats import checksums, hdf5, writers
from tests.hostile.case import Case, Prepare
from tests.support.command import User, write_manifest

Change = Callable[[Path], object]
_SMALL = {"samples": 12, "test_samples": 4}
_GLYPHS = ("glyphs", {**_SMALL, "side": 12, "classes": 2, "seed": 1}, "lenet")
_UNIVERSE = ("universe", {**_SMALL, "side": 8}, "cosmoflow")
_SIZES = {"lenet": {"side": 12, "classes": 2}, "cosmoflow": {"side": 8, "width": 1}}
_STEERING = "\x1b]0;owned\x07"
_ENDLESS = (1 << 62) - 1
_MOST = "a-hundred-thousand-files"


def _train(form: str | None, change: Change, made: tuple[str, dict[str, int], str]) -> Prepare:
    """A training on data that was right before somebody changed it."""

    def prepare(user: User) -> list[str]:
        generator, sizes, network = made
        folder = user.folder / "data"
        folder.mkdir()
        numbers = generators.complete(generator, sizes)
        if form is None:
            generators.write(generators.generate(generator, numbers), folder)
        else:
            writers.write(form, generator, numbers, folder)
        change(folder)
        entry = {
            **{"id": "train", "level": 2, "network": network, "datasets": ["data"]},
            **{"frameworks": ["numpy"], "batch": 4, "epochs": 1},
            "optimizer": {"name": "sgd", "lr": 0.01},
            "cases": [_SIZES[network]],
        }
        dataset = {"path": "data", "embed": False, **({"format": form} if form else {})}
        write_manifest(
            user.folder, seeds=[1], claims=None, datasets={"data": dataset}, benchmarks=[entry]
        )
        return ["run", "tiny.json", "--runtime", "host"]

    return prepare


def _hash(change: Change) -> Prepare:
    def prepare(user: User) -> list[str]:
        folder = user.folder / "data"
        folder.mkdir()
        (folder / "a").write_text("a")
        change(folder)
        return ["data", "hash", "data"]

    return prepare


def _bind(folder: Path) -> None:
    # a path of a socket has at most 108 bytes
    here = Path.cwd()
    os.chdir(folder)
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind("pipe")
    finally:
        os.chdir(here)


def _many(count: int) -> Change:
    """So many names of two files: a file has fewer than 65,000 names."""

    def change(folder: Path) -> None:
        for part in ("0", "1"):
            inner = folder / part
            inner.mkdir()
            (inner / "0").touch()
            for number in range(1, count // 2):
                os.link(inner / "0", inner / str(number))

    return change


def _swap(folder: Path) -> None:
    """One byte of a picture, its length as it was."""
    path = folder / "train-images-idx3-ubyte"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def _replace(name: str, data: bytes) -> Change:
    return lambda folder: (folder / name).write_bytes(data)


def _pack(folder: Path) -> None:
    """A hundred megabytes of nothing in a hundred kilobytes."""
    path = folder / "train-images-idx3-ubyte"
    path.unlink()
    head = struct.pack(">BBBB3I", 0, 0, 8, 3, 700_000, 12, 12)
    packed = zlib.compressobj(9, zlib.DEFLATED, 31)
    pieces = [packed.compress(head), *(packed.compress(bytes(1 << 20)) for _ in range(100))]
    path.with_name(f"{path.name}.gz").write_bytes(b"".join([*pieces, packed.flush()]))


def _draw(folder: Path) -> None:
    """A PNG of 60,000 x 60,000 pixels in seventy bytes."""
    (picture, *_) = sorted((folder / "train" / "class-0").iterdir())
    picture.unlink()

    def chunk(kind: bytes, content: bytes) -> bytes:
        guard = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + guard

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 60_000, 60_000, 8, 0, 0, 0, 0))
    data = chunk(b"IDAT", zlib.compress(bytes(99))) + chunk(b"IEND", b"")
    picture.with_suffix(".png").write_bytes(b"\x89PNG\r\n\x1a\n" + header + data)


def _claim_record(folder: Path) -> None:
    """A record of four exbibytes, the checksum of its length in order."""
    length = _ENDLESS.to_bytes(8, "little")
    guard = checksums.mask(checksums.crc32c(length)).to_bytes(4, "little")
    (first, *_) = sorted((folder / "train").iterdir())
    first.write_bytes(length + guard + bytes(64))


def _name_steering(folder: Path) -> None:
    (first, *_) = sorted((folder / "train").iterdir())
    first.write_bytes(b"x" * 99)
    first.rename(first.with_name(f"{_STEERING}.tfrecord"))


def _claim_chunk(folder: Path) -> None:
    """A dataset of a terabyte of which nothing is written."""
    import h5py

    (first, *_) = sorted((folder / "train").iterdir())
    with h5py.File(first, "w") as file:
        file.create_dataset(
            "full", (1 << 13, 1 << 13, 1 << 12, 4), "<i2", chunks=(8, 8, 8, 4), compression="gzip"
        )
        file.create_dataset("unitPar", data=numpy.zeros(4, "<f4"))


def _link_elsewhere(folder: Path) -> None:
    import h5py

    (first, *_) = sorted((folder / "train").iterdir())
    hdf5.write({"unitPar": numpy.zeros(4, "<f4")}, first)
    with h5py.File(first, "a") as file:
        file["full"] = h5py.ExternalLink("/etc/passwd", "/full")


class _Owned:
    def __reduce__(self) -> tuple[object, tuple[str, ...]]:
        return os.system, ("echo owned",)


def _pickle(folder: Path) -> None:
    numpy.save(folder / "image.npy", numpy.array([_Owned()], object), allow_pickle=True)
    assert pickle.PROTO in (folder / "image.npy").read_bytes()


def _spoil(name: str, value: float) -> Change:
    def spoil(folder: Path) -> None:
        array = numpy.load(folder / name)
        array.reshape(-1)[:] = value
        generators.write({name.partition(".")[0]: array}, folder)

    return spoil


_FOLDERS: dict[str, tuple[Change, int, str]] = {
    "link-out": (
        lambda folder: (folder / "b").symlink_to("../../etc/passwd"),
        *(2, "'b' is a link that leaves the dataset: ../../etc/passwd"),
    ),
    "link-to-a-device": (
        lambda folder: (folder / "b").symlink_to("/dev/zero"),
        *(2, "'b' is a link that leaves the dataset: /dev/zero"),
    ),
    "link-that-steers": (
        lambda folder: (folder / "b").symlink_to(f"/tmp/{_STEERING}"),
        *(2, "'b' is a link that leaves the dataset: /tmp/"),
    ),
    "link-to-itself": (
        lambda folder: (folder / "b").symlink_to("."),
        *(2, "'b' is a link to a folder: ."),
    ),
    "loop-of-links": (lambda folder: (folder / "b").symlink_to("b"), 2, "'b' is a link"),
    "pipe": (
        lambda folder: os.mkfifo(folder / "pipe"),
        2,
        "'pipe' is a device, pipe or socket",
    ),
    "socket": (_bind, 2, "'pipe' is a device, pipe or socket"),
    "name-of-two-lines": (
        _replace("b\nc", b""),
        *(2, r"'b\nc' has a line break in its name"),
    ),
    "name-that-is-not-text": (
        lambda folder: Path(os.fsdecode(os.fsencode(folder) + b"/\xff")).touch(),
        *(2, r"'\udcff' has a name in another encoding, expected UTF-8"),
    ),
    "many-files": (_many(10_000), 0, "sha256:"),
    _MOST: (_many(100_000), 0, "sha256:"),
}
_FILES: dict[str, tuple[str | None, Change, tuple[str, dict[str, int], str], str]] = {
    "gzip-bomb": (
        *("idx", _pack, _GLYPHS),
        "train-images-idx3-ubyte.gz unpacks to more than 100 times its size",
    ),
    "idx-that-claims-exbibytes": (
        "idx",
        _replace("train-images-idx3-ubyte", b"\0\0\x08\x03" + b"\xff" * 12 + bytes(99)),
        *(
            _GLYPHS,
            "has 99 bytes of elements, expected 79228162458924105385300197375 for the shape",
        ),
    ),
    "idx-cut-short": (
        "idx",
        lambda folder: os.truncate(folder / "train-images-idx3-ubyte", 999),
        *(_GLYPHS, "has 983 bytes of elements, expected 1728 for the shape [12, 12, 12]"),
    ),
    "picture-of-gigabytes": (
        *("image-folder", _draw, _GLYPHS),
        "cannot be read as a picture: Image size (3600000000 pixels) exceeds limit",
    ),
    "record-that-claims-exbibytes": (
        *("cosmoflow-tfrecord", _claim_record, _UNIVERSE),
        f"expected at least {_ENDLESS + 16}",
    ),
    "name-that-steers": (
        *("cosmoflow-tfrecord", _name_steering, _UNIVERSE),
        "has a wrong checksum of the record length at byte 0",
    ),
    "chunks-of-a-terabyte": (
        *("cosmoflow-hdf5", _claim_chunk, _UNIVERSE),
        "claims 2048.0 GiB for full, more than 100 times the size of the file",
    ),
    "link-into-another-file": (
        *("cosmoflow-hdf5", _link_elsewhere, _UNIVERSE),
        "has a link as full, which capsule does not follow",
    ),
    "pickled-array": (None, _pickle, _GLYPHS, "image.npy is not a readable array"),
    "pixels-that-are-no-numbers": (
        *(None, _spoil("image.npy", numpy.nan), _GLYPHS),
        "failed (diverged): the loss rose to nan in epoch 1",
    ),
    "labels-out-of-range": (
        *(None, _spoil("label.npy", 1 << 40), _GLYPHS),
        f"to {1 << 40}, expected 0 to 1",
    ),
}


def _run_changed(user: User) -> Sequence[str | Path]:
    """The digest is what it was when the manifest was written; a byte is not."""
    words = _train("idx", lambda _: None, _GLYPHS)(user)
    digest = user.run("data", "hash", "data").stdout.split()[0]
    path = user.folder / "tiny.json"
    raw = json.loads(path.read_text())
    raw["datasets"]["data"]["digest"] = digest
    path.write_text(json.dumps(raw))
    _swap(user.folder / "data")
    return words


CASES = (
    *(
        Case(
            name=f"dataset/{name}",
            prepare=_hash(change),
            status=status,
            says=says,
            mib=256,
            long=name == _MOST,
        )
        for name, (change, status, says) in _FOLDERS.items()
    ),
    *(
        Case(
            name=f"dataset/{name}",
            prepare=_train(form, change, made),
            status=5,
            says=says,
            says_not="\nowned",
            mib=256,
        )
        for name, (form, change, made, says) in _FILES.items()
    ),
    Case(
        name="dataset/changed-since-it-was-hashed",
        prepare=_run_changed,
        status=4,
        says="dataset 'data' is sha256:",
        mib=256,
    ),
)
