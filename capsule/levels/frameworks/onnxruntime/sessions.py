"""Models in sessions: each operation of Level 0 in one of its own, a network in a single one."""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy
import onnxruntime

from ...graphs.graph import Graph
from ...graphs.onnx import models, operators
from ..base import Call, FrameworkError
from . import networks

PROVIDER = "CPUExecutionProvider"


class OnnxRuntime:
    """numpy arrays as they are: a session reads and returns them without a copy."""

    name = "onnxruntime"
    synchronize = None
    memory = None
    alone = None

    def __init__(self, threads: int | None, determinism: str) -> None:
        self._threads = threads or 0
        self._deterministic = determinism == "strict"

    def from_numpy(self, array: Any, dtype: str | None = None) -> Any:  # noqa: ARG002
        """The array itself: numpy has every dtype that ONNX Runtime has on CPUs."""
        return array

    def to_numpy(self, tensor: Any) -> Any:
        """The array itself."""
        return tensor

    def dtype_of(self, tensor: Any) -> str:
        """numpy's name."""  # noqa: D403
        name: str = tensor.dtype.name
        return name

    def arithmetic(self, dtype: str) -> AbstractContextManager[None]:  # noqa: ARG002
        """Nothing: on CPUs there is no TF32, and 16-bit operations are run in float32."""
        return nullcontext()

    def operation(self, name: str, sizes: Mapping[str, int], tensors: tuple[Any, ...]) -> Call:
        """`InferenceSession.run`, all outputs, of the operator's model."""
        graph = operators.OPERATIONS[name](sizes)
        inputs = {f"i{place}": tensor for place, tensor in enumerate(tensors)}
        model = models.serialize(
            graph.nodes,
            inputs,
            {f"o{place}": tensors[0].dtype for place in range(graph.outputs)},
            {key: _as_input(value, tensors[0]) for key, value in graph.constants.items()},
        )
        return self.session(model).run, (None, inputs)

    def gradient(
        self,
        name: str,  # noqa: ARG002
        sizes: Mapping[str, int],  # noqa: ARG002
        tensors: tuple[Any, ...],  # noqa: ARG002
        wrt: tuple[int, ...],  # noqa: ARG002
        upstream: tuple[Any, ...],  # noqa: ARG002
    ) -> Call:
        """None.

        Raises:
            FrameworkError: Always: ONNX Runtime infers.
        """
        raise FrameworkError("onnxruntime does not differentiate")

    def inference(self, graph: Graph, values: Mapping[str, Any]) -> Call:
        """`InferenceSession.run` of the whole network's model, its parameters constants."""
        return networks.inference(graph, values, self.session)

    def training(self, graph: Graph, values: Mapping[str, Any]) -> Call:  # noqa: ARG002
        """None.

        Raises:
            FrameworkError: Always: ONNX Runtime infers.
        """
        raise FrameworkError("onnxruntime does not differentiate")

    def seed(self, seed: int) -> None:
        """Seed Python's, numpy's and ONNX Runtime's global generators."""
        random.seed(seed)
        numpy.random.seed(seed)
        onnxruntime.set_seed(seed)

    def session(self, model: bytes) -> Any:
        """A session for a serialized model, with the threads and determinism that were asked for.

        Nodes run one after the other. Optimizations of the graph stay as ONNX Runtime ships them
        (all), and are recorded.
        """
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.inter_op_num_threads = 1
        options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        options.use_deterministic_compute = self._deterministic
        return onnxruntime.InferenceSession(model, options, providers=[PROVIDER])

    def settings(self) -> dict[str, Any]:
        """Threads as counted, determinism, and what sessions are made with."""
        session = self.session(models.identity())
        options = session.get_session_options()
        return {
            "device": "cpu",
            "threads": self._count_threads(),
            "deterministic_algorithms": options.use_deterministic_compute,
            "execution_mode": options.execution_mode.name,
            "graph_optimization_level": options.graph_optimization_level.name,
            "memory_arena": options.enable_cpu_mem_arena,
            "providers": session.get_providers(),
            "opset": models.OPSET,
            "missing": {},
        }

    def _count_threads(self) -> int:
        """The calling thread and those that a session starts.

        Without a number asked for, ONNX Runtime chooses by cores and tells nowhere what it chose.
        """
        tasks = Path("/proc/self/task")
        before = {each.name for each in tasks.iterdir()}
        session = self.session(models.identity())
        started = {each.name for each in tasks.iterdir()} - before
        del session
        return 1 + len(started)


def _as_input(constant: Any, like: Any) -> Any:
    return constant.astype(like.dtype) if constant.dtype.kind == "f" else constant
