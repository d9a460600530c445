"""Jobs of `levels` in a process of their own: what goes in, and the events of its journal."""

import json
import os
import subprocess
import sys
from importlib import util
from pathlib import Path

import pytest

import capsule.levels
from tests.support.patience import PATIENCE_SECONDS
from tests.support.trials import ENTRY, JOB

LEVELS = Path(capsule.levels.__file__).parent

NEEDS_TORCH = [
    pytest.mark.torch,
    pytest.mark.skipif(util.find_spec("torch") is None, reason="torch is not installed here"),
]


def needs_torch(test):
    """The marks of `NEEDS_TORCH`, as a decorator."""
    for mark in NEEDS_TORCH:
        test = mark(test)
    return test


EACH_FRAMEWORK = pytest.mark.parametrize(
    "framework", ["numpy", pytest.param("torch", marks=NEEDS_TORCH)]
)


def operator(name, case="default", repetitions=4, warmup=1, dtype="float32", **parameters):
    """A trial of an operator."""
    return {
        **ENTRY,
        "id": f"{name}/{case}/{dtype}/17",
        "benchmark": name,
        "level": 0,
        "operator": name,
        "dtype": dtype,
        "case": case,
        "parameters": parameters,
        "repetitions": repetitions,
        "warmup": warmup,
    }


def network(name, *words, **parameters):
    """A trial of a network; see `operator`."""
    entry = operator(name, *words, **parameters)
    del entry["operator"]
    return {**entry, "level": 1, "network": name}


def job(trials, framework="numpy", **fields):
    return {**JOB, "framework": framework, "trials": trials, **fields}


def environment(folder, plant=None):
    """Few variables, and code that runs in the program before anything else of it."""
    variables = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"}
    if plant:
        (folder / "sitecustomize.py").write_text(plant)
        variables["PYTHONPATH"] = str(folder)
    return variables


def command(folder, document, levels=LEVELS):
    (folder / "job.json").write_text(json.dumps(document))
    return [sys.executable, str(levels), "run", "job.json", "journal.jsonl"]


def refuse(name):
    raise AssertionError(f"{name} is not JSON")


def events(folder):
    text = (folder / "journal.jsonl").read_text()
    assert text.endswith("\n")
    return [json.loads(line, parse_constant=refuse) for line in text.splitlines()]


def run(folder, document, plant=None, levels=LEVELS):
    """The events of a job that had all its turns."""
    done = subprocess.run(
        command(folder, document, levels),
        cwd=folder,
        env=environment(folder, plant),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return events(folder)


def samples(journal, identity):
    """The lines of samples of a trial by metric."""
    return {
        event["metric"]: event
        for event in journal
        if event["event"] == "samples" and event["trial"] == identity
    }


def end(journal, identity):
    """How a trial ended."""
    (event,) = [
        event for event in journal if event["event"] == "end" and event["trial"] == identity
    ]
    return event
