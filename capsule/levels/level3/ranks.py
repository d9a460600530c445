"""The ranks of a training: what each does beside what a process does that trains alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from math import inf
from time import perf_counter
from typing import Any

import torch

from ..catalog import training
from ..catalog.schemes import SCHEMES
from ..communicators import Communicator, Traffic
from ..frameworks.base import Distributable, NativeTensor, Trainer
from ..frameworks.torch.training import start
from ..graphs.statistics import find
from ..job import Scheme
from ..level2 import checks, trajectory
from ..level2.prepared import Prepared
from ..level2.team import Team, span
from ..report import Report
from . import reference
from .buckets import Bucketed
from .compressed import Quantized, TopK
from .exchanges import (
    AllReduce,
    Exchange,
    LocalSgd,
    Member,
    NeighbourAveraging,
    ParameterServer,
    fill,
    flatten,
)
from .staleness import Asynchronous

EXCHANGES: Mapping[str, type[Exchange]] = {
    "allreduce": AllReduce,
    "bucketed": Bucketed,
    "top-k": TopK,
    "quantized": Quantized,
    "parameter-server": ParameterServer,
    "asynchronous-parameter-server": Asynchronous,
    "stale-synchronous": Asynchronous,
    "model-averaging": LocalSgd,
    "local-sgd": LocalSgd,
    "neighbour-averaging": NeighbourAveraging,
}

_MOST_JUDGED_STEPS = 12
_MOST_JUDGED_PARTS = 2


class Ranks(Team):
    """All ranks of torch's default process group.

    What a scheme exchanges is counted, what is exchanged to report and to check is not.
    """

    def __init__(self, scheme: Scheme) -> None:
        """Begin with no step taken.

        Args:
            scheme: How they train together.
        """
        self._scheme, self._meaning = scheme, SCHEMES[scheme.name]
        self._counted, self._others = Communicator(), Communicator()
        self.rank, self.ranks = self._counted.rank, self._counted.ranks
        self._exchange: Exchange | None = None
        self._leaves: Mapping[str, Any] = {}
        self._steps = 0
        self._traffic: list[Traffic] = []
        self._times: list[float] = []

    def judged_samples(self, batch: int, parts: int) -> int:
        """A few samples for each rank, and as many over as the whole batch has."""
        taken = self.ranks * min(parts, _MOST_JUDGED_PARTS)
        least = min(batch // taken, max(1, trajectory.MOST_SAMPLES // taken))
        return least * taken + (batch % self.ranks if parts == 1 else 0)

    def hold(self, trial: Prepared) -> None:
        """Hold the first steps, in float64, to those of one process.

        Raises:
            ValueError: Statistics of a batch would be those of a rank's samples.
        """
        if find(trial.graph(1)) and self.ranks > 1:
            raise ValueError(
                "the network normalizes by batch, and of many ranks each would by its own samples;"
                " no scheme exchanges statistics yet"
            )
        trial.report.samples("world_size", [self.ranks])
        trial.report.samples("reference_error_ratio", [self._compare(trial)])

    def join(self, trial: Prepared, trainer: Trainer, batch: int, parts: int) -> None:
        """Take the trainer's parameters and gradients for those that are exchanged."""
        assert isinstance(trainer, Distributable)
        first, end = self.span(batch)
        trained = set(trial.graph(1).trainable)
        tensors = trainer.parameters()
        self._leaves = {name: one for name, one in tensors.items() if name in trained}
        exchange = EXCHANGES[self._scheme.name](
            Member(
                communicator=self._counted,
                weight=(end - first) / batch,
                parts=parts,
                numbers=self._scheme.numbers,
                leaves=self._leaves,
                start=lambda leaves: start(trial.optimizer, leaves, trial.recipe.numbers),
                rate=trial.rate,
            )
        )
        self._exchange, self._steps = exchange, 0
        trainer.exchange_by(lambda _: exchange.before_step())

    def open_epoch(self, steps: int) -> None:
        """Let the scheme make ready for them."""
        self._require_exchange().open(steps)

    def step(self, trainer: Trainer, inputs: Mapping[str, NativeTensor], rate: float) -> Any:
        """A step with what the scheme exchanges before and after the optimizer's."""
        began = perf_counter()
        self._counted.take_traffic()
        loss = trainer.step(inputs, rate)
        self._steps += 1
        self._require_exchange().after_step(self._steps)
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
        exchange = self._require_exchange()
        for own, more in zip(self._traffic, exchange.close()):
            own.add(more)
        self._report_straggler(trial.report, epoch)
        self._report_steps(trial.report)
        if isinstance(exchange, Asynchronous):
            trial.report.point("staleness", epoch, exchange.server.most if exchange.server else 0)
        flat = flatten(self._leaves.values()).double()
        if self._meaning.consistent:
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
        if self._meaning.consistent:
            yield
            return
        kept = flatten(self._leaves.values())
        fill(self._leaves.values(), self._find_mean())
        yield
        fill(self._leaves.values(), kept)

    def _require_exchange(self) -> Exchange:
        assert self._exchange is not None, "nobody has joined"
        return self._exchange

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
        report.samples("wait_time", [one.waited for one in traffic])
        report.samples("step_time", times)

    def _report_straggler(self, report: Report, epoch: int) -> None:
        """Who waited least, for it is whom others wait for, and how uneven the rest of time is."""
        both = torch.zeros((2, self.ranks), dtype=torch.float64)
        waited = sum(one.waited for one in self._traffic)
        both[0, self.rank], both[1, self.rank] = waited, sum(self._times) - waited
        self._others.all_reduce(both)
        report.point("straggler", epoch, int(both[0].argmin()))
        report.point("load_imbalance", epoch, float(both[1].max() / both[1].mean()) - 1)

    def _compare(self, trial: Prepared) -> float:
        """The largest distance of the first steps from the reference's, over its bound.

        The bound is `trajectory.ROUNDING` of the way that the parameters have come: sums in another
        order are the same within it. Of all ranks the largest.
        """
        accumulate = trial.recipe.accumulate
        batch = self.judged_samples(trial.recipe.batch, accumulate)
        parts = min(accumulate, _MOST_JUDGED_PARTS)
        # one step after parameters were averaged for the first time
        period = int(self._scheme.numbers.get("period", 1))
        count = max(training.JUDGED_STEPS, min(period + 1, _MOST_JUDGED_STEPS))
        first, end = self.span(batch)
        batches, rates = checks.take_first(trial, batch, count)
        reached = []
        with trial.framework.arithmetic(training.EXACT):
            trainer = trial.start(trial.graph((end - first) // parts), training.EXACT)
            self.join(trial, trainer, batch, parts)
            before = flatten(self._leaves.values())
            self.open_epoch(count)
            for inputs, rate in zip(batches, rates):
                own = trial.place(trial.rows(inputs, batch), training.EXACT)
                self.step(trainer, own, rate)
                reached.append(flatten(self._leaves.values()))
            self._require_exchange().close()
        self._traffic, self._times = [], []
        due = self._follow(trial, batch, batches, rates) if self.rank == 0 else []
        worst = torch.zeros(1, dtype=torch.float64)
        for step, rank in product(range(count), range(self.ranks)):
            flat = torch.from_numpy(due[step][rank].copy()) if due else torch.empty_like(before)
            self._others.broadcast(flat)
            if rank == self.rank:
                worst = worst.maximum(_measure_distance(reached[step], flat, before))
        self._others.all_reduce(worst, largest=True)
        return float(worst) / trajectory.ROUNDING

    def _follow(
        self,
        trial: Prepared,
        batch: int,
        batches: Sequence[Mapping[str, Any]],
        rates: Sequence[float],
    ) -> list[reference.Flats]:
        exchange = self._require_exchange()
        server = exchange.server if isinstance(exchange, Asynchronous) else None
        return reference.follow(
            reference.Setting(
                graph=trial.graph,
                parameters=trial.parameters,
                optimizer=trial.optimizer,
                numbers=trial.recipe.numbers,
                scheme=self._scheme,
                spans=[span(batch, rank, self.ranks) for rank in range(self.ranks)],
                batches=batches,
                rates=rates,
                order=server.order if server else (),
            )
        )


def _measure_distance(reached: Any, due: Any, before: Any) -> Any:
    """As `trajectory.distance`; what is no number is as far as can be."""
    part, whole = (reached - due).norm().reshape(1), (due - before).norm().reshape(1)
    share = torch.where(part > 0, part / whole, torch.zeros_like(part))
    return torch.where(part.isnan() | share.isnan(), torch.full_like(part, inf), share)
