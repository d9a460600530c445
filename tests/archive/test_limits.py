"""How much a reader takes on, and that nothing is measured which none could read."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest

from capsule import archive, digest, plan
from capsule.archive import indented, limits
from capsule.archive.limits import Budget
from capsule.archive.room import _count_values
from capsule.errors import DamagedError, ExecutionError, UsageError
from capsule.manifest import Manifest
from tests.support import bulk
from tests.support.command import User
from tests.support.records import Document


def operators(cases: int, seeds: int, claims: int, repetitions: int = 1) -> Manifest:
    """So many sizes of one operator, and so many claims on each of its metrics."""
    sizes = [{"m": 1 + n // 1000, "n": 1 + n % 1000, "k": 1} for n in range(cases)]
    alphas = [0.01 * (n + 1) for n in range(claims)]
    document: Document = {
        "name": "many",
        "title": "Many",
        "authors": [{"name": "Ada Author"}],
        "license": "CC0-1.0",
        "seeds": list(range(seeds)),
        "benchmarks": [
            {
                "id": f"gemm{first:06d}",
                "level": 0,
                "operator": "gemm",
                "cases": sizes[first : first + 1000],
                "frameworks": ["numpy"],
                "repetitions": repetitions,
            }
            for first in range(0, cases, 1000)
        ],
        "claims": [
            {"metric": "*/*/*/*", "type": "equivalence", "alpha": alpha} for alpha in alphas
        ],
    }
    with mock.patch("capsule.manifest.reader._MOST_LEAN_BYTES", 1 << 30):
        return bulk.read_manifest(document)


def require(manifest: Manifest) -> plan.Plan:
    made = plan.make(manifest)
    archive.require_room(made, carried=())
    return made


def commands(benchmarks: int, seeds: int) -> Manifest:
    """As many trials as both make, each a process of its own."""
    document = bulk.manifest_document(metrics=1, seeds=seeds)
    first = document["benchmarks"][0]
    document["benchmarks"] = [{**first, "id": f"train{n:04d}"} for n in range(benchmarks)]
    document["claims"] = [{"metric": "*/*/*/*", "type": "equivalence"}]
    return bulk.read_manifest(document)


def test_a_hundred_thousand_trials_have_room() -> None:
    assert sum(len(group.trials) for group in require(commands(100, 1000)).groups) == 100_000


def test_three_thousand_trials_with_two_wildcard_claims_have_room(tmp_path: Path) -> None:
    made = require(operators(cases=600, seeds=5, claims=2))
    assert sum(len(group.trials) for group in made.groups) == 3000
    record = bulk.make(operators(cases=20, seeds=2, claims=2), bulk.normal(1, 1))
    bulk.seal(record, tmp_path / "a.capsule.zip")
    with archive.read(tmp_path / "a.capsule.zip") as capsule:
        assert capsule.record.claims == record.claims


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        (lambda: operators(cases=20_000, seeds=1, claims=10), "bytes of results.metrics"),
        (lambda: operators(cases=200, seeds=99, claims=0, repetitions=100_000), "bytes of samples"),
        (lambda: operators(cases=20, seeds=99, claims=0, repetitions=10_000), "bytes of samples"),
    ],
)
def test_what_could_not_be_read_is_not_measured(manifest: object, words: str) -> None:
    assert callable(manifest)
    with pytest.raises(UsageError, match=words):
        require(manifest())


def test_processes_whose_logs_have_no_room_are_not_started() -> None:
    made = plan.make(commands(1, 2))
    many = SimpleNamespace(
        manifest=made.manifest, groups=[SimpleNamespace(ranks=1, trials=())] * 200_000
    )
    with pytest.raises(UsageError, match="files"):
        archive.require_room(many, carried=())  # type: ignore[arg-type]


def test_words_of_a_command_stand_in_the_plan_once_or_never() -> None:
    document = bulk.manifest_document(metrics=1, seeds=1000)
    document["benchmarks"][0]["command"] = ["x" * 200] * 1000
    made = plan.make(bulk.read_manifest(document))
    assert len(indented.pretty(plan.to_json(made))) < 1_000_000


def test_the_memory_of_documents_is_one_budget() -> None:
    data = b"[" + b",".join([b"{}"] * 1_000_000) + b"]"
    budget = Budget()
    most = limits.MOST_PARSED_BYTES // limits.parsed_bytes(data)
    for _ in range(most):
        budget.spend(data, where="it")
    with pytest.raises(DamagedError, match="too many values: they need about"):
        budget.spend(data, where="it")


def test_documents_samples_and_attempts_share_what_is_kept() -> None:
    document = b"[" + b",".join([b"{}"] * 1_000_000) + b"]"
    line = b"," * 15 + b"\n"
    kept = limits.bytes_to_keep(limits.parsed_bytes(document))
    piece = limits.lines_bytes(1000, 1000, limits.LINE_BYTES)
    budget = Budget()
    budget.spend(document, where="it")
    for _ in range((limits.MOST_KEPT_BYTES - kept) // piece):
        budget.spend_lines(1000 * line, limits.LINE_BYTES, where="it")
    with pytest.raises(DamagedError, match="together they need more than 212 MiB"):
        budget.spend_lines(1000 * line, limits.LINE_BYTES, where="it")


def test_what_no_reader_would_take_is_not_sealed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = bulk.make(commands(20, 50), bulk.normal(20, 1))
    for name, words in (
        ("MOST_KEPT_BYTES", "together they need more than"),
        ("MOST_LINE_BYTES", "longer"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(limits, name, 100)
            with pytest.raises(ExecutionError, match=words) as caught:
                bulk.seal(record, tmp_path / "a.capsule.zip")
        assert "report fewer" in str(caught.value)
        assert not list(tmp_path.iterdir())


def test_little_memory_is_no_crash(author: User) -> None:
    record = bulk.make(commands(20, 50), bulk.normal(20, 1))
    bulk.seal(record, author.folder / "a.capsule.zip")
    words = " ".join(author.argv("check", "a.capsule.zip"))
    for kib in (300_000, 400_000, 500_000, 700_000):
        ended = subprocess.run(
            ["bash", "-c", f"ulimit -v {kib}; exec {words}"],
            cwd=author.folder,
            env={**author.environment(), "OPENBLAS_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode in (0, 1, 6), (kib, ended.returncode, ended.stderr)


def test_what_is_larger_than_any_is_refused_before_it_is_hashed(tmp_path: Path) -> None:
    record = bulk.make(commands(1, 2), bulk.normal(1, 1))
    path = tmp_path / "a.capsule.zip"
    bulk.seal(record, path)
    with (
        mock.patch("capsule.archive.whole.MOST_DOCUMENT_BYTES", 100),
        mock.patch.object(digest, "expect", side_effect=AssertionError),
        pytest.raises(DamagedError, match="the limit is 100 bytes"),
    ):
        archive.read(path)


def test_one_trial_that_says_much_does_not_end_a_run_of_many() -> None:
    made = plan.make(bulk.read_manifest(bulk.manifest_document(metrics=1, seeds=100)))
    trials = [trial.id for group in made.groups for trial in group.trials]
    room = archive.Projection(made)
    for number, trial in enumerate(trials[:5]):
        room.add(trial, [("m00000", 4_000_000 if number == 1 else 10)])
    room.require()
    for trial in trials[5:12]:
        room.add(trial, [("m00000", 4_000_000)])
    with pytest.raises(UsageError, match="would need about"):
        room.require()


@pytest.mark.parametrize(
    "manifest", [commands(3, 4), operators(cases=3, seeds=2, claims=1, repetitions=7)]
)
def test_trials_that_end_as_foreseen_change_nothing(manifest: Manifest) -> None:
    made = plan.make(manifest)
    room = archive.Projection(made)
    foreseen = room.bytes
    for group in made.groups:
        for trial in group.trials:
            series = [
                (one.name, _count_values(made.manifest, trial.benchmark, one))
                for one in trial.benchmark.metrics
            ]
            room.add(trial.id, series)
            assert room.bytes == foreseen
    room.add(trial.id, series)
    assert room.bytes > foreseen


def test_a_command_whose_first_trial_says_too_much_ends_a_run_then() -> None:
    made = plan.make(commands(2, 50))
    room = archive.Projection(made)
    room.require()
    room.add("train0000/default/command/0", [("m00000", 1_000_000)])
    with pytest.raises(UsageError, match="the run folder keeps the finished trials"):
        room.require()
    # whatever is not in the plan takes what it takes
    room = archive.Projection(made)
    before = room.bytes
    room.add("another/default/command/0", [("m00000", 1)])
    assert before < room.bytes < before + 2000
