"""A user's `torch.nn.Module` in training, as its file defines it; see `catalog.modules`."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Callable

import numpy
import torch

from ...catalog import modules
from ...catalog.training import COMPILE_MODES, Numbers, Tuning
from ...graphs.graph import Graph
from ...optimizers import Chosen
from ...sources import import_file
from ..base import NativeTensor
from .inference import make
from .losses import Loss
from .networks import Compile
from .training import (
    fill,
    keep,
    keep_addresses,
    lay_channels_last,
    put_channels_last,
    start,
    take_up,
)

Values = Mapping[str, NativeTensor]


class ModuleTrainer:
    """See `base.StartModule`."""

    def __init__(
        self,
        source: Path,
        seed: int,
        like: NativeTensor,
        optimizer: Chosen,
        numbers: Numbers,
        compiler: Compile | None = None,
    ) -> None:
        file = import_file(source, modules.NEEDED)
        self._name = source.name
        self._loss = Loss(self._name, file)
        # two trainings of one file begin alike, whatever was drawn between them
        torch.manual_seed(seed)
        self._network = self._make(file.network, like)
        self._like = like
        self._leaves = dict(self._network.named_parameters())
        self._compiler = compiler
        self._forward = compiler(self._network) if compiler else self._network
        self._start: Callable[..., Any] = partial(start, optimizer, numbers=numbers)
        self._optimizer = self._start(self._leaves_to_train().values())
        self._lay: Callable[[Values], Values] = lambda inputs: inputs
        self._begin: Callable[[], None] = lambda: None
        self._trains = True
        self._network.train()

    def tune(self, tuning: Tuning) -> None:
        """See `base.Tunable`."""
        if tuning.channels_last:
            put_channels_last(self._leaves.values())
            self._lay = lay_channels_last
        # what an optimizer keeps lies in memory as the parameters do
        self._optimizer = self._start(self._leaves_to_train().values(), fused=tuning.fused)
        if tuning.compile_mode:
            assert self._compiler is not None, "only a compiled trainer has a mode"
            self._forward = self._compiler(self._network, mode=tuning.compile_mode)
            if COMPILE_MODES[tuning.compile_mode]:
                self._begin = keep_addresses(self._tensors().values())

    def step(self, inputs: Values, rate: float) -> NativeTensor:
        """Forward, `backward` and the optimizer's `step`, in the mode of training."""
        self._begin()
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._optimizer.zero_grad(set_to_none=True)
        loss = self._lose(inputs)
        loss.backward()
        self._optimizer.step()
        return loss.detach()

    def evaluate(self, graph: Graph, inputs: Values) -> tuple[NativeTensor, ...]:  # noqa: ARG002
        """Evaluate in evaluation mode, without gradients, uncompiled."""
        self._check_place()
        self._set_mode(trains=False)
        with torch.no_grad():
            outputs, due = self._loss.call(self._network, self._lay(inputs))
            return outputs, self._loss.of(outputs, due)

    def differentiate(self, values: Values, inputs: Values) -> dict[str, NativeTensor]:
        """Return gradients of the loss in the mode of training, by the parameters that it depends
        on.

        Args:
            values: What these are, by name; they stay so.
            inputs: See `step`.
        """
        trained = self._leaves_to_train()
        with torch.no_grad():
            for name, leaf in trained.items():
                leaf.copy_(values[name])
        loss = self._lose(inputs)
        gradients = torch.autograd.grad(loss, list(trained.values()), allow_unused=True)
        return {name: one for name, one in zip(trained, gradients) if one is not None}

    def parameters(self) -> dict[str, NativeTensor]:
        """Return the trained ones."""
        return self._leaves_to_train()

    def state(self) -> dict[str, NativeTensor]:
        """Return parameters and buffers, what the optimizer keeps, and the generators."""
        return {
            **{f"module/{name}": one for name, one in self._tensors().items()},
            **keep(self._optimizer, tuple(self._leaves_to_train())),
            **_read_generators(self._like),
        }

    def restore(self, state: Values) -> None:
        """Into the tensors that are there, and the generators of this process."""
        fill(self._tensors(), state, "module/")
        take_up(self._optimizer, tuple(self._leaves_to_train()), state)
        _set_generators(state, self._like)

    def _tensors(self) -> dict[str, NativeTensor]:
        """Return all tensors, including those outside of any `state_dict`."""
        return dict((*self._network.named_parameters(), *self._network.named_buffers()))

    def _make(self, function: Any, like: NativeTensor) -> torch.nn.Module:
        network = make(self._name, function, like)
        if not any(leaf.requires_grad for leaf in network.parameters()):
            raise ValueError(f"network() of {self._name} has no parameters to train")
        return network

    def _leaves_to_train(self) -> dict[str, NativeTensor]:
        return {name: leaf for name, leaf in self._leaves.items() if leaf.requires_grad}

    def _lose(self, inputs: Values) -> NativeTensor:
        self._set_mode(trains=True)
        return self._loss.lose(self._forward, self._lay(inputs))

    def _set_mode(self, *, trains: bool) -> None:
        # goes through every part of the network, so only where it changes
        if trains != self._trains:
            self._network.train(trains)
            self._trains = trains

    def _check_place(self) -> None:
        device, dtype = self._like.device, self._like.dtype
        for name, leaf in self._network.named_parameters():
            if leaf.device != device or leaf.dtype != dtype or leaf is not self._leaves.get(name):
                raise ValueError(
                    f"{self._name} replaced its parameter {name}, or moved it to {leaf.dtype} on"
                    f" {leaf.device}; keep it in {dtype} on {device}"
                )


def _read_generators(like: NativeTensor) -> dict[str, NativeTensor]:
    """Return the states of those that `Framework.seed` seeds, of the device of a tensor."""
    # as a tuple, which it takes back
    name, keys, *rest = numpy.random.get_state(legacy=True)
    text = json.dumps([random.getstate(), [name, numpy.asarray(keys).tolist(), *rest]])
    states = {"generator/torch": torch.get_rng_state()}
    if like.is_cuda:
        states["generator/device"] = torch.cuda.get_rng_state(like.device)
    states["generator/others"] = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)
    return states


def _set_generators(state: Values, like: NativeTensor) -> None:
    (version, words, gauss), others = json.loads(bytes(state["generator/others"].tolist()))
    torch.set_rng_state(state["generator/torch"].cpu())
    if like.is_cuda:
        torch.cuda.set_rng_state(state["generator/device"].cpu(), like.device)
    random.setstate((version, tuple(words), gauss))
    numpy.random.set_state(tuple(others))
