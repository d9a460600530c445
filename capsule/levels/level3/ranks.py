"""The ranks of a training: what each does beside what a process does that trains alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import torch

from ..catalog import training
from ..catalog.schemes import SCHEMES
from ..communicators import Communicator, Traffic
from ..frameworks.base import Distributable, NativeTensor, Trainer
from ..graphs.statistics import find
from ..job import Scheme
from ..level2 import checks, trajectory
from ..level2.prepared import Prepared
from ..level2.team import Team
from ..report import Report
from . import exchanges
from .exchanges import Exchange, fill, flatten


class Ranks(Team):
    """All ranks of torch's default process group.

    What a scheme exchanges is counted, what is exchanged to report and to check is not.
    """

    def __init__(self, scheme: Scheme) -> None:
        """Begin with no step taken.

        Args:
            scheme: How they train together.
        """
        self._scheme = scheme
        self._counted, self._others = Communicator(), Communicator()
        self.rank, self.ranks = self._counted.rank, self._counted.ranks
        self._exchange = Exchange(self._counted, 1.0, {})
        self._leaves: Mapping[str, Any] = {}
        self._steps = 0
        self._traffic: list[Traffic] = []
        self._times: list[float] = []

    def judged_samples(self, batch: int) -> int:
        """A few samples for each rank, and as many over as the whole batch has."""
        least = min(batch // self.ranks, max(1, trajectory.MOST_SAMPLES // self.ranks))
        return least * self.ranks + batch % self.ranks

    def hold(self, trial: Prepared) -> None:
        """Hold the first steps, in float64, to those of one process with the whole batch.

        Raises:
            ValueError: Statistics of a batch would be those of a rank's samples.
        """
        if find(trial.graph(1)) and self.ranks > 1:
            raise ValueError(
                "the network normalizes by batch, and of many ranks each would by its own samples;"
                " no scheme exchanges statistics yet"
            )
        trial.report.samples("world_size", [self.ranks])
        if SCHEMES[self._scheme.name].consistent:
            ratio = self._compare(trial)
            trial.report.samples("reference_error_ratio", [ratio])

    def join(self, trainer: Trainer, batch: int) -> None:
        """Take the trainer's parameters and gradients for those that are exchanged."""
        assert isinstance(trainer, Distributable)
        first, end = self.span(batch)
        self._exchange = exchanges.choose(self._scheme, self._counted, (end - first) / batch)
        self._steps, self._leaves = 0, {}
        trainer.exchange_by(self._before_step)

    def step(self, trainer: Trainer, inputs: Mapping[str, NativeTensor], rate: float) -> Any:
        """A step with what the scheme exchanges before and after the optimizer's."""
        began = perf_counter()
        self._counted.take_traffic()
        loss = trainer.step(inputs, rate)
        self._steps += 1
        self._exchange.after_step(self._leaves, self._steps)
        self._traffic.append(self._counted.take_traffic())
        self._times.append(perf_counter() - began)
        return loss

    def average(self, losses: Sequence[float], batch: int) -> list[float]:
        """Weighed by samples."""
        first, end = self.span(batch)
        flat = torch.tensor(losses, dtype=torch.float64) * ((end - first) / batch)
        self._others.all_reduce(flat)
        averages: list[float] = flat.tolist()
        return averages

    def gather_order(self, taken: Sequence[Any], batch: int) -> Any:
        """Each rank tells its own in its place."""
        first, end = self.span(batch)
        steps = torch.zeros((len(taken), batch), dtype=torch.int64)
        for step, indices in zip(steps, taken):
            step[first:end] = torch.from_numpy(indices)
        flat = steps.reshape(-1)
        self._others.all_reduce(flat)
        return flat.numpy()

    def agree(self, *values: float) -> tuple[float, ...]:
        """Those of rank 0, so that all stop at the same epoch."""
        flat = torch.tensor(values, dtype=torch.float64)
        self._others.broadcast(flat)
        return tuple(flat.tolist())

    def close_epoch(self, trial: Prepared, trainer: Trainer, epoch: int) -> None:
        """How far apart the ranks are, and what its steps exchanged."""
        del trainer
        self._report_steps(trial.report)
        flat = flatten(self._leaves.values()).double()
        if SCHEMES[self._scheme.name].consistent:
            largest, smallest = flat.clone(), -flat
            self._others.all_reduce(largest, largest=True)
            self._others.all_reduce(smallest, largest=True)
            trial.report.point("rank_difference", epoch, float((largest + smallest).max()))
        else:
            squares = (flat - self._find_mean()).square().sum().reshape(1) / self.ranks
            self._others.all_reduce(squares)
            trial.report.point("consensus_distance", epoch, float(squares.sqrt()))

    @contextmanager
    def evaluate(self, trainer: Trainer) -> Iterator[None]:
        """Of parameters that are not equal their mean is judged."""
        del trainer
        if SCHEMES[self._scheme.name].consistent:
            yield
            return
        kept = flatten(self._leaves.values())
        fill(self._leaves.values(), self._find_mean())
        yield
        fill(self._leaves.values(), kept)

    def _before_step(self, parameters: Mapping[str, Any]) -> None:
        self._leaves = parameters
        self._exchange.before_step(parameters)

    def _find_mean(self) -> Any:
        """Of the parameters of all ranks, float64."""
        flat = flatten(self._leaves.values()).double() / self.ranks
        self._others.all_reduce(flat)
        return flat

    def _report_steps(self, report: Report) -> None:
        traffic, times, self._traffic, self._times = self._traffic, self._times, [], []
        report.samples("bytes_sent", [one.sent for one in traffic])
        report.samples("bytes_received", [one.received for one in traffic])
        report.samples("messages", [one.messages for one in traffic])
        report.samples("communication_time", [one.seconds for one in traffic])
        report.samples("step_time", times)

    def _compare(self, trial: Prepared) -> float:
        """The largest distance of the first steps from the reference's, over its bound.

        The bound is `trajectory.ROUNDING` of the way that the parameters have come: sums in another
        order are the same within it.
        """
        batch = self.judged_samples(trial.recipe.batch)
        first, end = self.span(batch)
        batches, rates = checks.take_first(trial, batch)
        reached = []
        with trial.framework.arithmetic(training.EXACT):
            trainer = trial.start(trial.graph(end - first), training.EXACT)
            self.join(trainer, batch)
            for inputs, rate in zip(batches, rates):
                own = trial.place(trial.rows(inputs, batch), training.EXACT)
                self.step(trainer, own, rate)
                fetched = trial.fetch(trainer.parameters())
                reached.append({name: array.copy() for name, array in fetched.items()})
        self._traffic, self._times = [], []
        largest = 0.0
        if self.rank == 0:
            graph, recipe = trial.graph(batch), trial.recipe
            how = trial.optimizer, recipe.numbers
            due = trajectory.follow(graph, trial.parameters, batches, rates, *how)
            largest = max(
                trajectory.distance(one, step.after, trial.parameters, graph.trainable)
                for one, step in zip(reached, due)
            )
        (agreed,) = self.agree(largest)
        return agreed / trajectory.ROUNDING
