"""The page that a long run writes: what was tried, how often, and at which commit."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "evidence" / "long-run.md"
COVERS, COUNT = "covers", "count"

HEAD = """# The long run

Which tests take too long to run with every change, and how many cases did each test try? One
command runs these tests, and writes this page if all tests pass:

    tests/run --long

The command takes two to three hours on two cores. The tests kill runs at random instants, read
broken files, try odd inputs for an hour, run and verify the whole catalogue in its images, and
run all simulations of the statistics. A row counts the cases of one kind.

"""


@dataclass(frozen=True, kw_only=True)
class Row:
    """What some tests covered together."""

    covers: str
    count: int
    seconds: float


class Table:
    """A plugin of the process that hands out the tests: gathers their reports, writes the page."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._rows: dict[str, Row] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add what one test says of itself."""
        facts = dict(report.user_properties)
        if report.when != "call" or not report.passed or COVERS not in facts:
            return
        covers, count = str(facts[COVERS]), int(str(facts[COUNT]))
        row = self._rows.get(covers, Row(covers=covers, count=0, seconds=0.0))
        self._rows[covers] = Row(
            covers=covers, count=row.count + count, seconds=row.seconds + report.duration
        )

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write the page after a whole run that passed."""
        options = session.config.option
        scale = os.environ.get("CAPSULE_LONG_SCALE", "1")
        chosen = options.file_or_dir or options.keyword or options.markexpr or options.collectonly
        chosen = chosen or scale != "1"
        if exitstatus == pytest.ExitCode.OK and not chosen:
            PAGE.write_text(page(list(self._rows.values()), time.monotonic() - self._began))


def page(rows: Sequence[Row], seconds: float) -> str:
    """The page, with a table of the rows."""
    lines = [
        f"| {row.covers} | {row.count} | {row.seconds:.0f} | passed |"
        for row in sorted(rows, key=lambda row: row.covers)
    ]
    table = ["| what | count | seconds | result |", "| --- | --: | --: | --- |", *lines]
    date = datetime.now(UTC).date().isoformat()
    end = f"Commit {_commit()}, {date}, {seconds / 60:.0f} minutes on {os.cpu_count()} cores."
    return f"{HEAD}{end}\n\n" + "\n".join(table) + "\n"


def _commit() -> str:
    words = ["git", "-C", str(ROOT), "describe", "--always", "--abbrev=40", "--dirty"]
    name = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    return re.sub("-dirty$", " with changes", name)
