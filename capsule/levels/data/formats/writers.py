"""Generated data in the files in which others publish theirs, the same bytes on every CPU.

Numbers become what the format has: shades bytes, strengths of a field counts. Samples are drawn one
after the other, so that a dataset may be larger than memory where each has a file of its own; of
pictures their bytes are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Callable

from .. import tasks
from ..tasks import TEST
from . import cifar, hdf5, idx, pictures, records, tokens

Numbers = Mapping[str, int]
"""All parameters of a generator."""

Writer = Callable[[Numbers, Path], None]

_BATCHES = 5
_FINE_IN_COARSE = 5


def write(form: str, generator: str, parameters: Numbers, folder: Path) -> None:
    """Write what a generator makes to an existing folder, as `layouts.FORMATS[form]` reads it.

    Args:
        form: Key of `layouts.FORMATS`.
        generator: Key of `generators.GENERATORS`.
        parameters: As `generators.complete` gives them.
        folder: An empty one.

    Raises:
        ValueError: The format does not hold such data; one sentence.
        ModuleNotFoundError: h5py, with which HDF5 is written, is not installed.
        OSError: A file cannot be written.
    """
    known = WRITERS.get(generator, {})
    if form not in known:
        forms = f"{', '.join(known)}, or arrays (no format)" if known else "arrays"
        raise ValueError(f"{generator} cannot be written as {form}; use {forms}")
    known[form](parameters, folder)


def write_idx(parameters: Numbers, folder: Path) -> None:
    """Write four files as MNIST has them."""
    if parameters["channels"] != 1 or parameters["classes"] > 256:
        raise ValueError(
            "idx needs channels=1 and at most classes=256, found"
            f" channels={parameters['channels']} and classes={parameters['classes']}"
        )
    for (images, labels), name in zip(_pictures(parameters), ("train", "t10k")):
        idx.write(images[:, 0], folder / f"{name}-images-idx3-ubyte")
        idx.write(labels, folder / f"{name}-labels-idx1-ubyte")


def write_cifar(form: str, parameters: Numbers, folder: Path) -> None:
    """Write CIFAR-10, samples in five batches, or CIFAR-100, five fine labels a coarse one."""
    import numpy

    most = cifar.CLASSES[form][-1]
    sizes = {"channels": 3, "side": cifar.SIDE}
    if any(parameters[name] != value for name, value in sizes.items()):
        found = " and ".join(f"{name}={parameters[name]}" for name in sizes)
        raise ValueError(f"{form} needs channels=3 and side={cifar.SIDE}, found {found}")
    if parameters["classes"] > most:
        raise ValueError(
            f"{form} allows at most classes={most}, found classes={parameters['classes']}"
        )
    train, test = _pictures(parameters)
    if form == "cifar100":
        for (images, labels), name in ((train, "train"), (test, "test")):
            both = numpy.stack([labels // _FINE_IN_COARSE, labels], 1)
            cifar.write(images, both, folder / f"{name}.bin")
        return
    files = min(_BATCHES, len(train[0]))
    parts = (numpy.array_split(array, files) for array in train)
    for number, (images, labels) in enumerate(zip(*parts), 1):
        cifar.write(images, labels[:, None], folder / f"data_batch_{number}.bin")
    cifar.write(test[0], test[1][:, None], folder / "test_batch.bin")


def write_folders(parameters: Numbers, folder: Path) -> None:
    """Write a folder for each class, with a PGM or PPM for each sample, like unpacked ImageNet."""
    classes, channels = parameters["classes"], parameters["channels"]
    if channels not in (1, 3):
        raise ValueError(f"image-folder needs channels=1 or channels=3, found channels={channels}")
    sizes = {name: parameters[name] for name in ("side", "classes", "channels", "seed")}
    ending = "pgm" if channels == 1 else "ppm"
    names = [f"class-{number:0{len(str(classes - 1))}}" for number in range(classes)]
    for (prefix, count), part in zip(_parts(parameters), ("train", "val")):
        at = 0
        for images, labels in tasks.draw_glyphs(prefix, count, **sizes):
            for image, label in zip(shade(images), labels):
                place = folder / part / names[label]
                place.mkdir(parents=True, exist_ok=True)
                pictures.write(image, place / f"{at:07}.{ending}")
                at += 1
        if not prefix and len(list((folder / part).iterdir())) < classes:
            raise ValueError(
                f"{count} samples do not cover all {classes} classes, and image-folder needs a"
                " sample of each: use more samples"
            )


def _pictures(parameters: Numbers) -> list[tuple[Any, Any]]:
    """Return images, uint8 (samples, channels, side, side), and labels, uint8, to train on and
    others.
    """
    import numpy

    parts = []
    sizes = {name: parameters[name] for name in ("side", "classes", "channels", "seed")}
    for prefix, count in _parts(parameters):
        images = numpy.empty((count, sizes["channels"], sizes["side"], sizes["side"]), numpy.uint8)
        labels = numpy.empty(count, numpy.uint8)
        at = 0
        for image, label in tasks.draw_glyphs(prefix, count, **sizes):
            images[at : at + len(label)] = shade(image)
            labels[at : at + len(label)] = label
            at += len(label)
        parts.append((images, labels))
    return parts


def shade(image: Any) -> Any:
    """Convert values to bytes of a picture, 16 for each unit around 128; 8 units off is cut."""
    import numpy

    return numpy.clip(numpy.rint(image * 16 + 128), 0, 255).astype(numpy.uint8)


def write_tokens(kind: str, parameters: Numbers, folder: Path) -> None:
    """Write two texts like nanoGPT, of `samples * length` and `test_samples * length` tokens.

    Each has one more token, the label of its last sample.
    """
    length, vocabulary = parameters["length"], parameters["vocabulary"]
    if vocabulary > 256 and kind == "uint8":
        raise ValueError(
            f"vocabulary={vocabulary} is above the maximum of tokens-uint8, 256: lower the"
            " vocabulary, or use a wider format such as tokens-uint32"
        )
    counts = [count * length for _, count in _parts(parameters)]
    made = tasks.markov(1, 1, max(counts) + 1, vocabulary, parameters["seed"])
    for (prefix, _), count, name in zip(_parts(parameters), counts, ("train", "val")):
        tokens.write(made[f"{prefix}token"][: count + 1], folder / f"{name}.bin", kind)


def write_cosmoflow_records(parameters: Numbers, folder: Path) -> None:
    """Write a TFRecord file for each sample, like MLPerf HPC's CosmoFlow."""
    for path, counts, target in _universes(parameters, folder):
        example = {"x": [counts.tobytes()], "y": target}
        records.write([records.serialize(example)], path.with_suffix(".tfrecord"))


