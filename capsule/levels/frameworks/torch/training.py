"""Training in torch: its own optimizers over the parameters of a graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Callable

import torch

from ...catalog.training import COMPILE_MODES, Numbers, Tuning
from ...graphs import passes, statistics
from ...graphs.graph import Graph
from ...optimizers import FORMULAS, Chosen, Step, gather, slots
from ..base import Call, Holder, NativeTensor, require_shape
from .networks import Compile, trace
from .user import UserTorchOptimizer

Values = Mapping[str, NativeTensor]

_KEPT = "optimizer/"
"""Prefix of a state's names that belong to the optimizer."""

_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}
"""Layouts with the channels last, by the number of axes."""


class TorchTrainer:
    """See `base.StartTraining`."""

    def __init__(
        self,
        graph: Graph,
        values: Values,
        optimizer: Chosen,
        numbers: Numbers,
        compiler: Compile | None = None,
        *,
        mixed: bool = False,
    ) -> None:
        device = next(iter(values.values())).device.type
        self._casts = torch.autocast(device, torch.bfloat16, enabled=mixed)
        self._mixed = mixed
        self._graph = graph
        self._leaves = {
            name: values[name].detach().clone().requires_grad_() for name in graph.trainable
        }
        kept = statistics.find(graph)
        self._statistics = {name: values[name].clone() for one in kept for name in one.names}
        self._values = {**values, **self._leaves, **self._statistics}
        self._compiler = compiler
        self._change: Callable[[Graph], Graph] = lambda graph: graph
        self._operations: Mapping[str, Callable[..., Call]] = {}
        self._forward, self._taken = self._trace_training()
        self._start: Callable[..., Any] = partial(start, optimizer, numbers=numbers)
        self._optimizer = self._start(self._leaves.values())
        self._lay: Callable[[Values], Values] = lambda inputs: inputs
        self._begin: Callable[[], None] = lambda: None
        self._is_recorded = False
        self._holder: Holder | None = None
        self._exchange: Callable[[Values], None] = lambda _: None
        self._differentiate: Callable[[Values], NativeTensor] = self._add_up
        # by the identity of a graph, which is kept so that no other one gets it
        self._evaluations: dict[int, tuple[Graph, Callable[..., Any], list[str]]] = {}

    def tune(self, tuning: Tuning) -> None:
        """See `base.Tunable`."""
        if tuning.channels_last:
            put_channels_last(self._leaves.values())
            self._lay = lay_channels_last
        # what an optimizer keeps lies in memory as the parameters do
        self._start = partial(self._start, fused=tuning.fused)
        self._optimizer = self._start(self._leaves.values())
        if tuning.compile_mode:
            assert self._compiler is not None, "only a compiled trainer has a mode"
            self._compiler = partial(self._compiler, mode=tuning.compile_mode)
            if COMPILE_MODES[tuning.compile_mode]:
                self._begin = keep_addresses((*self._leaves.values(), *self._statistics.values()))
            self._forward, self._taken = self._trace_training()
        if tuning.cuda_graphs:
            self._forward, self._is_recorded = self._record(), True

    def _record(self) -> Callable[..., Any]:
        """Return the forward pass as a CUDA graph, with a graph of its backward pass.

        The graphs are recorded here, before any thread pins memory, which a recording forbids.
        """
        like = next(iter(self._leaves.values())).detach()
        zeros = {
            name: like.new_zeros(one.shape, dtype=None if one.below is None else torch.int64)
            for name, one in self._graph.inputs.items()
        }
        values = {**self._values, **self._lay(zeros)}
        before = [one.clone() for one in self._statistics.values()]
        # casts that are kept would be those of the recording for good
        with torch.autocast(
            like.device.type, torch.bfloat16, enabled=self._mixed, cache_enabled=False
        ):
            recorded: Callable[..., Any] = torch.cuda.make_graphed_callables(
                self._forward,
                tuple(values[name] for name in self._taken),
                allow_unused_input=True,
            )
        # the recording runs the passes a few times, which moves statistics
        for one, kept in zip(self._statistics.values(), before):
            one.copy_(kept)
        return recorded

    def exchange_by(self, exchange: Callable[[Values], None]) -> None:
        """See `base.Distributable`."""
        self._exchange = exchange

    def lay_out(
        self, change: Callable[[Graph], Graph], operations: Mapping[str, Callable[..., Call]]
    ) -> None:
        """See `base.Distributable`."""
        self._change, self._operations = change, operations
        self._forward, self._taken = self._trace_training()
        self._evaluations.clear()

    def _trace_training(self) -> tuple[Callable[..., Any], list[str]]:
        graph, kept = self._change(self._graph), statistics.find(self._graph)
        how = (graph.require_loss(),), kept, self._operations
        forward, taken = trace(graph, graph.training, *how)
        return (self._compiler(forward) if self._compiler else forward), taken

    def differentiate_by(self, differentiate: Callable[[Values], NativeTensor]) -> None:
        """See `base.Distributable`."""
        self._differentiate = differentiate

    def keep_in(self, holder: Holder) -> None:
        """See `base.Distributable`."""
        for name in self._leaves:
            del self._values[name]
        self._holder, self._leaves = holder, dict(holder.kept)
        self._optimizer = self._start(self._leaves.values())

    def step(self, inputs: Values, rate: float) -> NativeTensor:
        """Forward, `backward` and the optimizer's `step`, which may ask for both again."""
        self._begin()
        inputs = self._lay(inputs)
        for group in self._optimizer.param_groups:
            group["lr"] = rate

        def differentiate() -> NativeTensor:
            self._optimizer.zero_grad(set_to_none=True)
            loss = self._differentiate(inputs)
            self._exchange(self._leaves)
            return loss

        return self._optimizer.step(differentiate)

    def _add_up(self, inputs: Values) -> NativeTensor:
        """Forward and `backward` of one micro-batch after the other."""
        parts, total = list(passes.split(self._graph, inputs)), 0.0
        for part in parts:
            with self._casts:
                (loss,) = self._run(self._forward, self._taken, part)
            # `backward` adds up: of equal micro-batches the mean is that of the batch
            share = loss / len(parts) if len(parts) > 1 else loss
            share.backward()
            if self._is_recorded and len(parts) > 1:
                keep_gradients(self._leaves.values())
            total = total + share.detach()
        return total

    def evaluate(self, graph: Graph, inputs: Values) -> tuple[NativeTensor, ...]:
        """Torch's functions one after the other, without gradients."""
        if id(graph) not in self._evaluations:
            results = (*graph.outputs, graph.require_loss())
            nodes = self._change(graph).nodes
            traced = trace(graph, nodes, results, operations=self._operations)
            self._evaluations[id(graph)] = graph, *traced
        _, function, taken = self._evaluations[id(graph)]
        with torch.no_grad(), self._casts:
            return tuple(self._run(function, taken, self._lay(inputs)))

    def _run(self, function: Callable[..., Any], taken: Sequence[str], inputs: Values) -> Any:
        values = {**self._values, **inputs}
        if self._holder is None:
            return function(*(values[name] for name in taken))
        return self._holder.lend(
            lambda lent: function(*(lent[name] if name in lent else values[name] for name in taken))
        )

    def parameters(self) -> dict[str, NativeTensor]:
        """Return the leaves, or what is kept elsewhere, and what calls have changed."""
        leaves = self._leaves if self._holder is None else self._holder.parameters()
        return {**leaves, **self._statistics}

    def state(self) -> dict[str, NativeTensor]:
        """Return all trained tensors, and the optimizer's `state_dict` of each."""
        kept = keep(self._optimizer, tuple(self._leaves))
        moved = {**self._leaves, **self._statistics}
        return {**{f"parameter/{name}": one for name, one in moved.items()}, **kept}

    def restore(self, state: Values) -> None:
        """Into the tensors that are there, and by `load_state_dict`."""
        fill({**self._leaves, **self._statistics}, state, "parameter/")
        take_up(self._optimizer, tuple(self._leaves), state)


