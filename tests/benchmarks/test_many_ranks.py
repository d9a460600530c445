"""`benchmarks/harness/many_ranks.py`: journals of many ranks are read, put together and judged."""

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "harness" / "many_ranks.py"


def test_journals_of_many_ranks_are_one() -> None:
    words = [sys.executable, str(PROGRAM), "--ranks", "128", "--steps", "5"]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("128 ranks, ")
    assert ": completed" in ended.stdout
