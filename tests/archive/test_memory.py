"""What follows from a large record is hashed without ever being there whole."""

import json
import tracemalloc
from collections.abc import Callable, Iterable

import pytest

from capsule import digest, plan, summary
from capsule.archive import codec, crate, indented, run_list
from capsule.record import Record
from capsule.summary import Run, RunStatus
from tests.support import bulk


@pytest.fixture(scope="module")
def record() -> Record:
    manifest = bulk.read_manifest(bulk.manifest_document(metrics=300, seeds=30))
    return bulk.make(manifest, bulk.normal(1, 1))


@pytest.mark.parametrize("make", [codec.metrics, lambda made: crate.build(made, lambda: iter(()))])
def test_a_document_in_pieces_has_the_one_form(
    record: Record, make: Callable[[Record], Iterable[bytes]]
) -> None:
    pieces = list(make(record))
    assert len(pieces) > 300
    assert b"".join(pieces) == indented.pretty(json.loads(b"".join(pieces)))


def test_metrics_that_are_hashed_take_no_more_memory_than_a_few_of_them(record: Record) -> None:
    whole = indented.pretty(summary.metrics_document(record))
    tracemalloc.start()
    try:
        hashed = digest.of_pieces(codec.metrics(record))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert hashed == digest.of_bytes(whole)
    assert peak < len(whole) / 20


def run_of(seed: int) -> Run:
    value = None if seed % 3 == 0 else seed / 7e9
    source = ("fresh", "manifest")[seed % 2]
    status: RunStatus = "failed" if value is None else "ok"
    return Run(seed=seed, seed_source=source, trial="t", status=status, value=value)


@pytest.mark.parametrize("count", [0, 1, 2, 999, 1000, 1001, 2500])
def test_a_list_of_runs_is_written_as_any_json(count: int) -> None:
    runs = list(map(run_of, range(count)))
    written = json.loads(run_list.write(runs))
    assert [(run["seed"], run["value"]) for run in written] == [(r.seed, r.value) for r in runs]
    document = indented.pretty({"metrics": {"m": {"runs": written}}})
    assert document == b'{\n  "metrics": {\n    "m": {\n      "runs": %b\n    }\n  }\n}\n' % (
        run_list.write(runs).encode()
    )


def test_a_plan_is_named_by_its_canonical_json_however_many_starts_it_has() -> None:
    for seeds in (1, 99, 100, 101, 250):
        manifest = bulk.read_manifest(bulk.manifest_document(metrics=1, seeds=seeds))
        made = plan.make(manifest)
        assert len(made.groups) == seeds
        assert made.digest == digest.of_json(plan.to_json(made))
        assert plan.json_digest(plan.to_json(made)) == made.digest
    assert plan.json_digest({**plan.to_json(made), "groups": []}) == digest.of_json(
        {**plan.to_json(made), "groups": []}
    )
