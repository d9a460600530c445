"""What ranks of sealed trainings exchanged, and what their steps took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy

from capsule import inventory
from capsule.extrapolation.costs import Cost, reckon
from capsule.levels.catalog import schemes
from capsule.manifest import LEVEL_OF_RANKS, Recipe
from capsule.manifest.kinds import Scheme
from capsule.record import Attempt, Record

_TIMES = "step_time", "communication_time", "wait_time"
_COUNTS = "bytes_sent", "messages"
_SHOWN = 8
_CROWDING = "threads_per_core"
_Columns = Mapping[str, Any]


@dataclass(frozen=True)
class Operation:
    """What ranks do together in a step.

    Attributes:
        name: As `costs.reckon` takes it.
        algorithm: Likewise: the one that gloo goes by, whatever the size.
        count: How many of them, one after the other.
        size: Bytes that a rank contributes to each.
    """

    name: str
    algorithm: str
    count: float
    size: float

    def cost(self, ranks: int) -> Cost:
        """Among so many ranks."""
        return reckon(self.name, self.algorithm, ranks, self.size).times(self.count)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The runs of one training among so many ranks.

    Attributes:
        training: Benchmark and case.
        scheme: Key of `schemes.SCHEMES`.
        ranks: How many there were.
        nodes: On how many nodes.
        samples: Of a step on the rank that had most.
        operations: Of a step that exchanges anything.
        part: How many of the steps do, from 0 to 1.
        computing: Seconds of a step while the busiest rank did not wait; one value for each run.
        exchanging: Seconds of a step that exchanges anything, of the rank that waited least: the
            others also wait for it.
        hidden: Seconds of these in which ranks did something else.
        step: Seconds of a step, of the slowest rank, on the average of all kinds of steps.
        sharing: Which ranks share cores; None where each has its own.
    """

    training: str
    scheme: str
    ranks: int
    nodes: int
    samples: int
    operations: tuple[Operation, ...]
    part: float
    computing: tuple[float, ...]
    exchanging: tuple[float, ...]
    hidden: tuple[float, ...]
    step: tuple[float, ...]
    sharing: str | None

    def cost(self, ranks: int) -> Cost:
        """Of a step that exchanges anything, among so many."""
        costs = [one.cost(ranks) for one in self.operations]
        return Cost(sum(one.messages for one in costs), sum(one.bytes for one in costs))


def find(record: Record) -> Iterator[Measured]:
    """Every training of a record that several ranks shared, by its numbers of ranks.

    Those of `find_reasons` are left out.
    """
    wanted = {*_TIMES, *_COUNTS}
    samples: dict[tuple[str, int, str], dict[int, Any]] = {}
    for one in record.samples:
        name = one.metric.rpartition("/")[2]
        if name in wanted:
            values = numpy.asarray(one.values[one.warmup :], numpy.float64)
            samples.setdefault((one.trial, one.attempt, name), {})[one.rank] = values
    paths = {one.trial: one.metric.rpartition("/")[0] for one in record.samples}
    completed = [
        one
        for one in record.attempts
        if one.outcome == "completed" and one.ranks > 1 and one.trial in paths
    ]
    ordered = sorted(completed, key=lambda one: (paths[one.trial], one.ranks, one.seed))
    for (path, _), attempts in groupby(ordered, key=lambda one: (paths[one.trial], one.ranks)):
        tables = [({name: _stack(samples, one, name) for name in wanted}, one) for one in attempts]
        runs = [(table, one) for table, one in tables if _is_whole(table, one.ranks)]
        if runs and (measured := _measure(record, path, runs)):
            yield measured


def find_reasons(record: Record) -> Iterator[tuple[str, str]]:
    """Trainings of ranks whose exchanges no model is known of, each with the reason."""
    for one in record.manifest.benchmarks:
        if isinstance(one.subject, Recipe) and one.subject.level == LEVEL_OF_RANKS:
            for case, settings in one.subject.settings.items():
                if settings.scheme and (reason := _refuse(settings.scheme)):
                    yield f"{one.id}/{case}", reason


def _refuse(scheme: Scheme) -> str | None:
    if schemes.SCHEMES[scheme.name].asynchronous:
        return "its ranks wait in no order that is known before"
    if schemes.SCHEMES[scheme.name].splits_network:
        return "what its ranks exchange while they compute is not in the model"
    if scheme.name == "sharded":
        return "by which algorithm gloo adds up the parts of ranks is not in the model"
    if scheme.over is not None:
        return f"it goes over {scheme.over}, and by which algorithms is not in the record"
    return None


def _stack(samples: Mapping[Any, Mapping[int, Any]], attempt: Attempt, name: str) -> Any:
    """Values of all ranks, of shape (ranks, steps); none where they are not of one size."""
    by_rank = samples.get((attempt.trial, attempt.attempt, name), {})
    sizes = {len(values) for values in by_rank.values()}
    return numpy.stack([by_rank[rank] for rank in sorted(by_rank)]) if len(sizes) == 1 else []


def _is_whole(columns: _Columns, ranks: int) -> bool:
    shapes = {numpy.shape(one) for one in columns.values()}
    return len(shapes) == 1 and (shape := shapes.pop())[:1] == (ranks,) and shape[1] > 0


