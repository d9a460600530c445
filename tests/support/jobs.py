"""Jobs of `levels` in a process of their own: what goes in, and the events of its journal."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import util
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import pytest

import capsule.levels
from capsule.levels.catalog import determinism
from tests.support.patience import PATIENCE_SECONDS
from tests.support.trials import ENTRY, JOB, Entry

LEVELS = Path(capsule.levels.__file__).parent

Document = dict[str, Any]
"""A whole job."""

Event = dict[str, Any]
"""A line of a journal."""

Test = TypeVar("Test", bound=Callable[..., None])

NEEDS_TORCH = [
    pytest.mark.torch,
    pytest.mark.skipif(util.find_spec("torch") is None, reason="torch is not installed here"),
]


def needs_torch(test: Test) -> Test:
    """The marks of `NEEDS_TORCH`, as a decorator."""
    for mark in NEEDS_TORCH:
        test = mark(test)
    return test


EACH_FRAMEWORK = pytest.mark.parametrize(
    "framework", ["numpy", pytest.param("torch", marks=NEEDS_TORCH)]
)


def operator(
    name: str,
    case: str = "default",
    repetitions: int = 4,
    warmup: int = 1,
    dtype: str = "float32",
    **parameters: int,
) -> Entry:
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


def network(
    name: str,
    case: str = "default",
    repetitions: int = 4,
    **parameters: int,
) -> Entry:
    """A trial of a network; see `operator`."""
    entry = operator(name, case, repetitions, dtype="float32", **parameters)
    del entry["operator"]
    return {**entry, "level": 1, "network": name}


def job(trials: Sequence[Entry], framework: str = "numpy", **fields: Any) -> Document:
    return {**JOB, "framework": framework, "trials": trials, **fields}


def strict_variables(document: Document) -> dict[str, str]:
    """What the host sets for a job under strict determinism."""
    return {
        **determinism.set_variables(),
        **dict.fromkeys(determinism.THREADS, str(document["threads"])),
        "PYTHONHASHSEED": str(document["seed"]),
    }


STRICT = strict_variables(JOB)


def environment(folder: Path, plant: str | None = None) -> dict[str, str]:
    """Few variables, and code that runs in the program before anything else of it."""
    variables = {"PATH": os.environ["PATH"], "TMPDIR": os.environ["TMPDIR"], "OMP_NUM_THREADS": "1"}
    if plant:
        (folder / "sitecustomize.py").write_text(plant)
        variables["PYTHONPATH"] = str(folder)
    return variables


def command(folder: Path, document: Document, levels: Path = LEVELS) -> list[str]:
    (folder / "job.json").write_text(json.dumps(document))
    return [sys.executable, str(levels), "run", "job.json", "journal.jsonl"]


def refuse(name: str) -> NoReturn:
    raise AssertionError(f"{name} is not JSON")


def events(folder: Path) -> list[Event]:
    text = (folder / "journal.jsonl").read_text()
    assert text.endswith("\n")
    return [json.loads(line, parse_constant=refuse) for line in text.splitlines()]


def run(
    folder: Path,
    document: Document,
    plant: str | None = None,
    levels: Path = LEVELS,
    **variables: str,
) -> list[Event]:
    """The events of a job that had all its turns; an empty variable is left out."""
    strict = strict_variables(document) if document["determinism"] == "strict" else {}
    known = {**environment(folder, plant), **strict, **variables}
    done = subprocess.run(
        command(folder, document, levels),
        cwd=folder,
        env={name: value for name, value in known.items() if value},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return events(folder)


def samples(journal: Sequence[Event], identity: str) -> dict[str, Event]:
    """The lines of samples of a trial by metric."""
    return {
        event["metric"]: event
        for event in journal
        if event["event"] == "samples" and event["trial"] == identity
    }


def end(journal: Sequence[Event], identity: str) -> Event:
    """How a trial ended."""
    (event,) = [
        event for event in journal if event["event"] == "end" and event["trial"] == identity
    ]
    return event
