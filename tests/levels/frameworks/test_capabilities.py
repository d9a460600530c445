"""What frameworks can do, and what becomes of a trial that asks for what they cannot."""

import json
import subprocess
import sys
from collections.abc import Mapping
from importlib import util
from pathlib import Path
from typing import Any

import numpy
import pytest
from numpy.typing import NDArray

from capsule.levels import catalog, frameworks, operators
from capsule.levels.frameworks import Framework, FrameworkError
from capsule.levels.frameworks.base import require
from tests.support.capabilities import operation
from tests.support.jobs import EACH_FRAMEWORK, NEEDS_TORCH, needs_torch
from tests.support.journals import Ended, run, trial
from tests.support.programs import PROGRAMS, Program

GEMM: dict[str, Any] = {"m": 8, "n": 4, "k": 16}

CAPABILITIES = """
import json
from importlib import util
from capsule.levels import catalog, frameworks

known, there = {}, {}
for name, facts in catalog.FRAMEWORKS.items():
    if util.find_spec(facts.package) is None:
        continue
    framework = frameworks.load(name, "cpu", 1, "default")
    runs, nets = framework.operators, framework.networks
    known[name] = facts.networks, facts.differentiates
    gradients = [runs.gradient is not None, nets and nets.training is not None]
    (differentiates,) = set(gradients) - {None}
    there[name] = nets is not None, differentiates
print(json.dumps([known, there]))
"""

SQUARE = """
parameters = ("n",)

def tensors(sizes):
    return {"x": (sizes["n"],)}

def outputs(sizes):
    return ((sizes["n"],),)

def flops(sizes):
    return FLOPS * sizes["n"]

def forward(c, sizes, x):
    return c.store(x * x)

def backward(c, sizes, upstream, x):
    return (c.store(upstream * x * 2),)
"""
FUNCTION = """
def FRAMEWORK(context, sizes, x):
    return lambda x: x * x * FACTOR, (x,)
"""

needs_onnxruntime = pytest.mark.skipif(
    util.find_spec("onnxruntime") is None, reason="ONNX Runtime is not installed here"
)


def square(folder: Path, *, flops: int = 1, factor: float = 1.0, framework: str = "numpy") -> Path:
    """A user's operator, whose function is right where the factor is 1."""
    folder.mkdir(exist_ok=True)
    function = FUNCTION.replace("FRAMEWORK", framework).replace("FACTOR", str(factor))
    (folder / "square.py").write_text(SQUARE.replace("FLOPS", str(flops)) + function)
    return folder / "square.py"


def outcomes(ends: Mapping[str, Ended]) -> dict[str, tuple[str | None, str]]:
    """What each trial ended with, by id."""
    return {identity: (ended.reason, ended.message) for identity, ended in ends.items()}


def test_the_catalogue_says_what_each_framework_here_can_do() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CAPABILITIES], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    known, there = json.loads(done.stdout)
    assert known == there
    assert "numpy" in known


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_catalogue_says_what_each_framework_of_the_image_can_do(
    program: Program, tmp_path: Path
) -> None:
    done = program.python(tmp_path, "-c", CAPABILITIES)
    assert done.returncode == 0, done.stderr
    known, there = json.loads(done.stdout.splitlines()[-1])
    assert known == there
    assert {"tensorflow", "tensorflow-xla", "jax", "onnxruntime"} <= set(known)


def test_a_capability_that_is_not_there_is_named() -> None:
    assert require(5, "slate", "run networks") == 5
    with pytest.raises(FrameworkError, match="slate does not run networks"):
        require(None, "slate", "run networks")


@needs_torch
def test_what_compiles_has_no_function_of_a_user_s_operator(tmp_path: Path) -> None:
    own = square(tmp_path / "own", framework="torch")
    ends = run(
        tmp_path,
        "torch-compile",
        [
            trial(0, "own", source=own, n=9),
            trial(0, "gem", **GEMM),
            trial(1, "lenet", "float64", batch=2),
        ],
    )
    assert outcomes(ends) == {
        "own/default/float32/17": (
            "error",
            "ValueError: own has no function for torch-compile; use torch or numpy",
        ),
        "gem/default/float32/17": (
            "error",
            f"ValueError: unknown operator 'gem'; known: {', '.join(catalog.OPERATORS)}",
        ),
        "lenet/default/float64/17": (
            "error",
            "ValueError: lenet does not support float64; use float32 or tf32 or bfloat16 or"
            " float16",
        ),
    }
    assert not any(ended.values for ended in ends.values())


