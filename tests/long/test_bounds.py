"""Right kernels and modules under many seeds, of which none may break a bound."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from importlib import util

import pytest

from tests.support.long_run import COUNT, COVERS, ROOT
from tests.support.patience import PATIENCE_SECONDS
from tests.support.properties import scaled

pytestmark = [
    pytest.mark.long,
    pytest.mark.torch,
    pytest.mark.skipif(util.find_spec("torch") is None, reason="torch is not installed here"),
]

_LONGER = 60  # than any command of other tests

SEEDS = 200
"""Of each listed operator, by each kernel of this CPU."""

TRIALS = 27
"""Seeds of each right algorithm: 41,040 trials."""

OWN = 5
"""Seeds of each right module, in both 16-bit types: more than 100 trials."""


def _run(name: str, *words: str) -> str:
    ended = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / name, *words],
        capture_output=True,
        text=True,
        timeout=_LONGER * PATIENCE_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.parametrize("capability", ["default", "avx2", "avx512"])
def test_no_kernel_comes_near_its_bounds(
    record_property: Callable[[str, object], None], capability: str
) -> None:
    seeds = scaled(SEEDS)
    told = _run("kernels.py", "--seeds", str(seeds), "--capabilities", capability)
    rows = told.count(" at seed ")
    assert rows or "this CPU has no such instructions" in told
    record_property(COVERS, "ratios of elementwise operators to their bounds, by kernel and seed")
    record_property(COUNT, rows * seeds)


@pytest.mark.parametrize(
    ("name", "words", "of"),
    [
        ("faults.py", ("--operators", "all", "--right", str(scaled(TRIALS))), "operators"),
        ("modules.py", ("--seeds", str(scaled(OWN))), "modules"),
    ],
)
def test_nothing_right_breaks_a_bound(
    record_property: Callable[[str, object], None], name: str, words: tuple[str, ...], of: str
) -> None:
    found = re.search(rf"(\d+) trials of right {of}, 0 beyond", _run(name, *words))
    assert found
    record_property(COVERS, f"right trials of {of}, none of which breaks a bound")
    record_property(COUNT, int(found[1]))
