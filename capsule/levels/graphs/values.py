"""Inputs and weights of a network: the same on every machine and for every framework."""

from __future__ import annotations

from math import frexp, prod
from typing import Any

from ..operators import ARITHMETIC, round_to
from ..streams import normals, spread, words
from .graph import Graph, Parameter


def inputs(graph: Graph, dtype: str, seed: int) -> dict[str, Any]:
    """Return the inputs of one call.

    Args:
        graph: The network.
        dtype: A key of `ARITHMETIC`.
        seed: The trial's seed.

    Returns:
        C-ordered numpy arrays by name: whole numbers spread evenly, int64; reals spread evenly over
        (-2, 2), in `ARITHMETIC[dtype].stored` with values that the dtype holds exactly; masks and
        what is latent those of a training's first step.
    """
    arithmetic = ARITHMETIC[dtype]
    arrays = noise(graph, seed, 0)
    for name, tensor in graph.inputs.items():
        if name in arrays:
            arrays[name] = round_to(arrays[name], dtype)
            continue
        label = _label("input", graph, name, tensor.shape, dtype, seed)
        if tensor.below is None:
            array = spread(label, prod(tensor.shape), arithmetic.bits) * 4 - 2
            arrays[name] = array.astype(arithmetic.stored).reshape(tensor.shape)
        else:
            array = (words(label, prod(tensor.shape)) >> 11) % tensor.below
            arrays[name] = array.astype("int64").reshape(tensor.shape)
    return arrays


def noise(graph: Graph, seed: int, step: int) -> dict[str, Any]:
    """Return a step's random inputs by name, as functions of seed, step, name and shape.

    So it is the same in every framework. An element of a mask of dropout is 0 where 16 bits of its
    own are below `percent` parts in a hundred of 2**16. What is latent is `streams.normals`.

    Args:
        graph: The network.
        seed: The trial's seed.
        step: Number of the step in the training, from 0.

    Returns:
        float32 arrays.
    """
    import numpy

    arrays = _latents(graph, f"{step}\n{seed}", 0)
    for name, mask in graph.noise.items():
        if mask.percent is None:
            continue
        count = prod(mask.shape)
        # the stream of 64-bit words as 16-bit ones, least significant first on any machine
        drawn = words(f"capsule-dropout-1\n{name}\n{step}\n{seed}\n", -(-count // 4))
        kept = drawn.astype("<u8").view("<u2")[:count] >= mask.percent * 2**16 // 100
        arrays[name] = kept.astype(numpy.float32).reshape(mask.shape)
    return arrays


def evaluation_noise(graph: Graph, seed: int, first: int) -> dict[str, Any]:
    """Return the random inputs of an evaluation, equal in every epoch and for any batch size.

    Args:
        graph: The network, for a batch.
        seed: The trial's seed.
        first: Number of the batch's first sample, from 0.

    Returns:
        float32 arrays by name; no masks, as nothing drops out.
    """
    return _latents(graph, f"evaluation\n{seed}", first)


def _latents(graph: Graph, stream: str, first: int) -> dict[str, Any]:
    arrays = {}
    for name, one in graph.noise.items():
        if one.is_latent:
            start = first * prod(one.shape[1:])
            drawn = normals(f"capsule-latent-1\n{name}\n{stream}\n", prod(one.shape), start)
            arrays[name] = drawn.astype("float32").reshape(one.shape)
    return arrays


def parameters(graph: Graph, dtype: str, seed: int) -> dict[str, Any]:
    """Return weights and constants by name, in `ARITHMETIC[dtype].stored`.

    Those that the network brings are rounded to the dtype. Uniform ones are whole multiples of a
    power of two between -`bound` and `bound`, which the dtype holds exactly.
    """
    return {
        name: _draw(
            parameter, _label("parameter", graph, name, parameter.shape, dtype, seed), dtype
        )
        for name, parameter in graph.parameters.items()
    }


_NORMALIZING = ("batch_norm", "batch_norm_inference", "layer_norm", "group_norm")

_RANGES = (0.5, -0.5, -0.5, 1.0)
"""First positions of weight, bias, mean and variance of a normalization."""


def varied_parameters(graph: Graph, dtype: str, seed: int) -> dict[str, Any]:
    """`parameters` with no trivial ones in what normalizes, where leaving any out shows.

    Weights there are spread evenly over (1/2, 3/2), biases and kept means over (-1/2, 1/2), kept
    variances over (1, 2); those that the network brings stay.
    """
    arithmetic, arrays = ARITHMETIC[dtype], parameters(graph, dtype, seed)
    for node in graph.nodes:
        if node.operator not in _NORMALIZING:
            continue
        for name, low in zip(node.inputs[1:], _RANGES):
            parameter = graph.parameters.get(name)
            if parameter is None or parameter.value is not None:
                continue
            label = _label("varied", graph, name, parameter.shape, dtype, seed)
            drawn = spread(label, prod(parameter.shape), arithmetic.bits - 1) + low
            arrays[name] = drawn.astype(arithmetic.stored).reshape(parameter.shape)
    return arrays


def _draw(parameter: Parameter, label: str, dtype: str) -> Any:
    import numpy

    arithmetic = ARITHMETIC[dtype]
    if parameter.value is not None:
        return round_to(numpy.asarray(parameter.value), dtype).reshape(parameter.shape)
    if parameter.initial != "uniform" or not parameter.bound:
        filled = float(parameter.initial == "ones")
        return numpy.full(parameter.shape, filled, arithmetic.stored)
    significand, exponent = frexp(parameter.bound)
    most = int(significand * 2**arithmetic.bits)
    drawn = (words(label, prod(parameter.shape)) % (2 * most + 1)).astype("int64") - most
    array = drawn.astype("float64") * 2.0 ** (exponent - arithmetic.bits)
    return array.astype(arithmetic.stored).reshape(parameter.shape)


def _label(
    kind: str, graph: Graph, name: str, shape: tuple[int, ...], dtype: str, seed: int
) -> str:
    return f"capsule-{kind}-1\n{graph.name}\n{name}\n{shape}\n{dtype}\n{seed}\n"
