"""Dataset formats: files of a folder, and the arrays that a network takes from them.

Data keep the type of their files; only the samples of a step are decoded. Decoding uses additions,
products and one table in float32, so that it gives equal bits everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any, Callable, NamedTuple

from . import cifar, files, hdf5, idx, pictures, records, tokens
from .files import FormatError
from .sources import Arrays, Decode, Items, Joined, Source, Stored

COUNTS = 1 << 15
"""Number of non-negative values of an int16."""


class Parts(NamedTuple):
    """A dataset: samples to train on, and those that are kept from training."""

    train: Source
    test: Source


Shapes = Mapping[str, Sequence[int]]
"""Shapes of a network's inputs by name, for a batch of 1."""


def read_idx(folder: Path, shapes: Shapes) -> Parts:  # noqa: ARG001
    """MNIST's four files: train-images-idx3-ubyte, train-labels-idx1-ubyte and both with t10k.

    Returns:
        image, float32 (samples, 1, height, width), each byte divided by 255, and label, int64.
    """
    return Parts(*(_read_idx(folder, name) for name in ("train", "t10k")))


def _read_idx(folder: Path, name: str) -> Source:
    path = folder / f"{name}-images-idx3-ubyte"
    images = idx.read(path)
    if images.dtype != "uint8" or images.ndim != 3:
        raise FormatError(
            path, f"has images of {images.dtype} {images.shape}, expected uint8 with three axes"
        )
    path = folder / f"{name}-labels-idx1-ubyte"
    labels = idx.read(path)
    if labels.dtype != "uint8" or labels.shape != images.shape[:1]:
        raise FormatError(
            path,
            f"has labels of {labels.dtype} {labels.shape}, expected uint8, one for each of"
            f" {len(images)} images",
        )
    return _label_pictures([images[:, None]], [labels])


def read_cifar10(folder: Path, shapes: Shapes) -> Parts:  # noqa: ARG001
    """data_batch_1.bin and those that follow on it, and test_batch.bin.

    Returns:
        image, float32 (samples, 3, 32, 32), each byte divided by 255, and label, int64.
    """
    paths = files.find(folder, ".bin")
    names = {path.name for path in paths}
    count = sum(name.startswith("data_batch_") for name in names)
    due = [f"data_batch_{number}.bin" for number in range(1, max(count, 1) + 1)]
    return Parts(*(_read_cifar("cifar10", folder, part) for part in (due, ["test_batch.bin"])))


def read_cifar100(folder: Path, shapes: Shapes) -> Parts:  # noqa: ARG001
    """train.bin and test.bin.

    Returns:
        As `read_cifar10`; labels are the fine ones.
    """
    return Parts(*(_read_cifar("cifar100", folder, [name]) for name in ("train.bin", "test.bin")))


def _read_cifar(form: str, folder: Path, names: Sequence[str]) -> Source:
    read = [cifar.read(folder / name, cifar.CLASSES[form]) for name in names]
    return _label_pictures([images for images, _ in read], [labels[:, -1] for _, labels in read])


def _label_pictures(images: Sequence[Any], labels: Sequence[Any]) -> Source:
    import numpy

    return Arrays(
        {
            "image": Stored(Joined(images), _scale),
            "label": Stored(numpy.concatenate(labels), _widen),
        }
    )


def read_folders(folder: Path, shapes: Shapes) -> Parts:
    """train/CLASS/PICTURE and val/CLASS/PICTURE, as ImageNet is unpacked, pictures of one size.

    Returns:
        image, float32 (samples, channels, height, width), each byte divided by 255, and label,
        int64: the place of the class among the folders in train, sorted by name.
    """
    channels = shapes["image"][1] if "image" in shapes else 3
    classes = _list_classes(folder / "train")
    return Parts(
        _read_folders(folder / "train", classes, classes, channels),
        _read_folders(folder / "val", _list_classes(folder / "val"), classes, channels),
    )


def _list_classes(folder: Path) -> list[str]:
    if not folder.is_dir():
        raise FormatError(folder, "is missing, or not a folder")
    names = [path.name for path in folder.iterdir() if path.is_dir() and path.name[0] != "."]
    if not names:
        raise FormatError(folder, "has no folders, expected one for each class")
    return sorted(names)


def _read_folders(
    folder: Path, names: Sequence[str], classes: Sequence[str], channels: int
) -> Source:
    import numpy

    labels = {name: number for number, name in enumerate(classes)}
    places = []
    for name in names:
        if name not in labels:
            raise FormatError(folder / name, "is a class without training samples")
        shown = sorted(
            path.name
            for path in (folder / name).iterdir()
            if path.suffix.lower() in pictures.ENDINGS and path.name[0] != "."
        )
        if not shown:
            raise FormatError(folder / name, f"has no picture *{', *'.join(pictures.ENDINGS)}")
        places += [(f"{name}/{one}", labels[name]) for one in shown]

    def read(path: Path, label: int) -> dict[str, Any]:
        image = pictures.read(path, channels)[None]
        return {"image": image, "label": numpy.array([label])}

    return Items(folder, places, read, {"image": _scale, "label": _widen})


