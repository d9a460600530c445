"""Networks in torch: a straight line of its own functions, traced once from the graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

import torch
from torch import fx
from torch.nn import functional

from ...catalog.training import Numbers
from ...graphs import structure
from ...graphs.graph import Graph, Node
from ...graphs.statistics import SHARE, Kept
from ...operators.normalization import EPSILON
from ..base import Call, FrameworkError, InferringModule, ModuleTrainer, NativeTensor, Trainer
from . import operators

if TYPE_CHECKING:
    from ...optimizers import Chosen

Sizes = Mapping[str, Any]
Values = Mapping[str, NativeTensor]
Compile = Callable[..., Callable[..., Any]]
"""Makes a faster function of one; its keyword `mode` is one of `torch.compile`."""


class TorchNetworks:
    """torch's own functions one after the other, gradients by `torch.autograd.grad`."""

    def inference(self, graph: Graph, values: Values) -> Call:
        """See `make_inference`."""
        return make_inference(graph, values)

    def alone(self, graph: Graph, values: Values) -> Call:
        """Run one node as in a network."""
        return make_inference(graph, values)

    def backward(self, graph: Graph, values: Values, upstream: NativeTensor) -> Call:
        """`torch.autograd.grad` over the graph of one forward run."""
        leaves = {name: values[name].detach().requires_grad_() for name in graph.trainable}
        function, taken = trace(graph, graph.inference, graph.outputs)
        results = function(*_pick({**values, **leaves}, taken))
        by = tuple(leaves.values())

        def run() -> tuple[NativeTensor, ...]:
            gradients: tuple[NativeTensor, ...] = torch.autograd.grad(
                results, by, upstream, retain_graph=True
            )
            return gradients

        return run, ()

    def training(self, graph: Graph, values: Values) -> Call:
        """See `make_training`."""
        return make_training(graph, values)

    def trainer(self, graph: Graph, values: Values, optimizer: Chosen, numbers: Numbers) -> Trainer:
        """Return the optimizers of torch."""
        from .training import TorchTrainer

        return TorchTrainer(graph, values, optimizer, numbers)

    def mixed_trainer(
        self, graph: Graph, values: Values, optimizer: Chosen, numbers: Numbers
    ) -> Trainer:
        """Return the same with `torch.autocast` around each forward pass."""
        from .training import TorchTrainer

        return TorchTrainer(graph, values, optimizer, numbers, mixed=True)

    def module(
        self, source: Path, seed: int, like: NativeTensor, optimizer: Chosen, numbers: Numbers
    ) -> ModuleTrainer:
        """Return the module as its file makes it."""
        from . import modules

        return modules.ModuleTrainer(source, seed, like, optimizer, numbers)

    def inferring(self, source: Path, seed: int, like: NativeTensor) -> InferringModule:
        """Return the module as its file makes it, in the mode of evaluation."""
        from . import inference

        return inference.InferringModule(source, seed, like)


def make_inference(graph: Graph, values: Values, compiler: Compile | None = None) -> Call:
    """Return the outputs as a tuple.

    A value is released once no later node reads it.

    Args:
        graph: The network.
        values: Tensors of all inputs and parameters by name.
        compiler: Makes a faster function of the whole one; None runs it as it is.
    """
    function, taken = trace(graph, graph.inference, graph.outputs)
    return (compiler(function) if compiler else function), _pick(values, taken)


def make_training(graph: Graph, values: Values, compiler: Compile | None = None) -> Call:
    """Return the loss and, by `torch.autograd.grad`, the gradients; zeros for parameters that the
    loss does not read. `compiler` as for `make_inference`.
    """
    leaves = {name: values[name].detach().requires_grad_() for name in graph.trainable}
    nodes, loss = graph.training, graph.require_loss()
    function, taken = trace(graph, nodes, (loss,))
    operands = _pick({**values, **leaves}, taken)
    forward = compiler(function) if compiler else function
    by = tuple(leaves.values())
    # costs microseconds, so only where it is needed
    unread = not set(leaves) <= {name for node in nodes for name in node.inputs}

    def step(*tensors: NativeTensor) -> tuple[NativeTensor, ...]:
        (lowered,) = forward(*tensors)
        return (lowered.detach(), *torch.autograd.grad(lowered, by, materialize_grads=unread))

    return (step if by else forward), operands


