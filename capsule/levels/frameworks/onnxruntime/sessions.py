"""Sessions for serialized models, all with the settings of one job."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnxruntime

from ...graphs.onnx import models

PROVIDER = "CPUExecutionProvider"


@dataclass(frozen=True)
class Sessions:
    """Starts sessions.

    Attributes:
        threads: Inside one operation; 0 leaves ONNX Runtime's own choice.
        deterministic: True if kernels are deterministic ones only.
    """

    threads: int
    deterministic: bool

    def start(self, model: bytes) -> Any:
        """Return a session for a serialized model.

        Nodes run one after the other. Optimizations of the graph stay as ONNX Runtime ships them
        (all), and are recorded.
        """
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        options.use_deterministic_compute = self.deterministic
        return onnxruntime.InferenceSession(model, options, providers=[PROVIDER])

    def describe(self) -> dict[str, Any]:
        """Return the settings in effect in a session, as JSON values."""
        session = self.start(models.identity())
        options = session.get_session_options()
        return {
            "threads": self._count_threads(),
            "deterministic_algorithms": options.use_deterministic_compute,
            "execution_mode": options.execution_mode.name,
            "graph_optimization_level": options.graph_optimization_level.name,
            "memory_arena": options.enable_cpu_mem_arena,
            "providers": session.get_providers(),
            "opset": models.OPSET,
        }

    def _count_threads(self) -> int:
        """Return the calling thread and those that a session starts.

        Left to choose, ONNX Runtime goes by cores and reports nowhere what it chose.
        """
        tasks = Path("/proc/self/task")
        before = {task.name for task in tasks.iterdir()}
        session = self.start(models.identity())
        started = {task.name for task in tasks.iterdir()} - before
        del session
        return 1 + len(started)
