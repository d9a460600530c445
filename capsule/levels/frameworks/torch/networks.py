"""Networks in torch: a straight line of its own functions, traced once from the graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Callable

import torch
from torch import fx
from torch.nn import functional

from ...graphs.graph import Graph, Node
from ..base import Call, FrameworkError
from . import operators

Sizes = Mapping[str, Any]
Compile = Callable[[Callable[..., Any]], Callable[..., Any]]


def inference(graph: Graph, values: Mapping[str, Any], compiled: Compile | None = None) -> Call:
    """The outputs as a tuple.

    A value is released once no later node reads it.

    Args:
        graph: The network.
        values: Tensors of all inputs and parameters by name.
        compiled: Makes a faster function of the whole one; None runs it as it is.
    """
    function, arguments = _traced(graph, graph.inference, graph.outputs, values)
    return (compiled(function) if compiled else function), arguments


def training(graph: Graph, values: Mapping[str, Any], compiled: Compile | None = None) -> Call:
    """The loss and, by `torch.autograd.grad`, the gradients; zeros where the loss reads no such
    parameter. `compiled` as for `inference`.
    """
    leaves = {name: values[name].detach().requires_grad_() for name in graph.trained}
    nodes = graph.training
    function, arguments = _traced(graph, nodes, (graph.loss,), {**values, **leaves})
    forward = compiled(function) if compiled else function
    by = tuple(leaves.values())
    # costs microseconds, so only where it is needed
    unread = not set(leaves) <= {name for node in nodes for name in node.inputs}

    def step(*tensors: Any) -> tuple[Any, ...]:
        (loss,) = forward(*tensors)
        return (loss.detach(), *torch.autograd.grad(loss, by, materialize_grads=unread))

    return (step if by else forward), arguments


def _traced(
    graph: Graph, nodes: tuple[Node, ...], outputs: Iterable[Any], values: Mapping[str, Any]
) -> Call:
    """One Python function with a line per call of torch, and the tensors that it takes.

    Running such a line costs tens of nanoseconds less than a loop over nodes does, and the compiler
    can read it.
    """
    read = {name for node in nodes for name in node.inputs} | set(outputs)
    given = [name for name in (*graph.inputs, *graph.parameters) if name in read]
    recorded = fx.Graph()
    tracer = fx.proxy.GraphAppendingTracer(recorded)
    found: dict[str, Any] = {
        name: fx.Proxy(recorded.placeholder(f"given_{place}"), tracer)
        for place, name in enumerate(given)
    }
    for node in nodes:
        if node.operator not in OPERATIONS:
            raise FrameworkError(f"torch has no operator {node.operator} for {node.name}")
        function, arguments = OPERATIONS[node.operator](
            node.sizes, *(found[name] for name in node.inputs)
        )
        found[node.name] = function(*arguments)
    recorded.output(tuple(found[name].node for name in outputs))
    return fx.GraphModule({}, recorded).forward, tuple(values[name] for name in given)


def _gemm(sizes: Sizes, a: Any, b: Any, bias: Any = None) -> Call:
    if sizes["tb"] and not sizes["ta"]:
        return functional.linear, (a, b, bias)
    return operators.OPERATIONS["gemm"](sizes, a, b, bias)


def _view(sizes: Sizes, x: Any) -> Call:
    return torch.reshape, (x, tuple(sizes["shape"]))


def _transpose(sizes: Sizes, x: Any) -> Call:
    return torch.permute, (x, tuple(sizes["axes"]))


def _concat(sizes: Sizes, *tensors: Any) -> Call:
    return torch.cat, (tensors, sizes["axis"])


OPERATIONS: dict[str, Callable[..., Call]] = {
    **operators.OPERATIONS,
    "gemm": _gemm,
    "view": _view,
    "transpose": _transpose,
    "concat": _concat,
}
