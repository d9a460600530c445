"""The catalogue of operators, as a manifest's author meets it."""

from __future__ import annotations

import json

import pytest

from capsule import manifest, plan
from capsule.errors import ManifestError
from capsule.jsons import Json, JsonObject
from capsule.levels import catalog
from capsule.manifest import Manifest, kinds


def read(benchmark: JsonObject, **fields: Json) -> Manifest:
    document = {
        "name": "small",
        "title": "Small",
        "authors": [{"name": "Ada"}],
        "license": "MIT",
        "seeds": [1, 2, 3],
        "benchmarks": [{"id": "b", "level": 0, **benchmark}],
        **fields,
    }
    return manifest.read(json.dumps(document).encode(), where="m.json", folder=None)


def gemm(**changes: Json) -> JsonObject:
    sizes = {"m": 2, "n": 3, "k": 4}
    return {"operator": "gemm", "cases": [sizes], "frameworks": ["numpy"], **changes}


@pytest.mark.parametrize("operator", sorted(catalog.OPERATORS))
def test_every_operator_has_a_quick_set_that_can_be_planned(operator: str) -> None:
    frameworks = [
        name
        for name in catalog.OPERATORS[operator].frameworks
        if catalog.refusal(catalog.OPERATORS[operator], name, "float32", "cpu") is None
    ]
    assert {"torch", "numpy"} <= set(frameworks)
    small = read({"operator": operator, "frameworks": frameworks})
    trials = [trial for group in plan.make(small).groups for trial in group.trials]
    assert len(trials) == 3 * len(frameworks) * len(small.benchmarks[0].cases)


def test_an_option_may_be_left_out_and_is_named_where_it_is_not_the_usual() -> None:
    cases: Json = [{"m": 2, "n": 3, "k": 4}, {"m": 2, "n": 3, "k": 4, "ta": 1}]
    points = read(gemm(cases=cases)).benchmarks[0].cases
    assert [case.name for case in points] == ["m2n3k4", "m2n3k4ta1"]
    sweep = read(gemm(cases={"m": [2], "n": [3], "k": [4], "tb": [0, 1]}))
    assert [case.name for case in sweep.benchmarks[0].cases] == ["m2n3k4", "m2n3k4tb1"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"cases": [{"m": 2, "n": 3, "k": 4, "ta": 2}]},
            "found 2, expected a whole number from 0 to 1",
        ),
        ({"cases": [{"m": 0, "n": 3, "k": 4}]}, "/benchmarks/0/cases/0/m"),
        ({"cases": [{"m": 2, "n": 3, "k": 4, "tc": 1}]}, 'no parameter "tc"'),
        ({"dtype": "float16"}, "numpy does not support float16"),
    ],
)
def test_what_cannot_be_measured_is_told_before_it_is_tried(
    changes: JsonObject, words: str
) -> None:
    with pytest.raises(ManifestError, match=words):
        read(gemm(**changes))


@pytest.mark.parametrize(
    ("changes", "conditions"),
    [
        ({}, ()),
        ({"fresh": False, "cold": True}, ("cold",)),
        ({"cold": True, "fresh": True}, ("fresh", "cold")),
    ],
)
def test_conditions_of_calls_are_those_that_a_manifest_asks_for(
    changes: JsonObject, conditions: tuple[str, ...]
) -> None:
    subject = read(gemm(**changes)).benchmarks[0].subject
    assert isinstance(subject, kinds.Operator)
    assert subject.conditions == conditions


def test_fresh_values_are_refused_where_tensors_stay_as_they_are() -> None:
    assert read(gemm(frameworks=["numpy", "onnxruntime", "torch"], fresh=True))
    with pytest.raises(
        ManifestError, match=r"/benchmarks/0/frameworks/1.*tensorflow cannot overwrite its tensors"
    ):
        read(gemm(frameworks=["numpy", "tensorflow"], fresh=True))


def test_caches_of_a_device_are_emptied_too() -> None:
    resources: Json = {"gpus_per_rank": 1}
    (benchmark,) = read(gemm(frameworks=["torch"], cold=True), resources=resources).benchmarks
    assert isinstance(benchmark.subject, kinds.Operator)
    assert benchmark.subject.conditions == ("cold",)


@pytest.mark.parametrize("gpus", [0, 1])
def test_single_calls_are_a_metric_of_their_own_on_devices_alone(gpus: int) -> None:
    fields = {"resources": {"gpus_per_rank": gpus}}
    cases: Json = [{"batch": 2}]
    lenet: JsonObject = {"level": 1, "network": "lenet", "cases": cases, "frameworks": ["torch"]}
    for entry, ways in (
        (gemm(frameworks=["torch"]), ("forward", "backward")),
        (lenet, ("inference", "training")),
    ):
        (benchmark,) = read(entry, **fields).benchmarks
        names = {metric.name for metric in benchmark.due("torch")}
        assert {f"{way}_time" for way in ways} <= names
        assert {name for name in names if "latency" in name} == {
            f"{way}_latency" for way in ways if gpus
        }


def test_a_framework_without_gradients_owes_no_gradient_metrics() -> None:
    (benchmark,) = read(gemm(frameworks=["numpy", "onnxruntime"])).benchmarks
    owed = {name: {metric.name for metric in benchmark.due(name)} for name in benchmark.frameworks}
    assert owed["onnxruntime"] < owed["numpy"]
    assert {"backward_time", "gradient_check"} <= owed["numpy"] - owed["onnxruntime"]
    paths = {path for path, _ in plan.metric_paths(read(gemm(frameworks=["onnxruntime"])))}
    assert "b/m2n3k4/onnxruntime/forward_time" in paths
    assert "b/m2n3k4/onnxruntime/backward_time" not in paths


@pytest.mark.parametrize("gpus", [0, 1])
def test_every_device_owes_its_peak_memory(gpus: int) -> None:
    fields = {"resources": {"gpus_per_rank": gpus}}
    (benchmark,) = read(gemm(frameworks=["torch"]), **fields).benchmarks
    assert "peak_memory_bytes" in {metric.name for metric in benchmark.metrics}


def test_a_framework_that_keeps_what_it_allocates_owes_no_peak_and_keeps_no_limit() -> None:
    (benchmark,) = read(gemm(frameworks=["numpy", "tensorflow"])).benchmarks
    owed = {name: {metric.name for metric in benchmark.due(name)} for name in benchmark.frameworks}
    assert owed["numpy"] - owed["tensorflow"] == {"peak_memory_bytes"}
    cases: Json = [{"batch": 4, "limit_mib": 64}]
    lenet: JsonObject = {"level": 1, "network": "lenet", "frameworks": ["numpy", "tensorflow"]}
    with pytest.raises(
        ManifestError, match=r"frameworks/1.*tensorflow does not report its memory use"
    ):
        read({**lenet, "cases": cases})
    (benchmark,) = read({**lenet, "frameworks": ["numpy"], "cases": cases}).benchmarks
    assert benchmark.cases[0].parameters["limit_mib"] == 64
