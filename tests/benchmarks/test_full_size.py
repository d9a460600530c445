"""`benchmarks/harness/full_size.py`: one training step of a network at its published size."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "harness" / "full_size.py"


def measure(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, PROGRAM, *words], capture_output=True, text=True, check=False
    )


def test_a_step_is_measured_in_a_process_of_its_own() -> None:
    done = measure("lenet", "--framework", "numpy", "--batch", "2")
    assert done.returncode == 0, done.stderr
    name, parameters, seconds, gib = done.stdout.splitlines()[1].split()
    assert (name, parameters) == ("lenet", "61,706")
    assert float(seconds) >= 0
    assert 0 < float(gib) < 24


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["--framework", "numpy", "--gib", "0.001"], 1, "61,706"),
        (["--framework", "onnxruntime"], 1, "lenet        failed"),
        (["lunet"], 2, "no network 'lunet'; there are lenet, "),
    ],
)
def test_what_does_not_fit_or_run_ends_with_a_failure(
    words: list[str], status: int, says: str
) -> None:
    done = measure("lenet", *words)
    assert done.returncode == status
    assert says in done.stdout + done.stderr
