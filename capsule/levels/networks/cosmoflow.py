"""CosmoFlow (Mathuriya et al., SC 2018), as MLPerf HPC trains it from its version 1.0 on."""

from __future__ import annotations

from collections.abc import Mapping

from ..graphs.builder import Builder
from ..graphs.graph import Graph

# of Keras, which the reference is written in; torch has 1 by default
_SLOPE_PERCENT = 30
_LAST_SIDE = 4


def cosmoflow(g: Builder, sizes: Mapping[str, int]) -> Graph:
    """Return four cosmological parameters of a volume of dark matter at four redshifts.

    Volumes (batch, 4, side, side, side), halved by convolutions of 3 x 3 x 3 and pooling until 4
    are left on a side, with twice the channels each time: five of them, and 8,907,556 parameters,
    at side 128 and width 32. (Version 0.7 had windows of 2 and 5,597,604.) The result, a tanh times
    1.2, is held against the targets by the mean squared error. Dropout, of so many percent, comes
    after both hidden layers behind the convolutions: 50 in the reference, 0 with weight decay.

    Raises:
        ValueError: The side is not 4 times a power of two, or less than 8.
    """
    batch, side, channels = sizes["batch"], sizes["side"], sizes["width"]
    layers = (side // _LAST_SIDE).bit_length() - 1
    if layers < 1 or side != _LAST_SIDE << layers:
        raise ValueError(f"the side of cosmoflow is {side}, expected a power of two >= 8")
    x = g.input("volume", (batch, 4, side, side, side))
    for layer in range(layers):
        x = g.leaky_relu(g.conv3d(x, channels << layer, 3, padding=1), _SLOPE_PERCENT)
        x = g.max_pool3d(x, 2, stride=2)
    x = g.flat(x)
    for width in (128, 64):
        x = g.dropout(g.leaky_relu(g.dense(x, width), _SLOPE_PERCENT), sizes["dropout"])
    x = g.scale(g.tanh(g.dense(x, 4)), 1.2)
    target = g.input("target", (batch, 4))
    return g.graph([x], loss=g.mean_squared_error(x, target))


NETWORKS = {"cosmoflow": cosmoflow}
