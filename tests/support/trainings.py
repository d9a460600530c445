"""Small trainings in this process, as a test of Level 2 reads them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from capsule.levels import frameworks, job, run
from capsule.levels.frameworks import Framework
from capsule.levels.frameworks.numpy import Numpy
from capsule.levels.journal import Samples
from capsule.levels.report import Report
from tests.support import trials

SGD: dict[str, Any] = {"name": "sgd", "lr": 0.1, "momentum": 0.9}
SMALL = {"samples": 90, "test_samples": 25, "side": 12, "classes": 3}
Values = dict[str, tuple[float, ...]]


def trial(
    framework: str,
    folder: Path,
    seed: int,
    *,
    network: str = "lenet",
    dtype: str = "float32",
    parameters: Mapping[str, int] | None = None,
    source: Path | None = None,
    **recipe: Any,
) -> job.Trial:
    entry = {
        "id": "trial",
        "benchmark": "benchmark",
        "level": 2,
        "network": network,
        "dtype": dtype,
        "case": "default",
        "parameters": {"side": 12, "classes": 3} if parameters is None else parameters,
        **({"source": str(source)} if source else {}),
        "datasets": ["glyphs"],
        "recipe": {
            "batch": 20,
            "epochs": 2,
            "optimizer": SGD,
            "schedule": {"name": "constant"},
            **recipe,
        },
    }
    document = {
        **trials.JOB,
        "framework": framework,
        "seed": seed,
        "data": {"glyphs": str(folder)},
        "trials": [entry],
    }
    (made,) = job.parse(document, {}).trials
    return made


def measure(
    framework: Framework,
    folder: Path,
    seed: int = 17,
    *,
    into: Values | None = None,
    **recipe: Any,
) -> Values:
    """What a training reports; `into` has it where it fails."""
    lines: list[Samples] = []
    wanted = trial(framework.name, folder, seed, **recipe)
    try:
        run.load_level(2)(wanted, framework, Report(lines.append))
    finally:
        values: Values = {} if into is None else into
        for line in lines:
            values[line.metric] = values.get(line.metric, ()) + line.values
    return values


def numpy_alone() -> Numpy:
    loaded = frameworks.load("numpy", "cpu", 1, "default")
    assert isinstance(loaded, Numpy)
    return loaded
