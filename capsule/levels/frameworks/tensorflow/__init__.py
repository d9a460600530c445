"""TensorFlow on CPUs, call by call or compiled by XLA."""

from __future__ import annotations

import os
import random
import weakref
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Callable

import numpy
import tensorflow

from ... import catalog
from ...graphs.graph import Graph, Node
from ..base import Call, FrameworkError
from .networks import Plan
from .operations import Axes, Case, Native, Transposed, inverse
from .operators import OPERATIONS

_threading = tensorflow.config.threading
_experimental = tensorflow.config.experimental

_SETTINGS: dict[str, Callable[[], Any]] = {
    "threads": lambda: _effective(_threading.get_intra_op_parallelism_threads()),
    "interop_threads": lambda: _effective(_threading.get_inter_op_parallelism_threads()),
    "synchronous_execution": _experimental.get_synchronous_execution,
    "optimizer": tensorflow.config.optimizer.get_experimental_options,
}


class TensorFlow:
    """TensorFlow tensors on the CPU, operations run call by call or compiled by XLA."""

    synchronize = None
    memory = None
    alone = None

    def __init__(self, name: str, determinism: str, compiled: bool = False) -> None:
        self.name = name
        self._deterministic = determinism == "strict"
        self._compiled = compiled
        # by the identity of a graph: parts of a minibatch share what is compiled for their size
        self._plans: dict[Any, tuple[Plan, Any]] = {}

    def from_numpy(self, array: Any, dtype: str | None = None) -> Any:
        """A copy of the array, whole numbers as they are."""
        # a constant may share the memory of the array
        tensor = tensorflow.identity(tensorflow.constant(array))
        if dtype is None or not tensor.dtype.is_floating:
            return tensor
        return tensorflow.cast(tensor, dtype)

    def to_numpy(self, tensor: Any) -> Any:
        """A copy of the tensor in the host's memory, bfloat16 as float32."""
        if isinstance(tensor, Transposed):
            return numpy.ascontiguousarray(self.to_numpy(tensor.tensor).transpose(tensor.axes))
        if tensor.dtype == tensorflow.bfloat16:
            tensor = tensorflow.cast(tensor, "float32")
        return numpy.array(tensor)

    def dtype_of(self, tensor: Any) -> str:
        """Its word in `operators.ARITHMETIC`."""
        tensor = tensor.tensor if isinstance(tensor, Transposed) else tensor
        name: str = tensor.dtype.name
        return name

    def arithmetic(self, dtype: str) -> AbstractContextManager[None]:  # noqa: ARG002
        """Nothing: on CPUs there is no TF32."""
        return nullcontext()

    def operation(self, name: str, sizes: Mapping[str, int], tensors: tuple[Any, ...]) -> Call:
        """TensorFlow's operation and its operands, in the layout that its users hold them in.

        Raises:
            FrameworkError: TensorFlow has no such operation.
        """
        native = _native(name, Case(sizes, self._compiled, False))
        operands = native.prepared(tensors)
        function = self._ready(self._compilable(native.function), operands)
        axes = native.output
        if axes is None:
            return function, operands
        return lambda *operands: Transposed(function(*operands), axes), operands

    def gradient(
        self,
        name: str,
        sizes: Mapping[str, int],
        tensors: tuple[Any, ...],
        wrt: tuple[int, ...],
        upstream: tuple[Any, ...],
    ) -> Call:
        """The gradients from a persistent tape that has recorded one forward run.

        Raises:
            FrameworkError: TensorFlow has no such operation.
        """
        native = _native(name, Case(sizes, self._compiled, True))
        operands = native.prepared(tensors)
        sources = tuple(operands[place] for place in wrt)
        function = self._ready(self._compilable(native.function), operands)
        with tensorflow.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
            tape.watch(sources)
            results = function(*operands)
        arriving = native.arriving(upstream)
        back = tuple(None if axes is None else inverse(axes) for axes in native.layouts(wrt))

        def run() -> tuple[Any, ...]:
            found = tape.gradient(results, sources, arriving)
            return tuple(map(_dense, found, back))

        return run, ()

    def inference(self, graph: Graph, values: Mapping[str, Any]) -> Call:
        """The outputs, call by call or from one compiled function, with channels last inside.

        Raises:
            FrameworkError: TensorFlow lacks an operator of the network, or its dtype.
        """
        return self._whole(graph, graph.inference, graph.outputs, (), values)

    def training(self, graph: Graph, values: Mapping[str, Any]) -> Call:
        """The loss and its gradients, from a tape that is new in every call.

        Raises:
            FrameworkError: See `inference`.
            ValueError: The network has no loss.
        """
        return self._whole(graph, graph.training, (str(graph.loss),), graph.trained, values)

    def _whole(
        self,
        graph: Graph,
        nodes: tuple[Node, ...],
        results: tuple[str, ...],
        trained: tuple[str, ...],
        values: Mapping[str, Any],
    ) -> Call:
        known = catalog.FRAMEWORKS[self.name].dtypes
        found = {each.dtype.name for each in values.values() if each.dtype.is_floating}
        if other := ", ".join(sorted(found - set(known))):
            raise FrameworkError(f"{self.name} runs networks in {', '.join(known)}, not in {other}")
        key = (id(graph), results, trained)
        if key not in self._plans:
            plan = Plan(graph, nodes, results, trained, compiled=self._compiled)
            function = self._compilable(plan.gradients if trained else plan.forward)
            self._plans[key] = plan, function
            weakref.finalize(graph, self._plans.pop, key)
        plan, function = self._plans[key]
        operands = plan.operands(values)
        ready = self._ready(function, operands)
        return lambda *operands: plan.in_order(ready(*operands)), operands

    def _compilable(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if not self._compiled:
            return function
        made: Callable[..., Any] = tensorflow.function(function, jit_compile=True, autograph=False)
        return made

    def _ready(self, function: Any, operands: tuple[Any, ...]) -> Callable[..., Any]:
        """The function for such operands, compiled before the clock starts, once for all alike."""
        if not self._compiled:
            ready: Callable[..., Any] = function
            return ready
        ready = function.get_concrete_function(*operands)
        ready(*operands)  # XLA compiles at the first call
        return ready

    def seed(self, seed: int) -> None:
        """Seed Python's, numpy's and TensorFlow's global generators."""
        random.seed(seed)
        numpy.random.seed(seed)
        tensorflow.random.set_seed(seed)

    def settings(self) -> dict[str, Any]:
        """Threads, determinism, precision and compiler switches."""
        found: dict[str, Any] = {
            "device": "cpu",
            "deterministic_algorithms": self._deterministic,
            "compiler": "XLA" if self._compiled else None,
        }
        missing: dict[str, str] = {}
        for name, read in _SETTINGS.items():
            try:
                found[name] = read()
            except Exception as error:
                found[name] = None
                missing[name] = f"{type(error).__name__}: {error}"
        return {**found, "missing": missing}


def create(
    device: str,
    threads: int | None,
    determinism: str,
    name: str = "tensorflow",
    compiled: bool = False,
) -> TensorFlow:
    """TensorFlow on the CPU.

    A thread count is that of the pool inside operations; with one given, operations run one after
    the other, so that it bounds them all together.

    Args:
        device: `cpu`.
        threads: Threads inside one operation; None leaves TensorFlow's own choice.
        determinism: `strict` turns nondeterministic kernels into errors.
        name: That of a variant.
        compiled: Whether XLA compiles each operation.

    Raises:
        FrameworkError: `device` is another one, or TensorFlow has started with other settings.
    """
    if device != "cpu":
        raise FrameworkError(f"{name} has no device {device!r}: it is run on CPUs alone")
    try:
        # or it would place operations, and their operands, on a device that was not asked for
        tensorflow.config.set_visible_devices([], "GPU")
        if threads is not None:
            _threading.set_intra_op_parallelism_threads(threads)
            _threading.set_inter_op_parallelism_threads(1)
    except RuntimeError as error:
        raise FrameworkError(f"{name} has started with other settings: {error}") from error
    if determinism == "strict":
        _experimental.enable_op_determinism()
    return TensorFlow(name, determinism, compiled)


def _dense(gradient: Any, axes: Axes) -> Any:
    """A gradient as a tensor: that of a table comes as rows and their numbers."""
    tensor = tensorflow.convert_to_tensor(gradient)
    return tensor if axes is None else Transposed(tensor, axes)


def _native(name: str, case: Case) -> Native:
    if name not in OPERATIONS:
        raise FrameworkError(f"tensorflow has no operator {name!r}")
    return OPERATIONS[name](case)


def _effective(configured: int) -> int:
    """Threads of a pool: 0 stands for one for each CPU that this process may use."""
    return configured or len(os.sched_getaffinity(0))
