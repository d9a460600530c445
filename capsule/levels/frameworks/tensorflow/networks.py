"""Networks in TensorFlow, call by call or as one function that XLA compiles."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable

from ... import catalog
from ...catalog.training import Numbers
from ...graphs.graph import Graph, Node
from ..base import Backward, Call, FrameworkError, NativeTensor, Trainer
from .compiler import Compiler
from .plan import Plan

if TYPE_CHECKING:
    from ...optimizers import Chosen

Values = Mapping[str, NativeTensor]


class TensorFlowNetworks:
    """Plans of networks, with channels last inside."""

    module = None
    inferring = None
    mixed_trainer = None

    def __init__(self, framework: str, compiler: Compiler) -> None:
        self._framework = framework
        self._compiler = compiler
        # by the identity of a graph: parts of a minibatch share what is compiled for their size
        self._plans: dict[Any, tuple[Plan, Callable[..., Any]]] = {}

    def inference(self, graph: Graph, values: Values) -> Call:
        """Return the outputs.

        Raises:
            FrameworkError: TensorFlow lacks an operator of the network, or its dtype.
        """
        return self._call(graph, graph.inference, graph.outputs, (), values)

    def alone(self, graph: Graph, values: Values) -> Call:
        """Run one node as in a network."""
        return self.inference(graph, values)

    @property
    def backward(self) -> Backward | None:
        """Return the gradients from a persistent tape of one forward run; not of XLA's code."""
        return None if self._compiler.compiles else _differentiate

    def training(self, graph: Graph, values: Values) -> Call:
        """Return the loss and its gradients, from a tape that is new in every call.

        Raises:
            FrameworkError: See `inference`.
            ValueError: The network has no loss.
        """
        loss = graph.require_loss()
        return self._call(graph, graph.training, (loss,), graph.trainable, values)

    def trainer(self, graph: Graph, values: Values, optimizer: Chosen, numbers: Numbers) -> Trainer:
        """Return a step as one function, which XLA compiles where it compiles networks."""
        from .training import TensorFlowTrainer

        return TensorFlowTrainer(
            graph, values, optimizer, numbers, compiled=self._compiler.compiles
        )

    def _call(
        self,
        graph: Graph,
        nodes: tuple[Node, ...],
        results: tuple[str, ...],
        trained: tuple[str, ...],
        values: Values,
    ) -> Call:
        known = catalog.FRAMEWORKS[self._framework].dtypes
        dtypes = {value.dtype.name for value in values.values() if value.dtype.is_floating}
        if other := ", ".join(sorted(dtypes - set(known))):
            raise FrameworkError(
                f"{self._framework} does not run networks in {other}, only in {', '.join(known)}"
            )
        key = (id(graph), results, trained)
        if key not in self._plans:
            plan = Plan(graph, nodes, results, trained, compiled=self._compiler.compiles)
            wrapped = self._compiler.wrap(plan.gradients if trained else plan.forward)
            self._plans[key] = plan, wrapped
            weakref.finalize(graph, self._plans.pop, key)
        plan, wrapped = self._plans[key]
        operands = plan.operands(values)
        function = self._compiler.prepare(wrapped, operands)
        return lambda *operands: plan.in_order(function(*operands)), operands


def _differentiate(graph: Graph, values: Values, upstream: NativeTensor) -> Call:
    plan = Plan(graph, graph.inference, graph.outputs, graph.trainable, compiled=False)
    return plan.pull_back(plan.operands(values), upstream), ()
