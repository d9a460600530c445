"""Trials of `levels` without a journal: an entry of a job in, what is reported of it out."""

from typing import Any

from capsule.levels import job, run
from capsule.levels.frameworks import Framework
from capsule.levels.journal import Samples
from capsule.levels.report import Report

Entry = dict[str, Any]
"""An entry of a job's trials, or some of its fields."""

Values = dict[str, tuple[float, ...]]
"""The values of each metric."""

JOB: dict[str, Any] = {
    "format": job.FORMAT,
    "framework": "numpy",
    "seed": 17,
    "determinism": "default",
    "device": "cpu",
    "threads": 1,
    "ranks": 1,
    "data": {},
}
"""A job but for its trials."""

ENTRY: Entry = {
    "id": "trial",
    "benchmark": "benchmark",
    "dtype": "float32",
    "case": "default",
    "parameters": {},
    "repetitions": 4,
    "warmup": 2,
    "datasets": [],
}
"""An entry of a job's trials but for its subject."""


def make(framework: str = "numpy", seed: int = 17, device: str = "cpu", **fields: Any) -> job.Trial:
    """A trial; its level is that of the field which names its subject."""
    level = 1 if "network" in fields else 0
    entry = {**ENTRY, "level": level, **fields}
    if entry.get("source", "") is None:
        del entry["source"]
    context = {"framework": framework, "seed": seed, "device": device}
    document = {**JOB, **context, "trials": [entry]}
    (trial,) = job.parse(document, {}).trials
    return trial


def measure(framework: Framework, seed: int = 17, **fields: Any) -> dict[str, Samples]:
    """The samples of one trial by metric, in the order in which they were reported."""
    lines: list[Samples] = []
    trial = make(framework.name, seed, **fields)
    run.load_level(trial.level)(trial, framework, Report(lines.append))
    metrics = [line.metric for line in lines]
    assert len(metrics) == len(set(metrics))
    return dict(zip(metrics, lines, strict=True))


def values(framework: Framework, seed: int = 17, **fields: Any) -> Values:
    """The values of each metric, warm-up included."""
    return {name: line.values for name, line in measure(framework, seed, **fields).items()}