@needs_onnxruntime
def test_what_only_infers_yields_no_gradients_and_takes_no_user_s_operator(tmp_path: Path) -> None:
    ends = run(
        tmp_path,
        "onnxruntime",
        [
            trial(0, "gemm", **GEMM),
            trial(0, "gemm", identity="own", source=square(tmp_path / "own"), n=9),
            trial(0, "gelu", "float64", n=9),
            trial(1, "lenet", batch=2),
        ],
    )
    assert outcomes(ends) == {
        "gemm/default/float32/17": (None, ""),
        "own": ("error", "ValueError: gemm has no function for onnxruntime; use numpy"),
        "gelu/default/float64/17": (
            "error",
            "ValueError: onnxruntime does not compute gelu with the precision of float64; use"
            " float32 or float16",
        ),
        "lenet/default/float32/17": (None, ""),
    }
    gemm, _, _, lenet = ends.values()
    assert "forward_time" in gemm.values
    assert "inference_time" in lenet.values
    for ended in (gemm, lenet):
        assert not {"backward_time", "training_time", "gradient_check"} & set(ended.values)


@EACH_FRAMEWORK
def test_a_user_s_operator_may_be_named_like_one_of_the_catalogue(
    tmp_path: Path, framework: str
) -> None:
    own = square(tmp_path / "own", flops=7, framework=framework)
    wrong = square(tmp_path / "wrong", factor=1.01, framework=framework)
    ends = run(
        tmp_path,
        framework,
        [
            trial(0, "gemm", identity="before", **GEMM),
            trial(0, "gemm", identity="own", source=own, n=100),
            trial(0, "gemm", identity="wrong", source=wrong, n=100),
            trial(0, "gemm", identity="after", **GEMM),
            trial(0, "relu", identity="other", source=own, n=100),
            trial(0, "relu", identity="relu", n=100),
        ],
    )
    assert {ended.reason for ended in ends.values()} == {None}, outcomes(ends)
    flops = {identity: ended.values["forward_flops"][0] for identity, ended in ends.items()}
    assert flops == {
        **{"before": 1024, "own": 700, "wrong": 100, "after": 1024},
        **{"other": 700, "relu": 100},
    }
    ratios = {identity: ended.values["l2_error_ratio"][0] for identity, ended in ends.items()}
    assert [identity for identity, ratio in ratios.items() if ratio > 1] == ["wrong"]
    for metric in ("l2_error", "grad_l2_error_ratio", "gradient_check"):
        assert ends["before"].values[metric] == ends["after"].values[metric]


@EACH_FRAMEWORK
def test_two_user_s_operators_of_one_name_and_file_name_stay_apart_in_a_job(
    tmp_path: Path, framework: str
) -> None:
    right = square(tmp_path / "right", flops=2, framework=framework)
    wrong = square(tmp_path / "wrong", flops=3, factor=1.01, framework=framework)
    order = [("a", right), ("b", wrong), ("c", right), ("d", wrong)]
    ends = run(
        tmp_path,
        framework,
        [trial(0, "mine", identity=identity, source=source, n=50) for identity, source in order],
    )
    assert {ended.reason for ended in ends.values()} == {None}, outcomes(ends)
    assert [ended.values["forward_flops"] for ended in ends.values()] == [
        [100.0],
        [150.0],
        [100.0],
        [150.0],
    ]
    over = [ended.values["l2_error_ratio"][0] > 1 for ended in ends.values()]
    assert over == [False, True, False, True]


@EACH_FRAMEWORK
def test_two_jobs_in_one_process_do_not_see_each_other_s_operators(
    tmp_path: Path, framework: str
) -> None:
    x = numpy.linspace(-1, 1, 7, dtype="float32")

    def compute(loaded: Framework, operator: operators.Operator) -> NDArray[Any]:
        tensors = (loaded.from_numpy(x, "float32"),)
        function, operands = operation(loaded, operator, {"n": 7}, tensors)
        return loaded.to_numpy(function(*operands))

    first, second = (frameworks.load(framework, "cpu", 1, "default") for _ in range(2))
    own, _ = operators.find("relu", str(square(tmp_path / "own", framework=framework)))
    other, _ = operators.find(
        "relu", str(square(tmp_path / "other", factor=2.0, framework=framework))
    )
    relu, _ = operators.find("relu", None)
    for _ in range(2):
        for loaded in (first, second):
            assert numpy.allclose(compute(loaded, own), x * x)
            assert numpy.allclose(compute(loaded, other), 2 * x * x)
            assert numpy.array_equal(compute(loaded, relu), numpy.maximum(x, 0))
    with pytest.raises(ValueError, match="unknown operator 'square'"):
        operators.find("square", None)


@pytest.mark.parametrize(
    ("framework", "message"),
    [
        pytest.param("torch", "relu does not define a function torch", marks=NEEDS_TORCH),
        pytest.param("onnxruntime", "onnxruntime has no operator relu", marks=needs_onnxruntime),
    ],
)
def test_a_framework_never_runs_its_own_operation_for_a_user_s_of_that_name(
    tmp_path: Path, framework: str, message: str
) -> None:
    own, _ = operators.find("relu", str(square(tmp_path / "own")))
    loaded = frameworks.load(framework, "cpu", 1, "default")
    tensors = (loaded.from_numpy(numpy.ones(3, "float32"), "float32"),)
    with pytest.raises(FrameworkError, match=message):
        operation(loaded, own, {"n": 3}, tensors)
