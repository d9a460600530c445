"""A decision from end to end: something small is trained, published, re-trained and judged.

The error is claimed to two digits, and its resolution of 0.01 bounds what can be known of it: the
runs' own spread, below 0.001, is far smaller. What follows is then the same for every choice of
seeds, fresh ones included.
"""

from pathlib import Path

import pytest

from capsule import archive
from capsule.origin import Verification
from tests.support.command import Document, User, write_manifest
from tests.support.engines import engine_cache, small_image

pytestmark = pytest.mark.packages

TRAIN = """
import json, os
import numpy

seed = int(os.environ["CAPSULE_SEED"])
rng = numpy.random.default_rng(seed)
truth = numpy.array([1.0, -2.0, 0.5, 0.0])
inputs = rng.normal(size=(65536, 4))
targets = inputs @ truth + 0.3 * rng.normal(size=65536)
weights = numpy.zeros(4)
for batch in numpy.split(rng.permutation(65536), 1024):
    error = inputs[batch] @ weights - targets[batch]
    weights -= RATE * inputs[batch].T @ error / len(batch)
rmse = float(numpy.sqrt(numpy.mean((inputs @ weights - targets) ** 2)))
with open(os.environ["CAPSULE_RESULTS"], "a") as results:
    results.write(json.dumps({"metric": "rmse", "value": rmse}) + "\\n")
"""
METRIC = "training/default/command/rmse"
BENCHMARK = {
    "id": "training",
    "command": ["python3", "train.py"],
    "inputs": ["train.py"],
    "metrics": {"rmse": {"direction": "lower", "resolution": 0.01}},
}
CLAIM: Document = {"metric": METRIC, "type": "equivalence", "margin": {"absolute": 0.005}}


def training(
    user: User, *, rate: float = 0.02, image: str | None = None, first: int = 1, **claim: object
) -> Path:
    (user.folder / "train.py").write_text(TRAIN.replace("RATE", str(rate)))
    return write_manifest(
        user.folder,
        seeds=list(range(first, first + 6)),
        image={"reference": image} if image else None,
        benchmarks=[BENCHMARK],
        claims=[{**CLAIM, **claim}],
    )


def look_of(user: User, name: str) -> int | None:
    """The planned look that a capsule says to be."""
    with archive.read(user.folder / name) as capsule:
        origin = capsule.record.origin
    assert isinstance(origin, Verification)
    return origin.look


def claim_of(verdict: Document) -> Document:
    claims: list[Document] = verdict["claims"]
    (claim,) = [one for one in claims if one["metric"] == METRIC]
    return claim


@pytest.mark.engines
def test_six_seeds_reproduce_under_another_engine_and_another_rate_differs(
    author: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAPSULE_CACHE", str(engine_cache()))
    manifest = training(author, image=small_image())
    ran = author.run("run", manifest, "--runtime", "apptainer", "--output", "a.capsule.zip")
    assert ran.returncode == 0, ran.stderr
    verdict = author.json("verify", "a.capsule.zip", "--runtime", "docker")
    assert verdict["verdict"] == "REPRODUCED"

    training(author, rate=0.002, image=small_image(), first=7)
    ran = author.run("run", manifest, "--runtime", "docker", "--output", "b.capsule.zip")
    assert ran.returncode == 0, ran.stderr
    verdict = author.json("diff", "a.capsule.zip", "b.capsule.zip", code=1)
    claim = claim_of(verdict)
    assert claim["verdict"] == "DIFFERENT"
    assert claim["estimate"] > 2 * CLAIM["margin"]["absolute"]


def test_too_few_runs_are_inconclusive_and_the_advice_decides(author: User) -> None:
    manifest = training(author, margin={"absolute": 0.0065})
    author.run("run", manifest, "--output", "a.capsule.zip")
    verdict = author.json("verify", "a.capsule.zip", "--runs", "2", code=3)
    advice = claim_of(verdict)["advice"]
    assert advice["answer"] == "runs"
    # with the shift seen now the number depends on the seeds drawn, without one it does not
    wanted = advice["if_equal"][0]
    assert wanted > 2
    verdict = author.json("verify", "a.capsule.zip", "--runs", str(wanted))
    assert verdict["verdict"] == "REPRODUCED"


def test_planned_looks_stop_as_soon_as_every_claim_is_decided(author: User) -> None:
    author.run("run", training(author, looks=[3, 6, 12]), "--output", "a.capsule.zip")
    ended = author.run("verify", "a.capsule.zip", "--until-decided", "--output", "b.capsule.zip")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "look at 3 runs: INCONCLUSIVE" in ended.stderr
    assert "look at 6 runs: REPRODUCED" in ended.stderr
    assert "look at 12" not in ended.stderr
    verdict = author.json("diff", "a.capsule.zip", "b.capsule.zip")
    claim = claim_of(verdict)
    assert claim["rerun"]["values"] == 6
    assert claim["alpha_used"] < 0.03
    assert look_of(author, "b.capsule.zip") == 2


@pytest.fixture(scope="module")
def publisher(tmp_path_factory: pytest.TempPathFactory) -> User:
    """Who has sealed a training whose looks are the default plan's."""
    user = User.make(tmp_path_factory.mktemp("decision"))
    ended = user.run("run", training(user), "--output", "a.capsule.zip")
    assert ended.returncode == 0, ended.stderr
    return user


def test_a_plain_verification_makes_the_first_look_of_the_default_plan(publisher: User) -> None:
    claim = claim_of(publisher.json("verify", "a.capsule.zip", "--output", "b.capsule.zip"))
    assert (claim["look"]["planned"], claim["look"]["number"]) == ([6, 12], 1)
    assert claim["rerun"]["values"] == 6
    assert look_of(publisher, "b.capsule.zip") == 1


def test_a_number_of_runs_that_nobody_planned_is_no_look_in_the_record(publisher: User) -> None:
    publisher.run("verify", "a.capsule.zip", "--runs", "3", "--output", "c.capsule.zip")
    assert look_of(publisher, "c.capsule.zip") is None