def read_tokens(kind: str, folder: Path, shapes: Shapes) -> Parts:  # noqa: ARG001
    """train.bin and val.bin; a sample is the next so many tokens, none of them in two samples.

    Args:
        kind: Key of `tokens.TYPES`.
        folder: Where the files lie.
        shapes: Shapes of a network's inputs.

    Returns:
        token, int64 (tokens - 1,), and label, the one that comes after each.
    """
    texts = [tokens.read(folder / name, kind) for name in ("train.bin", "val.bin")]
    parts = (
        Arrays(
            {
                "token": Stored(text[:-1], _widen, is_stream=True),
                "label": Stored(text[1:], _widen, is_stream=True),
            }
        )
        for text in texts
    )
    return Parts(*parts)


def read_cosmoflow(folder: Path, shapes: Shapes) -> Parts:  # noqa: ARG001
    """train/*.tfrecord and validation/*.tfrecord, as MLPerf HPC's reference reads them: in each
    record `x`, the bytes of int16 counts (side, side, side, 4), and `y`, four floats.

    Returns:
        volume, float32 (samples, 4, side, side, side), log(1 + count), and target, float32
        (samples, 4).
    """

    def read(path: Path, *place: int) -> dict[str, Any]:
        record = records.read(path, (place[0], place[1]))
        return _read_universe(records.parse(record, path), path)

    parts = []
    for part in ("train", "validation"):
        paths = files.find(folder / part, ".tfrecord")
        places = [(path.name, *place) for path in paths for place in records.locate(path)]
        parts.append(Items(folder / part, places, read, _UNIVERSE))
    return Parts(*parts)


def _read_universe(example: records.Example, path: Path) -> dict[str, Any]:
    import numpy

    x, y = example.get("x"), example.get("y")
    if not isinstance(x, list) or len(x) != 1:
        raise FormatError(path, f"has a record with {_describe('x', x)}, expected 1 byte string")
    if y is None or isinstance(y, list):
        raise FormatError(path, f"has a record with {_describe('y', y)}, expected four floats")
    side = round((len(x[0]) / 8) ** (1 / 3))
    if not x[0] or 8 * side**3 != len(x[0]):
        raise FormatError(
            path,
            f"has x of {len(x[0])} bytes, expected 8 n^3 bytes (four int16 in each of n^3 cells)",
        )
    volume = numpy.frombuffer(x[0], "<i2").reshape(side, side, side, 4)
    return _order_universe(volume, y, path)


def _describe(name: str, feature: Any) -> str:
    """Return a feature of a record in words, for messages."""
    if feature is None:
        return f"no {name}"
    ending = "" if len(feature) == 1 else "s"
    of_type = "" if isinstance(feature, list) else f" of {feature.dtype}"
    kind = "number" if of_type else "byte string"
    return f"{len(feature)} {kind}{ending}{of_type} as {name}"


def _order_universe(volume: Any, target: Any, path: Path) -> dict[str, Any]:
    """Return counts, (1, 4, side, side, side), and the target, (1, 4), of a sample."""
    if target.dtype.kind != "f" or target.shape != (4,):
        raise FormatError(path, f"has y of {target.dtype} {target.shape}, expected four floats")
    least, most = int(volume.min()), int(volume.max())
    if least < 0 or most >= COUNTS:
        count = least if least < 0 else most
        raise FormatError(path, f"has the count {count}, expected 0 to {COUNTS - 1}")
    return {"volume": volume.transpose(3, 0, 1, 2)[None], "target": target[None]}


def read_universes(folder: Path, shapes: Shapes) -> Parts:
    """train/*.hdf5 and validation/*.hdf5, as CosmoFlow's universes are published: in each file
    `full`, whole numbers (side, side, side, 4), and `unitPar`, four floats.

    Args:
        folder: Where the files lie.
        shapes: Shapes of a network's inputs; universes are cut into cubes of this side, along
            the last axis first.

    Returns:
        As `read_cosmoflow`.
    """
    side = shapes["volume"][-1] if "volume" in shapes else None

    def read(path: Path, *corner: int) -> dict[str, Any]:
        cut = tuple(slice(at, at + side) for at in corner) if side else ()
        volume, target = hdf5.read(path, _UNIVERSE_NAMES, cut)
        if volume.dtype.kind not in "iu" or volume.ndim != 4 or volume.shape[3] != 4:
            raise FormatError(
                path,
                f"has full of {volume.dtype} {volume.shape}, expected whole numbers with four axes,"
                " the last of length 4",
            )
        return _order_universe(volume, target, path)

    parts = []
    for part in ("train", "validation"):
        places = []
        for path in files.find(folder / part, ".hdf5"):
            whole, _ = hdf5.shapes(path, _UNIVERSE_NAMES)
            step = side or whole[0]
            if len(whole) != 4 or any(length % step for length in whole[:3]):
                raise FormatError(
                    path,
                    f"has full of shape {whole}, expected four axes, the first three multiples of"
                    f" {step}",
                )
            corners = product(*(range(0, length, step) for length in whole[:3]))
            places += [(path.name, *corner) for corner in corners]
        parts.append(Items(folder / part, places, read, _UNIVERSE))
    return Parts(*parts)


