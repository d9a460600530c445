"""Entries of Level 3 that exchange arrays alone: what they become, and what mistakes are told."""

import json
from typing import Any

import pytest

from capsule import manifest, plan
from capsule.errors import ManifestError
from capsule.manifest import Collective, Manifest

ENTRY: dict[str, Any] = {
    "id": "network",
    "level": 3,
    "collectives": ["all-reduce", "ping-pong"],
    "bytes": [8, 4096],
    "frameworks": ["torch", "numpy"],
}


def read(
    subjects: list[dict[str, Any]] | None = None,
    resources: dict[str, int] | None = None,
    **fields: Any,
) -> Manifest:
    document = {
        "name": "network",
        "title": "Network",
        "authors": [{"name": "Ada Author"}],
        "license": "CC0-1.0",
        "resources": resources or {"ranks_per_node": 2},
        "seeds": [1],
        "benchmarks": [{**ENTRY, **fields}],
    }
    data = json.dumps(document).encode()
    return manifest.read(data, where="manifest.json", folder=None, subjects=subjects)


def test_operations_and_sizes_are_its_cases() -> None:
    (benchmark,) = read(repetitions=7).benchmarks
    assert benchmark.subject == Collective(repetitions=7, warmup=3)
    assert {case.name: dict(case.parameters) for case in benchmark.cases} == {
        f"{name}-{size}": {"collective": name, "bytes": size}
        for name in ENTRY["collectives"]
        for size in ENTRY["bytes"]
    }
    assert {metric.per for metric in benchmark.metrics} == {"rank"}


def test_a_plan_says_the_same_or_is_refused() -> None:
    whole = read()
    subjects = plan.subjects_to_json(whole)
    assert read(subjects) == whole
    subjects[0]["cases"].pop()
    with pytest.raises(ManifestError, match="the plan has the cases"):
        read(subjects)


@pytest.mark.parametrize(
    ("fields", "where", "message"),
    [
        ({"frameworks": ["tensorflow"]}, "/frameworks/0", "torch over torch.distributed or numpy"),
        ({"collectives": ["all-reduced"]}, "/collectives/0", "did you mean 'all-reduce'"),
        ({"collectives": ["broadcast"] * 2}, "/collectives/1", "is given twice"),
        ({"bytes": [8, 8]}, "/bytes/1", "is given twice"),
        (
            {"bytes": [10]},
            "/bytes",
            "all-reduce cannot send 10 bytes in 4-byte elements; use 8 or 12",
        ),
        ({"bytes": [2]}, "/bytes/0", ""),
        ({"collectives": ["all-gather"], "bytes": [12]}, "/bytes", "4-byte elements; use 8 or 16"),
        ({"level": 2}, "/level", ""),
        ({"network": "lenet"}, "/network", "unknown field"),
        ({"resources": {"ranks_per_node": 1}}, "", "at least 2 ranks, and resources has 1"),
        (
            {"frameworks": ["numpy"], "resources": {"ranks_per_node": 2, "gpus_per_rank": 1}},
            "/frameworks/0",
            "on cpu only, not on cuda; use torch",
        ),
    ],
)
def test_a_mistake_is_told_where_it_is(fields: dict[str, Any], where: str, message: str) -> None:
    with pytest.raises(ManifestError) as refusal:
        read(**fields)
    assert f"/benchmarks/0{where}" in str(refusal.value)
    assert message in str(refusal.value)
