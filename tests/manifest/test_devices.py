"""Frameworks that lack the manifest's device: left out where another one has it, else refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from capsule import lint, manifest, plan
from capsule.errors import ManifestError, UsageError
from capsule.jsons import Json, JsonObject
from capsule.levels import catalog
from capsule.manifest import Manifest
from tests.support.command import User

GPU: JsonObject = {"gpus_per_rank": 1}
ALL: Json = ["numpy", "torch", "tensorflow", "tensorflow-xla", "onnxruntime", "jax"]
LACKING = ("numpy", "tensorflow", "tensorflow-xla", "onnxruntime", "jax")
GEMM: JsonObject = {
    "id": "gemm",
    "level": 0,
    "operator": "gemm",
    "cases": [{"m": 1, "n": 1, "k": 1}],
    "frameworks": ALL,
}
LENET: JsonObject = {
    "id": "lenet",
    "level": 1,
    "network": "lenet",
    "cases": "quick",
    "frameworks": ["torch-compile", "numpy"],
}
TRAINING: JsonObject = {
    "id": "digits",
    "level": 2,
    "network": "lenet",
    "datasets": ["glyphs"],
    "frameworks": ["numpy", "torch"],
    "batch": 20,
    "epochs": 3,
    "optimizer": {"name": "sgd", "lr": 0.1},
}
READING: JsonObject = {
    "id": "io",
    "level": 2,
    "formats": ["idx"],
    "datasets": ["glyphs"],
    "frameworks": ["numpy"],
    "batch": 20,
}
EXCHANGE: JsonObject = {
    "id": "network",
    "level": 3,
    "collectives": ["all-reduce"],
    "bytes": [8],
    "frameworks": ["numpy", "torch"],
}
COMMAND: JsonObject = {"id": "train", "command": ["true"], "metrics": {"loss": {}}}
BOUND: JsonObject = {"metric": "gemm/*/*/l2_error_ratio", "type": "bound", "at_most": 1}


def write(folder: Path, *benchmarks: JsonObject, **fields: Json) -> Path:
    """A manifest for a GPU, unless `resources` says otherwise."""
    trains = any("datasets" in one for one in benchmarks)
    document = {
        "name": "small",
        "title": "Small",
        "authors": [{"name": "A"}],
        "license": "CC0-1.0",
        "resources": GPU,
        "seeds": [1, 2],
        **({"datasets": {"glyphs": {"generator": "glyphs"}}} if trains else {}),
        "benchmarks": list(benchmarks),
        **fields,
    }
    path = folder / "m.json"
    path.write_text(json.dumps(document))
    return path


def complaint(path: Path) -> str:
    with pytest.raises(ManifestError) as refusal:
        manifest.load(path)
    return str(refusal.value)


def list_frameworks(loaded: Manifest) -> dict[str, tuple[str, ...]]:
    return {one.id: one.frameworks for one in loaded.benchmarks}


def test_a_framework_without_the_device_is_left_out_with_the_claims_on_it(tmp_path: Path) -> None:
    claims: Json = [
        BOUND,
        {**BOUND, "metric": "gemm/*/jax/l2_error_ratio"},
        {"metric": "lenet/*/numpy/loss", "type": "exact"},
    ]
    path = write(tmp_path, GEMM, LENET, COMMAND, claims=claims)
    loaded = manifest.load(path)
    assert loaded.left_out == LACKING
    assert list_frameworks(loaded) == {
        "gemm": ("torch",),
        "lenet": ("torch-compile",),
        "train": ("command",),
    }
    assert [claim.metric for claim in loaded.claims] == ["gemm/*/*/l2_error_ratio"]
    # of a compiled network no node is timed, which numpy would have done
    assert {metric.name for metric in loaded.benchmarks[1].metrics} == {
        metric.name for metric in loaded.benchmarks[1].due("torch-compile")
    }


def test_the_sealed_text_is_that_of_a_manifest_without_them(tmp_path: Path) -> None:
    loaded = manifest.load(write(tmp_path, GEMM, claims=[BOUND]))
    again = manifest.read(loaded.source, where="m.json", folder=None)
    assert again.left_out == ()
    assert again.benchmarks == loaded.benchmarks
    assert plan.make(again).digest == plan.make(loaded).digest
    sealed = manifest.read(
        loaded.source, where="m.json", folder=None, subjects=plan.subjects_to_json(loaded)
    )
    assert sealed.benchmarks == loaded.benchmarks
    seeded = manifest.with_seeds(loaded, [3, 4])
    assert (seeded.left_out, seeded.narrowed_from) == (loaded.left_out, loaded.narrowed_from)


def test_on_cpus_every_framework_is_measured(tmp_path: Path) -> None:
    path = write(tmp_path, GEMM, TRAINING, resources={})
    loaded = manifest.load(path)
    assert (loaded.left_out, loaded.source) == ((), path.read_bytes())


def test_a_manifest_that_every_framework_has_the_device_for_stays_as_it_was_written(
    tmp_path: Path,
) -> None:
    path = write(tmp_path, {**GEMM, "frameworks": ["torch"]}, COMMAND)
    loaded = manifest.load(path)
    assert (loaded.left_out, loaded.source, loaded.narrowed_from) == ((), path.read_bytes(), None)


@pytest.mark.parametrize(
    ("chosen", "kept", "left_out"),
    [
        (["torch"], ("torch",), ()),
        (["jax", "torch"], ("torch",), ("jax",)),
    ],
)
def test_only_chosen_frameworks_are_named_as_left_out(
    tmp_path: Path, chosen: Sequence[str], kept: tuple[str, ...], left_out: tuple[str, ...]
) -> None:
    loaded = manifest.load(write(tmp_path, GEMM), chosen)
    assert (list_frameworks(loaded), loaded.left_out) == ({"gemm": kept}, left_out)


def test_frameworks_that_all_lack_the_device_cannot_be_chosen(tmp_path: Path) -> None:
    path = write(tmp_path, GEMM, {**LENET, "frameworks": ["torch", "jax"]})
    with pytest.raises(UsageError, match=r"jax has no device 'cuda'.*\n  choose among torch"):
        manifest.load(path, ["jax", "numpy"])


@pytest.mark.parametrize(
    ("entry", "names"),
    [
        (GEMM, ["numpy", "jax"]),
        (LENET, ["jax"]),
        (TRAINING, ["numpy"]),
        (TRAINING, ["tensorflow", "numpy"]),
        (READING, ["numpy"]),
    ],
)
def test_a_benchmark_that_no_framework_is_left_for_is_refused(
    tmp_path: Path, entry: JsonObject, names: list[str]
) -> None:
    # another benchmark has one
    path = write(tmp_path, COMMAND, {**GEMM, "id": "other"}, {**entry, "frameworks": [*names]})
    words = complaint(path)
    for index, name in enumerate(names):
        place = f"/benchmarks/2/frameworks/{index}"
        assert f"{place}: {name} has no device 'cuda': capsule runs {name} on CPUs only" in words


@pytest.mark.parametrize("names", [["numpy"], ["torch", "numpy"]])
def test_an_exchange_over_mpi_is_left_out_beside_one_over_nccl(
    tmp_path: Path, names: list[str]
) -> None:
    resources: Json = {**GPU, "ranks_per_node": 2}
    path = write(tmp_path, {**EXCHANGE, "frameworks": [*names]}, resources=resources)
    if len(names) == 1:
        assert "numpy over MPI exchanges arrays on cpu only" in complaint(path)
    else:
        loaded = manifest.load(path)
        assert (list_frameworks(loaded), loaded.left_out) == ({"network": ("torch",)}, ("numpy",))


@pytest.mark.parametrize("dtype", ["tf32", "bfloat16-mixed"])
def test_a_training_in_a_type_of_the_device_leaves_the_others_out(
    tmp_path: Path, dtype: str
) -> None:
    loaded = manifest.load(write(tmp_path, {**TRAINING, "dtype": dtype}))
    assert (list_frameworks(loaded), loaded.left_out) == ({"digits": ("torch",)}, ("numpy",))


def test_a_mistake_beside_them_is_told_where_it_is(tmp_path: Path) -> None:
    names: Json = ["numpy", "jax", "tourch", "torch"]
    words = complaint(write(tmp_path, {**GEMM, "frameworks": names}))
    assert "/benchmarks/0/frameworks/2: unknown framework" in words
    assert "frameworks/0" not in words
    words = complaint(write(tmp_path, {**GEMM, "frameworks": ["numpy", "torch"], "dtype": "int4"}))
    assert "/benchmarks/0/dtype" in words


def test_a_claim_on_what_is_in_no_framework_is_a_mistake_all_the_same(tmp_path: Path) -> None:
    claims: Json = [{"metric": "gemm/*/jaxx/l2_error_ratio", "type": "bound", "at_most": 1}]
    assert "matches no metric" in complaint(write(tmp_path, GEMM, claims=claims))


def test_lint_says_so_in_one_sentence(author: User) -> None:
    path = write(author.folder, GEMM, claims=[BOUND])
    (warning,) = [
        one for one in lint.warnings(manifest.load(path)) if one.code == "frameworks-left-out"
    ]
    assert dict(warning.facts) == {"frameworks": LACKING}
    assert "a run leaves out numpy, tensorflow" in warning
    ended = author.run("lint", path)
    assert ended.returncode == 0, ended.stderr
    assert "frameworks-left-out" in ended.stdout


def test_each_framework_of_the_catalogue_has_a_device() -> None:
    assert [catalog.refuse_device(name, "cpu") for name in catalog.FRAMEWORKS] == [None] * len(
        catalog.FRAMEWORKS
    )
    able = {name for name in catalog.FRAMEWORKS if catalog.refuse_device(name, "cuda") is None}
    assert able == {"torch", "torch-compile"}
