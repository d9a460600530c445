"""Trainings of many ranks, each a process that runs a job.

As a program, `python -m tests.support.ranks <scenarios.json>`: torch is imported once, and every
rank is forked from there, with a fault in it where a scenario has one.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support import trials
from tests.support.documented import ROOT
from tests.support.patience import PATIENCE_SECONDS
from tests.support.trainings import SGD

Values = dict[str, tuple[float, ...]]
"""What a rank reports of a trial, by metric."""


@dataclass(frozen=True)
class Scenario:
    """Some ranks and the trials that they run; a fault is one of `FAULTS`."""

    name: str
    ranks: int
    trials: tuple[dict[str, Any], ...]
    fault: str | None = None


@dataclass(frozen=True)
class Outcome:
    """What each rank said of a trial: how it ended, and its values."""

    ends: tuple[dict[str, Any], ...]
    values: tuple[Values, ...]


def trial(scheme: Mapping[str, Any], identity: str = "", **recipe: Any) -> dict[str, Any]:
    """An entry of a job: a training of the smallest LeNet in float64."""
    own = "network", "parameters", "datasets"
    fields = {name: recipe.pop(name) for name in own if name in recipe}
    return {
        "id": identity or scheme["name"],
        "benchmark": "benchmark",
        "level": 3,
        "network": "lenet",
        "dtype": recipe.pop("dtype", "float64"),
        "case": "default",
        "parameters": {"side": 12, "classes": 3},
        "datasets": ["glyphs"],
        **fields,
        "recipe": {
            "batch": 18,
            "epochs": 2,
            "optimizer": SGD,
            "schedule": {"name": "constant"},
            "scheme": dict(scheme),
            **recipe,
        },
    }


def write(folder: Path, data: Mapping[str, str], scenario: Scenario) -> list[Path]:
    """The job and a folder for each rank's journal, in a folder of the scenario."""
    document = {
        **trials.JOB,
        "framework": "torch",
        "ranks": scenario.ranks,
        "data": dict(data),
        "trials": list(scenario.trials),
    }
    folder.mkdir()
    (folder / "job.json").write_text(json.dumps(document))
    folders = [folder / str(rank) for rank in range(scenario.ranks)]
    for one in folders:
        one.mkdir()
    return folders


def variables(folder: Path, rank: int, ranks: int) -> dict[str, str]:
    """What the host sets for a rank."""
    return {
        "CAPSULE_RANK": str(rank),
        "CAPSULE_RANKS": str(ranks),
        "CAPSULE_RENDEZVOUS": f"file://{folder}/meeting",
    }


def read(folder: Path, scenario: Scenario) -> dict[str, Outcome]:
    """Outcomes by the ids of the trials."""
    journals = []
    for rank in range(scenario.ranks):
        text = (folder / str(rank) / "journal.jsonl").read_text()
        journals.append([json.loads(line) for line in text.splitlines()])
        assert (journals[-1][0]["rank"], journals[-1][0]["ranks"]) == (rank, scenario.ranks)
        assert journals[-1][-1] == {"event": "bye"}
    outcomes = {}
    for identity in (one["id"] for one in scenario.trials):
        own = [[one for one in lines if one.get("trial") == identity] for lines in journals]
        ends = tuple(lines[-1] for lines in own)
        outcomes[identity] = Outcome(ends, tuple(map(_gather, own)))
    return outcomes


def _gather(lines: Sequence[Mapping[str, Any]]) -> Values:
    values: Values = {}
    for line in lines:
        if line["event"] == "samples":
            values[line["metric"]] = values.get(line["metric"], ()) + tuple(line["values"])
    return values


def run(
    folder: Path, data: Mapping[str, str], scenarios: Sequence[Scenario]
) -> dict[str, dict[str, Outcome]]:
    """Outcomes of all trials by the names of the scenarios."""
    for one in scenarios:
        write(folder / one.name, data, one)
    plan = [[str(folder / one.name), one.ranks, one.fault] for one in scenarios]
    (folder / "scenarios.json").write_text(json.dumps(plan))
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.ranks", str(folder / "scenarios.json")],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {one.name: read(folder / one.name, one) for one in scenarios}


def _drop_gradient(rank: int) -> None:
    from capsule.levels.level3.exchanges import AllReduce

    sound = AllReduce.before_step

    def before_step(self: AllReduce, parameters: Mapping[str, Any]) -> None:
        for one in parameters.values():
            one.grad *= rank > 0
        sound(self, parameters)

    AllReduce.before_step = before_step  # type: ignore[method-assign]


def _leave_averaging_out(rank: int) -> None:
    from capsule.levels.level3.exchanges import AllReduce

    AllReduce.before_step = lambda *_: None  # type: ignore[method-assign]


def _read_twice(rank: int) -> None:
    from capsule.levels.data import samplers

    sound = samplers.share

    def share(order: Any, batch: int, *, rank: int = 0, ranks: int = 1) -> Any:
        return sound(order, batch, rank=rank * 0, ranks=ranks)

    samplers.share = share


def _draw_alike(rank: int) -> None:
    from capsule.levels.level2.prepared import Prepared

    def rows(self: Prepared, arrays: Mapping[str, Any], batch: int) -> dict[str, Any]:
        first, end = self.team.span(batch)
        noise, rows = self.graph(batch).noise, {}
        for name, array in arrays.items():
            start = 0 if name in noise else first
            each = len(array) // batch
            rows[name] = array[each * start : each * (start + end - first)]
        return rows

    Prepared.rows = rows  # type: ignore[method-assign]


def _count_once(rank: int) -> None:
    from capsule.levels.communicators import Communicator

    sound = Communicator.take_traffic

    def take_traffic(self: Communicator) -> Any:
        traffic = sound(self)
        traffic.received = 0
        return traffic

    Communicator.take_traffic = take_traffic  # type: ignore[method-assign]


FAULTS: dict[str, Callable[[int], None]] = {
    "rank 0's gradient dropped": _drop_gradient,
    "averaging left out": _leave_averaging_out,
    "a shard read twice": _read_twice,
    "equal noise on every rank": _draw_alike,
    "bytes counted one way": _count_once,
}


def _main(path: Path) -> None:
    # what every rank imports, before they are forked; the first of torch's optimizers has the rest
    import torch._dynamo  # noqa: F401

    from capsule.levels import run as program
    from capsule.levels.frameworks.torch import training  # noqa: F401
    from capsule.levels.level3 import ranks  # noqa: F401

    for folder, count, fault in json.loads(path.read_text()):
        children = []
        for rank in range(count):
            child = os.fork()
            if not child:
                os.environ.update(variables(Path(folder), rank, count))
                if fault:
                    FAULTS[fault](rank)
                journal = Path(folder, str(rank), "journal.jsonl")
                os._exit(program.main(Path(folder, "job.json"), journal))
            children.append(child)
        for child in children:
            _, status = os.waitpid(child, 0)
            assert status == 0, (folder, status)


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
