"""Capsules of trainings by several ranks: whole, and refused where no scheme has their bytes."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capsule import archive
from capsule.archive import exchanges
from capsule.errors import DamagedError
from capsule.record import Record, Samples
from tests.support.capsules import carry, forge
from tests.support.command import User
from tests.support.jobs import NEEDS_TORCH

pytestmark = NEEDS_TORCH

ENTRY: dict[str, Any] = {
    "level": 3,
    "network": "lenet",
    "datasets": ["glyphs"],
    "frameworks": ["torch"],
    "batch": 15,
    "epochs": 1,
    "optimizer": {"name": "sgd", "lr": 0.1},
    "cases": [{"side": 12, "classes": 3}],
    "isolation": "group",
}
SCHEMES: tuple[dict[str, Any], ...] = (
    {"name": "allreduce"},
    {"name": "parameter-server"},
    {"name": "local-sgd", "period": 3},
    {"name": "neighbour-averaging"},
    {"name": "top-k", "density": 0.1},
    {"name": "bucketed", "bucket_bytes": 4096},
    {"name": "pipelined"},
    {"name": "stale-synchronous", "staleness": 1},
)
# the steps of the last one depend on who comes first
SAME_AGAIN = [one["name"] for one in SCHEMES[:-1]]
MANIFEST: dict[str, Any] = {
    "name": "together",
    "title": "Small trainings by two ranks",
    "authors": [{"name": "Ada Author"}],
    "license": "CC0-1.0",
    "resources": {"ranks_per_node": 2, "cpus_per_rank": 1},
    "seeds": [1],
    "datasets": {
        "glyphs": {
            "generator": "glyphs",
            "samples": 90,
            "test_samples": 30,
            "side": 12,
            "classes": 3,
        }
    },
    "benchmarks": [{"id": one["name"], **ENTRY, "scheme": one} for one in SCHEMES],
    "claims": [
        {"metric": "*/*/*/bytes_sent", "type": "exact"},
        *({"metric": f"{name}/*/*/loss", "type": "exact"} for name in SAME_AGAIN),
    ],
    "mutable": ["resources"],
}
Change = Callable[[Samples], Samples | None]
CASE = "side12-classes3/torch"


@pytest.fixture(scope="module")
def author(tmp_path_factory: pytest.TempPathFactory) -> User:
    user = User.make(tmp_path_factory.mktemp("together"))
    (user.folder / "together.json").write_text(json.dumps(MANIFEST))
    ended = user.run("run", "together.json", "--runtime", "host", "--output", "a.capsule.zip")
    assert ended.returncode == 0, ended.stderr
    return user


@pytest.fixture
def sealed(author: User) -> Path:
    return author.folder / "a.capsule.zip"


def test_two_ranks_seal_what_their_schemes_exchange(sealed: Path) -> None:
    with archive.read(sealed) as capsule:
        record = capsule.record
        assert list(exchanges.faults(record)) == []
        (fact,) = exchanges.facts(record)
        assert fact.startswith("in 8 trainings, the traffic of each rank in each step")
        ranks: dict[str, set[int]] = {}
        for line in record.samples:
            ranks.setdefault(line.metric.rpartition("/")[2], set()).add(line.rank)
        assert {name for name, own in ranks.items() if own == {0, 1}} == {
            *("world_size", "bytes_sent", "bytes_received", "messages"),
            *("communication_time", "wait_time", "step_time", "state_bytes", "threads_per_core"),
        }
        # curves, and the files that they follow from, are the first rank's
        assert {evidence.rank for one in record.attempts for evidence in one.evidence} == {0}


def test_their_bytes_are_reproduced(author: User, sealed: Path) -> None:
    ended = author.run("verify", sealed, "--runtime", "host")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "all 15 primary claims hold" in ended.stdout


def test_another_number_of_ranks_is_no_other_number_of_bytes(author: User, sealed: Path) -> None:
    ended = author.run(
        "verify", sealed, "--runtime", "host", "--set", "/resources/ranks_per_node=1"
    )
    assert ended.returncode == 3, ended.stdout + ended.stderr
    assert "DIFFERENT" not in ended.stdout


def of_rank(metric: str, rank: int, change: Change) -> Callable[[Record], Record]:
    def forged(record: Record) -> Record:
        lines = (
            change(line) if line.metric == metric and line.rank == rank else line
            for line in record.samples
        )
        return replace(record, samples=tuple(line for line in lines if line is not None))

    return forged


def one_more(line: Samples) -> Samples:
    return replace(line, values=(*line.values[:-1], line.values[-1] + 1))


def far_ahead(line: Samples) -> Samples:
    return replace(line, values=(*line.values[:-1], 7.0))


def one_less(line: Samples) -> Samples:
    return replace(line, values=line.values[:-1])


def not_a_number(line: Samples) -> Samples:
    return replace(line, values=(math.nan,))


def nothing(_: Samples) -> None:
    return None


def test_what_is_of_all_ranks_one_tells(sealed: Path, tmp_path: Path) -> None:
    with archive.read(sealed) as capsule:
        record, name = capsule.record, f"allreduce/{CASE}/final_accuracy"
        lines = [
            copy
            for line in record.samples
            for copy in ((line, replace(line, rank=1)) if line.metric == name else (line,))
        ]
        forged = replace(record, samples=tuple(lines))
        forge(forged, carry(capsule), tmp_path / "forged.capsule.zip")
    with (
        pytest.raises(DamagedError, match="rank 1 and an earlier rank have samples"),
        archive.read(tmp_path / "forged.capsule.zip"),
    ):
        pass


def saw(**changes: Any) -> Callable[[Record], Record]:
    """The record with another world than its ranks met in."""
    return lambda record: replace(record, worlds=(replace(record.worlds[0], **changes),))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda record: replace(record, worlds=()), "the record lacks a test of these ranks"),
        (saw(nodes=(0, 0, 0)), "recorded test of ranks started 3 ranks, expected one of 2"),
        (saw(nodes=(0, 1)), "test of ranks lists node 1, "),
        (saw(means=()), "expected all or none"),
        (saw(bytes=0), "expected all or none"),
    ],
)
def test_no_ranks_ran_whose_world_nobody_saw(
    sealed: Path, tmp_path: Path, change: Callable[[Record], Record], message: str
) -> None:
    with archive.read(sealed) as capsule:
        (world,) = capsule.record.worlds
        assert (world.nodes, world.means, world.bytes) == ((0, 0), ("gloo",), 2**23)
        assert world.seconds > 0
        forge(change(capsule.record), carry(capsule), tmp_path / "forged.capsule.zip")
    with (
        pytest.raises(DamagedError, match=message),
        archive.read(tmp_path / "forged.capsule.zip"),
    ):
        pass


@pytest.mark.parametrize(
    ("metric", "rank", "change", "message"),
    [
        (f"allreduce/{CASE}/bytes_sent", 1, one_more, "bytes_sent of rank 1 is"),
        (f"parameter-server/{CASE}/bytes_received", 0, one_more, "bytes_received of rank 0 is"),
        (
            f"local-sgd/{CASE}/messages",
            0,
            one_more,
            "messages of rank 0 is 2 in step 6, expected 1 from scheme local-sgd",
        ),
        (f"top-k/{CASE}/bytes_sent", 0, one_more, "bytes_sent of rank 0 is"),
        (f"bucketed/{CASE}/messages", 1, one_more, "messages of rank 1 is"),
        # 15 samples of 16 numbers pass the one cut, and their gradients come back
        (
            f"pipelined/{CASE}/bytes_sent",
            1,
            one_more,
            "is 961 in step 6, expected 960 from scheme pipelined",
        ),
        (f"stale-synchronous/{CASE}/bytes_sent", 0, one_more, "bytes_sent of rank 0 is"),
        (f"stale-synchronous/{CASE}/staleness", 0, far_ahead, "7 steps ahead of the slowest"),
        (f"allreduce/{CASE}/world_size", 1, one_more, "rank 1 saw 3 ranks, expected 2"),
        (f"allreduce/{CASE}/parameters", 0, not_a_number, "expected a finite number"),
        (f"neighbour-averaging/{CASE}/bytes_sent", 1, one_less, "steps, expected equal numbers"),
        (f"neighbour-averaging/{CASE}/bytes_sent", 1, nothing, "bytes_sent"),
    ],
)
def test_what_no_scheme_exchanges_is_refused(
    sealed: Path, tmp_path: Path, metric: str, rank: int, change: Change, message: str
) -> None:
    with archive.read(sealed) as capsule:
        forged = of_rank(metric, rank, change)(capsule.record)
        assert forged != capsule.record
        forge(forged, carry(capsule), tmp_path / "forged.capsule.zip")
    with pytest.raises(DamagedError) as caught, archive.read(tmp_path / "forged.capsule.zip"):
        pass
    assert message in str(caught.value)
