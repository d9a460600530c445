"""Consistency of trainings of several ranks: reported exchanges against the scheme's definition."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite

from capsule import rankseries
from capsule.levels.catalog import schemes, splitting
from capsule.manifest import LEVEL_OF_RANKS, Recipe
from capsule.manifest.kinds import Scheme
from capsule.record import RankSamples, Record, Samples

_BYTES = {"float32": 4, "float64": 8}
_SHOWN = 3


@dataclass(frozen=True)
class Shared:
    """One attempt at a training that ranks shared.

    Attributes:
        where: For messages.
        scheme: Scheme of its recipe.
        item_bytes: Bytes of an element of a parameter.
        ranks: Processes that were started for it together.
        work: What they do in a step.
        parameters: Trained numbers, None where nobody said.
        series: What each rank reported, by rank and by the name of the metric.
        folded: The series of many ranks that are kept as one, by the name of the metric.
    """

    where: str
    scheme: Scheme
    item_bytes: int
    ranks: int
    work: splitting.Work
    parameters: int | None
    series: Mapping[int, Mapping[str, Samples]]
    folded: Mapping[str, RankSamples]


def faults(record: Record) -> Iterator[str]:
    """Yield exchanges that differ from their scheme's definition, as sentences."""
    for one in _read(record):
        yield from (f"{one.where}: {fault}" for fault in _faults(one))


def facts(record: Record) -> Iterator[str]:
    """Return facts about the trainings of a record without faults; none without such trainings."""
    schemes_of_ranks = (schemes.SCHEMES[one.scheme.name] for one in _read(record))
    if shared := sum(1 for scheme in schemes_of_ranks if not scheme.independent):
        yield (f"in {shared} trainings, the traffic of each rank in each step matches the scheme")


def _read(record: Record) -> Iterator[Shared]:
    recipes = {
        one.id: one.subject
        for one in record.manifest.benchmarks
        if isinstance(one.subject, Recipe) and one.subject.level == LEVEL_OF_RANKS
    }
    series: dict[tuple[str, int], dict[int, dict[str, Samples]]] = {}
    folded: dict[tuple[str, int], dict[str, RankSamples]] = {}
    for line in record.samples:
        if isinstance(line, RankSamples):
            key, name = (line.trial, line.attempt), line.metric.rpartition("/")[2]
            folded.setdefault(key, {})[name] = line
        elif line.metric.partition("/")[0] in recipes:
            ranks = series.setdefault((line.trial, line.attempt), {})
            ranks.setdefault(line.rank, {})[line.metric.rpartition("/")[2]] = line
    for attempt in record.attempts:
        name, case, *_ = attempt.trial.split("/")
        # one that failed has told what it told
        if name not in recipes or attempt.outcome != "completed":
            continue
        recipe, settings = recipes[name], recipes[name].settings[case]
        scheme = settings.scheme
        assert scheme is not None
        ranks = series.get((attempt.trial, attempt.attempt), {})
        counted = ranks.get(0, {}).get("parameters")
        yield Shared(
            where=f"{attempt.trial}, attempt {attempt.attempt}",
            scheme=scheme,
            item_bytes=_BYTES[recipe.dtype],
            ranks=attempt.ranks,
            work=splitting.Work(recipe.name, settings.sizes, settings.batch, settings.accumulate),
            parameters=int(counted.values[0]) if counted and isfinite(counted.values[0]) else None,
            series=ranks,
            folded=folded.get((attempt.trial, attempt.attempt), {}),
        )


def _faults(one: Shared) -> Iterator[str]:
    counted = () if schemes.SCHEMES[one.scheme.name].independent else schemes.TRAFFIC
    if "world_size" in one.folded:
        yield from _folded_faults(one, counted)
        yield from _staleness_faults(one)
        yield from _instance_faults(one)
        return
    steps = set()
    for rank in range(one.ranks):
        series = one.series.get(rank, {})
        lacking = [name for name in ("world_size", *counted) if name not in series]
        if lacking:
            yield f"rank {rank} has no samples of {', '.join(lacking)}"
            continue
        steps |= {len(series[name].values) for name in counted}
        size = series["world_size"].values[0]
        if size != one.ranks:
            yield f"rank {rank} saw {size:g} ranks, expected {one.ranks}"
        if one.parameters is not None and len(steps) == 1:
            yield from _traffic_faults(one, rank, series, one.parameters)
    yield from _staleness_faults(one)
    yield from _instance_faults(one)
    if len(steps) > 1:
        yield _word_steps(steps)


def _word_steps(steps: Collection[int]) -> str:
    return f"the ranks took between {min(steps)} and {max(steps)} steps, expected equal numbers"


