"""The ranks of a training: what each does beside what a process does that trains alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from math import inf
from typing import Any

import torch

from ..catalog import training
from ..catalog.schemes import SCHEMES
from ..catalog.splitting import Work
from ..communicators import HOST, Clock, Communicator, Traffic
from ..frameworks.base import Distributable, NativeTensor, Trainer
from ..frameworks.torch.training import start
from ..graphs.graph import Graph
from ..graphs.statistics import find
from ..job import Recipe
from ..level2 import checks, trajectory
from ..level2.prepared import Prepared
from ..level2.progress import Progress
from ..level2.team import Team, span
from ..report import Report
from . import cores, reference
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
from .groups import Parts
from .pipelined import Pipelined
from .sharded import Sharded
from .spatial import Spatial
from .staleness import Asynchronous
from .steptimes import StepTimes

EXCHANGES: Mapping[str, type[Exchange]] = {
    "allreduce": AllReduce,
    "bucketed": Bucketed,
    "sharded": Sharded,
    "top-k": TopK,
    "quantized": Quantized,
    "parameter-server": ParameterServer,
    "asynchronous-parameter-server": Asynchronous,
    "stale-synchronous": Asynchronous,
    "model-averaging": LocalSgd,
    "local-sgd": LocalSgd,
    "neighbour-averaging": NeighbourAveraging,
    "spatial": Spatial,
    "pipelined": Pipelined,
}

_MOST_JUDGED_STEPS = 12
_MOST_JUDGED_PARTS = 2


class Ranks(Team):
    """All ranks of torch's default process group.

    What a scheme exchanges is counted, over MPI where it says so; what is exchanged to report and
    to check is not.
    """

    def __init__(
        self, recipe: Recipe, threads: int, work: Work, clock: Clock | None = None
    ) -> None:
        """Begin with no step taken.

        Args:
            recipe: One with a scheme.
            threads: Number of threads of this rank.
            work: What all ranks do.
            clock: That of the device that computes the steps; None for the host.
        """
        assert recipe.scheme is not None
        self._threads, self._work = threads, work
        self._scheme, self._meaning = recipe.scheme, SCHEMES[recipe.scheme.name]
        self._group = recipe.batch_norm_group
        self._clock = clock or HOST
        self._others = Communicator()
        self._counted = Communicator(self._clock)
        if recipe.scheme.over and self._others.ranks > 1:
            # with mpi4py, which an image for torch need not have
            from .mpicommunicator import MpiCommunicator

            self._counted = MpiCommunicator()
        self.rank, self.ranks = self._counted.rank, self._counted.ranks
        self._exchange: Exchange | None = None
        self._count_state: Callable[[], int] | None = None
        self._statistics = Parts((), self.rank, self.ranks, 1)
        self._steps = 0
        self._traffic: list[Traffic] = []
        self._times = StepTimes(self._clock)

    @property
    def share(self) -> tuple[int, int]:
        """Return all of a batch, where ranks share the network."""
        return (0, 1) if self._meaning.splits_network else (self.rank, self.ranks)

    def part(self, graph: Graph) -> Graph:
        """Return the scheme's part of a network for this rank."""
        place = self._work, self.rank, self.ranks
        return EXCHANGES[self._scheme.name].share(graph, *place)

    def judged_samples(self, batch: int, parts: int) -> int:
        """Return a few samples for each rank, and as many over as the whole batch has."""
        taken = self.share[1] * min(parts, _MOST_JUDGED_PARTS)
        least = min(batch // taken, max(1, trajectory.MOST_SAMPLES // taken))
        if self._group:
            # a channel of one sample may have one value, which has no variance
            least = min(self._group, max(2, least))
        return least * taken + (batch % self.share[1] if parts == 1 else 0)

    def hold(self, trial: Prepared) -> None:
        """Hold the first steps, in float64, to those of one process."""
        trial.report.samples("world_size", [self.ranks])
        shared = cores.count_threads_per_core(self._others, self._threads)
        trial.report.samples("threads_per_core", [shared])
        trial.report.samples("reference_error_ratio", [self._compare(trial)])

    def join(self, trial: Prepared, trainer: Trainer, batch: int, parts: int) -> None:
        """Take the trainer's parameters and gradients for those that are exchanged."""
        assert isinstance(trainer, Distributable)
        first, end = self.span(batch)
        trained = set(trial.graph(1).trainable)
        tensors = trainer.parameters()
        exchange = EXCHANGES[self._scheme.name](
            Member(
                communicator=self._counted,
                weight=(end - first) / batch,
                parts=parts,
                numbers=self._scheme.numbers,
                trainer=trainer,
                graph=trial.graph((end - first) // parts),
                work=self._work,
                leaves={name: one for name, one in tensors.items() if name in trained},
                start=lambda leaves: start(trial.optimizer, leaves, trial.recipe.numbers),
                rate=trial.rate,
            )
        )
        self._exchange, self._steps = exchange, 0
        trainer.exchange_by(lambda _: exchange.before_step())
        moving = [tensors[name] for one in find(trial.graph(1)) for name in one.names]
        self._statistics = Parts(moving, self.rank, self.ranks, parts)

        def count_state() -> int:
            kept = [*trainer.state().values(), *exchange.list_tensors()]
            return sum(one.numel() * one.element_size() for one in kept)

        self._count_state = count_state

    def open_epoch(self, steps: int) -> None:
        """Let the scheme make ready for them."""
        self._require_exchange().open(steps)

    def step(self, trainer: Trainer, inputs: Mapping[str, NativeTensor], rate: float) -> Any:
        """Return a step with what the scheme exchanges before and after the optimizer's."""
        began = self._clock.mark()
        self._counted.take_traffic()
        self._statistics.before_step()
        loss = trainer.step(inputs, rate)
        self._statistics.after_step()
        self._steps += 1
        self._require_exchange().after_step(self._steps)
        traffic = self._counted.take_traffic()
        self._traffic.append(traffic)
        self._times.note(began, self._clock.mark(), traffic)
        return loss

    def average(self, losses: Sequence[float], batch: int) -> list[float]:
        """Return the values weighed by samples, which several ranks may have."""
        del batch
        weight = self._require_exchange().share_of_losses
        flat = torch.tensor(losses, dtype=torch.float64) * weight
        self._others.all_reduce(flat)
        averages: list[float] = flat.tolist()
        return averages

    def gather_order(self, taken: Sequence[Any], batch: int) -> Any:
        """Return each rank tells its own in its place; of what all have the mean is told."""
        first, end = self.span(batch)
        steps = torch.zeros((len(taken), batch), dtype=torch.int64)
        for step, indices in zip(steps, taken):
            step[first:end] = torch.from_numpy(indices)
        flat = steps.reshape(-1)
        self._others.all_reduce(flat)
        return flat.numpy() // (self.ranks // self.share[1])

    def agree(self, *values: float) -> tuple[float, ...]:
        """Return rank 0's value, so that all ranks stop at the same epoch."""
        flat = torch.tensor(values, dtype=torch.float64)
        self._others.broadcast(flat)
        return tuple(flat.tolist())

    def settle(self, epochs: Sequence[int]) -> int:
        """Return the newest state that every rank has."""
        most = torch.tensor([max(epochs, default=0)])
        self._others.all_reduce(most, largest=True)
        counts = torch.zeros(int(most) + 1, dtype=torch.int64)
        counts[list(epochs)] = 1
        self._others.all_reduce(counts)
        common = (counts == self.ranks).nonzero()
        return int(common.max()) if len(common) else 0

    def state(self) -> Mapping[str, NativeTensor]:
        """Return the scheme's state."""
        kept = self._require_exchange().state()
        return {f"scheme/{name}": tensor for name, tensor in kept.items()}

    def go_on(self, steps: int, state: Mapping[str, NativeTensor]) -> None:
        """Periods of a scheme are counted from the first step."""
        self._steps = steps
        for name, tensor in self._require_exchange().state().items():
            tensor.copy_(state[f"scheme/{name}"])

    def close_epoch(self, trial: Prepared, so_far: Progress, epoch: int) -> None:
        """Report the distance between ranks, and the traffic of an epoch's steps."""
        exchange = self._require_exchange()
        for own, more in zip(self._traffic, exchange.close()):
            own.add(more)
        self._times.read_rest()
        # of what is exchanged to report and to check no time is told
        self._others.take_traffic()
        self._report_straggler(trial.report, epoch)
        self._report_steps(trial.report, so_far)
        if isinstance(exchange, Asynchronous):
            trial.report.point("staleness", epoch, exchange.server.most if exchange.server else 0)
        if self._count_state:
            trial.report.samples("state_bytes", [self._count_state()])
            self._count_state = None
        flat = exchange.read().double()
        if self._meaning.consistent:
            largest, smallest = flat.clone(), -flat
            self._others.all_reduce(largest, largest=True)
            self._others.all_reduce(smallest, largest=True)
            apart = {"rank_difference": float((largest + smallest).max())}
        else:
            squares = (flat - self._find_mean()).square().sum().reshape(1) / self.ranks
            self._others.all_reduce(squares)
            apart = {"consensus_distance": float(squares.sqrt())}
        for metric, value in apart.items():
            trial.report.point(metric, epoch, value)
        so_far.add(**apart)

    @contextmanager
    def evaluate(self, trainer: Trainer) -> Iterator[None]:
        """Statistics are added up, and of parameters that are not equal their mean is judged."""
        del trainer
        exchange, moving = self._require_exchange(), self._statistics.tensors
        leaves = () if self._meaning.consistent else tuple(exchange.member.leaves.values())
        with exchange.gather():
            if self.ranks == 1 or not (moving or leaves):
                yield
                return
            kept = flatten([*moving, *leaves])
            if moving:
                fill(moving, self._add_up(moving))
            if leaves:
                fill(leaves, self._find_mean())
            yield
            fill([*moving, *leaves], kept)

    def _require_exchange(self) -> Exchange:
        assert self._exchange is not None, "nobody has joined"
        return self._exchange

    def _find_mean(self) -> Any:
        """Return the mean parameters of all ranks, float64."""
        return self._add_up([self._require_exchange().read()]) / self.ranks

    def _add_up(self, tensors: Iterable[Any]) -> Any:
        """Over all ranks, float64."""
        flat = flatten(tensors).double()
        self._others.all_reduce(flat)
        return flat

    def _report_steps(self, report: Report, so_far: Progress) -> None:
        traffic, times = self._traffic, self._times
        self._traffic, self._times = [], StepTimes(self._clock)
        counted = {
            "bytes_sent": [one.sent for one in traffic],
            "bytes_received": [one.received for one in traffic],
            "messages": [one.messages for one in traffic],
        }
        for metric, values in counted.items():
            report.samples(metric, values)
            so_far.add_steps(metric, values)
        report.samples("communication_time", times.exchanging)
        report.samples("wait_time", times.waiting)
        report.samples("step_time", times.whole)

    def _report_straggler(self, report: Report, epoch: int) -> None:
        """Report the rank that waited least, and the imbalance of the other times."""
        both = torch.zeros((2, self.ranks), dtype=torch.float64)
        waited = sum(self._times.waiting)
        both[0, self.rank], both[1, self.rank] = waited, sum(self._times.whole) - waited
        self._others.all_reduce(both)
        report.point("straggler", epoch, int(both[0].argmin()))
        report.point("load_imbalance", epoch, float(both[1].max() / both[1].mean()) - 1)

    def _compare(self, trial: Prepared) -> float:
        """Return the largest distance of the first steps from the reference's, over its bound.

        The bound is `trajectory.ROUNDING` of the way that the parameters have come: sums in another
        order are the same within it. Of all ranks the largest.
        """
        first, end = self.span(trial.recipe.batch)
        parts = trial.recipe.parts(end - first)
        batch = self.judged_samples(trial.recipe.batch, parts)
        parts = min(parts, _MOST_JUDGED_PARTS)
        # one step after parameters were averaged for the first time
        period = int(self._scheme.numbers.get("period", 1))
        count = max(training.JUDGED_STEPS, min(period + 1, _MOST_JUDGED_STEPS))
        first, end = self.span(batch)
        batches, rates = checks.take_first(trial, batch, count)
        reached, kept = [], []
        with trial.framework.arithmetic(training.EXACT):
            trainer = trial.start(trial.graph((end - first) // parts), training.EXACT)
            self.join(trial, trainer, batch, parts)
            # the reference is in the host's memory, and goes to all ranks from there
            before, moving = self._require_exchange().read().cpu(), self._statistics.tensors
            is_in_step = bool(moving) and not self._meaning.asynchronous
            kept_before = self._add_up(moving).cpu() if is_in_step else None
            self.open_epoch(count)
            for inputs, rate in zip(batches, rates):
                own = trial.place(trial.rows(inputs, batch), training.EXACT)
                self.step(trainer, own, rate)
                reached.append(self._require_exchange().read().cpu())
                if is_in_step:
                    kept.append(self._add_up(moving).cpu())
            self._require_exchange().close()
        self._traffic, self._times = [], StepTimes(self._clock)
        due = self._follow(trial, batch, parts, batches, rates) if self.rank == 0 else []
        worst = torch.zeros(1, dtype=torch.float64)
        for one, right in zip(kept, due):
            statistics = torch.from_numpy(right.statistics)
            worst = worst.maximum(_measure_distance(one, statistics, kept_before))
        for step, rank in product(range(count), range(self.ranks)):
            flat = torch.empty_like(before)
            if due:
                flat = torch.from_numpy(due[step].flats[rank].copy())
            self._others.broadcast(flat)
            if rank == self.rank:
                worst = worst.maximum(_measure_distance(reached[step], flat, before))
        self._others.all_reduce(worst, largest=True)
        return float(worst) / trajectory.ROUNDING

    def _follow(
        self,
        trial: Prepared,
        batch: int,
        parts: int,
        batches: Sequence[Mapping[str, Any]],
        rates: Sequence[float],
    ) -> list[reference.After]:
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
                group=batch // (self.ranks * parts) if self._group else None,
                batches=batches,
                rates=rates,
                order=server.order if server else (),
            )
        )


def _measure_distance(reached: Any, due: Any, before: Any) -> Any:
    """Measure the distance as `trajectory.distance` does; non-numbers count as farthest."""
    part, whole = (reached - due).norm().reshape(1), (due - before).norm().reshape(1)
    share = torch.where(part > 0, part / whole, torch.zeros_like(part))
    return torch.where(part.isnan() | share.isnan(), torch.full_like(part, inf), share)