def read_deepcam(folder: Path, shapes: Shapes) -> Parts:  # noqa: ARG001
    """train/*.h5, validation/*.h5 and stats.h5, as MLPerf HPC's reference reads them: stats.h5 has
    the group `climate` with the datasets `minval` and `maxval`, (16,) or longer, each other file
    `data`, (height, width, 16), and the mask `labels_0`, (height, width) (Kurth et al., SC 2018).

    Returns:
        map, float32 (samples, 16, height, width), each channel from 0 at its minval to 1 at its
        maxval, and label, int64 (samples * height * width).
    """
    import numpy

    stats = hdf5.read(folder / "stats.h5", ("climate/minval", "climate/maxval"))
    low, high = (one[..., :16].astype("float64") for one in stats)
    if low.shape != (16,) or high.shape != (16,):
        raise FormatError(
            folder / "stats.h5",
            f"has minval of shape {stats[0].shape} and maxval of shape {stats[1].shape}, expected"
            " one axis with at least 16 numbers in each",
        )
    is_below = high > low
    if not is_below.all():
        channel = int(is_below.argmin())
        raise FormatError(
            folder / "stats.h5",
            f"has minval {low[channel]:g} and maxval {high[channel]:g} of channel {channel},"
            " expected a minval below the maxval",
        )
    with numpy.errstate(over="ignore"):
        shift, scale = low.astype("float32"), (1 / (high - low)).astype("float32")
    is_finite = numpy.isfinite(shift) & numpy.isfinite(scale)
    if not is_finite.all():
        channel = int(is_finite.argmin())
        raise FormatError(
            folder / "stats.h5",
            f"has minval {low[channel]:g} and maxval {high[channel]:g} of channel {channel},"
            " expected minval and 1 / (maxval - minval) within the range of float32",
        )
    scale_channels = partial(_scale_channels, shift.reshape(-1, 1, 1), scale.reshape(-1, 1, 1))
    decode: Mapping[str, Decode] = {"map": scale_channels, "label": _widen}
    parts = []
    for part in ("train", "validation"):
        places = [(path.name,) for path in files.find(folder / part, ".h5")]
        parts.append(Items(folder / part, places, _read_storm, decode))
    return Parts(*parts)


def _read_storm(path: Path) -> dict[str, Any]:
    import numpy

    data, label = hdf5.read(path, ("climate/data", "climate/labels_0"))
    height, width = label.shape if label.ndim == 2 else (0, 0)
    if data.shape != (height, width, 16):
        raise FormatError(
            path,
            f"has data of shape {data.shape} and labels_0 of shape {label.shape}, expected (height,"
            " width, 16) and (height, width)",
        )
    if label.dtype.kind == "f":
        is_whole = (label == numpy.rint(label)) & (abs(label) < 2**31)
        if not is_whole.all():
            raise FormatError(
                path, f"has {label[~is_whole][0]:g} in labels_0, expected whole numbers below 2^31"
            )
    fields = _narrow(data).transpose(2, 0, 1)
    return {"map": fields[None], "label": label.reshape(-1)}


def read_arrays(folder: Path, shapes: Shapes) -> Parts:
    """NAME.npy and test_NAME.npy for each array that a network takes, as it takes them."""
    from .. import generators
    from ..tasks import TEST

    arrays = generators.read(folder)
    for prefix in ("", TEST):
        missing = [name for name in shapes if prefix + name not in arrays]
        if missing:
            found = ", ".join(sorted(arrays)) or "no arrays"
            raise FormatError(folder, f"lacks {prefix}{missing[0]}.npy; found {found}")
    stored = (
        {name: Stored(arrays[prefix + name], _keep) for name in shapes} for prefix in ("", TEST)
    )
    return Parts(*map(Arrays, stored))


Reader = Callable[[Path, Shapes], Parts]

FORMATS: Mapping[str, Reader] = {
    "idx": read_idx,
    "cifar10": read_cifar10,
    "cifar100": read_cifar100,
    "image-folder": read_folders,
    **{f"tokens-{kind}": partial(read_tokens, kind) for kind in tokens.TYPES},
    "cosmoflow-tfrecord": read_cosmoflow,
    "cosmoflow-hdf5": read_universes,
    "deepcam-hdf5": read_deepcam,
}
"""Values of `format` of a dataset in a manifest; all raise FormatError and OSError."""


def _keep(array: Any) -> Any:
    return array


def _narrow(array: Any) -> Any:
    import numpy

    with numpy.errstate(over="ignore"):
        return array.astype("float32", copy=False)


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
    import numpy

    # what is no number stays none
    with numpy.errstate(invalid="ignore", over="ignore"):
        return scale * (array - shift)


_UNIVERSE_NAMES = ("full", "unitPar")
_UNIVERSE = {"volume": _log_counts, "target": _narrow}
