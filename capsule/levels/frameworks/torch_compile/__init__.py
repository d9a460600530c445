"""torch with each operator, and each network as a whole, compiled by `torch.compile`."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, Callable

import torch
from torch._functorch import config as functorch
from torch._inductor import config

from ...catalog.training import Numbers
from ...graphs.graph import Graph
from .. import settings
from .. import torch as eager
from ..base import Call, InferringModule, ModuleTrainer, NativeTensor, Trainer
from ..torch import networks
from ..torch.operators import TorchOperators

if TYPE_CHECKING:
    from ...optimizers import Chosen


class TorchCompile(eager.Torch):
    """torch's tensors and settings, and compiled operators and networks."""

    name = "torch-compile"

    def __init__(self, device: str) -> None:
        super().__init__(device)
        self.operators = TorchOperators(_compile_anew)
        self.networks = CompiledNetworks()

    def record_kernels(self, run: Callable[[], object]) -> list[str]:  # noqa: ARG002
        """Return no names: those of generated kernels leave their instructions open."""
        return []

    def settings(self) -> dict[str, Any]:
        """Return torch's settings and those of the code generator."""
        of_torch, of_compiler = super().settings(), settings.read({"compiler": _name_compiler})
        missing = {**of_torch["missing"], **of_compiler["missing"]}
        return {**of_torch, "backend": "inductor", **of_compiler, "missing": missing}


class CompiledNetworks:
    """Inductor makes one function of the forward pass, and one of the backward pass.

    Both are compiled before the call is handed out, for the one shape that a trial has: neither its
    times nor its memory are the compiler's.
    """

    backward = None

    def inference(self, graph: Graph, values: Mapping[str, NativeTensor]) -> Call:
        """Return one compiled function."""
        return _warm_up(networks.make_inference(graph, values, _compile))

    def alone(self, graph: Graph, values: Mapping[str, NativeTensor]) -> Call:
        """Run one node as torch does: a single node cannot be fused."""
        return networks.make_inference(graph, values)

    def training(self, graph: Graph, values: Mapping[str, NativeTensor]) -> Call:
        """Return a compiled forward pass and the backward pass that was compiled with it."""
        return _warm_up(networks.make_training(graph, values, _compile))

    def trainer(
        self,
        graph: Graph,
        values: Mapping[str, NativeTensor],
        optimizer: Chosen,
        numbers: Numbers,
    ) -> Trainer:
        """Return the optimizers of torch, and a forward pass that the first step compiles."""
        from ..torch.training import TorchTrainer

        return TorchTrainer(graph, values, optimizer, numbers, _compile)

    def mixed_trainer(
        self,
        graph: Graph,
        values: Mapping[str, NativeTensor],
        optimizer: Chosen,
        numbers: Numbers,
    ) -> Trainer:
        """Return the same with `torch.autocast` around each forward pass, which the compiler
        sees.
        """
        from ..torch.training import TorchTrainer

        return TorchTrainer(graph, values, optimizer, numbers, _compile, mixed=True)

    def module(
        self, source: Path, seed: int, like: NativeTensor, optimizer: Chosen, numbers: Numbers
    ) -> ModuleTrainer:
        """Return the module, compiled for the steps; what torch cannot compile of it runs as it
        is.
        """
        from ..torch import modules

        return modules.ModuleTrainer(source, seed, like, optimizer, numbers, _compile_parts)

    def inferring(self, source: Path, seed: int, like: NativeTensor) -> InferringModule:
        """Return the module, compiled; what torch cannot compile of it runs as it is."""
        from ..torch import inference

        return inference.InferringModule(source, seed, like, _compile_parts)


def create(device: str, threads: int | None, determinism: str) -> TorchCompile:
    """Create the framework as `torch` does; compile in as many processes as threads.

    Raises:
        FrameworkError: See there.
    """
    eager.prepare(device, threads, determinism)
    config.compile_threads = threads or 1
    # gradients are taken again and again, so what a backward pass reads is not its own to write to
    functorch.donated_buffer = False
    # two sets of headers, 75 MB each: Apptainer's own /tmp has 64 MB in all
    free = shutil.disk_usage(tempfile.gettempdir()).free
    config.cpp_cache_precompile_headers = free > 2**28
    return TorchCompile(device)


def _compile_anew(function: Any) -> Any:
    """Return an operator's function, in code of its own: of one code few variants are compiled."""

    def run(*operands: Any) -> Any:
        return function(*operands)

    code = run.__code__.replace()
    return _compile(FunctionType(code, run.__globals__, closure=run.__closure__))


def _compile(function: Any, mode: str | None = None) -> Any:
    return torch.compile(function, fullgraph=True, dynamic=False, mode=mode)


def _compile_parts(module: Any, mode: str | None = None) -> Any:
    return torch.compile(module, dynamic=False, mode=mode)


def _warm_up(call: Call) -> Call:
    """Return the call, after a first one, which compiles."""
    function, operands = call
    function(*operands)
    return call


def _name_compiler() -> str:
    """Return the first line that the C++ compiler prints of itself."""
    from torch._inductor.cpp_builder import get_cpp_compiler

    done = subprocess.run(
        [get_cpp_compiler(), "--version"], capture_output=True, text=True, check=True
    )
    return done.stdout.partition("\n")[0]
