"""Killed between any two calls, a run loses nothing, leaves no half capsule, and keeps its id."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.long_run import COUNT, COVERS
from tests.support.properties import scaled

ROOT = Path(__file__).parents[2]


def strike(*words: str) -> int:
    """Run the campaign, in a process that may fork; returns at how many points it struck."""
    argv = [sys.executable, "-m", "tests.kills", *words]
    ended = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    rows = re.findall(r"^\| [a-z -]+ \| \d+ \| (\d+) \|", ended.stdout, re.MULTILINE)
    return sum(map(int, rows))


def test_eight_random_points_of_a_kill() -> None:
    assert strike("--points", "8", "--seed", "1") == 8


def test_a_kill_behind_the_name_of_a_capsule_leaves_no_draft() -> None:
    # one capsule of each journey, and two of a pair
    assert strike("--behind", "link") == 5


def test_four_random_calls_that_find_the_disk_full() -> None:
    assert strike("--points", "4", "--seed", "2", "--full") == 4


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "covers"),
    [
        (("--points", str(scaled(200)), "--seed", "3"), "kill -9 between two calls, at random"),
        (("--every",), "kill -9 between any two calls"),
        (("--every", "--full"), "a full disk at any call"),
    ],
)
def test_many_points(
    words: tuple[str, ...], covers: str, record_property: Callable[[str, object], None]
) -> None:
    record_property(COUNT, strike(*words))
    record_property(COVERS, covers)
