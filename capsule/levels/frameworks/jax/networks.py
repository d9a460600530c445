"""Networks in JAX: one function for the whole of each, which XLA compiles."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

import jax
from jax import lax
from jax import numpy as jnp

from ...graphs.graph import Graph, Node
from ..base import Call, FrameworkError, NativeTensor
from .operations import Chooser, Function, always, compile_for
from .operators import OPERATIONS as LEVEL0

Values = Mapping[str, NativeTensor]


class JaxNetworks:
    """Functions of JAX one after the other, gradients by `jax.value_and_grad`."""

    trainer = None
    module = None
    inferring = None
    backward = None
    mixed_trainer = None

    def __init__(self) -> None:
        # by the identity of a graph: parts of a minibatch share what is compiled for their size
        self._functions: dict[Any, Function] = {}

    def inference(self, graph: Graph, values: Values) -> Call:
        """Return the outputs.

        Raises:
            FrameworkError: JAX lacks an operator of the network.
        """
        key = id(graph), "inference"
        if key not in self._functions:
            self._keep(graph, key, _chain(graph.inference, graph.outputs))
        operands: Any = ({}, _pick(values, graph, graph.inference, graph.outputs))
        return compile_for(self._functions[key], operands), operands

    def alone(self, graph: Graph, values: Values) -> Call:
        """Run one node as in a network."""
        return self.inference(graph, values)

    def training(self, graph: Graph, values: Values) -> Call:
        """Return the loss and its gradients.

        Raises:
            FrameworkError: See `inference`.
            ValueError: The network has no loss.
        """
        key, loss = (id(graph), "training"), graph.require_loss()
        if key not in self._functions:
            self._keep(graph, key, _differentiate(_chain(graph.training, (loss,))))
        constants = _pick(values, graph, graph.training, (loss,))
        leaves = {name: values[name] for name in graph.trainable}
        operands = leaves, {name: one for name, one in constants.items() if name not in leaves}
        function = compile_for(self._functions[key], operands)

        def step(*operands: Any) -> tuple[NativeTensor, ...]:
            lowered, gradients = function(*operands)
            return (lowered, *(gradients[name] for name in leaves))

        return step, operands

    def _keep(self, graph: Graph, key: Any, function: Function) -> None:
        self._functions[key] = jax.jit(function)
        weakref.finalize(graph, self._functions.pop, key)


def _chain(nodes: tuple[Node, ...], results: tuple[str, ...]) -> Function:
    """Return a function of two mappings by name, of what is trained and of the rest."""
    steps = [(_choose(node), node.inputs, node.name) for node in nodes]

    def run(leaves: Values, constants: Values) -> tuple[NativeTensor, ...]:
        held = {**constants, **leaves}
        for function, inputs, name in steps:
            held[name] = function(*(held[one] for one in inputs))
        return tuple(held[name] for name in results)

    return run


def _differentiate(chain: Function) -> Function:
    """Return the loss, and its gradients by name: zeros by what it does not read."""

    def lower(leaves: Values, constants: Values) -> NativeTensor:
        return chain(leaves, constants)[0]

    step: Function = jax.value_and_grad(lower)
    return step


def _choose(node: Node) -> Function:
    if node.operator not in OPERATIONS:
        raise FrameworkError(f"jax has no operator {node.operation} for {node.name}")
    return OPERATIONS[node.operator](node.sizes)


def _pick(
    values: Values, graph: Graph, nodes: tuple[Node, ...], results: tuple[str, ...]
) -> dict[str, NativeTensor]:
    """Return the inputs and parameters that are read."""
    read = {*results, *(name for node in nodes for name in node.inputs)}
    return {name: values[name] for name in (*graph.inputs, *graph.parameters) if name in read}


OPERATIONS: dict[str, Chooser] = {
    **LEVEL0,
    "view": lambda sizes: lambda x: x.reshape(tuple(sizes["shape"])),
    "transpose": lambda sizes: lambda x: x.transpose(tuple(sizes["axes"])),
    "concat": lambda sizes: lambda *parts: jnp.concatenate(parts, sizes["axis"]),
    "expand": lambda sizes: lambda x: jnp.broadcast_to(x, tuple(sizes["shape"])),
    "scale": lambda sizes: lambda x: x * sizes["factor"],
    "detach": always(lax.stop_gradient),
}