def write_universes(parameters: Numbers, folder: Path) -> None:
    """Write an HDF5 file for each sample, like CosmoFlow's universes."""
    for path, counts, target in _universes(parameters, folder):
        hdf5.write({"full": counts, "unitPar": target}, path.with_suffix(".hdf5"))


def _universes(parameters: Numbers, folder: Path) -> Iterator[tuple[Path, Any, Any]]:
    """Yield path, counts, int16 (side, side, side, 4), and target of each sample."""
    side, seed = parameters["side"], parameters["seed"]
    for (prefix, count), part in zip(_parts(parameters), ("train", "validation")):
        (folder / part).mkdir()
        drawn = tasks.draw_universes(prefix, count, side, seed)
        for index, (volume, target) in enumerate(drawn):
            yield folder / part / f"universe-{index:06}", count_matter(volume), target


def count_matter(volume: Any) -> Any:
    """Return counts of particles that a field stands for, channels last.

    They double with each unit of the field, and are 31 where it is 0, so that log(1 + count) is
    nearly linear in it; between two powers of 2 a straight line stands for the curve, for the last
    bits of a power differ between computers.
    """
    import numpy

    power = numpy.clip(volume.astype(numpy.float64) + 5, 0, 14)
    whole = numpy.floor(power)
    counts = numpy.rint(numpy.ldexp(1 + (power - whole), whole.astype(numpy.int32))) - 1
    return numpy.ascontiguousarray(counts.astype("<i2").transpose(1, 2, 3, 0))


def write_deepcam(parameters: Numbers, folder: Path) -> None:
    """Write an HDF5 file for each sample, like DeepCAM, and the limits for training in stats.h5."""
    import numpy

    height, width = parameters["height"], parameters["width"]
    low, high = numpy.full(16, numpy.inf), numpy.full(16, -numpy.inf)
    for (prefix, count), part in zip(_parts(parameters), ("train", "validation")):
        (folder / part).mkdir()
        drawn = tasks.draw_storms(prefix, count, height, width, parameters["seed"])
        for index, (fields, label) in enumerate(drawn):
            if prefix != TEST:
                low = numpy.minimum(low, fields.min(axis=(1, 2)))
                high = numpy.maximum(high, fields.max(axis=(1, 2)))
            arrays = {"climate/data": fields.transpose(1, 2, 0)}
            arrays["climate/labels_0"] = label.astype(numpy.uint8)
            hdf5.write(arrays, folder / part / f"data-{index:06}.h5")
    hdf5.write({"climate/minval": low, "climate/maxval": high}, folder / "stats.h5")


def _parts(parameters: Numbers) -> tuple[tuple[str, int], tuple[str, int]]:
    return ("", parameters["samples"]), (TEST, parameters["test_samples"])


WRITERS: Mapping[str, Mapping[str, Writer]] = {
    "glyphs": {
        "idx": write_idx,
        **{form: partial(write_cifar, form) for form in cifar.CLASSES},
        "image-folder": write_folders,
    },
    "universe": {
        "cosmoflow-tfrecord": write_cosmoflow_records,
        "cosmoflow-hdf5": write_universes,
    },
    "storms": {"deepcam-hdf5": write_deepcam},
    "markov": {f"tokens-{kind}": partial(write_tokens, kind) for kind in tokens.TYPES},
}
"""By generator and format."""
