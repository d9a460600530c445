"""Which files of a folder are a dataset, and what a network takes of them.

Nothing is kept in another type than the files have; what is decoded is the samples of a step. That
takes additions, products and one table, in float32, so that it gives the same bits everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Callable

from . import cifar, files, hdf5, idx, records, tokens
from .files import FormatError

TEST = "test_"
"""What the names of arrays begin with that nothing is trained on."""

COUNTS = 1 << 15
"""How many numbers an int16 holds that are not negative."""


@dataclass(frozen=True)
class Stored:
    """An array as its files hold it.

    Attributes:
        array: Samples along the first axis, or all their rows one after the other.
        decode: Makes of some of it, with the first axis as it was, what a network takes.
        is_stream: Whether it may end within a sample, which is then left out.
    """

    array: Any
    decode: Callable[[Any], Any]
    is_stream: bool = False


Columns = dict[str, Stored]
"""By the names of a network's inputs, those that it is judged by with `TEST` before them."""


def read_idx(folder: Path) -> Columns:
    """MNIST's four files: train-images-idx3-ubyte, train-labels-idx1-ubyte and both with t10k.

    Returns:
        image, float32 (samples, 1, height, width), each byte divided by 255, and label, int64.
    """
    columns: Columns = {}
    for prefix, name in (("", "train"), (TEST, "t10k")):
        path = folder / f"{name}-images-idx3-ubyte"
        images = idx.read(path)
        if images.dtype != "uint8" or images.ndim != 3:
            raise FormatError(
                path, f"has {images.dtype} {images.shape}, and bytes of pictures are due"
            )
        path = folder / f"{name}-labels-idx1-ubyte"
        labels = idx.read(path)
        if labels.dtype != "uint8" or labels.shape != images.shape[:1]:
            raise FormatError(
                path,
                f"has {labels.dtype} {labels.shape}, and a byte for each of {len(images)} is due",
            )
        columns |= _label_pictures(prefix, images[:, None], labels)
    return columns


def read_cifar10(folder: Path) -> Columns:
    """data_batch_1.bin and those that follow on it, and test_batch.bin.

    Returns:
        image, float32 (samples, 3, 32, 32), each byte divided by 255, and label, int64.
    """
    import numpy

    paths = files.find(folder, ".bin")
    names = {path.name for path in paths}
    count = sum(name.startswith("data_batch_") for name in names)
    due = [f"data_batch_{number}.bin" for number in range(1, max(count, 1) + 1)]
    batches = [cifar.read(folder / name, cifar.CLASSES["cifar10"]) for name in due]
    images, labels = (numpy.concatenate(parts) for parts in zip(*batches))
    test_images, test_labels = cifar.read(folder / "test_batch.bin", cifar.CLASSES["cifar10"])
    return {
        **_label_pictures("", images, labels[:, 0]),
        **_label_pictures(TEST, test_images, test_labels[:, 0]),
    }


def read_cifar100(folder: Path) -> Columns:
    """train.bin and test.bin.

    Returns:
        As `read_cifar10`; labels are the fine ones.
    """
    columns: Columns = {}
    for prefix, name in (("", "train.bin"), (TEST, "test.bin")):
        images, labels = cifar.read(folder / name, cifar.CLASSES["cifar100"])
        columns |= _label_pictures(prefix, images, labels[:, 1])
    return columns


def _label_pictures(prefix: str, images: Any, labels: Any) -> Columns:
    return {
        f"{prefix}image": Stored(images, _scale),
        f"{prefix}label": Stored(labels, _widen),
    }


def read_tokens(kind: str, folder: Path) -> Columns:
    """train.bin and val.bin; a sample is the next so many tokens, none of them in two samples.

    Args:
        kind: Key of `tokens.TYPES`.
        folder: Where the files lie.

    Returns:
        token, int64 (tokens - 1,), and label, the one that comes after each.
    """
    columns: Columns = {}
    for prefix, name in (("", "train.bin"), (TEST, "val.bin")):
        text = tokens.read(folder / name, kind)
        columns[f"{prefix}token"] = Stored(text[:-1], _widen, is_stream=True)
        columns[f"{prefix}label"] = Stored(text[1:], _widen, is_stream=True)
    return columns


def read_cosmoflow(folder: Path) -> Columns:
    """train/*.tfrecord and validation/*.tfrecord, as MLPerf HPC's reference reads them: in each
    record `x`, the bytes of int16 counts (side, side, side, 4), and `y`, four floats.

    Returns:
        volume, float32 (samples, 4, side, side, side), log(1 + count), and target, float32
        (samples, 4).
    """
    import numpy

    columns: Columns = {}
    for prefix, name in (("", "train"), (TEST, "validation")):
        volumes: list[Any] = []
        targets: list[Any] = []
        for path in files.find(folder / name, ".tfrecord"):
            for record in records.read(path):
                volume, target = _read_universe(records.parse(record, path), path)
                if volumes and volume.shape != volumes[0].shape:
                    raise FormatError(
                        path, f"has a cube of {len(volume)}, others of {len(volumes[0])}"
                    )
                volumes.append(volume)
                targets.append(target)
        if not volumes:
            raise FormatError(folder / name, "has no record")
        stored = numpy.stack(volumes).transpose(0, 4, 1, 2, 3)
        columns[f"{prefix}volume"] = Stored(stored, _log_counts)
        columns[f"{prefix}target"] = Stored(numpy.stack(targets), _keep)
    return columns


