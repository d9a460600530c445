"""Capsules of arrays that ranks exchanged alone: reproduced, and held to what operations do."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capsule import archive
from capsule.archive import collectives
from capsule.errors import DamagedError
from capsule.levels.catalog.collectives import COLLECTIVES
from tests.support.capsules import carry, forge
from tests.support.command import User
from tests.support.documented import ROOT
from tests.support.jobs import NEEDS_TORCH

pytestmark = NEEDS_TORCH

MANIFEST: dict[str, Any] = {
    "name": "network",
    "title": "Two ranks exchange",
    "authors": [{"name": "Ada Author"}],
    "license": "CC0-1.0",
    "resources": {"ranks_per_node": 2, "cpus_per_rank": 1},
    "seeds": [1],
    "benchmarks": [
        {
            "id": "network",
            "level": 3,
            "collectives": list(COLLECTIVES),
            "bytes": [24],
            "frameworks": ["torch"],
            "repetitions": 2,
            "warmup": 1,
        }
    ],
    "claims": [{"metric": "network/*/*/bytes_sent", "type": "exact"}],
    "mutable": ["resources"],
}


@pytest.fixture(scope="module")
def author(tmp_path_factory: pytest.TempPathFactory) -> User:
    user = User.make(tmp_path_factory.mktemp("network"))
    (user.folder / "network.json").write_text(json.dumps(MANIFEST))
    ended = user.run("run", "network.json", "--runtime", "host", "--output", "a.capsule.zip")
    assert ended.returncode == 0, ended.stderr
    return user


@pytest.fixture
def sealed(author: User) -> Path:
    return author.folder / "a.capsule.zip"


def test_each_rank_says_what_operations_do(sealed: Path) -> None:
    with archive.read(sealed) as capsule:
        assert list(collectives.faults(capsule.record)) == []
        assert {line.rank for line in capsule.record.samples} == {0, 1}
        words = " ".join(capsule.facts())
    assert "in 6 exchanges, the traffic of each rank matches the operation" in words


def test_bytes_are_reproduced_and_another_number_of_ranks_has_others(
    author: User, sealed: Path
) -> None:
    ended = author.run("verify", sealed, "--runtime", "host")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "all 6 primary claims hold" in ended.stdout
    wrong = ("--set", "/resources/ranks_per_node=5")
    refused = author.run("verify", sealed, "--runtime", "host", *wrong)
    assert refused.returncode == 2, refused.stdout + refused.stderr
    assert "equal parts of 4-byte elements; use 20 or 40" in " ".join(refused.stderr.split())


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("bytes_sent", lambda values: (*values[:-1], 25.0), "bytes_sent of rank 0 is 25 in call 2"),
        ("messages", lambda values: (7.0, *values[1:]), "messages of rank 0 is 7 in call 0"),
        ("latency", lambda values: values[:-1], "rank 0 has 2 values of latency, expected 3"),
        ("latency", lambda values: (-1.0, *values[1:]), "is -1 s in call 0, expected at least 0 s"),
        ("latency", lambda values: (2 * values[0], *values[1:]), "bandwidth of rank 0 is"),
        ("bus_bandwidth", lambda values: (2 * values[0], *values[1:]), "bus_bandwidth of rank 0"),
        ("world_size", lambda _: (3.0,), "rank 0 saw 3 ranks, expected 2"),
    ],
)
def test_what_no_operation_does_is_damage(
    sealed: Path,
    tmp_path: Path,
    name: str,
    change: Callable[[tuple[float, ...]], tuple[float, ...]],
    message: str,
) -> None:
    path = tmp_path / "forged.capsule.zip"
    metric = f"network/all-reduce-24/torch/{name}"
    with archive.read(sealed) as capsule:
        lines = tuple(
            replace(line, values=change(tuple(line.values)), warmup=min(line.warmup, 1))
            if line.metric == metric and line.rank == 0
            else line
            for line in capsule.record.samples
        )
        forge(replace(capsule.record, samples=lines), carry(capsule), path)
    with pytest.raises(DamagedError) as refusal:
        archive.read(path).close()
    assert message in " ".join(str(refusal.value).split())


def test_the_shipped_manifest_is_in_order(author: User) -> None:
    ended = author.run("lint", ROOT / "manifests" / "collectives.json")
    assert ended.returncode == 0, ended.stdout + ended.stderr
