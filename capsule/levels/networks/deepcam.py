"""DeepCAM (Kurth et al., SC 2018): DeepLabv3+ on a modified Xception, as MLPerf HPC trains it."""

from __future__ import annotations

from collections.abc import Mapping

from ..graphs.builder import Builder
from ..graphs.graph import Graph

CHANNELS = 16
"""Variables of the climate model, in each pixel."""

_FREQUENCIES = (0.986267818390377, 0.0004578708870701058, 0.01327431072255291)
CLASS_WEIGHTS = tuple(frequency**-0.125 for frequency in _FREQUENCIES)
"""Weights of background, tropical cyclones and atmospheric rivers, from their shares."""

_STRIDE = 16
# maps of fewer pixels a side have the smaller dilations
_WIDE = 36


def deepcam(g: Builder, sizes: Mapping[str, int]) -> Graph:
    """Return the class of each pixel of a map of 16 climate variables.

    Maps (batch, 16, height, width), both multiples of 16; logits (batch height width, 3). At its
    published size, 768 x 1152, it has 56,454,720 parameters. `divisor` divides the channels of all
    layers, rounded down to a multiple of 8 where there is one; `middle` says how many of the 16
    blocks in the middle there are. The loss is a cross entropy weighted by class, whose mean is
    taken over pixels, not over the sum of weights.

    Raises:
        ValueError: The height or the width is no multiple of 16.
    """
    batch, height, width = sizes["batch"], sizes["height"], sizes["width"]
    for name in ("height", "width"):
        if sizes[name] % _STRIDE:
            raise ValueError(
                f"{name} of deepcam is {sizes[name]}, expected a multiple of {_STRIDE}"
            )
    parts = _Parts(g, sizes["divisor"])
    x = g.input("map", (batch, CHANNELS, height, width))
    low, x = _encode(parts, x, sizes["middle"])
    classes = len(CLASS_WEIGHTS)
    logits = _decode(parts, _pyramid(parts, x), low, classes)
    rows = batch * height * width
    logits = g.view(g.transpose(logits, (0, 2, 3, 1)), (rows, classes))
    labels = g.labels("label", rows, classes)
    weights = g.parameter("class_weights", (classes,), trainable=False, value=CLASS_WEIGHTS)
    return g.graph([logits], loss=g.softmax_cross_entropy(logits, labels, weights))


class _Parts:
    """Convolutions without a bias, and what they are combined to.

    Args:
        g: Writes them.
        divisor: Divisor of all channel counts.
    """

    def __init__(self, g: Builder, divisor: int) -> None:
        self.g = g
        self._divisor = divisor

    def channels(self, published: int) -> int:
        """Return the number of channels of a layer, scaled from the published size."""
        whole = published // self._divisor
        return whole // 8 * 8 or whole or 1

    def conv(
        self,
        x: str,
        channels: int,
        window: int,
        stride: int = 1,
        dilation: int = 1,
        groups: int = 1,
    ) -> str:
        """Return a convolution that keeps the size but for the stride."""
        # as in residual networks, normalization by the batch undoes any gain
        return self.g.conv2d(
            x,
            channels,
            window,
            stride=stride,
            padding=dilation * (window // 2),
            dilation=dilation,
            groups=groups,
            bias=False,
            gain=1,
        )

    def separable(self, x: str, channels: int, stride: int = 1, dilation: int = 1) -> str:
        """Return one 3 x 3 kernel for each channel, then 1 x 1 over all; nothing between."""
        before = self.g.shape(x)[1]
        return self.conv(self.conv(x, before, 3, stride, dilation, groups=before), channels, 1)

    def norm(self, x: str) -> str:
        """Return the values normalized by the batch, of which the positive ones stay."""
        return self.g.relu(self.g.batch_norm(x))

    def up(self, x: str, channels: int) -> str:
        """Return a transposed convolution to twice the height and width."""
        return self.g.conv_transpose2d(
            x, channels, 3, stride=2, padding=1, output_padding=1, bias=False
        )


def _encode(parts: _Parts, x: str, middle: int) -> tuple[str, str]:
    """Return the outputs of the first block and of the last layer, at a sixteenth of the size."""
    g, channels = parts.g, parts.channels
    x = parts.norm(parts.conv(x, channels(32), 3, stride=2))
    x = parts.norm(parts.conv(x, channels(64), 3))
    low = x = _block(parts, x, (channels(128),) * 2, stride=2)
    for width in (256, 728):
        x = g.relu(_block(parts, x, (channels(width),) * 2, stride=2))
    for _ in range(middle):
        x = g.relu(_middle(parts, x))
    x = _block(parts, x, (channels(728), channels(1024)), stride=1)
    for width in (1536, 1536, 2048):
        x = parts.norm(parts.separable(x, channels(width), dilation=2))
    return low, x


def _block(parts: _Parts, x: str, widths: tuple[int, int], stride: int) -> str:
    """Return two separable convolutions and a third that may stride, beside a projection."""
    g = parts.g
    first, last = widths
    y = parts.norm(parts.separable(x, first))
    y = g.batch_norm(parts.separable(y, last))
    y = parts.separable(y, last, stride)
    return g.sum(y, g.batch_norm(parts.conv(x, last, 1, stride)))


def _middle(parts: _Parts, x: str) -> str:
    """Apply three separable convolutions beside the identity."""
    width = parts.g.shape(x)[1]
    y = parts.norm(parts.separable(x, width))
    y = parts.norm(parts.separable(y, width))
    return parts.g.sum(parts.g.batch_norm(parts.separable(y, width)), x)


def _pyramid(parts: _Parts, x: str) -> str:
    """Atrous spatial pyramid pooling: what is near, far, farther, and the mean over all."""
    g, width = parts.g, parts.channels(256)
    batch, _, *spatial = g.shape(x)
    dilations = (6, 12, 18) if min(spatial) >= _WIDE else (2, 3, 4)
    levels = [parts.norm(parts.conv(x, width, 1))]
    levels += [parts.norm(parts.conv(x, width, 3, dilation=far)) for far in dilations]
    mean = parts.conv(g.global_average_pool(x), width, 1)
    # a trained factor and summand for each channel, where a batch of one has no variance
    mean = g.relu(g.conv2d(mean, width, 1, groups=width, gain=1))
    levels.append(g.expand(mean, (batch, width, *spatial)))
    return parts.norm(parts.conv(g.concat(levels, 1), width, 1))


def _decode(parts: _Parts, x: str, low: str, classes: int) -> str:
    """Return logits of each pixel, in images."""
    g, width = parts.g, parts.channels(256)
    for _ in range(2):
        x = parts.norm(parts.up(x, width))
    x = g.concat((x, parts.norm(parts.conv(low, parts.channels(48), 1))), 1)
    for _ in range(2):
        x = parts.norm(parts.conv(x, width, 3))
    x = parts.norm(parts.up(g.conv2d(x, width, 1, gain=1), width))
    return parts.up(x, classes)


NETWORKS = {"deepcam": deepcam}