def _folded_faults(one: Shared, counted: Sequence[str]) -> Iterator[str]:
    """Yield faults of ranks whose series are stored as one."""
    if lacking := [name for name in counted if name not in one.folded]:
        yield f"no rank has samples of {', '.join(lacking)}"
        return
    world = one.folded["world_size"]
    wrong = ((rank, size) for rank, size in enumerate(world.values) if size != one.ranks)
    if (seen := next(wrong, None)) is not None:
        yield f"rank {seen[0]} saw {seen[1]:g} ranks, expected {one.ranks}"
    if len(steps := {one.folded[name].count for name in counted}) > 1:
        yield _word_steps(steps)
    elif one.parameters is not None:
        for place, name in enumerate(counted):
            yield from _step_faults(one, one.folded[name], place, one.parameters)


def _step_faults(one: Shared, line: RankSamples, place: int, elements: int) -> Iterator[str]:
    """Yield steps in which a rank exchanged something else than its scheme has it exchange."""
    period = int(one.scheme.numbers.get("period", 1))
    scheme = one.scheme.name, tuple(sorted(one.scheme.numbers.items()))
    wrong = 0
    for step in range(1, line.count + 1):
        # in every period each of its steps exchanges the same again
        turn = (step - 1) % period + 1
        due = _due(*scheme, one.ranks, elements, one.item_bytes, turn, _Work(one.work))[place]
        column = line.whole[step - 1 :: line.count]
        same = list(column) == list(due[0]) if line.whole else line.digests[step - 1] == due[1]
        if not same:
            name, scheme_name = line.metric.rpartition("/")[2], one.scheme.name
            if len(column) == len(due[0]):
                rank = next(rank for rank, value in enumerate(column) if value != due[0][rank])
                yield (
                    f"{name} of rank {rank} is {column[rank]:g} in step {step}, expected"
                    f" {due[0][rank]:g} from scheme {scheme_name}"
                )
            else:
                yield (
                    f"{name} of all ranks has the digest {line.digests[step - 1][:12]} in step"
                    f" {step}, expected {due[1][:12]} from scheme {scheme_name}"
                )
            wrong += 1
            if wrong == _SHOWN:
                return


class _Work:
    """The work of a step, as what results are remembered by: where it is equal to another one."""

    def __init__(self, work: splitting.Work) -> None:
        self.work = work

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Work) and self.work == other.work

    def __hash__(self) -> int:
        return hash((self.work.network, self.work.batch))


@lru_cache(maxsize=64)
def _due(
    name: str,
    numbers: tuple[tuple[str, float], ...],
    ranks: int,
    elements: int,
    item: int,
    step: int,
    work: _Work,
) -> tuple[tuple[array[float], str], ...]:
    """Return bytes sent, received and messages of every rank in a step, with their digest."""
    rows = [
        schemes.traffic(name, dict(numbers), rank, ranks, elements, item, step, work.work)
        for rank in range(ranks)
    ]
    columns = [array("d", column) for column in zip(*rows, strict=True)]
    return tuple((column, rankseries.digest(column)) for column in columns)


def _traffic_faults(
    one: Shared, rank: int, series: Mapping[str, Samples], elements: int
) -> Iterator[str]:
    columns = [series[name].values for name in schemes.TRAFFIC]
    wrong = 0
    for step, values in enumerate(zip(*columns, strict=True), 1):
        what = rank, one.ranks, elements, one.item_bytes, step, one.work
        due = schemes.traffic(one.scheme.name, one.scheme.numbers, *what)
        if tuple(values) != due:
            pairs = zip(schemes.TRAFFIC, values, due, strict=True)
            name, value, right = next(pair for pair in pairs if pair[1] != pair[2])
            yield (
                f"{name} of rank {rank} is {value:g} in step {step}, expected {right} from scheme"
                f" {one.scheme.name}"
            )
            wrong += 1
            if wrong == _SHOWN:
                return


def _staleness_faults(one: Shared) -> Iterator[str]:
    bound = one.scheme.numbers.get("staleness")
    reported = one.series.get(0, {}).get("staleness")
    if bound is None:
        return
    if reported is None:
        yield "rank 0 has no samples of staleness"
    elif max(reported.values) > bound:
        yield (
            f"a rank was {max(reported.values):g} steps ahead of the slowest rank, expected at most"
            f" {bound:g} steps from scheme {one.scheme.name}"
        )


def _instance_faults(one: Shared) -> Iterator[str]:
    reported = one.series.get(0, {}).get("instances")
    if not schemes.SCHEMES[one.scheme.name].independent:
        return
    reached = [
        series["instance_reached"].values[0]
        for series in one.series.values()
        if "instance_reached" in series
    ]
    if "instance_reached" in one.folded:
        reached = list(one.folded["instance_reached"].values)
    if reported is None:
        yield "rank 0 has no samples of instances"
    elif reported.values[0] != sum(reached):
        yield (
            f"rank 0 counts {reported.values[0]:g} instances that reached their target, expected"
            f" the {sum(reached):g} that the ranks report"
        )