def _measure(
    record: Record, path: str, runs: Sequence[tuple[_Columns, Attempt]]
) -> Measured | None:
    benchmark, case, _ = path.split("/")
    subject = next(one.subject for one in record.manifest.benchmarks if one.id == benchmark)
    if not isinstance(subject, Recipe) or subject.level != LEVEL_OF_RANKS:
        return None
    settings = subject.settings[case]
    assert settings.scheme is not None
    name = settings.scheme.name
    first, attempt = runs[0]
    # rank 0 of a server has other counts
    exchanges = first["messages"][-1] > 0
    if _refuse(settings.scheme) or not exchanges.any():
        return None
    sent, messages = (float(first[one][-1][exchanges].mean()) for one in _COUNTS)
    return Measured(
        training=f"{benchmark}/{case}",
        scheme=name,
        ranks=attempt.ranks,
        nodes=len(set(attempt.nodes)),
        samples=-(-settings.batch // attempt.ranks),
        operations=_operations(name, sent, messages),
        part=float(exchanges.mean()),
        computing=tuple(_over_ranks(columns, exchanges)["computing"] for columns, _ in runs),
        exchanging=tuple(_over_ranks(columns, exchanges)["exchanging"] for columns, _ in runs),
        hidden=tuple(_over_ranks(columns, exchanges)["hidden"] for columns, _ in runs),
        step=tuple(_over_ranks(columns, exchanges)["step"] for columns, _ in runs),
        sharing=_crowd(record, attempt) or _share(record, attempt),
    )


def _operations(scheme: str, sent: float, messages: float) -> tuple[Operation, ...]:
    """What a rank that is no server does in a step, by what it counted."""
    size = sent / messages
    match scheme:
        case "parameter-server":
            # its second message is received
            tree = Operation("broadcast", "binomial-tree", 1, sent)
            return Operation("reduce", "ring", 1, sent), tree
        case "top-k" | "quantized":
            return (Operation("all-gather", "ring", messages, size),)
        case "neighbour-averaging":
            return (Operation("swap", "direct", 1, size),)
        case _:
            return (Operation("all-reduce", "ring", messages, size),)


def _over_ranks(columns: _Columns, exchanges: Any) -> dict[str, float]:
    """Medians over the steps of a run."""
    step, exchanging, waiting = (columns[name] for name in _TIMES)
    slowest = step.max(0)
    part = exchanges.mean()
    other = float(numpy.median(slowest[~exchanges])) if part < 1 else 0.0
    return {
        "computing": float(numpy.median((step - waiting).max(0))),
        "exchanging": float(numpy.median(exchanging[:, exchanges].min(0))),
        "hidden": float(numpy.median((exchanging - waiting)[:, exchanges].max(0))),
        "step": float(part * numpy.median(slowest[exchanges]) + (1 - part) * other),
    }


def _crowd(record: Record, attempt: Attempt) -> str | None:
    """Which of its ranks said themselves that they share cores, wherever those were bound."""
    counts = {
        one.rank: one.values[-1]
        for one in record.samples
        if (one.trial, one.attempt) == (attempt.trial, attempt.attempt)
        and one.metric.endswith(f"/{_CROWDING}")
    }
    crowded = sorted(rank for rank, count in counts.items() if count > 1)
    if not crowded:
        return None
    names = ", ".join(map(str, crowded[:_SHOWN])) + ", ..." * (len(crowded) > _SHOWN)
    return f"ranks {names} share cores: {max(counts.values()):g} threads on each"


def _share(record: Record, attempt: Attempt) -> str | None:
    """Which of its ranks take turns on cores, and why that is known."""
    places = next(
        (
            one.nodes
            for one in reversed(record.worlds)
            if one.ranks == attempt.ranks and set(one.nodes) == set(attempt.nodes)
        ),
        attempt.nodes * attempt.ranks if len(set(attempt.nodes)) == 1 else (),
    )
    if not places:
        return "on which node each rank ran is not in the record"
    threads = int(record.environment["threads"])
    for node, ranks in sorted(Counter(places).items()):
        cores = _count_cores(record.nodes[node])
        if cores is None:
            return f"how many cores node {node} has is not in the record"
        if ranks * threads > cores:
            size = f" of {threads} threads" if threads > 1 else ""
            first = [str(rank) for rank, place in enumerate(places) if place == node]
            names = f"{first[0]} to {first[-1]}" if ranks > 2 else " and ".join(first)
            return f"ranks {names}{size} share {cores} core{'s' * (cores > 1)} of node {node}"
    return None


def _count_cores(node: Mapping[str, Any]) -> int | None:
    """That ranks may use there."""
    count = inventory.at(node, "state", "limits", "cpu_count")
    quota = inventory.at(node, "state", "limits", "cpu_quota")
    per_core = inventory.at(node, "class", "cpu", "threads_per_core")
    if not isinstance(count, int | float) or not isinstance(per_core, int | float):
        return None
    cores = count / max(1, per_core)
    return int(min(cores, quota) if isinstance(quota, int | float) else cores)