def keep(optimizer: Any, names: Sequence[str]) -> dict[str, NativeTensor]:
    """Return an optimizer's state by `optimizer/`, the parameter and its own word.

    What is no tensor, as L-BFGS has it: numbers by their word and `:number`, lists of tensors
    stacked, by their word and `:list`.

    Args:
        optimizer: What `start` gave, after a step.
        names: Names of its parameters, in their order.

    Raises:
        ValueError: See `UserTorchOptimizer.state`.
    """
    if isinstance(optimizer, UserTorchOptimizer):
        return {f"{_KEPT}{name}": tensor for name, tensor in optimizer.state().items()}
    kept = {}
    for place, entry in optimizer.state_dict()["state"].items():
        for key, value in entry.items():
            name = f"{_KEPT}{names[place]}/{key}"
            if isinstance(value, torch.Tensor):
                kept[name] = value
            elif isinstance(value, (int, float)):
                exact = torch.int64 if isinstance(value, int) else torch.float64
                kept[f"{name}:number"] = torch.tensor(value, dtype=exact)
            # a list with holes is room to reckon in, which each step fills anew
            elif value is not None and all(isinstance(one, torch.Tensor) for one in value):
                kept[f"{name}:list"] = torch.stack(value) if value else torch.empty(0)
    return kept


