"""Ranks that exchange over MPI: arrays alone, and what every scheme does."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from capsule.levels.catalog import collectives, schemes
from capsule.levels.catalog.collectives import COLLECTIVES
from tests.levels.level3.test_collectives import entry
from tests.support import mpi, ranks, ranks_faults
from tests.support.jobs import LEVELS, needs_torch
from tests.support.mpi import FAMILIES
from tests.support.ranks import Outcome, Scenario, trial
from tests.support.ranks_faults import (
    ALLREDUCE,
    ASYNCHRONOUS,
    BUCKETED,
    LARGEST,
    LOCAL,
    MODELS,
    NEIGHBOURS,
    QUANTIZED,
    SERVER,
    STALE,
    count_parameters,
)

pytestmark = pytest.mark.engines

SIZE = 24_000
FAULTY = """
import os, sys
from pathlib import Path
from capsule.levels import run
from capsule.levels.level3.overmpi import OverMpi
if os.environ["CAPSULE_RANK"] == "1":
    OverMpi.get = lambda self, native, array: array.fill(9)
sys.exit(run.main(Path(sys.argv[1]), Path(sys.argv[2])))
"""
ALL: tuple[dict[str, Any], ...] = (
    *(ALLREDUCE, BUCKETED, LARGEST, QUANTIZED, SERVER),
    *(ASYNCHRONOUS, STALE, MODELS, LOCAL, NEIGHBOURS),
)

OVER = tuple(trial({**one, "over": "mpi"}, one["name"], epochs=1) for one in ALL)


def run_over(
    family: str, folder: Path, scenario: Scenario, data: dict[str, str], *program: str
) -> int:
    """Run a scenario under an `mpirun`; its exit code."""
    ranks.write(folder, data, scenario)
    job = folder / "job.json"
    framework = {"framework": "numpy"} if scenario.trials[0].get("collective") else {}
    # by a file, of which a folder on one machine has one
    job.write_text(json.dumps({**json.loads(job.read_text()), **framework}))
    words = program or (str(LEVELS), "run")
    meeting = f"CAPSULE_RENDEZVOUS=file://{folder}/meeting"
    ended = mpi.start_ranks(
        family,
        scenario.ranks,
        *("env", meeting, sys.executable, *words, str(job), f"{folder}/{{rank}}/journal.jsonl"),
    )
    return ended.returncode


@pytest.mark.parametrize("family", FAMILIES)
def test_arrays_of_numpy_are_exchanged(family: str, tmp_path: Path) -> None:
    scenario = Scenario("three", 3, tuple(entry(name, SIZE) for name in COLLECTIVES))
    folder = tmp_path / "three"
    assert run_over(family, folder, scenario, {}) == 0
    for name, outcome in zip(COLLECTIVES, ranks.read(folder, scenario).values(), strict=True):
        assert {one["outcome"] for one in outcome.ends} == {"completed"}, outcome.ends
        for rank, values in enumerate(outcome.values):
            counted = values["bytes_sent"], values["bytes_received"], values["messages"]
            due = collectives.traffic(name, SIZE, rank, 3)
            assert set(zip(*counted, strict=True)) == {due}
            assert len(values["latency"]) == len(values["bytes_sent"])


@pytest.mark.parametrize("family", FAMILIES)
def test_a_rank_that_fails_ends_all_and_has_said_why(family: str, tmp_path: Path) -> None:
    scenario = Scenario("two", 2, (entry("all-reduce"), entry("broadcast")))
    folder = tmp_path / "two"
    assert run_over(family, folder, scenario, {}, "-c", FAULTY) != 0
    lines = (folder / "1" / "journal.jsonl").read_text().splitlines()
    last = json.loads(lines[-1])
    assert (last["event"], last["outcome"], last["trial"]) == ("end", "failed", "all-reduce-24")
    assert "gave 9 at index 0 in call 0, expected 3" in last["message"]


def test_ranks_that_nothing_joins_exchange_nothing(tmp_path: Path) -> None:
    """Each alone in a world of its own, as where a launcher says nothing of one."""
    scenario = Scenario("two", 2, (entry("all-reduce"),))
    words = ("env", "-u", "PMI_RANK", "-u", "PMI_SIZE", "-u", "PMI_FD", sys.executable)
    folder = tmp_path / "two"
    ranks.write(folder, {}, scenario)
    job = folder / "job.json"
    job.write_text(json.dumps({**json.loads(job.read_text()), "framework": "numpy"}))
    meeting = ("env", "CAPSULE_RENDEZVOUS=file:///nowhere")
    run = (*words, str(LEVELS), "run", str(job), f"{folder}/{{rank}}/journal.jsonl")
    mpi.start_ranks("MPICH", 2, *meeting, *run)
    (outcome,) = ranks.read(folder, scenario).values()
    assert {one["outcome"] for one in outcome.ends} == {"failed"}
    assert "is rank 0 of 1 in MPI" in outcome.ends[1]["message"]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """Every scheme over MPI."""
    data = ranks_faults.write(tmp_path_factory.mktemp("data"))
    scenario = Scenario("two", 2, OVER)
    folder = tmp_path_factory.mktemp("over") / "two"
    assert run_over("MPICH", folder, scenario, data) == 0
    return ranks.read(folder, scenario)


@needs_torch
@pytest.mark.parametrize("scheme", ALL, ids=lambda scheme: scheme["name"])
def test_a_scheme_computes_and_exchanges_the_same(
    outcomes: dict[str, Outcome], scheme: dict[str, Any]
) -> None:
    outcome = outcomes[scheme["name"]]
    assert {one["outcome"] for one in outcome.ends} == {"completed"}, outcome.ends
    assert outcome.values[0]["reference_error_ratio"][0] <= 1
    assert max(outcome.values[0].get("rank_difference", (0.0,))) == 0
    numbers = {name: value for name, value in scheme.items() if name != "name"}
    for rank, values in enumerate(outcome.values):
        columns = [values[name] for name in schemes.TRAFFIC]
        for step, counted in enumerate(zip(*columns, strict=True), 1):
            size = count_parameters(OVER[0]), 8
            assert counted == schemes.traffic(scheme["name"], numbers, rank, 2, *size, step)
        assert max(values["communication_time"]) > 0
