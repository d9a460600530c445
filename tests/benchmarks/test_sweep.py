"""`benchmarks/harness/sweep.py`: what a search costs beside its trials."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "harness" / "sweep.py"


@pytest.mark.long
def test_a_search_is_killed_taken_up_and_accounted_for() -> None:
    ended = subprocess.run(
        [
            *(sys.executable, PROGRAM, "--trials", "20", "--seconds", "0.1"),
            *("--framework", "numpy", "--kill", "0.5"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    # so few trials may well miss the limits
    assert ended.returncode in (0, 1), ended.stderr
    assert re.match(
        r"20 trials of [0-9.]+ s \([0-9]+ epochs\) in [12] process starts", ended.stdout
    )
