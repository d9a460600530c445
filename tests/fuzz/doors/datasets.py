"""Files of datasets in the formats in which others publish them, and files of predictions.

An input is one line of JSON that names the format and how long each file is, and below it the
files, one after the other.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy

from capsule.errors import DamagedError
from capsule.levels.catalog import training
from capsule.levels.data import generators, predictions
from capsule.levels.data.formats import writers
from capsule.levels.graphs.graph import Graph
from capsule.levels.level2 import samples
from capsule.levels.networks import build
from tests.fuzz import mutate
from tests.fuzz.campaign import Door
from tests.support.damage import bounded

_COUNTS = {"samples": 3, "test_samples": 2}
_MAP = {"height": 16, "width": 16}
_LENET = {"side": 12, "classes": 2}
_TEXT = {"length": 5, "vocabulary": 9}
_FORMS: dict[str, tuple[str, dict[str, int], str, dict[str, int]]] = {
    "idx": ("glyphs", _LENET, "lenet", _LENET),
    "cifar10": ("glyphs", {"side": 32, "channels": 3, "classes": 2}, "resnet44", {}),
    "cifar100": ("glyphs", {"side": 32, "channels": 3}, "resnet44", {"classes": 100}),
    "image-folder": ("glyphs", {**_LENET, "seed": 1}, "lenet", _LENET),
    "tokens-uint16": ("markov", _TEXT, "transformer", _TEXT),
    "cosmoflow-tfrecord": ("universe", {"side": 8}, "cosmoflow", {"side": 8, "width": 1}),
    "cosmoflow-hdf5": ("universe", {"side": 8}, "cosmoflow", {"side": 8, "width": 1}),
    "deepcam-hdf5": ("storms", _MAP, "deepcam", {**_MAP, "divisor": 32, "middle": 1}),
    "arrays": ("glyphs", _LENET, "lenet", _LENET),
}
Files = dict[str, bytes]


@cache
def _whole(form: str) -> Files:
    """The files of a dataset that is right."""
    generator, sizes, *_ = _FORMS[form]
    numbers = generators.complete(generator, {**_COUNTS, **sizes})
    with TemporaryDirectory() as name:
        folder = Path(name)
        if form == "arrays":
            generators.write(generators.generate(generator, numbers), folder)
        else:
            writers.write(form, generator, numbers, folder)
        return {
            str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }


@cache
def _graph(form: str) -> Graph:
    _, _, network, sizes = _FORMS[form]
    return build(network, {"batch": 1, **sizes})


def make_dataset(random: Random) -> bytes:
    """A dataset with one file changed, compressed, left out, or in the place of another."""
    form = random.choice(tuple(_FORMS))
    files = dict(_whole(form))
    name = random.choice(tuple(files))
    match random.randrange(10):
        case 0:
            del files[name]
        case 1:
            files[f"{name}.gz"] = gzip.compress(_change(files.pop(name), random), mtime=0)
        case 2:
            files[name] = gzip.compress(_change(files[name], random), mtime=0)
        case 3:
            files[random.choice(tuple(files))] = files[name]
        case _:
            files[name] = _change(files[name], random)
    return pack(form, files)


def _change(data: bytes, random: Random) -> bytes:
    """Other bytes in a few places, mostly among the first, where heads are."""
    if random.random() < 0.2:
        return mutate.text(data, random)
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 8))):
        most = len(changed) if random.random() < 0.3 else min(len(changed), 1 << 11)
        if most:
            changed[random.randrange(most)] = random.choice(
                (0, 1, 127, 128, 255, random.getrandbits(8))
            )
    if random.random() < 0.1:
        del changed[random.randrange(len(changed) + 1) :]
    return bytes(changed)


def pack(form: str, files: Files) -> bytes:
    """An input."""
    head = {"format": form, "files": {name: len(data) for name, data in files.items()}}
    return json.dumps(head).encode() + b"\n" + b"".join(files.values())


def send_dataset(data: bytes, folder: Path) -> None:
    """Take every sample of it."""
    line, _, rest = data.partition(b"\n")
    head = json.loads(line)
    for name, length in head["files"].items():
        path = folder / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(rest[:length])
        rest = rest[length:]
    whole = folder / "whole"
    whole.write_bytes(data)
    form = head["format"]
    try:
        with bounded(whole):
            parts = samples.read(folder / "data", _graph(form), None if form == "arrays" else form)
            for part in parts:
                part.take(range(min(part.count, 100)))
    except ValueError as error:
        raise DamagedError(str(error)) from None


def make_predictions(random: Random) -> bytes:
    """What a training kept, with some of it changed."""
    kind = random.choice(("|u1", "<u2", "<u4", "<f4", "<f8"))
    shape = tuple(random.choice((1, 2, 3, 7)) for _ in range(3))
    array = numpy.array([random.randrange(3) for _ in range(int(numpy.prod(shape)))], kind)
    data = generators.npy_header(kind, shape) + array.tobytes()
    return _change(data, random) if random.random() < 0.9 else data


def send_predictions(data: bytes, folder: Path) -> None:
    """Judge every quality by it."""
    path = folder / "kept.npy"
    path.write_bytes(data)
    with bounded(path):
        for quality in sorted(set(training.QUALITY.values())):
            try:
                values = predictions.qualities(quality, predictions.decode(data))
            except ValueError:
                continue
            assert all(isinstance(value, float) for value in values)


DATASETS = Door(name="datasets", make=make_dataset, send=send_dataset)
PREDICTIONS = Door(name="predictions", make=make_predictions, send=send_predictions)
