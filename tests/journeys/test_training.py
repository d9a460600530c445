"""Trainings through the whole product: sealed under one engine, verified under another."""

import json
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from capsule import api
from capsule.levels.catalog import schemes
from tests.support import ranks_minis
from tests.support.command import User
from tests.support.documented import ROOT
from tests.support.engines import engine_cache, torch_image


@pytest.fixture
def manifest(author: User) -> Path:
    """The shipped one, with three seeds, and a margin that so few can confirm."""
    shipped: dict[str, Any] = json.loads((ROOT / "manifests" / "level2.json").read_text())
    del shipped["$schema"], shipped["claims"][0]["looks"]
    shipped["claims"][0]["margin"] = {"absolute": 0.1}
    path = author.folder / "level2.json"
    path.write_text(json.dumps({**shipped, "seeds": [17, 18, 19]}))
    return path


@pytest.mark.engines
@pytest.mark.parametrize(
    # fewer seeds and epochs reach no higher target, and confirm no narrower margin
    ("seeds", "epochs", "target", "margin"),
    [(3, 3, 0.2, 0.8), pytest.param(3, 6, 0.85, 0.1, marks=pytest.mark.long)],
)
def test_the_shipped_training_is_reproduced_under_another_engine(
    author: User,
    stranger: User,
    manifest: Path,
    monkeypatch: pytest.MonkeyPatch,
    seeds: int,
    epochs: int,
    target: float,
    margin: float,
) -> None:
    monkeypatch.setenv("CAPSULE_CACHE", str(engine_cache()))
    raw = json.loads(manifest.read_text())
    raw["benchmarks"][0] |= {"epochs": epochs}
    raw["benchmarks"][0]["target"]["at_least"] = target
    raw["claims"][0]["margin"] = {"absolute": margin}
    manifest.write_text(json.dumps(raw | {"seeds": raw["seeds"][:seeds]}))
    ended = author.run(
        *("run", manifest, "--frameworks", "torch", "--image", torch_image()),
        *("--runtime", "apptainer", "--output", "published.capsule.zip"),
    )
    assert ended.returncode == 0, ended.stderr
    published = author.folder / "published.capsule.zip"
    words = ("--runtime", "docker", "--trust", "--output", "again.capsule.zip")
    verified = stranger.run("verify", published, *words)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert verified.stdout.startswith("REPRODUCED")
    # what is claimed to be exact had the author's seeds again: they give the same curves; beside
    # them are six fresh seeds, the only look at three runs
    curves = [read_curves(path) for path in (published, stranger.folder / "again.capsule.zip")]
    assert [len(one) for one in curves] == [3 * seeds, 3 * (seeds + 6)]
    assert curves[0].items() <= curves[1].items()


def read_curves(capsule: Path) -> dict[tuple[str, str], tuple[float, ...]]:
    """The values of every trial's losses and quality."""
    with api.open(capsule) as sealed:
        return {
            (line.trial, line.metric): tuple(line.values)
            for line in sealed.record.samples
            if line.metric.rpartition("/")[2] in ("train_loss", "loss", "accuracy")
        }


def test_a_training_elsewhere_is_different_where_its_rate_is_not_the_recipes(
    author: User, manifest: Path
) -> None:
    raw = json.loads(manifest.read_text())
    raw["benchmarks"][0] |= {"frameworks": ["numpy"], "epochs": 2, "target": None}
    del raw["benchmarks"][0]["target"], raw["claims"][-1]
    manifest.write_text(json.dumps(raw))
    right = author.run("run", manifest, "--runtime", "host", "--output", "right.capsule.zip")
    assert right.returncode == 0, right.stderr
    raw["benchmarks"][0]["optimizer"]["lr"] = 0.001
    manifest.write_text(json.dumps(raw | {"seeds": [27, 28, 29]}))
    wrong = author.run("run", manifest, "--runtime", "host", "--output", "wrong.capsule.zip")
    assert wrong.returncode == 0, wrong.stderr
    ended = author.run("diff", "right.capsule.zip", "wrong.capsule.zip")
    assert ended.returncode != 0
    assert "REPRODUCED" not in ended.stdout.splitlines()[0]


def test_a_target_that_is_missed_is_an_outcome(author: User, manifest: Path) -> None:
    raw = json.loads(manifest.read_text())
    raw["benchmarks"][0] |= {"frameworks": ["numpy"], "epochs": 1}
    raw["benchmarks"][0]["target"]["at_least"] = 1.1
    manifest.write_text(json.dumps(raw))
    ended = author.run("run", manifest, "--runtime", "host")
    assert ended.returncode == 5
    assert "accuracy 1.1 was not reached in 1 epochs; the best accuracy was" in ended.stderr


