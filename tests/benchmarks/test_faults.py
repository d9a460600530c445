"""`benchmarks/faults.py`: faults are planted, judged by the shipped claims, and counted."""

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

REPOSITORY = Path(__file__).parents[2]


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, REPOSITORY / "benchmarks" / "faults.py", *words],
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_is_right_breaks_no_bound() -> None:
    which = ("--operators", "add,conv1d", "--networks", "lenet")
    ended = _run("--right", "1", *which, "--dtypes", "float32,bfloat16")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    trials = re.fullmatch(
        r"(\d+) trials of right operators, 0 beyond a bound;"
        r" (\d+) trials of right networks, 0 beyond a bound\n",
        ended.stdout,
    )
    assert trials, ended.stdout
    # torch's own, and place by place, im2col, Fourier and double precision of both cases
    assert int(trials[1]) >= 2 * 2 * 5
    assert int(trials[2]) >= 2 * 2


def test_faults_are_planted_and_counted() -> None:
    ended = _run("--missed", "--operators", "add", "--dtypes", "float32")
    # a right trial that breaks a bound would be 1
    assert ended.returncode == 0, ended.stdout + ended.stderr
    lines = re.match(r"(\d+) faults in operators, \d+ s\nfloat32 +(\d+) of (\d+) ", ended.stdout)
    assert lines, ended.stdout
    planted, caught, counted = map(int, lines.groups())
    assert planted >= counted >= caught > 0


def test_the_table_lists_as_many_as_are_due() -> None:
    page = (REPOSITORY / "tests" / "data" / "operator-faults.md").read_text(encoding="utf-8")
    operators, networks = page.partition("## Faults in operators")[2].split("## Faults in networks")
    assert operators.count("ward: ") >= 200
    assert len(re.findall(r"(ward|both): ", networks)) >= 100