def _read_universe(example: records.Example, path: Path) -> tuple[Any, Any]:
    import numpy

    x, y = example.get("x"), example.get("y")
    if not isinstance(x, list) or len(x) != 1 or y is None or isinstance(y, list):
        raise FormatError(path, "has a record without x, one value of bytes, and y, numbers")
    if y.dtype != "float32" or y.shape != (4,):
        raise FormatError(path, f"has y of {y.dtype} {y.shape}, and four floats are due")
    side = round((len(x[0]) / 8) ** (1 / 3))
    if not x[0] or 8 * side**3 != len(x[0]):
        raise FormatError(path, f"has x of {len(x[0])} bytes, no cube with four int16 a place")
    volume = numpy.frombuffer(x[0], "<i2").reshape(side, side, side, 4)
    if int(volume.min()) < 0:
        raise FormatError(path, f"has the count {volume.min()}")
    return volume, y


def read_deepcam(folder: Path) -> Columns:
    """train/*.h5, validation/*.h5 and stats.h5, as MLPerf HPC's reference reads them: stats.h5 has
    the group `climate` with the datasets `minval` and `maxval`, (16,) or longer.

    Returns:
        map, float32 (samples, 16, height, width), each channel from 0 at its minval to 1 at its
        maxval, and label, int64 (samples * height * width).
    """
    import numpy

    stats = hdf5.read(folder / "stats.h5", ("minval", "maxval"))
    low, high = (stats[name][..., :16].astype("float64") for name in ("minval", "maxval"))
    if low.shape != (16,) or high.shape != (16,) or not (high > low).all():
        raise FormatError(folder / "stats.h5", "has no 16 minval, each below its maxval")
    shift, scale = low.astype("float32"), (1 / (high - low)).astype("float32")
    decode = partial(_scale_channels, shift.reshape(-1, 1, 1), scale.reshape(-1, 1, 1))
    columns: Columns = {}
    for prefix, name in (("", "train"), (TEST, "validation")):
        maps: list[Any] = []
        labels: list[Any] = []
        for path in files.find(folder / name, ".h5"):
            sample = hdf5.read(path, ("data", "labels_0"))
            data, label = sample["data"], sample["labels_0"]
            height, width = label.shape if label.ndim == 2 else (0, 0)
            if data.shape != (height, width, 16) or (maps and data.shape != maps[0].shape):
                raise FormatError(path, f"has data {data.shape} and labels_0 {label.shape}")
            if label.dtype.kind == "f" and not (label == numpy.rint(label)).all():
                raise FormatError(path, "has labels_0 that are no whole numbers")
            maps.append(data.astype("float32", copy=False))
            labels.append(label.astype("int64").reshape(-1))
        stored = numpy.stack(maps).transpose(0, 3, 1, 2)
        columns[f"{prefix}map"] = Stored(stored, decode)
        columns[f"{prefix}label"] = Stored(numpy.concatenate(labels), _keep)
    return columns


def read_arrays(folder: Path) -> Columns:
    """A file NAME.npy for each array, which is what a network takes already."""
    from .. import generators

    return {name: Stored(array, _keep) for name, array in generators.read(folder).items()}


FORMATS: Mapping[str, Callable[[Path], Columns]] = {
    "idx": read_idx,
    "cifar10": read_cifar10,
    "cifar100": read_cifar100,
    **{f"tokens-{kind}": partial(read_tokens, kind) for kind in tokens.TYPES},
    "cosmoflow-tfrecord": read_cosmoflow,
    "deepcam-hdf5": read_deepcam,
}
"""What a dataset of a manifest may have as its `format`; all raise FormatError and OSError."""


def _keep(array: Any) -> Any:
    return array


def _widen(array: Any) -> Any:
    return array.astype("int64")


def _scale(array: Any) -> Any:
    import numpy

    return array.astype("float32") / numpy.float32(255)


def _log_counts(array: Any) -> Any:
    return _logarithms()[array]


@cache
def _logarithms() -> Any:
    import numpy

    # in float64 and rounded once: its last bits, in which computers differ, are gone then
    return numpy.log1p(numpy.arange(COUNTS, dtype="float64")).astype("float32")


def _scale_channels(shift: Any, scale: Any, array: Any) -> Any:
    return scale * (array - shift)
