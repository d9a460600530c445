"""The manifests of the whole catalogue are those that the catalogue makes."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import catalogue
import pytest

from capsule import manifest
from capsule.levels import catalog
from capsule.manifest.kinds import Network, Operator
from capsule.manifest.model import Benchmark

COMPILED = catalogue.COMPILED_OPERATORS
FOLDER = Path(__file__).parents[2] / "manifests"


@pytest.mark.parametrize(("name", "make"), catalogue.FILES.items())
def test_the_committed_file_is_what_the_catalogue_makes(
    name: str, make: Callable[[], dict[str, Any]]
) -> None:
    advice = "python tools/catalogue.py writes it anew"
    assert (FOLDER / name).read_text() == catalogue.text(make()), advice


def subject_of(benchmark: Benchmark) -> Operator | Network:
    assert isinstance(benchmark.subject, Operator | Network)
    return benchmark.subject


def test_level_0_holds_every_operator_framework_and_element_type_that_there_is() -> None:
    whole = manifest.load(FOLDER / "level0.json")
    measured = {
        (subject_of(benchmark).name, subject_of(benchmark).dtype, framework)
        for benchmark in whole.benchmarks
        for framework in benchmark.frameworks
    }
    assert measured == {
        (operator, dtype, framework)
        for operator in catalog.OPERATORS
        for dtype in catalog.DTYPES
        for framework in catalog.FRAMEWORKS
        if catalog.refusal(catalog.OPERATORS[operator], framework, dtype, "cpu") is None
        and (framework != "torch-compile" or (operator in COMPILED and dtype == "float32"))
    }


def test_level_0_on_a_gpu_holds_every_operator_in_every_element_type_that_torch_has() -> None:
    whole = manifest.load(FOLDER / "gpu" / "level0.json")
    assert whole.left_out == ()
    measured = {(subject_of(one).name, subject_of(one).dtype) for one in whole.benchmarks}
    assert measured == {
        (operator, dtype)
        for operator in catalog.OPERATORS
        for dtype in catalogue.GPU_DTYPES
        if catalog.refusal(catalog.OPERATORS[operator], "torch", dtype, "cuda") is None
        and (dtype != "tf32" or operator in catalogue.PRODUCTS)
    }


@pytest.mark.parametrize("name", catalogue.DEEPBENCH)
def test_large_cases_are_shapes_of_deepbench(name: str) -> None:
    operator = catalog.OPERATORS[name]
    published = {
        case
        for kind, cases in operator.cases.items()
        if kind.startswith("deepbench")
        for case, _ in cases
    }
    assert {operator.name_case(sizes) for sizes in catalogue.LARGE[name]} <= published


def test_level_1_holds_every_network_in_every_framework() -> None:
    benchmarks = manifest.load(FOLDER / "level1.json").benchmarks
    assert {subject_of(benchmark).name for benchmark in benchmarks} == set(catalog.NETWORKS)
    assert {name for one in benchmarks for name in one.frameworks} == set(catalog.FRAMEWORKS)


@pytest.mark.parametrize("name", ["level0", "level1"])
@pytest.mark.parametrize(
    "frameworks", [["torch", "numpy"], ["tensorflow", "tensorflow-xla", "jax", "onnxruntime"]]
)
def test_each_image_finds_its_part_with_claims_about_it(
    name: str, frameworks: Sequence[str]
) -> None:
    part = manifest.load(FOLDER / f"{name}.json", frameworks)
    assert {name for one in part.benchmarks for name in one.frameworks} == set(frameworks)
    assert len(part.claims) >= 3
    kinds = {claim.type for claim in part.claims if claim.primary}
    assert kinds == {"bound"}
