"""CosmoGAN (Mustafa et al., Comput. Astrophys. 6, 2019, arXiv:1706.02390): a DCGAN of mass maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt

from ..graphs.builder import Builder
from ..graphs.graph import Graph

_WINDOW = 5
_SLOPE_PERCENT = 20
_DEVIATION = 0.02
"""Standard deviation of initial weights (Radford, Metz and Chintala, ICLR 2016)."""


def cosmogan(g: Builder, sizes: Mapping[str, int]) -> Graph:
    """Return mass maps of weak lensing out of noise, by a network that another one tells from real
    maps.

    The generator makes maps (batch, 1, side, side) in (-1, 1) of vectors (batch, latent): a linear
    layer, and transposed convolutions that double the side and halve the channels; each is
    normalized by batch and followed by a relu, the last by a tanh alone. The discriminator has
    convolutions that halve the side and double the channels from `width` on, normalized but for the
    first, with leaky relus of slope 0.2, and a linear layer. Windows are 5 x 5, strides 2. At side
    256, width 64 and four layers the generator has 12,692,929 parameters, the discriminator
    4,435,329.

    The loss is that of the discriminator, which has to say 1 of real maps and 0 of generated ones,
    plus that of the generator, of whose maps it has to say 1. Each network's parameters get the
    gradient of their own loss alone, and both are moved in one step, as in the authors' program:
    whatever works element by element works as two optimizers do. The discriminator normalizes real
    and generated maps apart, and keeps statistics of both; nothing in it but the loss that an
    evaluation reports depends on them. No bias stands before a normalization, which would take it
    away, and labels are never flipped.

    Raises:
        ValueError: The side cannot be halved so many times.
    """
    batch, side, layers = sizes["batch"], sizes["side"], sizes["layers"]
    if side % (1 << layers):
        raise ValueError(f"the side of cosmogan is {side}, expected a multiple of {2**layers}")
    real = g.input("map", (batch, 1, side, side))
    made = _generate(g, g.latent("latent", (batch, sizes["latent"])), sizes)
    discriminator = _Discriminator(g, sizes)
    one, zero = (
        g.expand(g.parameter(name, (1, 1), name, trainable=False), (batch, 1))
        for name in ("ones", "zeros")
    )
    shown = (real, one, True), (g.detach(made), zero, True), (made, one, False)
    losses = [
        g.sigmoid_cross_entropy(discriminator.judge(maps, learns=learns), due)
        for maps, due, learns in shown
    ]
    return g.graph([made], loss=g.sum(*losses))


def _generate(g: Builder, x: str, sizes: Mapping[str, int]) -> str:
    layers, batch = sizes["layers"], sizes["batch"]
    side, channels = sizes["side"] >> layers, sizes["width"] << (layers - 1)
    weight = _weight(g, "generator.weight0", (channels * side * side, sizes["latent"]))
    x = g.linear(x, channels * side * side, bias=False, weight=weight)
    x = g.view(x, (batch, channels, side, side))
    for layer in range(1, layers + 1):
        x = g.relu(g.batch_norm(x))
        after = channels // 2 if layer < layers else 1
        weight = _weight(g, f"generator.weight{layer}", (channels, after, _WINDOW, _WINDOW))
        bias = [g.parameter("generator.bias", (1,))] if layer == layers else []
        how = {"stride": 2, "padding": _WINDOW // 2, "output_padding": 1, "bias": len(bias)}
        shape = dict(zip("nchw", g.shape(x)))
        x = g.node(
            "conv_transpose2d",
            [x, weight, *bias],
            {**shape, "k": after, "r": _WINDOW, "s": _WINDOW, **how},
        )
        channels = after
    return g.tanh(x)


class _Discriminator:
    """One set of parameters, for several maps."""

    def __init__(self, g: Builder, sizes: Mapping[str, int]) -> None:
        self._g = g
        self._layers, before = list[tuple[str, ...]](), 1
        for layer in range(sizes["layers"]):
            channels = sizes["width"] << layer
            name = f"discriminator{layer}"
            weight = _weight(g, f"{name}.weight", (channels, before, _WINDOW, _WINDOW))
            scale = [g.parameter(f"{name}.scale", (channels,), "ones")] if layer else []
            self._layers.append((weight, *scale, g.parameter(f"{name}.bias", (channels,))))
            before = channels
        rest = before * (sizes["side"] >> sizes["layers"]) ** 2
        last = _weight(g, "discriminator.weight", (1, rest))
        self._last = last, g.parameter("discriminator.bias", (1,))

    def judge(self, x: str, *, learns: bool) -> str:
        """Return logits (batch, 1) of maps being real.

        Args:
            x: The maps.
            learns: True if the gradient reaches these parameters, and not the maps alone.
        """
        g = self._g

        def take(names: tuple[str, ...]) -> list[str]:
            return list(names) if learns else [g.detach(name) for name in names]

        for names in self._layers:
            weight, *affine = take(names)
            # the first layer has a bias, and the others normalize
            bias = affine if len(affine) == 1 else []
            x = self._halve(x, weight, bias)
            if not bias:
                x = g.batch_norm(x, (affine[0], affine[1]))
            x = g.leaky_relu(x, _SLOPE_PERCENT)
        x = g.flat(x)
        rows, k = g.shape(x)
        sizes = {"m": rows, "n": 1, "k": k, "tb": 1, "bias": 1}
        return g.node("gemm", [x, *take(self._last)], sizes)

    def _halve(self, x: str, weight: str, bias: Sequence[str]) -> str:
        g = self._g
        how = {"stride": 2, "padding": _WINDOW // 2, "bias": len(bias)}
        window = {"k": g.shape(weight)[0], "r": _WINDOW, "s": _WINDOW}
        sizes = {**dict(zip("nchw", g.shape(x))), **window, **how}
        return g.node("conv2d", [x, weight, *bias], sizes)


def _weight(g: Builder, name: str, shape: tuple[int, ...]) -> str:
    return g.parameter(name, shape, "uniform", sqrt(3) * _DEVIATION)


NETWORKS = {"cosmogan": cosmogan}
