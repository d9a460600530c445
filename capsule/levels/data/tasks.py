"""Data that networks learn from, with the shape of a scientific task and none of its science.

Each function takes whole numbers and returns arrays by the names of a network's inputs, those that
it is judged by with `TEST` before them. What may be computed is said in `generators`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ..streams import fractions, normals, words

Arrays = dict[str, Any]

TEST = "test_"
"""Prefix of the names of arrays that are not used for training."""

_SHIFT = 2
_BLOCK = 1 << 20
"""Numbers of the pictures that are drawn at once."""
_CHANNELS = 16
_PARTICLES = 24


def glyphs(
    samples: int, test_samples: int, side: int, classes: int, channels: int, seed: int
) -> Arrays:
    """Return all of `draw_glyphs`: image, float32 (samples, channels, side, side), and label,
    int64.
    """
    import numpy

    arrays: Arrays = {}
    for prefix, count in (("", samples), (TEST, test_samples)):
        blocks = list(draw_glyphs(prefix, count, side, classes, channels, seed))
        arrays[f"{prefix}image"] = numpy.concatenate([image for image, _ in blocks])
        arrays[f"{prefix}label"] = numpy.concatenate([label for _, label in blocks])
    return arrays


def draw_glyphs(
    prefix: str, count: int, side: int, classes: int, channels: int, seed: int
) -> Iterator[tuple[Any, Any]]:
    """Yield each class is a smooth random picture; a sample is one that is shifted, dimmed and
    noisy.

    The noise is three times as strong as the picture, else no network of any size would err.

    Args:
        prefix: "" for the samples to train on, `TEST` for the others.
        count: Number of samples.
        side: Height and width.
        classes: From 0 on.
        channels: Number of channels of a picture.
        seed: Seed of all random draws.

    Yields:
        image, float32 (n, channels, side, side), and label, int64 (n,), of the next n samples.
    """
    import numpy

    label = f"capsule-glyphs-1\n{seed}\n"
    coarse = normals(f"{label}pictures", classes * channels * 36).reshape(-1, 6, 6)
    wide = side + 2 * _SHIFT
    pictures = _enlarge(coarse, wide).reshape(classes, channels, wide, wide)
    chosen = words(f"{label}{prefix}label", count) % numpy.uint64(classes)
    moves = words(f"{label}{prefix}shift", 2 * count).reshape(2, count)
    down, right = (moves % numpy.uint64(2 * _SHIFT + 1)).astype(numpy.int64)
    bright = 0.5 + fractions(f"{label}{prefix}bright", count, "float32")
    every = numpy.arange(channels)[:, None, None]
    size = channels * side * side
    step = max(1, _BLOCK // size)
    for first in range(0, count, step):
        block = slice(first, min(first + step, count))
        y = chosen[block].astype(numpy.int64)
        rows = down[block, None, None, None] + numpy.arange(side)[:, None]
        columns = right[block, None, None, None] + numpy.arange(side)
        shown = pictures[y[:, None, None, None], every, rows, columns]
        shown = shown * bright[block, None, None, None]
        noise = normals(f"{label}{prefix}noise", len(y) * size, first * size)
        image = shown + 3 * noise.reshape(-1, channels, side, side)
        yield image.astype(numpy.float32), y


def scenes(
    samples: int, test_samples: int, side: int, classes: int, channels: int, seed: int
) -> Arrays:
    """Images that show some of several smooth random pictures, each one in about four, shifted and
    dimmed by itself, in noise that is three times as strong as one.
    """
    import numpy

    label = f"capsule-scenes-1\n{seed}\n"
    coarse = normals(f"{label}pictures", classes * channels * 36).reshape(-1, 6, 6)
    wide = side + 2 * _SHIFT
    pictures = _enlarge(coarse, wide).reshape(classes, channels, wide, wide)
    every = numpy.arange(channels)[:, None, None]
    arrays: Arrays = {}
    for prefix, count in (("", samples), ("test_", test_samples)):
        drawn = words(f"{label}{prefix}shown", count * classes).reshape(count, classes)
        shown = drawn >> numpy.uint64(62) == 0
        moves = words(f"{label}{prefix}shift", 2 * count * classes).reshape(2, count, classes)
        down, right = (moves % numpy.uint64(2 * _SHIFT + 1)).astype(numpy.int64)
        bright = 0.5 + fractions(f"{label}{prefix}bright", count * classes, "float32")
        strength = bright.reshape(count, classes) * shown
        noise = normals(f"{label}{prefix}noise", count * channels * side * side)
        image = 3 * noise.reshape(count, channels, side, side)
        for number in range(classes):
            rows = down[:, number, None, None, None] + numpy.arange(side)[:, None]
            columns = right[:, number, None, None, None] + numpy.arange(side)
            picture = pictures[number][every, rows, columns]
            image = image + picture * strength[:, number, None, None, None]
        arrays[f"{prefix}image"] = image.astype(numpy.float32)
        arrays[f"{prefix}target"] = shown.astype(numpy.float32)
    return arrays


def jets(samples: int, test_samples: int, side: int, seed: int) -> Arrays:
    """Sprays of particles that deposit energy around one axis, or around two at some distance: the
    shape of a search for decays in a detector, with nothing of its physics. The channels are energy
    in two layers of a calorimeter, and how many particles there are.
    """
    import numpy

    label = f"capsule-jets-1\n{seed}\n"
    arrays: Arrays = {}
    for prefix, count in (("", samples), ("test_", test_samples)):
        is_signal = words(f"{label}{prefix}label", count) % numpy.uint64(2) == 1
        drawn = words(f"{label}{prefix}axes", 4 * count).reshape(4, count)
        # the axis lies in the middle half; a second one up to a quarter of the side beside it
        places = (drawn[:2] % numpy.uint64(side // 2)).astype(numpy.int64) + side // 4
        apart = (drawn[2:] % numpy.uint64(side // 2 + 1)).astype(numpy.int64) - side // 4
        image = numpy.full((count, 3, side, side), 0.0)
        event = numpy.arange(count)
        for number in range(_PARTICLES):
            spread = words(f"{label}{prefix}particle {number}", 6 * count).reshape(6, count)
            energy = fractions(f"{label}{prefix}energy {number}", count, "float32")
            energy = 4 * energy * energy
            # the sum of two even draws: most particles lie near the axis
            offsets = (spread[:4] % numpy.uint64(side // 8 + 1)).astype(numpy.int64)
            second = is_signal & (spread[4] % numpy.uint64(2) == 1)
            row = places[0] + apart[0] * second + offsets[0] - offsets[1]
            column = places[1] + apart[1] * second + offsets[2] - offsets[3]
            row, column = (
                numpy.minimum(numpy.maximum(place, 0), side - 1) for place in (row, column)
            )
            layer = (spread[5] % numpy.uint64(2)).astype(numpy.int64)
            image[event, layer, row, column] = image[event, layer, row, column] + energy
            image[event, 2, row, column] = image[event, 2, row, column] + 1
        arrays[f"{prefix}image"] = image.astype(numpy.float32)
        arrays[f"{prefix}label"] = is_signal.astype(numpy.int64)
    return arrays


def _enlarge(coarse: Any, side: int) -> Any:
    """Return squares of (n, k, k) as (n, side, side), straight lines between their points."""
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


def universe(samples: int, test_samples: int, side: int, seed: int) -> Arrays:
    """Return all of `draw_universes`, one after the other."""
    import numpy

    arrays: Arrays = {}
    for prefix, count in (("", samples), (TEST, test_samples)):
        volume = numpy.empty((count, 4, side, side, side), numpy.float32)
        target = numpy.empty((count, 4), numpy.float32)
        for index, drawn in enumerate(draw_universes(prefix, count, side, seed)):
            volume[index], target[index] = drawn
        arrays |= {f"{prefix}volume": volume, f"{prefix}target": target}
    return arrays


def draw_universes(prefix: str, count: int, side: int, seed: int) -> Iterator[tuple[Any, Any]]:
    """Noise fields whose strength, smoothness, skewness and growth from channel to channel are to
    be told from them: the shape of CosmoFlow's task, with nothing of its physics.

    Args:
        prefix: "" for the samples to train on, `TEST` for the others.
        count: Number of samples.
        side: Length of a side of the cube.
        seed: Seed of all random draws.

    Yields:
        volume, float32 (4, side, side, side), and target, float32 (4,), of the next sample.
    """
    import numpy

    label = f"capsule-universe-1\n{seed}\n{prefix}"
    target = 2 * fractions(f"{label}target", 4 * count, "float32").reshape(count, 4) - 1
    for index, (strength, smoothness, skewness, growth) in enumerate(target):
        noise = normals(f"{label}noise {index}", side**3).reshape((side,) * 3)
        part = (1 + smoothness) / 2
        field = (1 - part) * noise + part * 4 * _smooth(noise)
        field = (1 + strength / 2) * field
        field = field + (1 + skewness) / 4 * field * field
        volume = numpy.empty((4, side, side, side), numpy.float32)
        for channel in range(4):
            volume[channel] = field * (1 + growth * channel / 4)
        yield volume, target[index].astype(numpy.float32)


def storms(samples: int, test_samples: int, height: int, width: int, seed: int) -> Arrays:
    """Return all of `draw_storms`, one after the other, and the labels of all pixels in one row."""
    import numpy

    arrays: Arrays = {}
    for prefix, count in (("", samples), (TEST, test_samples)):
        maps = numpy.empty((count, _CHANNELS, height, width), numpy.float32)
        labels = numpy.empty((count, height, width), numpy.int64)
        for index, drawn in enumerate(draw_storms(prefix, count, height, width, seed)):
            maps[index], labels[index] = drawn
        arrays |= {f"{prefix}map": maps, f"{prefix}label": labels.reshape(-1)}
    return arrays


def draw_storms(
    prefix: str, count: int, height: int, width: int, seed: int
) -> Iterator[tuple[Any, Any]]:
    """Maps of smooth noise with up to two discs and one band, each raised in channels of its own
    and lowered in others: the shape of DeepCAM's task, with nothing of its weather. About 2 % of
    the pixels are a disc's and 10 % the band's, so that most of a map is background.

    Args:
        prefix: "" for the samples to train on, `TEST` for the others.
        count: Number of samples.
        height: Height of a map.
        width: Likewise.
        seed: Seed of all random draws.

    Yields:
        map, float32 (16, height, width), and label, int64 (height, width), of the next sample.
    """
    import numpy

    label = f"capsule-storms-1\n{seed}\n{prefix}"
    row, column = numpy.arange(height)[:, None], numpy.arange(width)
    radius = max(2, min(height, width) // 10)
    drawn = words(f"{label}places", 7 * count).reshape(count, 7)
    for index, places in enumerate((drawn >> numpy.uint64(11)).tolist()):
        noise = normals(f"{label}noise {index}", _CHANNELS * height * width)
        field = noise.reshape(_CHANNELS, height, width)
        field = (field + numpy.roll(field, 1, 1) + numpy.roll(field, 1, 2)) / 2
        chosen = numpy.full((height, width), 0, numpy.int64)
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
        yield field.astype(numpy.float32), chosen


def mass_maps(samples: int, test_samples: int, side: int, seed: int) -> Arrays:
    """Return all of `draw_mass_maps`: map, float32 (samples, 1, side, side)."""
    import numpy

    arrays: Arrays = {}
    for prefix, count in (("", samples), (TEST, test_samples)):
        maps = numpy.empty((count, 1, side, side), numpy.float32)
        for index, drawn in enumerate(draw_mass_maps(prefix, count, side, seed)):
            maps[index, 0] = drawn
        arrays[f"{prefix}map"] = maps
    return arrays


def draw_mass_maps(prefix: str, count: int, side: int, seed: int) -> Iterator[Any]:
    """Smooth maps with few places far above their mean and none far below, as those of mass are in
    weak lensing, with nothing of its physics. A pixel is the sixth part of y, but at most 1, where
    y = g + (g**2 - 1) / 4 and g is a periodic random field, nearly Gaussian, of variance 1.

    The amplitude of a wave with numbers j and k in g is proportional to 1 / 4 plus the sum of 2**n
    times the product, over all m from 0 to n, of what averages over (1, 2, 1) / 4 at a distance of
    2**m pixels leave of it, (cos(2**m pi j / side) cos(2**m pi k / side))**2; n goes from 0 on as
    long as 2**n is no more than an eighth of the side. With c the correlation of g that follows,
    that of y is c + c**2 / 8.

    Args:
        prefix: "" for the samples to train on, `TEST` for the others.
        count: Number of samples.
        side: Length of a side of a map, in pixels.
        seed: Seed of all random draws.

    Yields:
        map, float32 (side, side), of the next sample.
    """
    import numpy

    point = numpy.full((side, side), 0.0)
    point[0, 0] = 1.0
    kernel = _blend(point)
    # exactly rounded, whatever the order
    deviation = math.sqrt(math.fsum((kernel * kernel).reshape(-1).tolist()))
    label = f"capsule-mass-maps-1\n{seed}\n{prefix}"
    for index in range(count):
        noise = normals(f"{label}noise", side * side, index * side * side).reshape(side, side)
        field = _blend(noise) / deviation
        field = field + (field * field - 1) / 4
        yield numpy.minimum(field / 6, 1).astype(numpy.float32)


def _blend(field: Any) -> Any:
    """Return a field with averages over wider and wider surroundings, in a ring: see
    `draw_mass_maps`.
    """
    import numpy

    total = field / 4
    for level in range(field.shape[0].bit_length() - 3):
        step = 1 << level
        for axis in (0, 1):
            around = numpy.roll(field, step, axis) + numpy.roll(field, -step, axis)
            field = (2 * field + around) / 4
        total = total + step * field
    return total


def markov(samples: int, test_samples: int, length: int, vocabulary: int, seed: int) -> Arrays:
    """Sequences in which the two tokens before say what comes: one token in 3 of 4 cases, another
    one in the rest. Nobody can foretell more than that, and who looks at one token alone less.
    """
    import numpy

    label = f"capsule-markov-1\n{seed}\n"
    size = numpy.uint64(vocabulary)
    likely, rest = (
        (words(f"{label}next", 2 * vocabulary**2) % size).astype(numpy.int64).reshape(2, -1)
    )
    arrays: Arrays = {}
    for prefix, count in (("", samples), (TEST, test_samples)):
        drawn = words(f"{label}{prefix}tokens", count * (length + 2)).reshape(length + 2, count)
        tokens = numpy.empty((length + 2, count), numpy.int64)
        tokens[:2] = drawn[:2] % size
        for place in range(2, length + 2):
            before = tokens[place - 2] * vocabulary + tokens[place - 1]
            surprise = (drawn[place] >> numpy.uint64(11)) % numpy.uint64(4) == 0
            tokens[place] = numpy.where(surprise, rest[before], likely[before])
        arrays[f"{prefix}token"] = tokens[1:-1].T.reshape(-1)
        arrays[f"{prefix}label"] = tokens[2:].T.reshape(-1)
    return arrays


def _smooth(field: Any) -> Any:
    """Return the mean of each element and its neighbours in a ring, along one axis after the
    other.
    """
    import numpy

    for axis in range(field.ndim):
        field = field + numpy.roll(field, 1, axis) + numpy.roll(field, -1, axis)
    return field / 27
