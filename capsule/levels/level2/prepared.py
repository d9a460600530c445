"""A trial of Level 2 with everything made that it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Callable

from ..catalog import training
from ..catalog.schedules import Schedule
from ..data import augmentation
from ..frameworks import Framework
from ..frameworks.base import NativeTensor, Trainer, require, tune
from ..graphs import values
from ..graphs.graph import Graph
from ..job import Recipe
from ..optimizers import Chosen
from ..report import Report
from . import modules
from .samples import Samples
from .team import Team


@dataclass(frozen=True)
class Prepared:
    """Data that all of a training reads.

    Attributes:
        graph: Builds the network for a batch, once.
        evaluation: The same with a loss by kept statistics.
        parameters: Numpy arrays by name, as they are before the first step.
        optimizer: That of the recipe, a user's file imported.
        mixed: True if it trains in `training.MIXED`; `dtype` is that of the parameters then.
        order: Gives the numbers of the samples in the order of an epoch, from 0.
        quality: Name of the metric.
        steps: Number of steps of an epoch.
        kept: Path of the file that keeps what the last evaluations chose.
        source: The file of a user's module, None for a network of the catalogue. The graphs of a
            module have nothing but its inputs, and `parameters` is empty.
        identity: Says which training this is, of all that a checkpoint could be of.
        checkpoints: Where the last one is put, and the one before it; nothing for nowhere.
        team: Who else trains it.
    """

    framework: Framework
    report: Report
    graph: Callable[[int], Graph]
    evaluation: Callable[[int], Graph]
    recipe: Recipe
    optimizer: Chosen
    dtype: str
    device: str
    mixed: bool
    seed: int
    parameters: Mapping[str, Any]
    train: Samples
    test: Samples
    order: Callable[[int], Any]
    quality: str
    steps: int
    kept: str
    source: Path | None
    identity: str
    checkpoints: tuple[Path, ...]
    team: Team

    def place(self, arrays: Mapping[str, Any], dtype: str | None = None) -> dict[str, Any]:
        """Return arrays as tensors on the device, by their names, in the trial's dtype or
        another.
        """
        return {
            name: self.framework.from_numpy(array, dtype or self.dtype)
            for name, array in arrays.items()
        }

    def rows(self, arrays: Mapping[str, Any], batch: int) -> dict[str, Any]:
        """Return this process's rows of arrays of a whole batch."""
        first, end = self.team.span(batch)
        return {
            name: array[len(array) // batch * first : len(array) // batch * end]
            for name, array in arrays.items()
        }

    def gather(self, epoch: int, number: int, indices: Any) -> dict[str, Any]:
        """Return the inputs of a step's samples of this process.

        Args:
            epoch: From 0.
            number: Number of the step, from 0 in the training.
            indices: Numbers of its samples.
        """
        batch, arrays = self.recipe.batch, self.train.take(indices)
        if any(self.recipe.augmentation):
            place = (number - epoch * self.steps) * batch + self.team.span(batch)[0]
            how = self.recipe.augmentation
            arrays["image"] = augmentation.augment(arrays["image"], how, self.seed, epoch, place)
        # of the whole batch, whatever ranks and micro-batches take of it
        noise = values.noise(self.graph(batch), self.seed, number)
        return {**arrays, **self.rows(noise, batch)}

    @property
    def part(self) -> Graph:
        """Return the network for a micro-batch of this process."""
        first, end = self.team.span(self.recipe.batch)
        return self.graph(self.recipe.micro_batch(end - first))

    def start(self, graph: Graph, dtype: str | None = None) -> Trainer:
        """Return a training that has taken no step, in the trial's dtype or another."""
        if self.source is not None:
            how = self.source, dtype or self.dtype, self.seed
            by = self.optimizer, self.recipe.numbers, self.recipe.tuning
            return modules.start(self.framework, *how, *by)
        networks = require(self.framework.networks, self.framework.name, "run networks")
        trainer = require(networks.trainer, self.framework.name, "train")
        if self.mixed and dtype is None:
            what = f"train in {training.MIXED}"
            trainer = require(networks.mixed_trainer, self.framework.name, what)
        made = trainer(
            graph, self.place(self.parameters, dtype), self.optimizer, self.recipe.numbers
        )
        tune(made, self.recipe.tuning, self.framework.name)
        return made

    def read(self, losses: Sequence[NativeTensor]) -> list[float]:
        """Return losses as numbers, of a device that computes meanwhile by one copy."""
        transfer = self.framework.transfer
        arrays = (
            map(self.framework.to_numpy, losses) if transfer is None else transfer().read(losses)
        )
        return [float(array) for array in arrays]

    def fetch(self, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """Return tensors as arrays."""
        return {name: self.framework.to_numpy(tensor) for name, tensor in tensors.items()}

    @cached_property
    def schedule(self) -> Schedule:
        """Return the schedule of the learning rate."""
        recipe = self.recipe
        return Schedule(
            name=recipe.schedule,
            numbers=recipe.schedule_numbers,
            milestones=recipe.milestones,
            peak=recipe.numbers["lr"],
            epochs=recipe.epochs,
        )

    def rate(self, step: int) -> float:
        """Learning rate of a step, from 0."""
        return self.schedule.rate(step, self.steps)
