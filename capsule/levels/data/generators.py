"""Datasets made from a seed: the same arrays on every CPU and with every numpy.

Only raw random words, integers and element-wise + - * / on floats are used, in a fixed order. No
exp, log, FFT, BLAS, reduction or numpy distribution: their last bits depend on the instructions of
the CPU and on the version. Names and parameters are read without numpy.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..streams import fractions, normals, words

Arrays = dict[str, Any]

_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True)
class Parameter:
    """A whole number that a generator takes."""

    name: str
    default: int
    minimum: int
    maximum: int


@dataclass(frozen=True)
class Generator:
    """A recipe for a dataset.

    Attributes:
        name: As a manifest's `generator` names it.
        about: One line: what the arrays are.
        parameters: What may be set; everything has a default.
        make: Called with a value for every parameter.
    """

    name: str
    about: str
    parameters: tuple[Parameter, ...]
    make: Callable[..., Arrays]


def generate(name: str, parameters: Mapping[str, object]) -> Arrays:
    """Make a dataset.

    Args:
        name: Key of `GENERATORS`.
        parameters: Any of the generator's parameters; the others take their defaults.

    Returns:
        Numpy arrays by name.

    Raises:
        ValueError: The generator or a parameter is unknown, or a value is out of its range.

    >>> {name: array.shape for name, array in generate("regression", {"samples": 3}).items()}
    {'x': (3, 8), 'y': (3,)}
    """
    if name not in GENERATORS:
        raise ValueError(f"no generator {name!r}; there are {', '.join(GENERATORS)}")
    return GENERATORS[name].make(**complete(name, parameters))


def complete(name: str, parameters: Mapping[str, object]) -> dict[str, int]:
    """The parameters of `GENERATORS[name]`, checked and with defaults, in the generator's order.

    Raises:
        ValueError: A parameter is unknown, or its value is not a whole number in its range.

    >>> complete("regression", {"samples": 3})
    {'samples': 3, 'features': 8, 'seed': 0}
    """
    known = GENERATORS[name].parameters
    unknown = sorted(set(parameters) - {parameter.name for parameter in known})
    if unknown:
        names = ", ".join(parameter.name for parameter in known)
        raise ValueError(f"{name} has no parameter {unknown[0]!r}; it has {names}")
    return {parameter.name: _whole(name, parameter, parameters) for parameter in known}


def _whole(name: str, parameter: Parameter, values: Mapping[str, object]) -> int:
    value = values.get(parameter.name, parameter.default)
    if (
        isinstance(value, bool)
        or not isinstance(value, int)
        or not parameter.minimum <= value <= parameter.maximum
    ):
        raise ValueError(
            f"{parameter.name} of {name} is {value!r}, not a whole number from"
            f" {parameter.minimum} to {parameter.maximum}"
        )
    return value


def digest(arrays: Mapping[str, Any]) -> str:
    r"""Name arrays by what is in them, whatever file holds them: `sha256:` and 64 hex digits.

    SHA-256 over `capsule-arrays-1\n`, then for each array, sorted by name, one ASCII line
    `<name> <type> <shape>\n` and its elements, little-endian in C order. `<type>` is numpy's type
    string, always little-endian (`<f4`, `<i8`, `|u1`); `<shape>` is decimal lengths joined by `,`
    (nothing for a single number).

    Raises:
        ValueError: A name is not made of lower-case letters, digits and `_`, or an array holds
            something other than booleans, integers or floats of at most 64 bits.

    >>> digest(generate("regression", {"samples": 3}))[:15]
    'sha256:fd84c2c8'
    """
    state = hashlib.sha256(b"capsule-arrays-1\n")
    for name in sorted(arrays):
        array = _plain(name, arrays[name])
        shape = ",".join(map(str, array.shape))
        state.update(f"{name} {array.dtype.str} {shape}\n".encode("ascii"))
        state.update(array.data)
    return f"sha256:{state.hexdigest()}"


def write(arrays: Mapping[str, Any], folder: Path) -> None:
    """Write each array to `<name>.npy` in an existing folder, the same bytes everywhere.

    The header is written here, in version 1.0 of the format: numpy has changed its padding.

    Raises:
        ValueError: As `digest`.
        OSError: A file cannot be written.
    """
    for name in sorted(arrays):
        array = _plain(name, arrays[name])
        shape = f"({array.shape[0]},)" if array.ndim == 1 else str(tuple(array.shape))
        header = f"{{'descr': '{array.dtype.str}', 'fortran_order': False, 'shape': {shape}, }}"
        # magic, length and header together fill whole blocks of 64 bytes, the last byte a newline
        text = header.encode("ascii").ljust(-(len(header) + 11) % 64 + len(header)) + b"\n"
        with (folder / f"{name}.npy").open("wb") as file:
            file.write(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)
            file.write(array.data)


def read(folder: Path) -> Arrays:
    """Read what `write` wrote: every `.npy` file of a folder, by name; nothing is unpickled.

    Raises:
        ValueError: A file is not a plain array.
        OSError: A file cannot be read.
    """
    import numpy

    return {
        path.stem: numpy.load(path, allow_pickle=False) for path in sorted(folder.glob("*.npy"))
    }


def _plain(name: str, array: Any) -> Any:
    import numpy

    if not _NAME.fullmatch(name):
        raise ValueError(f"array name {name!r} is not lower-case letters, digits and _")
    array = numpy.asarray(array)
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise ValueError(f"array {name} holds {array.dtype}, not booleans, integers or floats")
    return numpy.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")


def _gaussian_blobs(samples: int, features: int, classes: int, seed: int) -> Arrays:
    import numpy

    label = f"capsule-gaussian-blobs-1\n{seed}\n"
    centers = 2 * normals(f"{label}centers", classes * features).reshape(classes, features)
    chosen = words(f"{label}y", samples) % numpy.uint64(classes)
    y = chosen.astype(numpy.int64)
    x = normals(f"{label}x", samples * features).reshape(samples, features) + centers[y]
    return {"x": x.astype(numpy.float32), "y": y}


def _regression(samples: int, features: int, seed: int) -> Arrays:
    import numpy

    label = f"capsule-regression-1\n{seed}\n"
    x = 2 * fractions(f"{label}x", samples * features, "float32").reshape(samples, features) - 1
    linear = 2 * fractions(f"{label}linear", features, "float32") - 1
    quadratic = 2 * fractions(f"{label}quadratic", features, "float32") - 1
    y = normals(f"{label}noise", samples) * 0.125
    for index in range(features):
        column = x[:, index]
        y = y + column * linear[index]
        y = y + column * x[:, index - 1] * quadratic[index]
    return {"x": x.astype(numpy.float32), "y": y.astype(numpy.float32)}


def _glyphs(
    samples: int, test_samples: int, side: int, classes: int, channels: int, seed: int
) -> Arrays:
    """Each class is a smooth random picture; a sample is one that is shifted, dimmed and noisy.

    The noise is three times as strong as the picture, else no network of any size would err.
    """
    import numpy

    label = f"capsule-glyphs-1\n{seed}\n"
    coarse = normals(f"{label}pictures", classes * channels * 36).reshape(-1, 6, 6)
    wide = side + 2 * _SHIFT
    pictures = _enlarge(coarse, wide).reshape(classes, channels, wide, wide)
    arrays: Arrays = {}
    for prefix, count in (("", samples), ("test_", test_samples)):
        chosen = words(f"{label}{prefix}label", count) % numpy.uint64(classes)
        moves = words(f"{label}{prefix}shift", 2 * count).reshape(2, count)
        down, right = (moves % numpy.uint64(2 * _SHIFT + 1)).astype(numpy.int64)
        bright = 0.5 + fractions(f"{label}{prefix}bright", count, "float32")
        noise = normals(f"{label}{prefix}noise", count * channels * side * side)
        rows = down[:, None, None, None] + numpy.arange(side)[:, None]
        columns = right[:, None, None, None] + numpy.arange(side)
        y = chosen.astype(numpy.int64)
        every = numpy.arange(channels)[:, None, None]
        shown = pictures[y[:, None, None, None], every, rows, columns]
        shown = shown * bright[:, None, None, None]
        image = shown + 3 * noise.reshape(count, channels, side, side)
        arrays[f"{prefix}image"] = image.astype(numpy.float32)
        arrays[f"{prefix}label"] = y
    return arrays


def _enlarge(coarse: Any, side: int) -> Any:
    """Squares of (n, k, k) as (n, side, side), straight lines between their points."""
    import numpy

    last = coarse.shape[-1] - 1
    for axis in (1, 2):
        # in whole numbers, of which every quotient is rounded once
        place = numpy.arange(side) * last
        low = numpy.minimum(place // (side - 1), last - 1)
        part = (place - low * (side - 1)) / (side - 1)
        part = part[:, None] if axis == 1 else part
        coarse = coarse.take(low, axis) * (1 - part) + coarse.take(low + 1, axis) * part
    return coarse


def _universe(samples: int, test_samples: int, side: int, seed: int) -> Arrays:
    """Noise fields whose strength, smoothness, skewness and growth from channel to channel are to
    be told from them: the shape of CosmoFlow's task, with nothing of its physics.
    """
    import numpy

    label = f"capsule-universe-1\n{seed}\n"
    arrays: Arrays = {}
    for prefix, count in (("", samples), ("test_", test_samples)):
        target = 2 * fractions(f"{label}{prefix}target", 4 * count, "float32").reshape(count, 4) - 1
        volume = numpy.empty((count, 4, side, side, side), numpy.float32)
        for index, (strength, smoothness, skewness, growth) in enumerate(target):
            noise = normals(f"{label}{prefix}noise {index}", side**3).reshape((side,) * 3)
            part = (1 + smoothness) / 2
            field = (1 - part) * noise + part * 4 * _smooth(noise)
            field = (1 + strength / 2) * field
            field = field + (1 + skewness) / 4 * field * field
            for channel in range(4):
                volume[index, channel] = field * (1 + growth * channel / 4)
        arrays[f"{prefix}volume"] = volume
        arrays[f"{prefix}target"] = target.astype(numpy.float32)
    return arrays


def _storms(samples: int, test_samples: int, height: int, width: int, seed: int) -> Arrays:
    """Maps of smooth noise with up to two discs and one band, each raised in channels of its own
    and lowered in others: the shape of DeepCAM's task, with nothing of its weather. About 2 % of
    the pixels are a disc's and 10 % the band's, so that most of a map is background.
    """
    import numpy

    label = f"capsule-storms-1\n{seed}\n"
    row, column = numpy.arange(height)[:, None], numpy.arange(width)
    radius = max(2, min(height, width) // 10)
    arrays: Arrays = {}
    for prefix, count in (("", samples), ("test_", test_samples)):
        maps = numpy.empty((count, _CHANNELS, height, width), numpy.float32)
        labels = numpy.full((count, height, width), 0, numpy.int64)
        drawn = words(f"{label}{prefix}places", 7 * count).reshape(count, 7)
        for index, places in enumerate((drawn >> numpy.uint64(11)).tolist()):
            noise = normals(f"{label}{prefix}noise {index}", _CHANNELS * height * width)
            field = noise.reshape(_CHANNELS, height, width)
            field = (field + numpy.roll(field, 1, 1) + numpy.roll(field, 1, 2)) / 2
            chosen = labels[index]
            # from the left edge to the right one, rising or falling by at most half the height
            middle = places[0] % height * (width - 1) + (places[1] % height - height // 2) * column
            chosen[abs(row * (width - 1) - middle) < radius * (width - 1) // 2] = 2
            for down, right in (places[2:4], places[4:6])[: places[6] % 3]:
                apart = (row - down % height) ** 2 + (column - right % width) ** 2
                chosen[apart < radius**2] = 1
            for kind in (1, 2):
                for channel in range(_CHANNELS):
                    # strongest in the first channels of each kind, absent from the last
                    strength = ((channel * kind) % 5 - 2) / 2
                    field[channel] = field[channel] + strength * (chosen == kind)
            maps[index] = field
        arrays[f"{prefix}map"] = maps
        arrays[f"{prefix}label"] = labels.reshape(-1)
    return arrays


def _smooth(field: Any) -> Any:
    """The mean of each element and its neighbours in a ring, along one axis after the other."""
    import numpy

    for axis in range(field.ndim):
        field = field + numpy.roll(field, 1, axis) + numpy.roll(field, -1, axis)
    return field / 27


_SHIFT = 2
_CHANNELS = 16
_SEED = Parameter("seed", 0, 0, 2**32 - 1)

GENERATORS: dict[str, Generator] = {
    generator.name: generator
    for generator in (
        Generator(
            "gaussian-blobs",
            "classification: x float32 (samples, features) around one centre per class, y int64",
            (
                Parameter("samples", 1_000, 1, 2**31),
                Parameter("features", 16, 1, 2**20),
                Parameter("classes", 4, 2, 2**20),
                _SEED,
            ),
            _gaussian_blobs,
        ),
        Generator(
            "glyphs",
            "images of shifted, noisy pictures, one for each class: image float32 (samples,"
            " channels, side, side) and label int64, the same as test_image and test_label",
            (
                Parameter("samples", 1_000, 1, 2**24),
                Parameter("test_samples", 500, 1, 2**24),
                Parameter("side", 28, 12, 2**10),
                Parameter("classes", 10, 2, 2**12),
                Parameter("channels", 1, 1, 2**10),
                _SEED,
            ),
            _glyphs,
        ),
        Generator(
            "universe",
            "fields with four hidden numbers: volume float32 (samples, 4, side, side, side) and"
            " target float32 (samples, 4), the same as test_volume and test_target",
            (
                Parameter("samples", 256, 1, 2**20),
                Parameter("test_samples", 64, 1, 2**20),
                Parameter("side", 32, 8, 2**8),
                _SEED,
            ),
            _universe,
        ),
        Generator(
            "storms",
            "maps with discs and bands to be found: map float32 (samples, 16, height, width) and"
            " label int64 of each pixel, the same as test_map and test_label",
            (
                Parameter("samples", 256, 1, 2**20),
                Parameter("test_samples", 64, 1, 2**20),
                Parameter("height", 32, 16, 2**12),
                Parameter("width", 48, 16, 2**12),
                _SEED,
            ),
            _storms,
        ),
        Generator(
            "regression",
            "x float32 (samples, features), y float32: linear and pairwise terms, noise of 1/8",
            (Parameter("samples", 1_000, 1, 2**31), Parameter("features", 8, 1, 2**20), _SEED),
            _regression,
        ),
    )
}
