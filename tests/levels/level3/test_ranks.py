"""Ranks that train one network together: that they compute the same, and what they exchange."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest

from capsule.levels.catalog import schemes, training
from tests.support import ranks, ranks_faults
from tests.support.jobs import LEVELS, NEEDS_TORCH
from tests.support.patience import PATIENCE_SECONDS
from tests.support.ranks import Outcome, Scenario, trial
from tests.support.ranks_faults import (
    ALLREDUCE,
    ASYNCHRONOUS,
    BUCKETED,
    COSMOS,
    LARGEST,
    LOCAL,
    MODELS,
    NEIGHBOURS,
    QUANTIZED,
    RESNET,
    SERVER,
    SHARDED,
    STALE,
    count_parameters,
)
from tests.support.ranks_minis import trained

pytestmark = NEEDS_TORCH

EXACT: tuple[dict[str, Any], ...] = (ALLREDUCE, SERVER, BUCKETED, SHARDED)
OTHERS: tuple[dict[str, Any], ...] = (
    *(MODELS, LOCAL, NEIGHBOURS, LARGEST, QUANTIZED, ASYNCHRONOUS, STALE),
)
ADAM = {"name": "adam", "lr": 0.001}
SINGLE = trial(ALLREDUCE, "float32", dtype="float32", epochs=1)
PARTS = {"batch": 24, "accumulate": 3, "epochs": 1}
ACCUMULATED = trial(SERVER, "adam", optimizer=ADAM, **PARTS)
AUGMENTED = {"crop": 2, "flip": True, "cutout": 3}
DRAWN = trial(ALLREDUCE, "augmented", augmentation=AUGMENTED, epochs=1, workers=1)
DROPPING = trial(ALLREDUCE, "dropout", epochs=1, **COSMOS)
GROUPED = trial(ALLREDUCE, "groups", epochs=1, augmentation=AUGMENTED, **RESNET)
ONES = trial(BUCKETED, "ones", epochs=1, **{**RESNET, "batch": 8, "batch_norm_group": 1})
BUCKETS = trial(BUCKETED, "buckets of parts", **PARTS)
MINIS = (
    trained("cosmoflow", {"side": 8, "width": 2, "dropout": 20}),
    trained("deepcam", {"height": 16, "width": 32, "divisor": 64, "middle": 1}),
    trained(
        "transformer",
        {"layers": 1, "width": 8, "heads": 2, "length": 6, "vocabulary": 5, "dropout": 20},
        target={"value": 0.01, "stop": True},
    ),
)
"""The recipes of manifests/minis-ranks; the last one stops at a target."""
MOVED = trial(SHARDED, "parts of parameters", optimizer=ADAM, **PARTS)
JUDGED = trial(SHARDED, "groups and parts", epochs=1, **RESNET)
SAME = (
    trial(ALLREDUCE),
    *(trial(one, epochs=1) for one in EXACT[1:]),
    DRAWN,
    ACCUMULATED,
    DROPPING,
    BUCKETS,
    GROUPED,
    ONES,
    *MINIS,
    MOVED,
    JUDGED,
)
FREE = trial(MODELS, "groups of models", epochs=1, **RESNET)
ALL = (*SAME, FREE, *(trial(one, epochs=1) for one in OTHERS))
# whose server keeps moments of all ranks' gradients
MOMENTS = trial(STALE, "moments", optimizer=ADAM, epochs=1)

KEPT = {**RESNET, "batch_norm_group": 4, "epochs": 4, "checkpoint_epochs": 1}
WHOLE = (trial(LOCAL, "kept", **KEPT), trial(LARGEST, "rest kept", **KEPT))
PART = trial(SHARDED, "part kept", optimizer=ADAM, epochs=3, checkpoint_epochs=1)
"""Of two steps an epoch, so that ranks of the first differ where one ends."""
STRIKES = (
    (1, "half", 2),  # the other has the second checkpoint, and both go on after the first
    (0, "gathered", 4),  # the second step of the third epoch
    (0, "placed", 1),  # the last checkpoint is put aside, and the next one not there yet
)
SCENARIOS = (
    Scenario("whole", 2, WHOLE),
    Scenario("whole parts", 3, (PART,)),
    Scenario("killed with a part", 3, (PART,), strikes=((1, "half", 2),)),
    Scenario("killed", 2, WHOLE[:1], strikes=STRIKES),
    Scenario("killed with a rest", 2, WHOLE[1:], strikes=STRIKES[:1]),
    Scenario("killed at once", 2, WHOLE[:1], strikes=((1, "half", 1),)),
    Scenario("one", 1, (*SAME, trial(LARGEST, epochs=1), trial(STALE, epochs=1))),
    Scenario("two", 2, (*ALL, SINGLE)),
    Scenario("four", 4, (*ALL, MOMENTS)),
)

Outcomes = dict[str, dict[str, Outcome]]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return ranks_faults.write(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory, data: dict[str, str]) -> Outcomes:
    return ranks.run(tmp_path_factory.mktemp("ranks"), data, SCENARIOS)


@pytest.mark.parametrize("world", ["one", "two", "four"])
def test_every_rank_completes_and_reports_what_is_due(outcomes: Outcomes, world: str) -> None:
    for entry in next(one for one in SCENARIOS if one.name == world).trials:
        outcome = outcomes[world][entry["id"]]
        assert {one["outcome"] for one in outcome.ends} == {"completed"}, outcome.ends
        quality = training.QUALITY[entry["network"]]
        stops = "target" in entry["recipe"]
        due = {one.name for one in training.metrics(quality, has_target=stops, stops=stops)}
        together = schemes.metrics(entry["recipe"]["scheme"]["name"])
        first, *others = outcome.values
        assert set(first) == due | {one.name for one in together}
        # what is that of all ranks the first one tells
        own = {one.name for one in together if one.per == "rank"}
        assert all(set(values) == own for values in others)
        assert {values["world_size"] for values in outcome.values} == {(len(outcome.values),)}


@pytest.mark.parametrize("identity", [one["id"] for one in SAME])
def test_any_number_of_ranks_computes_the_same(outcomes: Outcomes, identity: str) -> None:
    (alone,) = outcomes["one"][identity].values
    for world in ("two", "four"):
        first = outcomes[world][identity].values[0]
        # dozens of layers that divide by the deviation of a few values enlarge what rounding does
        error = 1e-8 if identity == "deepcam" else 1e-11
        for curve in ("train_loss", "loss", "order_fingerprint"):
            assert first[curve] == pytest.approx(alone[curve], rel=error)
        evaluated = outcomes[world][identity].evaluated
        for name, array in outcomes["one"][identity].evaluated.items():
            numpy.testing.assert_allclose(evaluated[name], array, rtol=error, atol=error / 10)
        assert set(first["rank_difference"]) == {0.0}
        assert first["reference_error_ratio"][0] < 1


KILLED = [
    ("killed", "kept", 2),
    ("killed with a rest", "rest kept", 1),
    ("killed with a part", "part kept", 1),
    ("killed at once", "kept", None),
]


@pytest.mark.parametrize(("world", "identity", "epochs"), KILLED)
def test_ranks_go_on_from_the_last_checkpoint_that_all_have(
    outcomes: Outcomes, world: str, identity: str, epochs: int | None
) -> None:
    whole = {**outcomes["whole"], **outcomes["whole parts"]}[identity]
    killed = outcomes[world][identity]
    assert killed.resumed == (epochs,) * len(whole.values)
    facts = (
        *training.metrics("accuracy", has_target=False, stops=False),
        *(one for name in schemes.SCHEMES for one in schemes.metrics(name)),
    )
    clocks = {one.name for one in facts if one.kind == "machine"}
    for due, values in zip(whole.values, killed.values, strict=True):
        same = {name: one for name, one in due.items() if name not in clocks}
        assert {name: values[name] for name in same} == same
    for name, array in whole.evaluated.items():
        assert numpy.array_equal(killed.evaluated[name], array), name


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.name)
def test_nothing_is_wrong_with_what_is_right(outcomes: Outcomes, scenario: Scenario) -> None:
    for identity, outcome in outcomes[scenario.name].items():
        assert ranks_faults.notice(scenario, outcome) == [], identity


def test_bytes_are_those_of_the_rule(outcomes: Outcomes) -> None:
    size, two, four = 8 * count_parameters(SINGLE), outcomes["two"], outcomes["four"]

    def read(outcome: Outcome) -> list[tuple[tuple[float, ...], ...]]:
        names = "bytes_sent", "bytes_received", "messages"
        return [tuple(values[name] for name in names) for values in outcome.values]

    def times(sent: float, received: float, messages: float) -> tuple[tuple[float, ...], ...]:
        return (sent,) * 5, (received,) * 5, (messages,) * 5

    assert read(four["allreduce"]) == [((size,) * 10, (size,) * 10, (1,) * 10)] * 4
    assert read(outcomes["one"]["allreduce"]) == [((0,) * 10,) * 3]
    for identity in ("model-averaging", "neighbour-averaging"):
        assert read(two[identity]) == [times(size, size, 1)] * 2
    assert read(two["float32"])[0] == times(size / 2, size / 2, 1)
    served, worker = times(size, 3 * size, 2), times(size, size, 2)
    assert read(four["parameter-server"]) == [served, worker, worker, worker]
    seldom = tuple(size * (step % 3 == 0) for step in range(1, 6))
    assert read(two["local-sgd"])[1][:2] == (seldom, seldom)
    assert read(four["neighbour-averaging"]) == [times(2 * size, 2 * size, 2)] * 4
    served = times(3 * size, 3 * size, 6)
    assert read(four["stale-synchronous"]) == [served, worker, worker, worker]
    assert read(two["bucketed"]) == [times(size, size, -(-size // 4000))] * 2
    chosen = int(0.02 * size / 8) * (8 + 4)
    assert read(four["top-k"]) == [times(chosen, 3 * chosen, 2)] * 4
    part = 8 * -(-size // 8 // 4)
    assert read(four["sharded"]) == [times(5 * part, 4 * part, 2)] * 4
    in_bits = size // 8 + 8
    assert read(four["quantized"]) == [times(in_bits, 3 * in_bits, 2)] * 4


def test_what_a_rank_keeps_is_counted(outcomes: Outcomes) -> None:
    size, elements = 8 * count_parameters(SINGLE), count_parameters(SINGLE)

    def read(world: str, identity: str) -> list[float]:
        return [values["state_bytes"][0] for values in outcomes[world][identity].values]

    # parameters, gradients and momentum
    assert read("four", "allreduce") == [3 * size] * 4
    assert read("one", "sharded") == [3 * size]
    for world, count in (("two", 2), ("four", 4)):
        part = -(-elements // count)
        parts = [part] * (count - 1) + [elements - part * (count - 1)]
        assert read(world, "sharded") == [3 * 8 * one for one in parts]
    # two moments, and torch's count of steps
    part = -(-elements // 3)
    parts = [part, part, elements - 2 * part]
    assert read("whole parts", "part kept") == [4 * 8 * one + 4 for one in parts]
    assert read("two", "bucketed") == [4 * size] * 2
    assert read("four", "top-k") == [4 * size] * 4
    # workers of a server move nothing, and have no momentum
    assert read("four", "parameter-server") == [3 * size, *[size] * 3]
    assert read("four", "stale-synchronous") == [4 * size, *[size] * 3]


@pytest.mark.parametrize("scheme", (*EXACT, *OTHERS), ids=lambda one: str(one["name"]))
def test_a_group_that_is_not_there_counts_what_real_ranks_do(
    outcomes: Outcomes, scheme: dict[str, Any]
) -> None:
    from capsule.levels.networks import build
    from tests.support import counting

    graph = build("lenet", {"batch": 1, "side": 12, "classes": 3})
    for count, world in ((2, outcomes["two"]), (4, outcomes["four"])):
        for rank, values in enumerate(world[scheme["name"]].values):
            counted = counting.count(graph, "float64", scheme, rank, count)
            for metric in schemes.TRAFFIC:
                steps = getattr(counted, metric)
                assert values[metric][: len(steps)] == steps


def test_what_is_not_consistent_is_told_by_its_distance(outcomes: Outcomes) -> None:
    two = outcomes["two"]
    assert max(two["model-averaging"].values[0]["consensus_distance"]) < 1e-12
    # five steps: two since the last averaging
    assert min(two["local-sgd"].values[0]["consensus_distance"]) > 0
    # two neighbours that average are one
    assert max(two["neighbour-averaging"].values[0]["consensus_distance"]) < 1e-12
    assert min(outcomes["four"]["neighbour-averaging"].values[0]["consensus_distance"]) > 1e-6


@pytest.mark.parametrize("world", ["two", "four"])
def test_time_is_told_apart(outcomes: Outcomes, world: str) -> None:
    for identity, outcome in outcomes[world].items():
        stragglers = outcome.values[0]["straggler"]
        assert set(stragglers) <= set(range(len(outcome.values)))
        assert min(outcome.values[0]["load_imbalance"]) >= 0
        for values in outcome.values:
            times = (values[f"{name}_time"] for name in ("wait", "communication", "step"))
            for waited, exchanging, whole in zip(*times, strict=True):
                assert 0 <= waited <= whole, identity
                assert exchanging <= whole + 1e-9, identity


def test_a_bound_of_staleness_holds(outcomes: Outcomes) -> None:
    for world in ("two", "four"):
        assert max(outcomes[world]["stale-synchronous"].values[0]["staleness"]) <= 1
    assert set(outcomes["one"]["stale-synchronous"].values[0]["staleness"]) == {0}


def test_the_program_is_started_once_for_each_rank(tmp_path: Path, data: dict[str, str]) -> None:
    scenario = Scenario("program", 2, (trial(ALLREDUCE, epochs=1),))
    folder = tmp_path / "program"
    started = [
        subprocess.Popen(
            [sys.executable, str(LEVELS), "run", "../job.json", "journal.jsonl"],
            cwd=own,
            env={"PATH": os.environ["PATH"], **ranks.variables(folder, rank, 2)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, own in enumerate(ranks.write(folder, data, scenario))
    ]
    for one in started:
        _, complaint = one.communicate(timeout=PATIENCE_SECONDS)
        assert one.returncode == 0, complaint
    for outcome in ranks.read(folder, scenario).values():
        assert {one["outcome"] for one in outcome.ends} == {"completed"}, outcome.ends