def take_up(optimizer: Any, names: Sequence[str], state: Values) -> None:
    """Let an optimizer go on with what `keep` gave of another one.

    Raises:
        LookupError: It is not of an optimizer of these parameters.
        ValueError: Likewise.
    """
    own = {name[len(_KEPT) :]: one for name, one in state.items() if name.startswith(_KEPT)}
    if isinstance(optimizer, UserTorchOptimizer):
        optimizer.restore(own)
        return
    places = {name: place for place, name in enumerate(names)}
    leaves = [leaf for group in optimizer.param_groups for leaf in group["params"]]
    kept: dict[int, dict[str, Any]] = {}
    for name, tensor in own.items():
        owner, _, key = name.rpartition("/")
        key, _, kind = key.partition(":")
        value = _BACK[kind](tensor)
        if not kind:
            value = _lay_as(leaves[places[owner]], value)
        kept.setdefault(places[owner], {})[key] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": kept})


def _lay_as(leaf: NativeTensor, tensor: NativeTensor) -> NativeTensor:
    """Return a tensor with the numbers in memory in the order of a parameter of its shape.

    Fused kernels go through the memory of both alike.
    """
    if tensor.shape != leaf.shape or tensor.stride() == leaf.stride():
        return tensor
    return torch.empty_like(leaf, dtype=tensor.dtype, requires_grad=False).copy_(tensor)


_BACK: dict[str, Callable[[NativeTensor], Any]] = {
    # copies, since products of vectors may be summed by how torch lays them in memory
    "": torch.Tensor.clone,
    "number": torch.Tensor.item,
    "list": lambda stacked: [one.clone() for one in stacked.unbind()],
}


def fill(tensors: Values, state: Values, prefix: str) -> None:
    """Put what was kept into the tensors that are there.

    Args:
        tensors: By name.
        state: By prefix and name.
        prefix: Of these.

    Raises:
        KeyError: One is not there.
        ValueError: One has another shape.
    """
    with torch.no_grad():
        for name, one in tensors.items():
            require_shape(name, state[prefix + name].shape, one.shape)
            one.copy_(state[prefix + name])


def put_channels_last(leaves: Iterable[NativeTensor]) -> None:
    """Lay parameters that have pixels out anew, with their channels last."""
    for leaf in leaves:
        if leaf.dim() in _LAST:
            leaf.data = leaf.data.contiguous(memory_format=_LAST[leaf.dim()])


def lay_channels_last(inputs: Values) -> Values:
    """Return inputs with the channels of pixels last in memory, others as they are."""
    return {
        name: one.contiguous(memory_format=_LAST[one.dim()]) if one.dim() in _LAST else one
        for name, one in inputs.items()
    }


def keep_gradients(leaves: Iterable[NativeTensor]) -> None:
    """Move gradients out of the memory that a CUDA graph writes to when it is replayed."""
    for leaf in leaves:
        if leaf.grad is not None:
            leaf.grad = leaf.grad.clone()


def keep_addresses(tensors: Iterable[NativeTensor]) -> Callable[[], None]:
    """Tell the compiler that tensors stay where they are, so that CUDA graphs can change them.

    Returns:
        What has to be called before each step: results of the step before are needed no more.
    """
    for one in tensors:
        torch._dynamo.mark_static_address(one)
    begin: Callable[[], None] = torch.compiler.cudagraph_mark_step_begin
    return begin


def start(
    optimizer: Chosen, leaves: Iterable[NativeTensor], numbers: Numbers, *, fused: bool = False
) -> Any:
    """Return an optimizer that has taken no step.

    Args:
        optimizer: Key of `OPTIMIZERS`, or a user's.
        leaves: What it moves.
        numbers: All that it takes.
        fused: True for the fused kernel, for a name of `catalog.training.FUSED`.

    Raises:
        ValueError: See `UserTorchOptimizer`.
    """
    if isinstance(optimizer, str):
        make = OPTIMIZERS[optimizer]
        return make(leaves, numbers, fused=True) if fused else make(leaves, numbers)
    return UserTorchOptimizer(optimizer, tuple(leaves), numbers)


