"""What holds on this machine and what works on it, on a terminal."""

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
    """What was seen, a row each, and below it what would mend what does not work."""
    rows = grid(style="")
    for finding in findings:
        name = text(f"{finding.word:8}", _STYLES[finding.word]).append(finding.area)
        rows.add_row(name, _describe(finding))
    words = {finding.word for finding in findings}
    if "missing" in words:
        return rows, text("something is missing here")
    if "limited" in words:
        return rows, text("all that it takes is here, with limits")
    return rows, text("all that it takes is here")


def _describe(finding: Finding) -> RenderableType:
    """What was seen, and on a line of its own what would mend it."""
    from rich.console import Group

    below = [text(finding.mend, "dim")] if finding.mend else []
    return Group(text(finding.what), *below)


def draw_site(settings: Sequence[Setting], wide: Path, own: Path) -> tuple[RenderableType, ...]:
    """Every setting with its source, and which files there could be."""
    rows = table(("setting", {"overflow": "fold"}), ("value", {"overflow": "fold"}), ("from", {}))
    for setting in settings:
        rows.add_row(text(setting.name), text(setting.value), text(setting.source))
    files = grid()
    for name, file in (("the site's file", wide), ("your own", own)):
        there = "" if os.path.lexists(file) else " (not there)"
        files.add_row(name, text(f"{file}{there}"))
    return rows, files
