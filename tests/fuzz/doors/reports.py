"""What workloads report: the journal of `levels`, and the results of a command."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

from capsule.archive import indented, lines, strict
from capsule.execute import journal, results
from capsule.execute.reports import Journal, merge
from capsule.manifest import Benchmark, Case, Command, Metric, Operator
from capsule.plan import Trial
from capsule.record import Attempt, Samples
from tests.fuzz import mutate
from tests.fuzz.campaign import Door

_METRICS = (
    Metric(name="loss"),
    Metric(name="time", unit="s", kind="machine", resolution=1e-9),
    Metric(name="curve", per="step"),
)
_CASE = Case(name="default", parameters={})
_LEVELS = Benchmark(
    id="b", subject=Operator(name="gemm"), cases=(_CASE,), frameworks=("numpy",), metrics=_METRICS
)
_COMMAND = Benchmark(
    id="b",
    subject=Command(words=("true",)),
    cases=(_CASE,),
    frameworks=("numpy",),
    metrics=_METRICS,
)
_EVENTS: tuple[dict[str, Any], ...] = (
    {
        "event": "hello",
        "format": journal.FORMAT,
        "rank": 0,
        "ranks": 1,
        "software": {"python": "3.11", "distributions": {"numpy": "2"}},
        "environment": {"threads": 2},
    },
    {"event": "begin", "trial": "b/default/numpy/1"},
    {
        "event": "samples",
        "trial": "b/default/numpy/1",
        "metric": "loss",
        "warmup": 1,
        "values": [0.5, 1.5, "NaN"],
    },
    {"event": "samples", "trial": "b/default/numpy/1", "metric": "time", "values": [3.0, 1.0]},
    {
        "event": "samples",
        "trial": "b/default/numpy/1",
        "metric": "curve",
        "values": [1.0, 2.0],
        "steps": [1, 2],
        "wall": [0.1, 0.2],
        "active": [0.1, 0.2],
    },
    {
        "event": "end",
        "trial": "b/default/numpy/1",
        "outcome": "failed",
        "reason": "error",
        "message": "Traceback",
        "seconds": 0.5,
    },
    {"event": "begin", "trial": "b/default/numpy/2"},
    {
        "event": "end",
        "trial": "b/default/numpy/2",
        "outcome": "completed",
        "reason": None,
        "message": "",
        "seconds": 0.5,
    },
    {"event": "bye"},
)
_RESULTS: tuple[dict[str, Any], ...] = (
    {"metric": "loss", "value": 0.5},
    {"metric": "time", "value": 1.5},
    {"metric": "curve", "value": 0.5, "step": 1},
    {"metric": "curve", "value": 0.25, "step": 2},
)


def _trial(benchmark: Benchmark, seed: int) -> Trial:
    return Trial(
        id=f"b/default/numpy/{seed}",
        benchmark=benchmark,
        case=_CASE,
        framework="numpy",
        seed=seed,
        seed_source="manifest",
    )


def _make(events: tuple[dict[str, Any], ...], random: Random) -> bytes:
    changed = list(events)
    for _ in range(random.choice((1, 1, 2, 4))):
        place = random.randrange(len(changed))
        changed[place] = mutate.document(changed[place], random, random.choice((1, 2)))
    data = b"".join(json.dumps(event).encode() + b"\n" for event in changed)
    return mutate.text(data, random) if random.random() < 0.2 else data


def make_journal(random: Random) -> bytes:
    """A journal of two trials, changed."""
    return _make(_EVENTS, random)


def make_results(random: Random) -> bytes:
    """Results of one trial, changed."""
    return _make(_RESULTS, random)


def send_journal(data: bytes, folder: Path) -> None:
    """Read it; what it amounts to can be sealed."""
    path = folder / "journal.jsonl"
    path.write_bytes(data)
    trials = (_trial(_LEVELS, 1), _trial(_LEVELS, 2))
    seal(merge([journal.read(path, trials)], trials), trials)


def send_results(data: bytes, folder: Path) -> None:
    """Read it as that of a command that ended well, and of one that did not."""
    path = folder / "results.jsonl"
    path.write_bytes(data)
    trial = _trial(_COMMAND, 1)
    for ended_well in (True, False):
        report = results.read(path, trial, ended_well=ended_well)
        whole = Journal(software={}, environment={}, reports=(report,))
        seal(merge([whole], (trial,)), (trial,))


def seal(merged: Journal, trials: tuple[Trial, ...]) -> None:
    """Write what ranks said of these trials as a capsule has it, and read it again."""
    software = indented.pretty(
        {"format": "capsule-software/1", "software": {"numpy": dict(merged.software)}}
    )
    strict.parse(software, where="software.json")
    effective = {"numpy": dict(merged.environment)}
    environment = indented.pretty({"format": "1", "environment": {"effective": effective}})
    strict.parse(environment, where="environment.json")
    for report in merged.reports:
        attempt = Attempt(
            trial=report.trial,
            attempt=1,
            group="0001",
            seed=1,
            seed_source="manifest",
            outcome="failed" if report.outcome == "failed" else "completed",
            reason=report.reason,
            message=report.message,
            started="2026-03-01T10:00:00+00:00",
            seconds=report.seconds,
        )
        lines.read_attempts([lines.write_attempt(attempt)], where="attempts.jsonl")
        known = {metric.name: metric for metric in trials[0].benchmark.metrics}
        for series in report.series:
            metric = known[series.metric]
            written = lines.write_samples(
                Samples(
                    metric=f"{report.trial.rpartition('/')[0]}/{metric.name}",
                    trial=report.trial,
                    attempt=1,
                    seed=1,
                    unit=metric.unit,
                    direction=metric.direction,
                    kind=metric.kind,
                    resolution=metric.resolution,
                    per=metric.per,
                    rank=series.rank,
                    warmup=series.warmup,
                    values=series.values,
                    steps=series.steps,
                    wall=series.wall,
                    active=series.active,
                )
            )
            lines.read_samples([written], where="samples.jsonl")


JOURNAL = Door(name="journal", make=make_journal, send=send_journal)
RESULTS = Door(name="results", make=make_results, send=send_results)
