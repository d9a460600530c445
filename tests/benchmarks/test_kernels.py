"""`benchmarks/kernels.py` and `benchmarks/modules.py`: what is right stays within its bounds."""

import re
import subprocess
import sys
from importlib import util
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(util.find_spec("torch") is None, reason="torch is not installed here"),
]

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

LISTED = ("relu", "leaky_relu", "sigmoid", "tanh", "gelu", "dropout", "add", "sum")


def _run(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, BENCHMARKS / name, *words], capture_output=True, text=True, check=False
    )


def test_the_trials_that_came_nearest_are_within_their_limits() -> None:
    ended = _run("kernels.py", "--pinned")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    # every CPU has the plain instructions, and a process of its own for them
    assert "default: gelu (case 1) in float32, element_error_ratio, oneDNN on" in ended.stdout
    assert "BEYOND" not in ended.stdout


def test_each_listed_operator_runs_by_each_kernel() -> None:
    which = ("--capabilities", "default", "--seeds", "1", "--dtypes", "float32")
    ended = _run("kernels.py", *which)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    ran = re.findall(r"(?m)^default: (\w+) \(case \d+\) in float32, (\w+), (.*): ", ended.stdout)
    assert {operator for operator, _, _ in ran} == set(LISTED)
    for operator in LISTED:
        ways = {how for name, _, how in ran if name == operator}
        expected = {f"oneDNN {word}, threads {count}" for word in ("on", "off") for count in (1, 2)}
        assert ways == expected, operator


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_right_modules_in_16_bits_break_no_bound(dtype: str) -> None:
    ended = _run("modules.py", "--seeds", "1", "--dtypes", dtype)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert re.search(r"\d+ trials of right modules, 0 beyond a bound\n", ended.stdout)


def test_right_recurrent_modules_in_float32_break_no_bound() -> None:
    which = ("--modules", "lstm,lstm of two layers and ways,gru,gelu", "--dtypes", "float32")
    ended = _run("modules.py", "--seeds", "1", *which)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "4 trials of right modules, 0 beyond a bound\n" in ended.stdout
