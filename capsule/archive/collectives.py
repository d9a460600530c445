"""Consistency of collective benchmarks: reported exchanges against the operation's definition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isclose

from capsule.levels.catalog import collectives
from capsule.manifest import Collective
from capsule.manifest.collectives import of_case
from capsule.record import Record, Samples

_ROUNDING = 1e-9
"""Share of a bandwidth that may differ where it is computed in another way."""

_COUNTS = ("bytes_sent", "bytes_received", "messages")


@dataclass(frozen=True)
class Exchanged:
    """One completed attempt at an operation.

    Attributes:
        where: For messages.
        wanted: What was exchanged.
        ranks: Processes that were started for it together.
        calls: How often each exchanged, warm-up included.
        series: What each rank reported, by rank and by the name of the metric.
    """

    where: str
    wanted: collectives.Collective
    ranks: int
    calls: int
    series: Mapping[int, Mapping[str, Samples]]


def faults(record: Record) -> Iterator[str]:
    """Yield exchanges in a record that differ from their operation's definition, as sentences."""
    for one in _read(record):
        yield from (f"{one.where}: {fault}" for fault in _faults(one))


def facts(record: Record) -> Iterator[str]:
    """Return facts about the exchanges of a record without faults; none without exchanges."""
    if count := sum(1 for _ in _read(record)):
        yield (
            f"in {count} exchanges, the traffic of each rank matches the operation, and bandwidths"
            " follow from latencies"
        )


def _read(record: Record) -> Iterator[Exchanged]:
    benchmarks = {
        one.id: (one, one.subject)
        for one in record.manifest.benchmarks
        if isinstance(one.subject, Collective)
    }
    if not benchmarks:
        return
    series: dict[tuple[str, int], dict[int, dict[str, Samples]]] = {}
    for line in record.samples:
        if line.metric.partition("/")[0] in benchmarks:
            ranks = series.setdefault((line.trial, line.attempt), {})
            ranks.setdefault(line.rank, {})[line.metric.rpartition("/")[2]] = line
    for attempt in record.attempts:
        name, case, *_ = attempt.trial.split("/")
        # one that failed has told what it told
        if name not in benchmarks or attempt.outcome != "completed":
            continue
        benchmark, subject = benchmarks[name]
        (point,) = (one for one in benchmark.cases if one.name == case)
        yield Exchanged(
            where=f"{attempt.trial}, attempt {attempt.attempt}",
            wanted=of_case(point),
            ranks=attempt.ranks,
            calls=subject.warmup + subject.repetitions,
            series=series.get((attempt.trial, attempt.attempt), {}),
        )


def _faults(one: Exchanged) -> Iterator[str]:
    for rank in range(one.ranks):
        series = one.series.get(rank, {})
        columns = {facts.name: series.get(facts.name) for facts in collectives.METRICS}
        values = {name: line.values for name, line in columns.items() if line is not None}
        due = {name: 1 if name == "world_size" else one.calls for name in columns}
        odd = [name for name, count in due.items() if len(values.get(name, ())) != count]
        if odd:
            many = len(values.get(odd[0], ()))
            yield f"rank {rank} has {many} values of {odd[0]}, expected {due[odd[0]]}"
        elif (size := values["world_size"][0]) != one.ranks:
            yield f"rank {rank} saw {size:g} ranks, expected {one.ranks}"
        else:
            yield from _call_faults(one, rank, values)


def _call_faults(one: Exchanged, rank: int, values: Mapping[str, Sequence[float]]) -> Iterator[str]:
    """Yield the first call of a rank that cannot have been."""
    name, size = one.wanted.name, one.wanted.size
    share = collectives.bus_share(name, one.ranks)
    right = collectives.traffic(name, size, rank, one.ranks)
    for call in range(one.calls):
        reported = {metric: column[call] for metric, column in values.items() if len(column) > 1}
        seconds = reported["latency"]
        if not seconds >= 0:
            yield f"latency of rank {rank} is {seconds:g} s in call {call}, expected at least 0 s"
            return
        rate = size / max(seconds, 1e-9)
        due = {
            **dict(zip(_COUNTS, right, strict=True)),
            "bandwidth": rate,
            "bus_bandwidth": share * rate,
        }
        for metric, value in due.items():
            if not isclose(
                reported[metric], value, rel_tol=_ROUNDING if metric not in _COUNTS else 0
            ):
                yield (
                    f"{metric} of rank {rank} is {reported[metric]:g} in call {call}, expected"
                    f" {value:g} for {name} of {size} bytes"
                )
                return
