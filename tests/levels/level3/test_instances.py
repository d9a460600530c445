"""Many trainings at once: that none knows of another, and what all of them come to."""

import pytest

from capsule.levels.catalog import schemes
from tests.support import ranks, ranks_faults
from tests.support.jobs import NEEDS_TORCH
from tests.support.ranks import Outcome, Scenario, trial

pytestmark = NEEDS_TORCH

INDEPENDENT = {"name": "independent"}
# which some of the instances reach, and some do not
TARGET = {"value": 0.4, "stop": True}
FREE = trial(INDEPENDENT, "free")
AIMING = trial(INDEPENDENT, "aiming", target=TARGET, epochs=6)
MISSING = trial(INDEPENDENT, "missing", target={"value": 1.1, "stop": False}, epochs=1)
DIVERGING = trial(INDEPENDENT, "diverging", optimizer={"name": "sgd", "lr": 1e30}, epochs=3)
# more ranks than samples of a batch: each instance has a batch of its own
GENTLE = {"name": "sgd", "lr": 0.001}
SMALL = trial(INDEPENDENT, "small", batch=2, optimizer=GENTLE, epochs=1)
SCENARIOS = (
    Scenario("alone", 1, (FREE,)),
    Scenario("three", 3, (FREE, AIMING, MISSING, DIVERGING, SMALL)),
)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Outcome]]:
    data = ranks_faults.write(tmp_path_factory.mktemp("data"))
    return ranks.run(tmp_path_factory.mktemp("instances"), data, SCENARIOS)


def test_the_first_instance_is_the_trial_itself(outcomes: dict[str, dict[str, Outcome]]) -> None:
    (alone,), three = outcomes["alone"]["free"].values, outcomes["three"]["free"].values
    for metric in ("loss", "train_loss", "order_fingerprint", "final_accuracy"):
        assert three[0][metric] == alone[metric]
    assert [one["instance_quality"] for one in three].count(three[0]["instance_quality"]) < 3
    assert alone["world_size"] == (1,)
    assert alone["instances"] == (1,)


def test_every_instance_says_how_far_it_came(outcomes: dict[str, dict[str, Outcome]]) -> None:
    own = {one.name for one in schemes.metrics("independent") if one.per == "rank"}
    for outcome in outcomes["three"].values():
        assert {frozenset(one) for one in outcome.values[1:]} == {frozenset(own)}
        assert [one["world_size"] for one in outcome.values] == [(3,)] * 3
    small = outcomes["three"]["small"]
    assert [one["outcome"] for one in small.ends] == ["completed"] * 3


def test_those_that_reach_their_target_are_counted(
    outcomes: dict[str, dict[str, Outcome]],
) -> None:
    values = outcomes["three"]["aiming"].values
    reached = [one["instance_reached"][0] for one in values]
    times = [one["instance_time"][0] for one in values]
    last = max(seconds for seconds, one in zip(times, reached, strict=True) if one)
    assert values[0]["instances"] == (sum(reached),)
    assert values[0]["time_to_train_all"][0] == pytest.approx(last)
    assert values[0]["instance_throughput"][0] == pytest.approx(sum(reached) / last)


@pytest.mark.parametrize(
    ("identity", "message"), [("missing", "was not reached"), ("diverging", "the loss rose to")]
)
def test_a_first_instance_that_misses_its_target_fails_the_trial_alone(
    outcomes: dict[str, dict[str, Outcome]], identity: str, message: str
) -> None:
    missing = outcomes["three"][identity]
    assert [one["instance_reached"] for one in missing.values] == [(0,)] * 3
    assert "instances" not in missing.values[0]
    assert message in missing.ends[0]["message"]
    assert [one["outcome"] for one in missing.ends] == ["failed", "completed", "completed"]


def test_no_two_instances_have_one_seed() -> None:
    seeds = {schemes.instance_seed(2**32 - 1, rank) for rank in range(70_000)}
    assert len(seeds) == 70_000
    assert max(seeds) < 2**32
