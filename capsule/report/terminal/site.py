"""The settings and the diagnosis of this machine on a terminal."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from capsule.report.terminal.style import grid, table, text

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import RenderableType

    from capsule.doctor import Finding
    from capsule.site import Setting

_STYLES = {"good": "green", "absent": "dim", "limited": "yellow", "missing": "bold red"}


def draw_findings(findings: Sequence[Finding]) -> tuple[RenderableType, ...]:
    """Draw a row for each finding, with its remedy below it."""
    rows = grid(style="")
    for finding in findings:
        name = text(f"{finding.word:8}", _STYLES[finding.word]).append(finding.area)
        rows.add_row(name, _describe(finding))
    words = {finding.word for finding in findings}
    if "missing" in words:
        return rows, text("result: capsule lacks the items on the lines marked missing")
    if "limited" in words:
        return rows, text("result: capsule works on this machine, with the limits above")
    return rows, text("result: capsule works on this machine")


def _describe(finding: Finding) -> RenderableType:
    """Return a finding, with its remedy on a line of its own."""
    from rich.console import Group

    below = [text(finding.mend, "dim")] if finding.mend else []
    return Group(text(finding.what), *below)


def draw_site(settings: Sequence[Setting], wide: Path, own: Path) -> tuple[RenderableType, ...]:
    """Draw every setting with its source, and the two possible site files."""
    rows = table(("setting", {"overflow": "fold"}), ("value", {"overflow": "fold"}), ("from", {}))
    for setting in settings:
        rows.add_row(text(setting.name), text(setting.value), text(setting.source))
    files = grid()
    for name, file in (("the site's file", wide), ("your own", own)):
        there = "" if os.path.lexists(file) else " (does not exist)"
        files.add_row(name, text(f"{file}{there}"))
    return rows, files
