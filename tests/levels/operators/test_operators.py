import ast
import gc
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy
import pytest

import capsule.levels
from capsule.levels import catalog, frameworks, operators
from capsule.levels.data import generators
from capsule.levels.instruments import timing
from capsule.levels.operators import rounding
from tests.support import trials

LEVELS = Path(capsule.levels.__file__).parent


def test_one_percent_exceeds_the_bound_of_long_products_too() -> None:
    gemm = operators.load("gemm")
    sizes = catalog.OPERATORS["gemm"].complete({"m": 2, "n": 3, "k": 50_000})
    inputs = gemm.inputs(sizes, "float32", 1)
    (reference,) = operators.reference(gemm, sizes, inputs, "float32")
    (bound,) = operators.bounds(gemm, sizes, inputs, "float32")
    assert 0 < bound < 0.01 * numpy.linalg.norm(reference)


def test_a_length_without_an_error_bound_is_an_error() -> None:
    coarse = rounding.Rounding(replace(operators.ARITHMETIC["float32"], inside=2.0**-3))
    with pytest.raises(ValueError, match="no error bound for sums of 8 terms"):
        coarse.bilinear(numpy.matmul, numpy.ones((1, 8)), numpy.ones((8, 1)), 8)


@pytest.mark.parametrize("name", catalog.OPERATORS)
@pytest.mark.parametrize("dtype", catalog.FRAMEWORKS["numpy"].dtypes)
def test_the_smallest_case_has_a_bound_above_zero(name: str, dtype: str) -> None:
    entry = catalog.OPERATORS[name]
    if dtype not in entry.dtypes:
        assert catalog.refusal(entry, "numpy", dtype, "cpu") is not None
        return
    sizes = dict.fromkeys(entry.parameters, 1)
    trial = {
        "operator": name,
        "dtype": dtype,
        "parameters": sizes,
        "repetitions": 1,
        "warmup": 0,
    }
    values = trials.values(frameworks.load("numpy", "cpu", None, "default"), 3, **trial)
    for metric in ("l2_error_ratio", "grad_l2_error_ratio", "gradient_check"):
        assert 0 <= values[metric][0] < 1


def test_timing_runs_each_call_alone_with_the_collector_at_rest() -> None:
    log = []

    def call(operand: str) -> int:
        log.append((operand, gc.isenabled()))
        return len(log)

    nanoseconds, result = timing.measure(call, ("x",), 5)
    assert (len(nanoseconds), result) == (5, 5)
    assert all(isinstance(duration, int) and duration >= 0 for duration in nanoseconds)
    assert log == [("x", False)] * 5
    assert gc.isenabled()


def test_timing_waits_for_the_device_within_each_sample() -> None:
    log = []
    timing.measure(lambda: log.append("call"), (), 3, lambda: log.append("wait"))
    assert log == ["wait", "call", "wait", "call", "wait", "call", "wait"]


def test_timing_restores_the_collector_after_a_failure() -> None:
    with pytest.raises(ZeroDivisionError):
        timing.measure(lambda: 1 // 0, (), 1)
    assert gc.isenabled()


GOLDEN_INPUTS = {
    ("gemm", "float32"): "fc67122f9c1370f69",
    ("gemm", "float64"): "e8d84fbaf5aabbc73",
    ("relu", "float32"): "5b677e7cb649125af",
    ("relu", "float64"): "1e7e8272821acc744",
    ("softmax", "float32"): "0a92db70213f0bcc6",
    ("softmax", "float64"): "63970c1590f3579b9",
}
SIZES = {
    "gemm": {"m": 5, "n": 7, "k": 11},
    "relu": {"n": 1001},
    "softmax": {"rows": 3, "columns": 333},
}


@pytest.mark.parametrize(("name", "dtype"), GOLDEN_INPUTS)
def test_inputs_are_frozen(name: str, dtype: str) -> None:
    arrays = operators.load(name).inputs(catalog.OPERATORS[name].complete(SIZES[name]), dtype, 17)
    digest = generators.digest({f"i{index}": array for index, array in enumerate(arrays)})
    assert digest.startswith(f"sha256:{GOLDEN_INPUTS[name, dtype]}")
    for array in arrays:
        assert array.dtype == dtype
        assert numpy.all(array != 0)
        assert array.min() < 0 < array.max()


def test_inputs_depend_on_seed_tensor_and_shape_only() -> None:
    gemm = operators.load("gemm")
    square = catalog.OPERATORS["gemm"].complete({"m": 4, "n": 4, "k": 4})
    a, b = gemm.inputs(square, "float32", 1)
    again, _ = gemm.inputs(square, "float32", 1)
    other, _ = gemm.inputs(square, "float32", 2)
    wider, _ = gemm.inputs({**square, "m": 5}, "float32", 1)
    assert numpy.array_equal(a, again)
    assert not any(numpy.array_equal(a, array) for array in (b, other, wider[:4]))


def test_case_names_are_segments_and_unique() -> None:
    for operator in catalog.OPERATORS.values():
        for cases in operator.cases.values():
            names = [name for name, _ in cases]
            assert len(set(names)) == len(names) > 0
            for name, parameters in cases:
                assert name.removesuffix(".2") == operator.name_case(parameters)
                assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}", name)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "needs the parameters n; found none"),
        ({"n": 1, "m": 1}, "needs the parameters n; found n, m"),
        ({"n": 0}, "n of relu is 0"),
        ({"n": True}, "n of relu is True"),
        ({"n": 1.5}, "n of relu is 1.5"),
    ],
)
def test_case_name_refuses_what_is_no_size(parameters: Mapping[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        catalog.OPERATORS["relu"].name_case(parameters)


def test_an_unknown_operator_is_named_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="unknown operator 'gem'; known: gemm, matmul, "):
        operators.load("gem")


def test_levels_import_only_themselves_numpy_and_their_framework() -> None:
    allowed = sys.stdlib_module_names | {
        "numpy",
        "torch",
        "tensorflow",
        "jax",
        "onnx",
        "google",  # protobuf, in which onnx is written
        "h5py",  # for formats of data, imported where they are read
        "PIL",  # likewise
        "mpi4py",  # for ranks that MPI joins, imported where the image has it
        "onnxruntime",
        "levels",
    }
    for path in LEVELS.rglob("*.py"):
        tree = ast.parse(path.read_text(), feature_version=(3, 9))
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                packages = {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                assert node.module is not None
                packages = {node.module.split(".")[0]}
            else:
                continue
            assert packages <= allowed, path


def test_reading_the_catalogue_and_the_generators_needs_no_numpy() -> None:
    code = (
        "import sys; sys.modules['numpy'] = None\n"
        "from capsule.levels import catalog\n"
        "from capsule.levels.data import generators\n"
        "print(catalog.OPERATORS['relu'].name_case({'n': 5}))\n"
        "print(len(generators.complete('regression', {})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=LEVELS.parent.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "n5\n3\n"
