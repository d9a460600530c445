"""`benchmarks/harness/thousand_nodes.py`: a submission to many nodes, of which here are few."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "harness" / "thousand_nodes.py"


@pytest.mark.engines
def test_a_wide_job_is_submitted_and_followed() -> None:
    words = [sys.executable, str(PROGRAM), "--nodes", "3"]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "runs on e[1-3]" in ended.stdout
