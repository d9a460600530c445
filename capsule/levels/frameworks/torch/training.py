"""Training in torch: its own optimizers over the parameters of a graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Callable

import torch

from ...catalog.training import Numbers
from ...graphs import statistics
from ...graphs.graph import Graph
from ..base import NativeTensor, require_shape
from .networks import Compile, trace

Values = Mapping[str, NativeTensor]


class TorchTrainer:
    """See `base.StartTraining`."""

    def __init__(
        self,
        graph: Graph,
        values: Values,
        optimizer: str,
        numbers: Numbers,
        compiler: Compile | None = None,
    ) -> None:
        self._leaves = {
            name: values[name].detach().clone().requires_grad_() for name in graph.trainable
        }
        kept = statistics.find(graph)
        self._statistics = {name: values[name].clone() for one in kept for name in one.names}
        self._values = {**values, **self._leaves, **self._statistics}
        forward, self._taken = trace(graph, graph.training, (graph.require_loss(),), kept)
        self._forward = compiler(forward) if compiler else forward
        self._optimizer = OPTIMIZERS[optimizer](self._leaves.values(), numbers)
        # by the identity of a graph, which is kept so that no other one gets it
        self._evaluations: dict[int, tuple[Graph, Callable[..., Any], list[str]]] = {}

    def step(self, inputs: Values, rate: float) -> NativeTensor:
        """Forward, `backward` and the optimizer's `step`."""
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._optimizer.zero_grad(set_to_none=True)
        values = {**self._values, **inputs}
        (loss,) = self._forward(*(values[name] for name in self._taken))
        loss.backward()
        self._optimizer.step()
        return loss.detach()

    def evaluate(self, graph: Graph, inputs: Values) -> tuple[NativeTensor, ...]:
        """Torch's functions one after the other, without gradients."""
        if id(graph) not in self._evaluations:
            results = (*graph.outputs, graph.require_loss())
            self._evaluations[id(graph)] = graph, *trace(graph, graph.nodes, results)
        _, function, taken = self._evaluations[id(graph)]
        values = {**self._values, **inputs}
        with torch.no_grad():
            return tuple(function(*(values[name] for name in taken)))

    def parameters(self) -> dict[str, NativeTensor]:
        """The leaves, and what calls have changed."""
        return {**self._leaves, **self._statistics}

    def state(self) -> dict[str, NativeTensor]:
        """The parameters, and what the optimizer's own `state_dict` has of each."""
        names = tuple(self._leaves)
        kept = {
            f"optimizer/{names[place]}/{key}": value
            for place, entry in self._optimizer.state_dict()["state"].items()
            for key, value in entry.items()
            if value is not None
        }
        return {**{f"parameter/{name}": one for name, one in self.parameters().items()}, **kept}

    def restore(self, state: Values) -> None:
        """Into the tensors that are there, and by `load_state_dict`."""
        places = {name: place for place, name in enumerate(self._leaves)}
        kept: dict[int, dict[str, NativeTensor]] = {}
        for name, tensor in state.items():
            if name.startswith("optimizer/"):
                owner, _, key = name[len("optimizer/") :].rpartition("/")
                kept.setdefault(places[owner], {})[key] = tensor
        with torch.no_grad():
            for name, one in self.parameters().items():
                require_shape(name, state[f"parameter/{name}"].shape, one.shape)
                one.copy_(state[f"parameter/{name}"])
        self._optimizer.load_state_dict({**self._optimizer.state_dict(), "state": kept})


def _sgd(leaves: Iterable[NativeTensor], numbers: Numbers) -> torch.optim.Optimizer:
    return torch.optim.SGD(
        leaves,
        lr=numbers["lr"],
        momentum=numbers["momentum"],
        # torch refuses it without momentum, where it makes no difference
        nesterov=bool(numbers["nesterov"] and numbers["momentum"]),
        weight_decay=numbers["weight_decay"],
    )


def _adam(kind: Any) -> Callable[[Iterable[NativeTensor], Numbers], torch.optim.Optimizer]:
    def make(leaves: Iterable[NativeTensor], numbers: Numbers) -> torch.optim.Optimizer:
        made: torch.optim.Optimizer = kind(
            leaves,
            lr=numbers["lr"],
            betas=(numbers["beta1"], numbers["beta2"]),
            eps=numbers["epsilon"],
            weight_decay=numbers["weight_decay"],
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


OPTIMIZERS: dict[str, Callable[[Iterable[NativeTensor], Numbers], torch.optim.Optimizer]] = {
    "sgd": _sgd,
    "adam": _adam(torch.optim.Adam),
    "adamw": _adam(torch.optim.AdamW),
    "adagrad": _adagrad,
    "rmsprop": _rmsprop,
}
