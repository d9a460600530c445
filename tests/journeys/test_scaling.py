"""A training at one and two ranks, from one manifest to what is said of its efficiency."""

import json
from pathlib import Path
from typing import Any

import pytest

from capsule import archive
from tests.journeys.test_resume import attempts_in
from tests.support.command import User
from tests.support.jobs import NEEDS_TORCH
from tests.support.sweeps import ENTRY

pytestmark = NEEDS_TORCH

SIZES: dict[str, Any] = {"ranks": [1, 2], "side": [12], "classes": [3]}
SMALL = {**ENTRY, "epochs": 2, "cases": SIZES, "isolation": "group"}
MANIFEST: dict[str, Any] = {
    "name": "sweep",
    "title": "A small training by one and two ranks",
    "authors": [{"name": "Ada Author"}],
    "license": "CC0-1.0",
    "resources": {"ranks_per_node": 2, "cpus_per_rank": 1},
    "seeds": [1],
    "datasets": {
        "glyphs": {
            "generator": "glyphs",
            "samples": 48,
            "test_samples": 12,
            "side": 12,
            "classes": 3,
        }
    },
    "benchmarks": [SMALL, {**SMALL, "id": "weak", "batch": 9, "scaling": "weak"}],
    "claims": [
        {"metric": "strong/*/*/efficiency", "type": "threshold", "at_least": 0.01},
        {"metric": "*/*/*/bytes_sent", "type": "exact"},
    ],
}
ONE, TWO = "ranks1-side12-classes3", "ranks2-side12-classes3"


@pytest.fixture(scope="module")
def author(tmp_path_factory: pytest.TempPathFactory) -> User:
    user = User.make(tmp_path_factory.mktemp("sweep"))
    (user.folder / "sweep.json").write_text(json.dumps(MANIFEST))
    ended = user.run("run", "sweep.json", "--runtime", "host", "--output", "a.capsule.zip")
    assert ended.returncode == 0, ended.stderr
    return user


@pytest.fixture
def sealed(author: User) -> Path:
    return author.folder / "a.capsule.zip"


def test_every_size_is_a_world_that_met(author: User, sealed: Path) -> None:
    shown = author.json("show", sealed)
    assert [(one["nodes"], one["means"]) for one in shown["worlds"]] == [([0, 0], ["gloo"])]
    ranks = {one["trial"].split("/")[1]: one["ranks"] for one in attempts_in(sealed)}
    assert ranks == {ONE: 1, TWO: 2}
    metrics = shown["metrics"]
    for name in ("strong", "weak"):
        for case, size in ((ONE, 1), (TWO, 2)):
            (world,) = metrics[f"{name}/{case}/torch/world_size"]["runs"]
            assert world["value"] == size
    assert author.run("check", sealed).returncode == 0


def test_efficiency_follows_from_what_was_measured(author: User, sealed: Path) -> None:
    shown = author.json("show", sealed)

    def value(case: str, name: str) -> float:
        (run,) = shown["metrics"][f"weak/{case}/torch/{name}"]["runs"]
        number: float = run["value"]
        return number

    ratio = value(TWO, "training_throughput") / value(ONE, "training_throughput")
    assert value(TWO, "speedup") == pytest.approx(ratio)
    assert value(TWO, "efficiency") == pytest.approx(ratio / 2)
    assert 0 < value(TWO, "communication_share") < 1
    # of each rank 9 samples a step, where the one that is alone has 9 as well
    with archive.read(sealed) as capsule:
        steps = {
            line.trial.split("/")[1]: len(line.values)
            for line in capsule.record.samples
            if line.metric.endswith("step_time") and line.metric.startswith("weak")
        }
    assert steps == {ONE: 10, TWO: 4}
    sweeps = {one["benchmark"]: one for one in shown["scaling"]}
    assert sweeps["weak"]["kind"] == "weak"
    assert [one["base"] for one in sweeps["strong"]["sizes"]] == [None, ONE]


def test_a_table_shows_it(author: User, sealed: Path) -> None:
    text = " ".join(author.run("show", sealed).stdout.split())
    assert "Weak scaling of weak in torch" in text
    assert "1 (base)" in text
