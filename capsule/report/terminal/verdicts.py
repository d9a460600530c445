"""The two lengths of a verdict on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from capsule.report.terminal.brief import draw_brief
from capsule.report.terminal.comparison import draw_whole
from capsule.report.terminal.several import draw_whole_of_several
from capsule.report.terminal.several_brief import draw_brief_of_several
from capsule.verdict import Verdict
from capsule.verdict.several import SeveralVerdict

if TYPE_CHECKING:
    from rich.console import RenderableType


def draw_verdict(verdict: Verdict, *, full: bool = False) -> tuple[RenderableType, ...]:
    """A verdict as rich renderables, to be printed one below the other.

    Args:
        verdict: Of one capsule by another.
        full: With every claim and all differences, in place of one screen.
    """
    return tuple(draw_whole(verdict) if full else draw_brief(verdict))


def draw_several(verdict: SeveralVerdict, *, full: bool = False) -> tuple[RenderableType, ...]:
    """Several re-runs judged, as rich renderables to be printed one below the other.

    Args:
        verdict: Of one capsule by several others.
        full: With every claim on every machine, in place of a line a machine and a metric.
    """
    return tuple(draw_whole_of_several(verdict) if full else draw_brief_of_several(verdict))
