"""Ranks that exchange arrays alone: results that are held to what is due, and bytes that count."""

from itertools import product
from typing import Any

import pytest

from capsule.levels import job
from capsule.levels.catalog import collectives
from capsule.levels.catalog.collectives import COLLECTIVES
from tests.support import collectives_plants, ranks, trials
from tests.support.jobs import needs_torch
from tests.support.ranks import Outcome, Scenario

SIZES = (24, 48_000)
WARMUP, REPETITIONS = 1, 3
CALLS = WARMUP + REPETITIONS
FAULTS = {
    "a part of a sum left out": ("all-reduce", "gave 1 at index 0 in call 0, expected 3"),
    "parts in another order": ("all-to-all", "2 at index 0 in call 0, expected 1; 6 of 6"),
    "the first result repeated": ("broadcast", "gave 1 at index 0 in call 1, expected 2"),
    "an element lost on its way": ("ping-pong", "0 at index 5 in call 0, expected 6; 1 of 6"),
}


def entry(name: str, size: int = 24) -> dict[str, Any]:
    """An entry of a job."""
    return {
        **trials.ENTRY,
        "id": f"{name}-{size}",
        "level": 3,
        "repetitions": REPETITIONS,
        "warmup": WARMUP,
        "collective": {"name": name, "size": size},
    }


ALL = tuple(entry(name, size) for name, size in product(COLLECTIVES, SIZES))
SCENARIOS = (
    Scenario("two", 2, ALL),
    Scenario("three", 3, ALL),
    *(Scenario(fault, 2, (entry(name),), fault) for fault, (name, _) in FAULTS.items()),
)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Outcome]]:
    return ranks.run(tmp_path_factory.mktemp("exchanged"), {}, SCENARIOS)


@needs_torch
@pytest.mark.parametrize(("world", "count"), [("two", 2), ("three", 3)])
@pytest.mark.parametrize("name", COLLECTIVES)
def test_each_rank_has_a_time_for_each_call_and_bytes_by_the_rule(
    outcomes: dict[str, dict[str, Outcome]], world: str, count: int, name: str
) -> None:
    for size in SIZES:
        outcome = outcomes[world][f"{name}-{size}"]
        assert [one["outcome"] for one in outcome.ends] == ["completed"] * count, outcome.ends
        for rank, values in enumerate(outcome.values):
            assert set(values) == {facts.name for facts in collectives.METRICS}
            assert values["world_size"] == (count,)
            counted = values["bytes_sent"], values["bytes_received"], values["messages"]
            due = collectives.traffic(name, size, rank, count)
            assert [*zip(*counted, strict=True)] == [due] * CALLS
            rates = tuple(size / one for one in values["latency"])
            assert values["bandwidth"] == pytest.approx(rates)
            share = collectives.bus_share(name, count)
            assert values["bus_bandwidth"] == pytest.approx([share * one for one in rates])


def test_every_fault_is_planted() -> None:
    assert set(FAULTS) == set(collectives_plants.PLANTS)


@needs_torch
@pytest.mark.parametrize("fault", FAULTS)
def test_other_numbers_than_are_due_fail_the_trial(
    outcomes: dict[str, dict[str, Outcome]], fault: str
) -> None:
    name, message = FAULTS[fault]
    ends = outcomes[fault][f"{name}-24"].ends
    # whom another one has left says that alone
    assert any(message in one["message"] for one in ends), ends
    assert {one["outcome"] for one in ends} <= {"failed", "completed"}


@pytest.mark.parametrize(
    ("name", "size", "count", "message"),
    [
        ("all-reduce", 25, 2, "use 24 or 28"),
        ("all-gather", 4, 2, "use 8"),
        ("all-to-all", 40, 3, "use 36 or 48"),
        ("ping-pong", 24, 1, "needs at least 2 ranks"),
    ],
)
def test_what_cannot_be_exchanged_is_refused(
    name: str, size: int, count: int, message: str
) -> None:
    assert message in str(collectives.refuse_size(name, size, count))


def test_a_job_says_what_it_exchanges_and_where_ranks_meet() -> None:
    document = {**trials.JOB, "ranks": 2, "trials": [entry("all-reduce")]}
    with pytest.raises(job.JobError, match="CAPSULE_RENDEZVOUS is not set"):
        job.parse(document, {})
    document["trials"] = [{**entry("all-reduce"), "collective": {"name": "gather", "size": 8}}]
    with pytest.raises(job.JobError, match='name is "gather", expected "all-reduce" or'):
        job.parse(document, {job.RENDEZVOUS: "file:///nowhere"})


@needs_torch
def test_operations_are_found_by_the_names_of_torch_before_2_13(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from torch import distributed

    from capsule.levels.communicators import find_operation

    for name in ("all_gather_single", "reduce_scatter_single"):
        monkeypatch.delattr(distributed, name, raising=False)
    assert find_operation("all-gather") is distributed.all_gather_into_tensor
    assert find_operation("reduce-scatter") is distributed.reduce_scatter_tensor
