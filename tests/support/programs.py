"""The measuring code with TensorFlow, JAX and ONNX Runtime: on this machine where they are
installed, and always in the image of `images/tensorflow`."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import util
from pathlib import Path
from typing import Any

import pytest

import capsule.levels
from tests.support.engines import tensorflow_image
from tests.support.jobs import strict_variables
from tests.support.trials import ENTRY, JOB

LEVELS = Path(capsule.levels.__file__).parent

Ended = subprocess.CompletedProcess[str]


@dataclass(frozen=True)
class Here:
    """This machine's Python."""

    def python(self, folder: Path, *words: str, **variables: str) -> Ended:
        path = f"{folder}:{LEVELS.parent.parent}"
        return subprocess.run(
            [sys.executable, *words],
            cwd=folder,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": path, **variables},
            capture_output=True,
            text=True,
            check=False,
        )

    def levels(self, folder: Path, *words: str, **variables: str) -> Ended:
        return self.python(folder, str(LEVELS), *words, **variables)


@dataclass(frozen=True)
class Image:
    """That of the image, with `levels` bound in."""

    def python(self, folder: Path, *words: str, **variables: str) -> Ended:
        reference = tensorflow_image().removeprefix("docker://")
        settings = {"PYTHONPATH": "/out:/code", **variables}
        return subprocess.run(
            ["docker", "run", "--rm", "--network", "none", "--workdir", "/out"]
            + ["--volume", f"{LEVELS}:/code/capsule/levels:ro", "--volume", f"{folder}:/out"]
            + [word for name, value in settings.items() for word in ("--env", f"{name}={value}")]
            + [reference, "python3", *words],
            capture_output=True,
            text=True,
            check=False,
        )

    def levels(self, folder: Path, *words: str, **variables: str) -> Ended:
        return self.python(folder, "/code/capsule/levels", *words, **variables)


Program = Here | Image

PROGRAMS = [
    pytest.param(
        Here(),
        id="here",
        marks=[
            pytest.mark.tensorflow,
            pytest.mark.skipif(
                not all(map(util.find_spec, ("tensorflow", "onnxruntime", "onnx"))),
                reason="TensorFlow and ONNX Runtime are not installed here;"
                " the same tests run in their image",
            ),
        ],
    ),
    pytest.param(Image(), id="image", marks=pytest.mark.engines),
]


def execute_networks(program: Program, folder: Path, framework: str, *names: str) -> dict[str, Any]:
    """Return what `execute_networks.py` prints, by name of what it does."""
    shutil.copy(Path(__file__).with_name("execute_networks.py"), folder)
    done = program.python(folder, "execute_networks.py", framework, *names)
    assert done.returncode == 0, done.stderr
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed


def run(
    program: Program,
    folder: Path,
    framework: str,
    work: Sequence[Mapping[str, Any]],
    plant: str | None = None,
    **fields: object,
) -> tuple[dict[str, dict[str, list[float]]], dict[str, Any]]:
    """Values by trial and metric, and the first event.

    `plant` is Python code that runs before the program, which it may break.
    """
    entries = [{**ENTRY, **entry} for entry in work]
    job = {**JOB, "framework": framework, "trials": entries, **fields}
    (folder / "job.json").write_text(json.dumps(job))
    if plant:
        (folder / "sitecustomize.py").write_text(plant)
    strict = strict_variables(job) if job["determinism"] == "strict" else {}
    done = program.levels(folder, "run", "job.json", "journal.jsonl", **strict)
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    failures = [event for event in events if event["event"] == "end" and event["reason"]]
    assert not failures, done.stderr
    values: dict[str, dict[str, list[float]]] = {entry["id"]: {} for entry in work}
    for event in events:
        if event["event"] == "samples":
            values[event["trial"]][event["metric"]] = list(map(float, event["values"]))
    return values, events[0]
