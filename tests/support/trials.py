"""Trials of `levels` without a journal: an entry of a job in, what is reported of it out."""

from capsule.levels import job, run
from capsule.levels.report import Report

JOB = {
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

ENTRY = {
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


def make(framework="numpy", seed=17, **fields):
    """A trial; its level is that of the field which names its subject."""
    level = 1 if "network" in fields else 0
    entry = {**ENTRY, "level": level, **fields}
    if entry.get("source", "") is None:
        del entry["source"]
    document = {**JOB, "framework": framework, "seed": seed, "trials": [entry]}
    (trial,) = job.parse(document, {}).trials
    return trial


def measure(framework, seed=17, **fields):
    """The samples of one trial by metric, in the order in which they were reported."""
    lines = []
    trial = make(framework.name, seed, **fields)
    run.LEVELS[trial.level](trial, framework, Report(lines.append))
    metrics = [line.metric for line in lines]
    assert len(metrics) == len(set(metrics))
    return dict(zip(metrics, lines, strict=True))


def values(framework, seed=17, **fields):
    """The values of each metric, warm-up included."""
    return {name: line.values for name, line in measure(framework, seed, **fields).items()}