def _sgd(leaves: Iterable[NativeTensor], numbers: Numbers, **how: bool) -> torch.optim.Optimizer:
    return torch.optim.SGD(
        leaves,
        lr=numbers["lr"],
        momentum=numbers["momentum"],
        # torch refuses it without momentum, where it makes no difference
        nesterov=bool(numbers["nesterov"] and numbers["momentum"]),
        weight_decay=numbers["weight_decay"],
        **how,
    )


def _adam(kind: Any) -> Callable[..., torch.optim.Optimizer]:
    def make(
        leaves: Iterable[NativeTensor], numbers: Numbers, **how: bool
    ) -> torch.optim.Optimizer:
        made: torch.optim.Optimizer = kind(
            leaves,
            lr=numbers["lr"],
            betas=(numbers["beta1"], numbers["beta2"]),
            eps=numbers["epsilon"],
            weight_decay=numbers["weight_decay"],
            **how,
        )
        return made

    return make


def _adagrad(leaves: Iterable[NativeTensor], numbers: Numbers) -> torch.optim.Optimizer:
    return torch.optim.Adagrad(
        leaves, lr=numbers["lr"], eps=numbers["epsilon"], weight_decay=numbers["weight_decay"]
    )


def _rmsprop(leaves: Iterable[NativeTensor], numbers: Numbers) -> torch.optim.Optimizer:
    return torch.optim.RMSprop(
        leaves,
        lr=numbers["lr"],
        alpha=numbers["alpha"],
        eps=numbers["epsilon"],
        momentum=numbers["momentum"],
        weight_decay=numbers["weight_decay"],
    )


def _lbfgs(leaves: Iterable[NativeTensor], numbers: Numbers) -> torch.optim.Optimizer:
    return torch.optim.LBFGS(
        leaves,
        lr=numbers["lr"],
        max_iter=int(numbers["iterations"]),
        tolerance_grad=numbers["tolerance_gradient"],
        tolerance_change=numbers["tolerance_change"],
        history_size=int(numbers["history"]),
        line_search_fn="strong_wolfe" if numbers["strong_wolfe"] else None,
    )


class _Formulas(torch.optim.Optimizer):  # type: ignore[misc]
    """One of `optimizers` that torch has not, over its tensors."""

    def __init__(self, leaves: Iterable[NativeTensor], name: str, numbers: Numbers) -> None:
        super().__init__(leaves, {"lr": numbers["lr"]})
        self._name, self._numbers = name, numbers
        for leaf in self.param_groups[0]["params"]:
            # on the CPU, as torch's own optimizers count
            self.state[leaf]["step"] = torch.zeros(())
            for place in range(slots(name, numbers)):
                self.state[leaf][f"slot{place}"] = torch.zeros_like(leaf)

    def step(self, closure: Callable[[], NativeTensor] | None = None) -> NativeTensor | None:
        """Return the formula, parameter after parameter."""
        loss = closure() if closure else None
        (group,) = self.param_groups
        moving = {leaf: leaf.grad for leaf in group["params"] if leaf.grad is not None}
        functions = torch.sqrt, torch.sum, torch.where
        with torch.no_grad():
            step = Step(self._numbers, group["lr"], 0, *functions)
            step = gather(self._name, step, moving)
            for leaf, gradient in moving.items():
                self._move(step, leaf, gradient)
        return loss

    def _move(self, step: Step, leaf: NativeTensor, gradient: NativeTensor) -> None:
        kept = self.state[leaf]
        kept["step"] += 1
        step = replace(step, number=int(kept["step"]))
        places = [f"slot{place}" for place in range(slots(self._name, self._numbers))]
        before = tuple(kept[place] for place in places)
        change, after = FORMULAS[self._name](step, before, leaf, gradient)
        kept.update(zip(places, after))
        leaf.add_(change)


def _formula(name: str) -> Callable[[Iterable[NativeTensor], Numbers], torch.optim.Optimizer]:
    return lambda leaves, numbers: _Formulas(leaves, name, numbers)


OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": _sgd,
    "adam": _adam(torch.optim.Adam),
    "adamw": _adam(torch.optim.AdamW),
    "adagrad": _adagrad,
    "rmsprop": _rmsprop,
    "lbfgs": _lbfgs,
    **{name: _formula(name) for name in ("lamb", "lamb-nvidia", "accelegrad")},
}
