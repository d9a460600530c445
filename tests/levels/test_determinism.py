"""Strict determinism refuses: variables, switches and features, each with its reason."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from capsule import manifest
from capsule.errors import ManifestError
from capsule.levels import frameworks, networks
from capsule.levels.catalog import FRAMEWORKS, NETWORKS, determinism
from capsule.levels.graphs import values
from tests.support.compiler import needs_compiler
from tests.support.jobs import EACH_FRAMEWORK, STRICT, end, job, needs_torch, operator, run

ROOT = Path(__file__).parents[2]
RELU = operator("relu", n=5)

UNSAFE = {
    "CUBLAS_WORKSPACE_CONFIG": ":1:1",
    "TF_DETERMINISTIC_OPS": "0",
    "NCCL_ALGO": "Tree,Ring",
    "MKL_CBWR": "OFF",
    "MKL_DYNAMIC": "TRUE",
    "OMP_DYNAMIC": "true",
    "KMP_DETERMINISTIC_REDUCTION": "0",
    "OMP_SCHEDULE": "dynamic,4",
    "NVIDIA_TF32_OVERRIDE": "1",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "1",
    "TF_CUDNN_USE_AUTOTUNE": "1",
    "TORCHINDUCTOR_MAX_AUTOTUNE": "1",
    "TORCHINDUCTOR_MAX_AUTOTUNE_GEMM": "1",
    "TORCHINDUCTOR_COORDINATE_DESCENT_TUNING": "1",
    "XLA_FLAGS": "--xla_gpu_deterministic_ops=true --xla_cpu_enable_fast_math=true",
    "TF_XLA_FLAGS": "--tf_xla_auto_jit=2",
}


def refusals(**variables: str) -> list[str]:
    known = {**STRICT, **variables}
    return list(determinism.faults({k: v for k, v in known.items() if v}, 1, 17))


def test_what_the_host_sets_is_what_is_asked_for() -> None:
    assert refusals() == []
    assert refusals(XLA_FLAGS="--xla_gpu_deterministic_ops=true") == []
    assert refusals(OMP_SCHEDULE="static", NVIDIA_TF32_OVERRIDE="0") == []


def test_each_unsafe_value_is_refused_with_its_reason() -> None:
    assert {one.name for one in determinism.VARIABLES} == UNSAFE.keys()
    for one in determinism.VARIABLES:
        (words,) = refusals(**{one.name: UNSAFE[one.name]})
        assert words == f"{one.name} is {UNSAFE[one.name]!r}: {one.reason}"
        if one.value is not None:
            assert re.fullmatch(one.safe, one.value)
            assert refusals(**{one.name: ""}) == [f"{one.name} is not set: {one.reason}"]


@pytest.mark.parametrize("name", [*determinism.THREADS, "PYTHONHASHSEED"])
def test_threads_and_hashes_are_those_of_the_job(name: str) -> None:
    assert refusals(**{name: "3"}) == [f"{name} is '3', but capsule set {STRICT[name]!r}"]


@EACH_FRAMEWORK
def test_a_trial_does_not_begin_where_the_environment_is_unsafe(
    tmp_path: Path, framework: str
) -> None:
    document = job([RELU], framework, determinism="strict")
    journal = run(tmp_path, document, XLA_FLAGS="--xla_new", OMP_DYNAMIC="")
    last = end(journal, RELU["id"])
    assert (last["outcome"], last["reason"]) == ("failed", "error")
    assert "DeterminismError: OMP_DYNAMIC is not set: OpenMP may use fewer" in last["message"]
    assert "XLA_FLAGS is '--xla_new': some of these flags may change" in last["message"]


def test_without_strict_nothing_is_checked(tmp_path: Path) -> None:
    journal = run(tmp_path, job([RELU]), OMP_DYNAMIC="true")
    assert end(journal, RELU["id"])["outcome"] == "completed"


@needs_torch
def test_a_switch_that_something_turned_back_is_seen(tmp_path: Path) -> None:
    plant = "import torch\ntorch.use_deterministic_algorithms = lambda *_: None\n"
    journal = run(tmp_path, job([RELU], "torch", determinism="strict"), plant)
    message = end(journal, RELU["id"])["message"]
    words = "deterministic_algorithms is False, expected True for strict determinism"
    assert message == f"DeterminismError: {words}"
    assert list(determinism.switch_faults({"threads": 2, "cudnn_benchmark": True}, 1)) == [
        "cudnn_benchmark is True, expected False for strict determinism",
        "threads is 2, expected 1 for strict determinism",
    ]


@needs_torch
def test_every_framework_here_is_in_the_state_that_is_asked_for() -> None:
    for name in ("numpy", "torch"):
        settings = frameworks.load(name, "cpu", 1, "strict").settings()
        assert list(determinism.switch_faults(settings, 1)) == []


@needs_torch
@needs_compiler
def test_torchs_compiler_adds_in_one_order_where_it_must(tmp_path: Path) -> None:
    # both threads add to the same three rows, by default as they come
    lookup = operator("embedding", rows=3, width=640, count=5000, repetitions=20)
    document = job([lookup], "torch-compile", determinism="strict", threads=2)
    journal = run(tmp_path, document)
    assert end(journal, lookup["id"])["outcome"] == "completed"
    values = [one["values"] for one in journal if one.get("metric") == "repeatable"]
    assert values == [[1]]


COSMOFLOW: dict[str, Any] = {
    "id": "universe",
    "level": 2,
    "network": "cosmoflow",
    "datasets": ["universe"],
    "frameworks": ["numpy", "torch"],
    "batch": 2,
    "epochs": 1,
    "optimizer": {"name": "sgd", "lr": 0.1},
}
LENET = {**COSMOFLOW, "id": "digits", "network": "lenet", "frameworks": ["torch-compile"]}
SCRIPT = {
    "id": "script",
    "command": ["train"],
    "environment": {"NCCL_ALGO": "CollNet"},
    "metrics": {"loss": {}},
}


def complaints(*benchmarks: dict[str, Any], gpus: int = 1, strict: bool = True) -> str:
    document = {
        "name": "strict",
        "title": "What strict determinism refuses",
        "authors": [{"name": "A"}],
        "license": "CC0-1.0",
        "seeds": [1, 2],
        "determinism": "strict" if strict else "default",
        "resources": {"gpus_per_rank": gpus},
        "datasets": {"universe": {"generator": "universe"}},
        "benchmarks": list(benchmarks),
    }
    try:
        manifest.read(json.dumps(document).encode(), where="manifest.json", folder=None)
    except ManifestError as error:
        return str(error)
    return ""


def test_what_has_no_deterministic_path_is_refused_when_the_manifest_is_read() -> None:
    words = complaints(COSMOFLOW, LENET)
    assert "/benchmarks/0/frameworks/1" in words
    assert "torch's gradient of max_pool3d on CUDA devices sums in varying order" in words
    assert "/benchmarks/1/frameworks/0" in words
    assert "chooses CUDA kernels by timing them" in words
    assert "/benchmarks/0/frameworks/0" not in words
    assert complaints(COSMOFLOW, LENET, gpus=0) == ""
    assert complaints(COSMOFLOW, LENET, strict=False) == ""


def test_a_compiler_that_times_kernels_is_refused_on_any_device() -> None:
    mode = {"compile_mode": "max-autotune-no-cudagraphs"}
    compiled = {**COSMOFLOW, "frameworks": ["torch-compile"]}
    words = complaints({**compiled, "tuning": mode}, gpus=0)
    assert "/benchmarks/0/tuning/compile_mode" in words
    assert "compile_mode is max-autotune-no-cudagraphs: the framework chooses kernels by" in words
    assert complaints({**compiled, "tuning": mode}, gpus=0, strict=False) == ""
    assert complaints({**compiled, "tuning": {"fused": True}}, gpus=0) == ""
    assert determinism.refuse_mode("reduce-overhead") is None


def test_an_unsafe_variable_of_a_command_is_refused_when_the_manifest_is_read() -> None:
    words = complaints(SCRIPT, gpus=0)
    assert "/benchmarks/0/environment/NCCL_ALGO" in words
    assert "NCCL_ALGO is 'CollNet': NCCL chooses an algorithm itself" in words
    assert complaints({**SCRIPT, "environment": {"NCCL_ALGO": "Tree"}}, gpus=0) == ""
    assert complaints(SCRIPT, gpus=0, strict=False) == ""


def test_networks_are_refused_for_the_operators_that_they_have() -> None:
    refused = {name for one in FRAMEWORKS.values() for name in one.nondeterministic}
    for name in NETWORKS:
        graph = networks.build(name, {"batch": 1})
        own = {node.operator for node in graph.training} & refused
        assert own == set(determinism._OPERATORS.get(name, ()))


def test_the_page_lists_every_variable_and_switch() -> None:
    page = (ROOT / "docs" / "explanation" / "determinism.md").read_text()
    for one in determinism.VARIABLES:
        assert f"| `{one.name}` | {f'`{one.value}`' if one.value else ''} |" in page
    for name in (*determinism.THREADS, *determinism.SWITCHES):
        assert f"`{name}`" in page


def test_initial_values_agree_across_ranks_whatever_share_of_the_batch_each_has() -> None:
    whole, share = (networks.build("cosmoflow", {"batch": n, "side": 8}) for n in (8, 2))
    ones, others = (values.parameters(one, "float32", 17) for one in (whole, share))
    assert all((ones[name] == others[name]).all() for name in ones)


def test_masks_of_a_share_of_the_batch_are_rows_of_the_whole_one() -> None:
    sizes = {"side": 8, "width": 1, "dropout": 30}
    whole, share = (networks.build("cosmoflow", {"batch": n, **sizes}) for n in (8, 2))
    ones, others = (values.noise(one, 17, 5) for one in (whole, share))
    for name, mask in others.items():
        assert (ones[name][:2] == mask).all()
        # so that ranks differ, each takes rows of its own
        assert (ones[name][2:4] != mask).any()


def test_vectors_of_a_share_of_the_batch_are_rows_of_all_of_them() -> None:
    sizes = {"side": 4, "width": 1, "layers": 1, "latent": 3}
    whole, share = (networks.build("cosmogan", {"batch": n, **sizes}) for n in (8, 2))
    ones, others = (values.noise(one, 17, 5)["latent"] for one in (whole, share))
    assert (ones[:2] == others).all()
    assert (ones[2:4] != others).any()


@needs_torch
def test_a_training_draws_from_no_generator_of_a_framework(tmp_path: Path) -> None:
    import torch

    from capsule.levels.data import generators
    from tests.support.trainings import SMALL, measure

    generators.write(generators.generate("glyphs", SMALL), tmp_path)
    loaded = frameworks.load("torch", "cpu", 1, "strict")
    before = torch.get_rng_state()
    measure(loaded, tmp_path, epochs=1)
    assert (torch.get_rng_state() == before).all()