def trace(
    graph: Graph,
    nodes: tuple[Node, ...],
    outputs: tuple[str, ...],
    kept: Iterable[Kept] = (),
    operations: Mapping[str, Callable[..., Call]] | None = None,
) -> tuple[Callable[..., Any], list[str]]:
    """Return one Python function with a line per call of torch, and the names of what it takes.

    Running such a line costs tens of nanoseconds less than a loop over nodes does, and the compiler
    can read it. The tensors of statistics in `kept` are changed by each call; `operations` are of
    operators that are not in `OPERATIONS`.
    """
    known = {**OPERATIONS, **(operations or {})}
    moved = {one.node: one.names for one in kept}
    read = {name for node in nodes for name in (*node.inputs, *moved.get(node.name, ()))}
    read |= set(outputs)
    taken = [name for name in (*graph.inputs, *graph.parameters) if name in read]
    recorded = fx.Graph()
    tracer = fx.proxy.GraphAppendingTracer(recorded)
    proxies: dict[str, Any] = {
        name: fx.Proxy(recorded.placeholder(f"tensor_{place}"), tracer)
        for place, name in enumerate(taken)
    }
    calls: dict[tuple[Any, ...], Any] = {}
    for node in nodes:
        if node.operator == structure.ONNX:
            proxies[node.name] = _onnx(node, proxies, tracer, calls)
            continue
        if node.operator not in known:
            raise FrameworkError(f"torch has no operator {node.operation} for {node.name}")
        function, operands = known[node.operator](
            node.sizes, *(proxies[name] for name in node.inputs)
        )
        if node.name in moved:
            x, w, b = (proxies[name] for name in node.inputs)
            statistics = (proxies[name] for name in moved[node.name])
            operands = (x, *statistics, w, b, True, SHARE, EPSILON)
        proxies[node.name] = function(*operands)
    recorded.output(tuple(proxies[name].node for name in outputs))
    return fx.GraphModule({}, recorded).forward, taken


def _onnx(
    node: Node, proxies: Mapping[str, Any], tracer: Any, calls: dict[tuple[Any, ...], Any]
) -> Any:
    """Return a result of a node that is ONNX's own; those of one node share its call."""
    key = node.sizes["model"], node.inputs
    if key not in calls:
        from . import nodes

        operands = tuple(proxies[name] for name in node.inputs)
        calls[key] = tracer.create_proxy("call_function", nodes.make(node), operands, {})
    return calls[key][node.sizes["output"]]


def _pick(values: Values, names: Iterable[str]) -> tuple[NativeTensor, ...]:
    return tuple(values[name] for name in names)


def _gemm(sizes: Sizes, a: Any, b: Any, bias: Any = None) -> Call:
    if sizes["tb"] and not sizes["ta"]:
        return functional.linear, (a, b, bias)
    return operators.OPERATIONS["gemm"](sizes, a, b, bias)


def _softmax_cross_entropy(sizes: Sizes, *tensors: Any) -> Call:  # noqa: ARG001
    def run(*tensors: Any) -> Any:
        first = tensors[0]
        if isinstance(first, fx.Proxy):
            return first.tracer.create_proxy("call_function", _wide_loss, tensors, {})
        return _wide_loss(*tensors)

    return run, tensors


def _wide_loss(x: Any, labels: Any, *weights: Any) -> Any:
    """Compute the loss in float32 for 16-bit elements, as `torch.autocast` does.

    In 16 bits torch rounds too early and loses what is left of likely classes: see
    docs/evidence/operator-faults.md.
    """
    dtype = x.dtype
    wide = dtype in (torch.bfloat16, torch.float16)
    if wide and not torch.is_autocast_enabled(x.device.type):
        x, weights = x.float(), tuple(one.float() for one in weights)
    function, operands = operators.OPERATIONS["softmax_cross_entropy"]({}, x, labels, *weights)
    loss = function(*operands)
    return loss if x.dtype == dtype else loss.to(dtype)


def _view(sizes: Sizes, x: Any) -> Call:
    return torch.reshape, (x, tuple(sizes["shape"]))


def _transpose(sizes: Sizes, x: Any) -> Call:
    return torch.permute, (x, tuple(sizes["axes"]))


def _concat(sizes: Sizes, *tensors: Any) -> Call:
    return torch.cat, (tensors, sizes["axis"])


def _expand(sizes: Sizes, x: Any) -> Call:
    return torch.broadcast_to, (x, tuple(sizes["shape"]))


def _scale(sizes: Sizes, x: Any) -> Call:
    return torch.mul, (x, sizes["factor"])


def _detach(sizes: Sizes, x: Any) -> Call:  # noqa: ARG001
    return torch.detach, (x,)


OPERATIONS: dict[str, Callable[..., Call]] = {
    **operators.OPERATIONS,
    "gemm": _gemm,
    "softmax_cross_entropy": _softmax_cross_entropy,
    "view": _view,
    "transpose": _transpose,
    "concat": _concat,
    "expand": _expand,
    "scale": _scale,
    "detach": _detach,
}
