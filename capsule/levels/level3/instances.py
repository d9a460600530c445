"""Many trainings of one network at once, none of which knows of the others.

What MLPerf HPC calls throughput, and called weak scaling until its version 3.0: M instances of one
training are started together, and T is the time from there to the end of the last one that reached
its target. Here each rank is an instance. The first one is the trial itself, with its seed.
"""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

import torch

from ..catalog import schemes
from ..communicators import Communicator
from ..frameworks import Framework
from ..frameworks.base import Trainer
from ..job import Trial
from ..level2 import TargetError, train
from ..level2.prepared import Prepared
from ..level2.team import Team
from ..report import DivergedError, Report


class Instance(Team):
    """A process that trains alone, from the moment at which all do."""

    def __init__(self, communicator: Communicator) -> None:
        """Begin when all have made their checks."""
        self._communicator = communicator
        self.began = 0.0
        self.epochs = 0
        self.quality = 0.0

    def join(self, trial: Prepared, trainer: Trainer, batch: int, parts: int) -> None:
        """Wait for all others, once everything is ready."""
        del trial, trainer, batch, parts
        self._communicator.all_reduce(torch.zeros(1))
        self.began = perf_counter()

    def agree(self, *values: float) -> tuple[float, ...]:
        """Keep the quality of an epoch."""
        self.epochs, self.quality = self.epochs + 1, values[1]
        return values


def measure(
    trial: Trial, framework: Framework, report: Report, communicator: Communicator
) -> TargetError | DivergedError | None:
    """Train as one instance of so many as there are ranks.

    Args:
        trial: With a recipe.
        framework: Where it trains.
        report: Where the values go.
        communicator: With the others, who are asked at the begin and at the end alone.

    Returns:
        Why the first instance, which is this one, has not reached its target, to be raised once the
        others need it no more; another one's is counted out.
    """
    rank, ranks = communicator.rank, communicator.ranks
    seed = schemes.instance_seed(trial.context.seed, rank)
    own = replace(trial, context=replace(trial.context, seed=seed))
    report.samples("world_size", [ranks])
    instance, missed = Instance(communicator), None
    try:
        train(own, framework, report, instance)
    except (TargetError, DivergedError) as error:
        missed = error
    seconds = perf_counter() - instance.began
    reached, last = torch.zeros(ranks), torch.zeros(ranks, dtype=torch.float64)
    if missed is None:
        reached[rank], last[rank] = 1, seconds
    communicator.all_reduce(reached)
    communicator.all_reduce(last)
    report.samples("instance_reached", [float(missed is None)])
    report.samples("instance_time", [seconds])
    report.samples("instance_epochs", [instance.epochs])
    report.samples("instance_quality", [instance.quality])
    if rank or missed is not None:
        return missed if rank == 0 else None
    count, longest = int(reached.sum()), float(last.max())
    report.samples("instances", [count])
    report.samples("time_to_train_all", [longest])
    report.samples("instance_throughput", [count / longest])
    return None