@pytest.mark.long
@pytest.mark.engines
@pytest.mark.parametrize("name", ["lenet", "transformer"])
def test_a_mini_is_reproduced_under_another_engine(
    author: User, stranger: User, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAPSULE_CACHE", str(engine_cache()))
    manifest = ROOT / "manifests" / "minis" / f"{name}.json"
    ended = author.run(
        *("run", manifest, "--image", torch_image(), "--runtime", "apptainer"),
        *("--output", "published.capsule.zip"),
    )
    assert ended.returncode == 0, ended.stderr
    published = author.folder / "published.capsule.zip"
    verified = stranger.run("verify", published, "--runtime", "docker", "--trust")
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_a_divergence_is_an_outcome_with_its_curves(author: User, manifest: Path) -> None:
    raw = json.loads(manifest.read_text())
    raw["seeds"] = [17]
    raw["datasets"]["glyphs"] = {
        **{"generator": "glyphs", "samples": 60, "test_samples": 20},
        **{"side": 12, "classes": 3},
    }
    raw["benchmarks"][0] |= {
        **{"frameworks": ["numpy"], "epochs": 4, "optimizer": {"name": "sgd", "lr": 0.1}},
    }
    raw["benchmarks"][0]["cases"] = [
        {"name": name, "side": 12, "classes": 3, "lr": rate}
        for name, rate in (("grown", 30.0), ("not-finite", 1e38))
    ]
    del raw["benchmarks"][0]["target"], raw["claims"]
    manifest.write_text(json.dumps(raw))
    words = ("--runtime", "host", "--keep-going", "--output", "gone.capsule.zip")
    ended = author.run("run", manifest, *words)
    assert ended.returncode == 5
    assert "lenet/grown/numpy/17 failed (diverged): the loss rose to " in ended.stderr
    checked = author.run("check", "gone.capsule.zip")
    assert checked.returncode == 0, checked.stderr
    with api.open(author.folder / "gone.capsule.zip") as sealed:
        assert [one.reason for one in sealed.record.attempts] == ["diverged"] * 2
        curves = {line.metric: line.values for line in sealed.record.samples}
    assert len(curves["lenet/grown/numpy/train_loss"]) == 2
    assert len(curves["lenet/grown/numpy/accuracy"]) == 1


@pytest.mark.parametrize(
    "path", sorted((ROOT / "manifests" / "minis").glob("*.json")), ids=attrgetter("stem")
)
def test_a_mini_is_a_whole_recipe(author: User, path: Path) -> None:
    ended = author.run("lint", path)
    assert ended.returncode == 0, ended.stderr
    document = json.loads(path.read_text())
    (benchmark,) = document["benchmarks"]
    assert (len(document["seeds"]), benchmark["level"]) == (10, 2)
    assert document["claims"][0]["metric"].endswith(f"/final_{benchmark['target']['metric']}")
    same = {claim["metric"] for claim in document["claims"] if claim["type"] == "exact"}
    prints = ("test_fingerprint", "network_fingerprint")
    assert same == {f"{benchmark['id']}/*/*/{name}" for name in prints}


def train_and_share(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a mini is trained by alone, and by ranks."""
    folder = ROOT / "manifests"
    alone, shared = (folder / kind / f"{name}.json" for kind in ("minis", "minis-ranks"))
    return json.loads(alone.read_text()), json.loads(shared.read_text())


@pytest.mark.parametrize("name", sorted(ranks_minis.PATHS))
def test_ranks_share_the_recipe_of_a_mini(author: User, name: str) -> None:
    ended = author.run("lint", ranks_minis.PATHS[name])
    assert ended.returncode == 0, ended.stderr
    alone, shared = train_and_share(name)
    assert shared["datasets"] == alone["datasets"]
    (recipe,), (own,) = alone["benchmarks"], shared["benchmarks"]
    of_ranks = {"level", "scheme", "isolation", "batch_norm_group"}
    assert {key: own[key] for key in own.keys() - of_ranks} == {
        key: recipe[key] for key in recipe.keys() - of_ranks
    }
    # at other looks, and by a margin that may be wider, for there are fewer seeds
    claimed = [
        [{**claim, "looks": None, "margin": None} for claim in document["claims"]]
        for document in (alone, shared)
    ]
    assert all(claim in claimed[1] for claim in claimed[0])
    exact = {claim["metric"] for claim in claimed[1] if claim["type"] == "exact"}
    assert f"{name}/*/*/bytes_sent" in exact
    for ranks in (1, 2, 4):
        how = own["scheme"]["name"], own["network"], own["batch"], ranks, 1
        assert schemes.refuse_shares(*how, own.get("batch_norm_group")) is None


@pytest.mark.long
def test_a_mini_that_ranks_share_is_reproduced_by_one_process(author: User) -> None:
    manifest = ranks_minis.PATHS["transformer"]
    words = ("--runtime", "host", "--output", "published.capsule.zip")
    ended = author.run("run", manifest, *words)
    assert ended.returncode == 0, ended.stderr
    shape = ("--set", "/resources/ranks_per_node=1")
    ended = author.run("verify", "published.capsule.zip", *shape)
    assert ended.returncode == 0, ended.stdout + ended.stderr
