"""Trainings of many ranks, each a process that runs a job.

As a program, `python -m tests.support.ranks <scenarios.json>`: torch is imported once, and every
rank is forked from there, with a fault in it where a scenario has one.
"""

import ast
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy

from tests.support import strike, trials
from tests.support.documented import ROOT
from tests.support.patience import PATIENCE_SECONDS
from tests.support.trainings import SGD

Values = dict[str, tuple[float, ...]]
"""What a rank reports of a trial, by metric."""


@dataclass(frozen=True)
class Scenario:
    """Some ranks and the trials that they run.

    Attributes:
        fault: A key of `PLANTS` of `ranks_plants`, `splits_plants`, `collectives_plants` or
            `device_plants`.
        strikes: Of each attempt that is made before, the rank that is killed, and the words of
            `strike` that say where.
        device: Of the job.
        lost: The rank that loses its device, and so ends before it has said goodbye.
    """

    name: str
    ranks: int
    trials: tuple[dict[str, Any], ...]
    fault: str | None = None
    strikes: tuple[tuple[int, str, int], ...] = ()
    device: str = "cpu"
    lost: int | None = None


@dataclass(frozen=True)
class Outcome:
    """What each rank said of a trial, which is named by its id: how it ended, and its values.

    Attributes:
        resumed: After how many epochs each rank went on; None for a rank that began anew.
        evaluated: Parameters and kept statistics of rank 0's last evaluation, arrays by name.
    """

    trial: str
    ends: tuple[dict[str, Any], ...]
    values: tuple[Values, ...]
    resumed: tuple[int | None, ...]
    evaluated: dict[str, Any]


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
        "device": scenario.device,
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


def variables(folder: Path, rank: int, ranks: int, meeting: str = "meeting") -> dict[str, str]:
    """What the host sets for a rank."""
    return {
        "CAPSULE_RANK": str(rank),
        "CAPSULE_RANKS": str(ranks),
        "CAPSULE_RENDEZVOUS": f"file://{folder}/{meeting}",
    }


def read(folder: Path, scenario: Scenario) -> dict[str, Outcome]:
    """Outcomes by the ids of the trials."""
    journals = []
    for rank in range(scenario.ranks):
        text = (folder / str(rank) / "journal.jsonl").read_text()
        journals.append([json.loads(line) for line in text.splitlines()])
        assert (journals[-1][0]["rank"], journals[-1][0]["ranks"]) == (rank, scenario.ranks)
        assert (journals[-1][-1] == {"event": "bye"}) == (rank != scenario.lost)
    outcomes = {}
    for identity in (one["id"] for one in scenario.trials):
        own = [[one for one in lines if one.get("trial") == identity] for lines in journals]
        ends = tuple(lines[-1] for lines in own)
        resumed = tuple(
            next((one["epochs"] for one in lines if one["event"] == "resume"), None)
            for lines in own
        )
        values, evaluated = tuple(map(_gather, own)), _read_arrays(folder / "0" / f"{identity}.npz")
        outcomes[identity] = Outcome(identity, ends, values, resumed, evaluated)
    return outcomes


def _read_arrays(place: Path) -> dict[str, Any]:
    """Nothing where no evaluation has left any."""
    if not place.exists():
        return {}
    with numpy.load(place) as arrays:
        return dict(arrays)


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
    plan = [
        [str(folder / one.name), one.ranks, one.fault, one.strikes, one.lost] for one in scenarios
    ]
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


def _keep_evaluated(folder: Path) -> None:
    """Have what the network is judged by put into a file for each trial."""
    from capsule.levels import level2

    sound, savez = level2._evaluate, numpy.savez

    def evaluate(trial: Any, trainer: Any, so_far: Any) -> Any:
        identity = ast.literal_eval(trial.identity.partition(",")[0][1:])
        savez(folder / f"{identity}.npz", **trial.fetch(trainer.parameters()))
        return sound(trial, trainer, so_far)

    level2._evaluate = evaluate


def _main(path: Path) -> None:
    # what every rank imports, before they are forked; the first of torch's optimizers has the rest
    import torch._dynamo  # noqa: F401

    from capsule.levels import probe
    from capsule.levels.frameworks.torch import training  # noqa: F401
    from capsule.levels.level3 import counted, ranks  # noqa: F401
    from capsule.levels.run import LEFT

    # which each rank would read from hundreds of files
    installed = probe._distributions()
    probe._distributions = lambda: installed
    for name, count, fault, strikes, lost in json.loads(path.read_text()):
        folder = Path(name)
        for number, (struck, *words) in enumerate(strikes):
            statuses = _start(folder, count, fault, f"killed-{number}", {struck: words})
            assert statuses[struck] == signal.SIGKILL, (folder, statuses)
        statuses = _start(folder, count, fault, "journal", {})
        codes = [os.waitstatus_to_exitcode(one) for one in statuses]
        due = [LEFT if rank == lost else 0 for rank in range(count)]
        assert codes == due, (folder, statuses)


def _start(
    folder: Path, count: int, fault: str | None, name: str, strikes: Mapping[int, Any]
) -> list[int]:
    """How each rank ended, the journal of which is a file of that name."""
    from capsule.levels import run as program
    from tests.support import collectives_plants, device_plants, ranks_plants, splits_plants

    rooms = ranks_plants, splits_plants, collectives_plants, device_plants
    plants = {name: plant for room in rooms for name, plant in room.PLANTS.items()}

    children = []
    for rank in range(count):
        child = os.fork()
        if not child:
            os.environ.update(variables(folder, rank, count, f"meeting-{name}"))
            if fault:
                plants[fault](rank)
            if not rank:
                _keep_evaluated(folder / "0")
            if rank in strikes:
                strike.plant(*strikes[rank])
            os._exit(program.main(folder / "job.json", folder / str(rank) / f"{name}.jsonl"))
        children.append(child)
    return [os.waitpid(child, 0)[1] for child in children]


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
