"""Memory that the trials of a manifest need at least, by the count before each trial."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import NamedTuple

import pytest

from capsule import manifest, plan
from capsule.levels import job, level2, run
from capsule.levels.frameworks.numpy import Numpy
from capsule.levels.instruments import capacity
from capsule.levels.level2 import ahead, checks
from capsule.levels.level2.team import Team
from capsule.levels.report import Report
from capsule.manifest import Network, Operator, Recipe
from capsule.manifest.recipes import to_json
from tests.support import trials

GIB = 2**30


class Needs(NamedTuple):
    """Bytes that a trial needs.

    Attributes:
        device: Of tensors on the device.
        checks: Of the reference and bounds, in the host.
        batches: Of minibatches that workers prepare, in the host.
    """

    device: int
    checks: int
    batches: int = 0


class CountedError(Exception):
    """The memory of a trial was counted, and the trial need not go on."""


class _Card:
    """A device whose memory nothing fills."""

    def free(self) -> int:
        return 2**60

    def reset_peak(self) -> None:
        raise AssertionError("nothing is measured")

    def peak(self) -> int:
        raise AssertionError("nothing is measured")


def count(path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Needs]:
    """Needs of the trials of the catalogue's operators, networks and trainings, by benchmark, case
    and framework.
    """
    loaded = manifest.load(path)
    planned = plan.make(loaded)
    first = {
        trial.id.rpartition("/")[0]: trial
        for group in planned.groups
        for trial in group.trials
        if trial.seed == loaded.seeds[0]
    }
    return {
        name: _count(trial, monkeypatch)
        for name, trial in first.items()
        if isinstance(trial.benchmark.subject, Operator | Network | Recipe)
    }


def _count(trial: plan.Trial, monkeypatch: pytest.MonkeyPatch) -> Needs:
    subject = trial.benchmark.subject
    assert isinstance(subject, Operator | Network | Recipe)
    entry = {
        **trials.ENTRY,
        "level": subject.level,
        "operator" if isinstance(subject, Operator) else "network": subject.name,
        "dtype": subject.dtype,
        "parameters": dict(trial.case.parameters),
    }
    if isinstance(subject, Recipe):
        settings = subject.settings[trial.case.name]
        entry |= {"parameters": dict(settings.sizes), "recipe": to_json(settings)}
    document = {**trials.JOB, "framework": trial.framework, "device": "cuda", "trials": [entry]}
    (made,) = job.parse(document, {}).trials
    return count_trial(made, monkeypatch)


def count_trial(trial: job.Trial, monkeypatch: pytest.MonkeyPatch) -> Needs:
    """Needs of one trial on a device."""
    framework = Numpy()
    framework.name, framework.memory = trial.context.framework, _Card()
    found: dict[str, int] = {}

    def note(where: str, needed: int, free: int | None) -> None:
        del free
        found[where] = needed
        if where == "the machine":
            raise CountedError

    with monkeypatch.context() as patch, pytest.raises(CountedError):
        patch.setattr(capacity, "_refuse", note)
        if trial.recipe is None:
            run.load_level(trial.level)(trial, framework, Report(lambda _: None))
        else:
            graph, _ = level2._find_graph(trial)
            checks.choose_place(trial.recipe, graph, trial.dtype, framework, Team())
    return Needs(found["the device"], found["the machine"], _count_batches(trial))


def _count_batches(trial: job.Trial) -> int:
    """Bytes of the minibatches that workers prepare, and of the one that trains."""
    if trial.recipe is None:
        return 0
    graph, _ = level2._find_graph(trial)
    inputs = graph(trial.recipe.batch).inputs.values()
    batch = sum(prod(one.shape) * (4 if one.below is None else 8) for one in inputs)
    return batch * (1 + ahead.EACH * trial.recipe.workers)
