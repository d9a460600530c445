"""Ranks that train one network together: that they compute the same, and what they exchange."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest

from capsule.levels.catalog import schemes, training
from capsule.levels.data import generators, samplers
from capsule.levels.networks import build
from tests.support import ranks
from tests.support.jobs import LEVELS, NEEDS_TORCH
from tests.support.patience import PATIENCE_SECONDS
from tests.support.ranks import FAULTS, Outcome, Scenario, trial
from tests.support.trainings import SMALL

pytestmark = NEEDS_TORCH

ALLREDUCE = {"name": "allreduce"}
EVERY: tuple[dict[str, Any], ...] = (
    ALLREDUCE,
    {"name": "parameter-server"},
    {"name": "model-averaging"},
    {"name": "local-sgd", "period": 3},
    {"name": "neighbour-averaging"},
)
ADAM = {"name": "adam", "lr": 0.001}
SINGLE = trial(ALLREDUCE, "float32", dtype="float32", epochs=1)
ACCUMULATED = trial(
    {"name": "parameter-server"}, "adam", optimizer=ADAM, batch=24, accumulate=3, epochs=1
)
AUGMENTED = {"crop": 2, "flip": True, "cutout": 3}
DRAWN = trial(ALLREDUCE, "augmented", augmentation=AUGMENTED, epochs=1, workers=1)
COSMOS: dict[str, Any] = {
    "network": "cosmoflow",
    "parameters": {"side": 8, "width": 2, "dropout": 50},
    "datasets": ["universe"],
}
DROPPING = trial(ALLREDUCE, "dropout", batch=6, epochs=1, optimizer=ADAM, **COSMOS)
SAME = (*map(trial, EVERY[:2]), DRAWN, ACCUMULATED, DROPPING)
FAULTY = (trial(ALLREDUCE, epochs=1),)

SCENARIOS = (
    Scenario("one", 1, SAME),
    Scenario("two", 2, (*SAME, *map(trial, EVERY[2:]), SINGLE)),
    Scenario("four", 4, (*SAME, trial(EVERY[4], epochs=1))),
    *(
        Scenario(name.replace(" ", "-"), 2, FAULTY, name)
        for name in FAULTS
        if name != "equal noise on every rank"
    ),
    Scenario("noise", 2, (DROPPING,), "equal noise on every rank"),
)

Outcomes = dict[str, dict[str, Outcome]]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    sizes = {"glyphs": SMALL, "universe": {"samples": 12, "test_samples": 5, "side": 8}}
    folders = {name: tmp_path_factory.mktemp(name) for name in sizes}
    for name, folder in folders.items():
        generators.write(generators.generate(name, sizes[name]), folder)
    return {name: str(folder) for name, folder in folders.items()}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory, data: dict[str, str]) -> Outcomes:
    return ranks.run(tmp_path_factory.mktemp("ranks"), data, SCENARIOS)


def count_parameters() -> int:
    graph = build("lenet", {"batch": 1, "side": 12, "classes": 3})
    return sum(int(numpy.prod(graph.parameters[name].shape)) for name in graph.trainable)


def find_order(batch: int, epochs: int) -> int:
    fingerprint, used = samplers.Fingerprint(), 90 // batch * batch
    for epoch in range(epochs):
        fingerprint.add("order", samplers.shuffle(90, 17, epoch)[:used])
    return fingerprint.value()


@pytest.mark.parametrize("world", ["one", "two", "four"])
def test_every_rank_completes_and_reports_what_is_due(outcomes: Outcomes, world: str) -> None:
    for entry in next(one for one in SCENARIOS if one.name == world).trials:
        outcome = outcomes[world][entry["id"]]
        assert {one["outcome"] for one in outcome.ends} == {"completed"}, outcome.ends
        quality = training.QUALITY[entry["network"]]
        due = {one.name for one in training.metrics(quality, has_target=False, stops=False)}
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
        for curve in ("train_loss", "loss", "order_fingerprint"):
            assert first[curve] == pytest.approx(alone[curve], rel=1e-11)
        assert set(first["rank_difference"]) == {0.0}
        assert first["reference_error_ratio"][0] < 1


@pytest.mark.parametrize(
    ("world", "identity", "batch", "epochs"),
    [("two", "allreduce", 18, 2), ("four", "allreduce", 18, 2), ("two", "local-sgd", 18, 2)],
)
def test_every_sample_is_taken_once(
    outcomes: Outcomes, world: str, identity: str, batch: int, epochs: int
) -> None:
    first = outcomes[world][identity].values[0]
    assert first["order_fingerprint"] == (find_order(batch, epochs),)


def test_bytes_are_those_of_the_rule(outcomes: Outcomes) -> None:
    size, two, four = 8 * count_parameters(), outcomes["two"], outcomes["four"]

    def read(outcome: Outcome) -> list[tuple[tuple[float, ...], ...]]:
        names = "bytes_sent", "bytes_received", "messages"
        return [tuple(values[name] for name in names) for values in outcome.values]

    each = ((size,) * 10, (size,) * 10, (1,) * 10)
    for identity in ("allreduce", "model-averaging", "neighbour-averaging"):
        assert read(two[identity]) == [each, each]
    assert read(four["allreduce"]) == [each] * 4
    assert read(two["float32"])[0][0] == (size / 2,) * 5
    served, workers = ((size,) * 10, (3 * size,) * 10, (2,) * 10), (*each[:2], (2,) * 10)
    assert read(four["parameter-server"]) == [served, workers, workers, workers]
    seldom = tuple(size * (step % 3 == 0) for step in range(1, 11))
    assert read(two["local-sgd"])[1][:2] == (seldom, seldom)
    assert read(four["neighbour-averaging"]) == [((2 * size,) * 5, (2 * size,) * 5, (2,) * 5)] * 4
    assert read(outcomes["one"]["allreduce"]) == [((0,) * 10,) * 3]


def test_what_is_not_consistent_is_told_by_its_distance(outcomes: Outcomes) -> None:
    two = outcomes["two"]
    assert max(two["model-averaging"].values[0]["consensus_distance"]) < 1e-12
    # ten steps: one since the last averaging
    assert min(two["local-sgd"].values[0]["consensus_distance"]) > 0
    # two neighbours that average are one
    assert max(two["neighbour-averaging"].values[0]["consensus_distance"]) < 1e-12
    assert min(outcomes["four"]["neighbour-averaging"].values[0]["consensus_distance"]) > 1e-6


def notice(outcome: Outcome) -> set[str]:
    """The metrics by which a training of two ranks shows that it is wrong."""
    size, seen, first = 8 * count_parameters(), set(), outcome.values[0]
    if first["reference_error_ratio"][0] > 1:
        seen.add("reference_error_ratio")
    if max(first["rank_difference"]):
        seen.add("rank_difference")
    if first["order_fingerprint"] != (find_order(18, 1),):
        seen.add("order_fingerprint")
    for values in outcome.values:
        for name in ("bytes_sent", "bytes_received"):
            if set(values[name]) != {size}:
                seen.add(name)
    return seen


@pytest.mark.parametrize(
    ("fault", "by"),
    [
        ("rank 0's gradient dropped", {"reference_error_ratio"}),
        ("averaging left out", {"reference_error_ratio", "rank_difference", "bytes_sent"}),
        ("a shard read twice", {"order_fingerprint"}),
        ("bytes counted one way", {"bytes_received"}),
    ],
)
def test_a_fault_is_noticed(outcomes: Outcomes, fault: str, by: set[str]) -> None:
    assert by <= notice(outcomes[fault.replace(" ", "-")]["allreduce"])


def test_equal_noise_on_every_rank_is_noticed(outcomes: Outcomes) -> None:
    assert outcomes["noise"]["dropout"].values[0]["reference_error_ratio"][0] > 1


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
