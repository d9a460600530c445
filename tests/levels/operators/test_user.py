"""Operators that users bring: a Python file, and C++ that it has compiled."""

from importlib import util
from pathlib import Path

import numpy
import pytest

from capsule.levels import frameworks
from capsule.levels.operators import EXACT, user
from tests.support import trials
from tests.support.compiler import needs_compiler

PYTHON = """
parameters = ("n",)
options = {"power": 2}

def tensors(sizes):
    return {"x": {"shape": (sizes["n"],), "offset": 0.0}}

def outputs(sizes):
    return ((sizes["n"],),)

def flops(sizes):
    return sizes["n"] * (sizes["power"] - 1)

def _power(x, times):
    product = x
    for _ in range(times - 1):
        product = product * x
    return product

def forward(c, sizes, x):
    return c.store(_power(x, sizes["power"]))

def backward(c, sizes, upstream, x):
    return (c.store(upstream * _power(x, sizes["power"] - 1) * sizes["power"]),)
"""
TORCH = """
def torch(context, sizes, x):
    import torch
    return torch.pow, (x, sizes["power"])
"""
SOURCE = """
extern "C" void square(const float *x, float *y, long n) {
    for (long i = 0; i < n; ++i) y[i] = FACTOR * x[i] * x[i];
}
"""
NATIVE = """
def numpy(context, sizes, x):
    import ctypes, numpy
    square = context.library("square.cpp").square
    square.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long)
    y = numpy.empty_like(x)
    def run(x):
        square(x.ctypes.data, y.ctypes.data, x.size)
        return y
    return run, (x,)
"""


def measure(
    path: Path, framework: str = "numpy", dtype: str = "float32", **parameters: int
) -> trials.Values:
    trial: trials.Entry = {
        "operator": "mine",
        "source": str(path),
        "dtype": dtype,
        "parameters": parameters or {"n": 1000},
        "repetitions": 2,
        "warmup": 0,
    }
    loaded = frameworks.load(framework, "cpu", 1, "default")
    return trials.values(loaded, **trial)


def write(folder: Path, text: str, name: str = "mine.py") -> Path:
    (folder / name).write_text(text)
    return folder / name


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_formula_is_judged_like_ours(tmp_path: Path, dtype: str) -> None:
    values = measure(write(tmp_path, PYTHON), dtype=dtype, n=500, power=3)
    assert values["forward_flops"] == (1000.0,)
    for metric in ("l2_error_ratio", "grad_l2_error_ratio", "gradient_check"):
        assert 0 < values[metric][0] < 1


CONSTANT = """
from __future__ import annotations
from dataclasses import dataclass

@dataclass
class Constant:
    factor: float = FACTOR
"""


def test_two_files_of_one_name_may_define_dataclasses_of_one_name(tmp_path: Path) -> None:
    for factor in ("1.0", "3.0"):
        (tmp_path / factor).mkdir()
        text = CONSTANT.replace("FACTOR", factor) + PYTHON
        text = text.replace("c.store(_power", "c.store(Constant().factor * _power")
        text = text.replace("c.store(upstream", "c.store(Constant().factor * upstream")
        write(tmp_path / factor, text)
    x = numpy.array([1.0, 2.0])
    one, three = (user.load("mine", tmp_path / name / "mine.py")[0] for name in ("1.0", "3.0"))
    assert one.forward(EXACT, {"n": 2, "power": 2}, x).tolist() == [1.0, 4.0]
    assert three.forward(EXACT, {"n": 2, "power": 2}, x).tolist() == [3.0, 12.0]
    values = measure(tmp_path / "3.0" / "mine.py")
    assert all(values[metric][0] < 1 for metric in ("l2_error_ratio", "gradient_check"))


def test_a_wrong_derivative_is_caught_by_central_differences(tmp_path: Path) -> None:
    wrong = PYTHON.replace('* sizes["power"]),)', "),)")
    values = measure(write(tmp_path, wrong))
    assert values["grad_l2_error_ratio"][0] < 1  # reference and numpy share the mistake
    assert values["gradient_check"][0] > 1


@pytest.mark.torch
@pytest.mark.skipif(util.find_spec("torch") is None, reason="torch is not installed here")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_torch_runs_what_the_file_gives_it(tmp_path: Path, dtype: str) -> None:
    values = measure(write(tmp_path, PYTHON + TORCH), "torch", dtype)
    assert 0 < values["l2_error_ratio"][0] < 1
    wrong = write(tmp_path, PYTHON + TORCH.replace('sizes["power"])', "2.01)"))
    assert measure(wrong, "torch", dtype)["l2_error_ratio"][0] > 1


@needs_compiler
@pytest.mark.parametrize(("factor", "right"), [("1", True), ("1.01f", False)])
def test_cpp_beside_the_file_is_compiled_and_checked(
    tmp_path: Path, factor: str, right: bool
) -> None:
    write(tmp_path, SOURCE.replace("FACTOR", factor), "square.cpp")
    values = measure(write(tmp_path, PYTHON + NATIVE))
    assert (values["l2_error_ratio"][0] < 1) is right


@needs_compiler
def test_a_source_is_compiled_once_and_again_when_it_is_another(tmp_path: Path) -> None:
    (tmp_path / "one.cpp").write_text('extern "C" int number() { return 1; }\n')
    library = user.Context(tmp_path).library("one.cpp")
    assert library.number() == 1
    assert user.Context(tmp_path).library("one.cpp") is library
    (tmp_path / "one.cpp").write_text('extern "C" int number() { return 2; }\n')
    assert user.Context(tmp_path).library("one.cpp").number() == 2


@needs_compiler
def test_a_compiler_error_is_told(tmp_path: Path) -> None:
    write(tmp_path, "int square( {", "square.cpp")
    with pytest.raises(RuntimeError, match=r"(?s)c\+\+ .*square.cpp failed: .*error"):
        measure(write(tmp_path, PYTHON + NATIVE))


def test_an_image_without_a_compiler_says_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, SOURCE, "square.cpp")
    write(tmp_path, "", "kernel.cu")
    monkeypatch.setenv("PATH", str(tmp_path))
    context = user.Context(tmp_path)
    with pytest.raises(
        RuntimeError, match=r"cannot build square.cpp: this environment has no c\+\+"
    ):
        context.library("square.cpp")
    with pytest.raises(RuntimeError, match=r"no ninja, no nvcc"):
        context.build("kernel.cu")
    with pytest.raises(RuntimeError, match=r"no ninja") as caught:
        context.build("square.cpp")
    assert "nvcc" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "framework", "message"),
    [
        (PYTHON.replace("def flops", "def work"), "numpy", "does not define flops"),
        (PYTHON.replace("def forward", "def run"), "numpy", "does not define forward"),
        (PYTHON, "torch", "mine has no function for torch; use numpy"),
        (PYTHON + TORCH, "onnxruntime", "mine has no function for onnxruntime; use torch"),
        (
            PYTHON + TORCH,
            "torch-compile",
            "mine has no function for torch-compile; use torch",
        ),
    ],
)
def test_what_a_file_lacks_is_named(
    tmp_path: Path, text: str, framework: str, message: str
) -> None:
    pytest.importorskip("onnxruntime" if framework == "onnxruntime" else framework[:5])
    with pytest.raises(ValueError, match=message):
        measure(write(tmp_path, text), framework)


def test_sources_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no file"):
        user.load("mine", tmp_path / "absent.py")
    with pytest.raises(FileNotFoundError, match="among the benchmark's inputs"):
        user.Context(tmp_path).library("absent.cpp")
