"""U-Net (Ronneberger, Fischer and Brox, MICCAI 2015)."""

from __future__ import annotations

from collections.abc import Mapping

from ..graphs.builder import Builder
from ..graphs.graph import Graph

DEPTH = 4


def unet(g: Builder, sizes: Mapping[str, int]) -> Graph:
    """Build a network four times down and up: a class for each pixel of images (batch, 1, side,
    side).

    As the paper's, with `width` channels at the top (64 there), but convolutions are padded, so
    that nothing is cropped and the result has the size of the image; a side is a multiple of 16.
    31,030,658 parameters at width 64 with 2 classes. Dropout is off.

    Raises:
        ValueError: The side is no multiple of 16.
    """
    batch, side, width, classes = (sizes[name] for name in ("batch", "side", "width", "classes"))
    if side % 2**DEPTH:
        raise ValueError(f"the side of unet is {side}, expected a multiple of {2**DEPTH}")
    x = _convolve_twice(g, g.input("image", (batch, 1, side, side)), width)
    skipped = []
    for level in range(DEPTH):
        skipped.append(x)
        x = _convolve_twice(g, g.max_pool2d(x, 2, stride=2), width * 2 ** (level + 1))
    for level in reversed(range(DEPTH)):
        up = g.conv_transpose2d(x, width * 2**level, 2, stride=2)
        x = _convolve_twice(g, g.concat([skipped.pop(), up], axis=1), width * 2**level)
    logits = g.conv2d(x, classes, 1)
    pixels = g.view(g.transpose(logits, (0, 2, 3, 1)), (batch * side * side, classes))
    labels = g.labels("label", batch * side * side, classes)
    return g.graph([logits], loss=g.softmax_cross_entropy(pixels, labels))


def _convolve_twice(g: Builder, x: str, channels: int) -> str:
    for _ in range(2):
        x = g.relu(g.conv2d(x, channels, 3, padding=1))
    return x


NETWORKS = {"unet": unet}
