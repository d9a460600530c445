"""torch with each network compiled as a whole by `torch.compile`; single operations are refused."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from typing import Any

import torch
from torch._inductor import config

from ...graphs.graph import Graph
from .. import torch as eager
from ..base import Call, FrameworkError
from ..torch import networks


class TorchCompile(eager.Torch):
    """Inductor makes one function of the forward pass, and one of the backward pass.

    Both are compiled before the call is handed out, for the one shape that a trial has: neither its
    times nor its memory are the compiler's.
    """

    name = "torch-compile"

    def __init__(self, device: str) -> None:
        super().__init__(device)
        # one node alone has nothing to be compiled with
        self.alone = eager.Torch(device)

    def operation(self, name: str, sizes: Mapping[str, int], tensors: tuple[Any, ...]) -> Call:  # noqa: ARG002
        """None.

        Raises:
            FrameworkError: Always: an operation alone has nothing to be compiled with.
        """
        raise FrameworkError(f"torch-compile runs whole networks, not {name} alone")

    def gradient(
        self,
        name: str,
        sizes: Mapping[str, int],
        tensors: tuple[Any, ...],
        wrt: tuple[int, ...],  # noqa: ARG002
        upstream: tuple[Any, ...],  # noqa: ARG002
    ) -> Call:
        """None; see `operation`."""
        return self.operation(name, sizes, tensors)

    def inference(self, graph: Graph, values: Mapping[str, Any]) -> Call:
        """One compiled function."""
        return _ready(networks.inference(graph, values, _compiled))

    def training(self, graph: Graph, values: Mapping[str, Any]) -> Call:
        """A compiled forward pass and the backward pass that was compiled with it."""
        return _ready(networks.training(graph, values, _compiled))

    def settings(self) -> dict[str, Any]:
        """Those of torch, and what makes the code."""
        found = super().settings()
        compiler = None
        try:
            compiler = _compiler()
        except Exception as error:
            found["missing"]["compiler"] = f"{type(error).__name__}: {error}"
        return {**found, "backend": "inductor", "compiler": compiler}


def create(device: str, threads: int | None, determinism: str) -> TorchCompile:
    """As that of `torch`; compiles in as many processes as there are threads.

    Raises:
        FrameworkError: See there.
    """
    eager.prepare(device, threads, determinism)
    config.compile_threads = threads or 1
    # two sets of headers, 75 MB each: Apptainer's own /tmp has 64 MB in all
    free = shutil.disk_usage(tempfile.gettempdir()).free
    config.cpp_cache_precompile_headers = free > 2**28
    return TorchCompile(device)


def _compiled(function: Any) -> Any:
    return torch.compile(function, fullgraph=True, dynamic=False)


def _ready(call: Call) -> Call:
    """The call, after a first one, which compiles."""
    function, arguments = call
    function(*arguments)
    return call


def _compiler() -> str:
    """The first line that the C++ compiler says of itself."""
    from torch._inductor.cpp_builder import get_cpp_compiler

    found = subprocess.run(
        [get_cpp_compiler(), "--version"], capture_output=True, text=True, check=True
    )
    return found.stdout.partition("\n")[0]
