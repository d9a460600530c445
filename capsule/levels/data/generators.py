"""Datasets made from a seed: the same arrays on every CPU and with every numpy.

Only raw random words, integers and element-wise + - * / on floats are used, in a fixed order. No
exp, log, FFT, BLAS, reduction or numpy distribution: their last bits depend on the instructions of
the CPU and on the version. Names and parameters are read without numpy.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..streams import fractions, normals, words
from . import tasks
from .tasks import Arrays

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
        raise ValueError(f"unknown generator {name!r}; known: {', '.join(GENERATORS)}")
    return GENERATORS[name].make(**complete(name, parameters))


def complete(name: str, parameters: Mapping[str, object]) -> dict[str, int]:
    """Return the parameters of `GENERATORS[name]`, checked and with defaults, in the generator's
    order.

    Raises:
        ValueError: A parameter is unknown, or its value is not a whole number in its range.

    >>> complete("regression", {"samples": 3})
    {'samples': 3, 'features': 8, 'seed': 0}
    """
    known = GENERATORS[name].parameters
    unknown = sorted(set(parameters) - {parameter.name for parameter in known})
    if unknown:
        names = ", ".join(parameter.name for parameter in known)
        raise ValueError(f"{name} has no parameter {unknown[0]!r}; its parameters: {names}")
    return {parameter.name: _whole(name, parameter, parameters) for parameter in known}


def _whole(name: str, parameter: Parameter, values: Mapping[str, object]) -> int:
    value = values.get(parameter.name, parameter.default)
    if (
        isinstance(value, bool)
        or not isinstance(value, int)
        or not parameter.minimum <= value <= parameter.maximum
    ):
        raise ValueError(
            f"{parameter.name} of {name} is {value!r}, expected a whole number from"
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

    Raises:
        ValueError: As `digest`.
        OSError: A file cannot be written.
    """
    for name in sorted(arrays):
        array = _plain(name, arrays[name])
        with (folder / f"{name}.npy").open("wb") as file:
            file.write(npy_header(array.dtype.str, array.shape))
            file.write(array.data)


def npy_header(kind: str, shape: Sequence[int]) -> bytes:
    """Return the header of a C-ordered array in version 1.0 of NumPy's format.

    It is made here, for numpy has changed its padding.

    Args:
        kind: NumPy's type string.
        shape: Lengths of the axes.
    """
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    # magic, length and header together fill whole blocks of 64 bytes, the last byte a newline
    text = header.encode("ascii").ljust(-(len(header) + 11) % 64 + len(header)) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def read(folder: Path) -> Arrays:
    """Read the output of `write`: every `.npy` file of a folder, mapped, without unpickling.

    Raises:
        ValueError: A file is not a plain array with elements.
        OSError: A file cannot be read.
    """
    return {path.stem: read_array(path) for path in sorted(folder.glob("*.npy"))}


def read_array(path: Path) -> Any:
    """Return the array of a file in NumPy's format, mapped; raises what `read` does."""
    import numpy

    try:
        array = numpy.load(path, mmap_mode="r", allow_pickle=False)
    except OSError:
        raise
    except Exception as error:  # numpy has Python parse the head, and passes on what that raises
        fault = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{path.name} is not a readable array: {fault}") from None
    # one of an archive of arrays is not
    if not isinstance(array, numpy.ndarray):
        raise ValueError(f"{path.name} is an archive of arrays, expected one array by numpy.save")
    return array


def _plain(name: str, array: Any) -> Any:
    import numpy

    if not _NAME.fullmatch(name):
        raise ValueError(f"invalid array name {name!r}: use lower-case letters, digits and _")
    array = numpy.asarray(array)
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise ValueError(f"array {name} has {array.dtype}, expected booleans, integers or floats")
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
            "shifted, noisy copies of one picture per class: image float32 (samples, channels,"
            " side, side) and label int64; test_image and test_label have the same form",
            (
                Parameter("samples", 1_000, 1, 2**24),
                Parameter("test_samples", 500, 1, 2**24),
                Parameter("side", 28, 12, 2**10),
                Parameter("classes", 10, 2, 2**12),
                Parameter("channels", 1, 1, 2**10),
                _SEED,
            ),
            tasks.glyphs,
        ),
        Generator(
            "scenes",
            "images that show some of several pictures: image float32 (samples, channels, side,"
            " side) and target float32 (samples, classes), 0 or 1; test_image and test_target have"
            " the same form",
            (
                Parameter("samples", 1_000, 1, 2**24),
                Parameter("test_samples", 500, 1, 2**24),
                Parameter("side", 32, 12, 2**10),
                Parameter("classes", 10, 1, 2**12),
                Parameter("channels", 3, 1, 2**10),
                _SEED,
            ),
            tasks.scenes,
        ),
        Generator(
            "jets",
            "energy of particles around one axis or two: image float32 (samples, 3, side, side) and"
            " label int64, 1 for two axes; test_image and test_label have the same form",
            (
                Parameter("samples", 1_000, 1, 2**24),
                Parameter("test_samples", 500, 1, 2**24),
                Parameter("side", 32, 16, 2**10),
                _SEED,
            ),
            tasks.jets,
        ),
        Generator(
            "universe",
            "fields with four hidden numbers: volume float32 (samples, 4, side, side, side) and"
            " target float32 (samples, 4); test_volume and test_target have the same form",
            (
                Parameter("samples", 256, 1, 2**20),
                Parameter("test_samples", 64, 1, 2**20),
                Parameter("side", 32, 8, 2**8),
                _SEED,
            ),
            tasks.universe,
        ),
        Generator(
            "storms",
            "maps with discs and bands to be found: map float32 (samples, 16, height, width) and"
            " label int64 of each pixel; test_map and test_label have the same form",
            (
                Parameter("samples", 256, 1, 2**20),
                Parameter("test_samples", 64, 1, 2**20),
                Parameter("height", 32, 16, 2**12),
                Parameter("width", 48, 16, 2**12),
                _SEED,
            ),
            tasks.storms,
        ),
        Generator(
            "mass-maps",
            "smooth random maps of a known power spectrum, skewed like mass maps of weak lensing:"
            " map float32 (samples, 1, side, side); test_map has the same form",
            (
                Parameter("samples", 1_000, 1, 2**24),
                Parameter("test_samples", 200, 1, 2**24),
                Parameter("side", 32, 16, 2**10),
                _SEED,
            ),
            tasks.mass_maps,
        ),
        Generator(
            "markov",
            "sequences of tokens: token int64 (samples * length) and label int64, the token after"
            " each token; test_token and test_label have the same form",
            (
                Parameter("samples", 1_000, 1, 2**24),
                Parameter("test_samples", 200, 1, 2**24),
                Parameter("length", 32, 2, 2**16),
                Parameter("vocabulary", 16, 2, 2**12),
                _SEED,
            ),
            tasks.markov,
        ),
        Generator(
            "regression",
            "regression: x float32 (samples, features), y float32 from linear and pairwise terms"
            " and noise with a standard deviation of 1/8",
            (Parameter("samples", 1_000, 1, 2**31), Parameter("features", 8, 1, 2**20), _SEED),
            _regression,
        ),
    )
}
