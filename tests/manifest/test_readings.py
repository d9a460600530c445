"""Entries of Level 2 that read a dataset alone: what they become, and what mistakes are told."""

import json
from typing import Any

import pytest

from capsule import manifest, plan
from capsule.errors import ManifestError
from capsule.manifest import Manifest, Reading

ENTRY: dict[str, Any] = {
    "id": "io",
    "level": 2,
    "formats": ["idx", "arrays"],
    "datasets": ["glyphs"],
    "frameworks": ["numpy"],
    "batch": 20,
}
GLYPHS: dict[str, Any] = {"generator": "glyphs", "samples": 100}


def source(dataset: dict[str, Any] | None = None, **fields: Any) -> bytes:
    whole = {
        "name": "io",
        "title": "Reading",
        "authors": [{"name": "A"}],
        "license": "CC0-1.0",
        "seeds": [1, 2],
        "datasets": {"glyphs": dataset or GLYPHS},
        "benchmarks": [{**ENTRY, **fields}],
    }
    return json.dumps(whole).encode()


def read(data: bytes, subjects: list[dict[str, Any]] | None = None) -> Manifest:
    return manifest.read(data, where="manifest.json", folder=None, subjects=subjects)


def test_formats_and_caches_are_its_cases() -> None:
    (benchmark,) = read(source()).benchmarks
    assert benchmark.subject == Reading(batch=20, epochs=1, sampler="shuffled")
    assert {case.name: dict(case.parameters) for case in benchmark.cases} == {
        f"{form}-{cache}": {"format": form, "cache": cache}
        for form in ("idx", "arrays")
        for cache in ("cold", "warm")
    }
    (warm,) = read(source(cache=["warm"], formats=["idx"])).benchmarks
    assert [case.name for case in warm.cases] == ["idx-warm"]


def test_a_plan_says_the_same_or_is_refused() -> None:
    data = source(epochs=3, sampler="ordered")
    whole = read(data)
    subjects = plan.subjects_to_json(whole)
    assert read(data, subjects) == whole
    subjects[0]["cases"].pop()
    with pytest.raises(ManifestError, match="the plan has the cases"):
        read(data, subjects)


@pytest.mark.parametrize(
    ("fields", "where", "message"),
    [
        ({"frameworks": ["torch"]}, "/frameworks/0", "expected numpy: other frameworks"),
        ({"formats": ["idx", "idx"]}, "/formats/1", "is given twice"),
        ({"formats": ["cifra10"]}, "/formats/0", "did you mean 'cifar10'"),
        ({"formats": ["tokens-uint8"]}, "/formats/0", 'glyphs cannot be written as "tokens-uint8"'),
        ({"formats": []}, "/formats", ""),
        ({"cache": ["hot"]}, "/cache/0", ""),
        ({"batch": 101}, "/batch", "a batch of 101 exceeds the 100 samples"),
        ({"sampler": "weighted"}, "/sampler", ""),
        ({"optimizer": {"name": "sgd", "lr": 0.1}}, "/optimizer", ""),
        ({"datasets": ["glyph"]}, "/datasets/0", "did you mean 'glyphs'"),
    ],
)
def test_a_mistake_is_told_where_it_is(fields: dict[str, Any], where: str, message: str) -> None:
    with pytest.raises(ManifestError) as refusal:
        read(source(**fields))
    assert f"/benchmarks/0{where}" in str(refusal.value)
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    "dataset",
    [
        {"digest": f"sha256:{'0' * 64}", "format": "idx"},
        {"generator": "gaussian-blobs"},
    ],
)
def test_what_no_generator_writes_in_formats_is_refused(dataset: dict[str, Any]) -> None:
    with pytest.raises(ManifestError, match="one of the generators glyphs"):
        read(source(dataset))


def test_strict_determinism_has_nothing_against_it() -> None:
    raw = json.loads(source())
    (benchmark,) = read(json.dumps({**raw, "determinism": "strict"}).encode()).benchmarks
    assert isinstance(benchmark.subject, Reading)
