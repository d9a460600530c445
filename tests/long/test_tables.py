"""The tables of docs/explanation/statistics.md, simulated with all their repetitions."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import copytree

import pytest
import statistics_docs
import verdicts

from tests.support.long_run import COUNT, COVERS, ROOT
from tests.support.patience import PATIENCE_SECONDS
from tests.support.properties import scaled

pytestmark = pytest.mark.long


def test_the_page_of_statistics_is_written_anew(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    for name in ("benchmarks", "docs", "tools"):
        copytree(ROOT / name, tmp_path / name)
    repetitions = scaled(verdicts.REPETITIONS)
    ended = subprocess.run(
        [sys.executable, "tools/statistics_docs.py", "--repetitions", str(repetitions)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=10 * PATIENCE_SECONDS,
        check=False,
    )
    assert "written: " in ended.stdout, ended.stderr
    if repetitions == verdicts.REPETITIONS:
        assert ended.returncode == 0, ended.stdout
        assert figures(tmp_path) == figures(ROOT)
    record_property(COVERS, "cells of the statistics' tables, none of which misses its limit")
    record_property(COUNT, len(set(statistics_docs.cells())))


def figures(root: Path) -> list[str]:
    """The page less its times, which are those of a machine."""
    lines = (root / "docs" / "explanation" / "statistics.md").read_text().splitlines()
    return [line for line in lines if " ms " not in line]
