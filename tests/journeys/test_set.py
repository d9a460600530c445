"""Verifications that set a mutable field: recorded, told, and judged for what they are."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capsule import archive
from capsule.origin import Verification
from capsule.record import Record
from tests.journeys.test_add import reseal
from tests.support.capsules import pack, rehash, unpack
from tests.support.command import User
from tests.support.forging import with_settings

RATE = "/benchmarks/0/optimizer/lr"
MANIFEST: dict[str, Any] = {
    "name": "small",
    "title": "LeNet on small pictures",
    "authors": [{"name": "Ada Author"}],
    "license": "CC0-1.0",
    "resources": {"cpus_per_rank": 1},
    "seeds": [1, 2, 3],
    "datasets": {
        "glyphs": {
            "generator": "glyphs",
            "samples": 60,
            "test_samples": 400,
            "side": 12,
            "classes": 3,
        }
    },
    "benchmarks": [
        {
            "id": "lenet",
            "level": 2,
            "network": "lenet",
            "datasets": ["glyphs"],
            "frameworks": ["numpy"],
            "cases": [{"name": "tiny", "side": 12, "classes": 3}],
            "batch": 30,
            "epochs": 1,
            "optimizer": {"name": "sgd", "lr": 0.1, "momentum": 0.9},
        }
    ],
    "claims": [
        {"metric": "lenet/*/*/final_accuracy", "type": "equivalence", "margin": {"absolute": 5}},
        {"metric": "lenet/*/*/final_accuracy", "type": "threshold", "at_least": -5},
        {"metric": "lenet/*/*/exact_trajectory_error", "type": "bound", "at_most": 1e-6},
        {
            "metric": "lenet/*/*/training_throughput",
            "type": "noninferiority",
            "margin": {"ratio": 1.01},
        },
    ],
    "mutable": ["resources", "optimizer", "workers"],
}


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> User:
    """An original, and verifications under another number of threads and another rate."""
    user = User.make(tmp_path_factory.mktemp("set"))
    path = user.folder / "small.json"
    path.write_text(json.dumps(MANIFEST))
    ended = user.run("run", path, "--runtime", "host", "--output", "a.zip")
    assert ended.returncode == 0, ended.stderr
    return user


def words(judged: dict[str, Any]) -> list[str]:
    return [claim["verdict"] for claim in judged["claims"]]


def test_resources_leave_quality_judged_and_the_machine_reported(sealed: User) -> None:
    field, workers = "/resources/cpus_per_rank", "/benchmarks/0/workers"
    flags = ("--set", f"{field}=2", "--set", f"{workers}=1")
    judged = sealed.json("verify", "a.zip", *flags, "--output", "threads.zip")
    assert judged["verdict"] == "REPRODUCED"
    assert judged["sentence"].endswith(f"{workers} set to 1, {field} set to 2")
    assert words(judged) == ["REPRODUCED", "REPRODUCED", "REPRODUCED", "REPORTED"]
    with archive.read(sealed.folder / "threads.zip") as capsule:
        assert capsule.record.manifest.changed == {field: 2, workers: 1}
        assert capsule.record.environment["threads"] == 2
        assert capsule.record.plan["set"] == {field: 2, workers: 1}
    shown = sealed.run("show", "threads.zip").stdout
    for setting in (f"{field} to 2", f"{workers} to 1"):
        assert setting in " ".join(shown.split())
    assert sealed.run("check", "threads.zip").returncode == 0
    # a verification is added to alike alone
    refused = sealed.run("verify", "a.zip", "--add", "threads.zip", "--runs", "4")
    assert refused.returncode == 2
    assert f"used --set {workers}=1, {field}=2, the new runs would use (nothing)" in " ".join(
        refused.stderr.split()
    )


def test_another_recipe_is_held_to_thresholds_and_bounds_alone(sealed: User) -> None:
    words_of_all = ("verify", "a.zip", "--set", f"{RATE}=0.05")
    judged = sealed.json(*words_of_all, "--output", "rate.zip", code=3)
    assert judged["verdict"] == "INCONCLUSIVE"
    assert f"with {RATE} set to 0.05" in judged["sentence"]
    assert words(judged) == ["INCONCLUSIVE", "REPRODUCED", "REPRODUCED", "REPORTED"]
    assert "the training differs" in judged["claims"][0]["sentence"]
    compared = sealed.run("diff", "a.zip", "rate.zip")
    assert compared.returncode == 3
    assert "INCONCLUSIVE" in compared.stdout.splitlines()[0]


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({RATE: 0.2}, "training of the case tiny differs from the manifest's"),
        ({}, "training of the case tiny differs from the manifest's"),
        ({RATE: 0.05, "/benchmarks/0/dtype": "tf32"}, "it is fixed: the precision"),
        ({"": 1}, "it is fixed"),
    ],
    ids=["another", "none", "fixed", "nothing"],
)
def test_a_capsule_that_claims_another_setting_than_it_made_is_refused(
    sealed: User, changed: dict[str, Any], complaint: str
) -> None:
    if not (sealed.folder / "rate.zip").exists():
        words_of_all = ("verify", "a.zip", "--set", f"{RATE}=0.05")
        sealed.json(*words_of_all, "--output", "rate.zip", code=3)
    forged = sealed.folder / "forged.zip"
    forged.unlink(missing_ok=True)
    pack(rehash(with_settings(changed)(unpack(sealed.folder / "rate.zip"))), forged)
    for verb in (("check", "forged.zip"), ("diff", "a.zip", "forged.zip")):
        ended = sealed.run(*verb)
        assert ended.returncode == 4, ended.stdout
        assert complaint in " ".join(ended.stderr.split())


def test_what_was_set_follows_from_the_plan(sealed: User) -> None:
    changed = {"/resources/cpus_per_rank": 2}

    def claim(record: Record) -> Record:
        assert isinstance(record.origin, Verification)
        origin = replace(record.origin, set=changed)
        return replace(record, origin=origin, manifest=replace(record.manifest, changed=changed))

    verified = sealed.run("verify", "a.zip", "--output", "plain.zip")
    assert verified.returncode in (0, 1, 3), verified.stderr
    reseal(sealed.folder / "plain.zip", sealed.folder / "claiming.zip", claim)
    ended = sealed.run("check", "claiming.zip")
    assert ended.returncode == 4
    assert "the plan's set contradicts the manifest" in " ".join(ended.stderr.split())


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (["/benchmarks/0/dtype=tf32"], "it is fixed: the precision of matrix products"),
        (["/benchmarks/0/batch=15"], "the author did not declare batch mutable"),
        ([f"{RATE}=0.05", f"{RATE}=0.06"], "is given twice"),
        ([f"{RATE}=fast"], "is not a number"),
        (["lr"], "is not FIELD=VALUE"),
    ],
)
def test_what_is_fixed_is_refused_before_anything_is_made(
    sealed: User, settings: list[str], complaint: str
) -> None:
    before = sorted(Path(sealed.folder).iterdir())
    flags = [word for one in settings for word in ("--set", one)]
    for more in ((), ("--dry-run",)):
        refused = sealed.run("verify", "a.zip", *flags, *more)
        assert refused.returncode == 2
        assert complaint in " ".join(refused.stderr.split())
    assert sorted(Path(sealed.folder).iterdir()) == before
