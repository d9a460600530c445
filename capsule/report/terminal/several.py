"""The judgement of several re-runs on a terminal, with every claim and every note."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from capsule.report.terminal import agreement
from capsule.report.terminal.claims import ClaimNames, ClaimTable, make_row
from capsule.report.terminal.lines import Screen, draw_labelled, draw_line
from capsule.report.terminal.prose import wrap
from capsule.report.terminal.several_brief import (
    cautions_of_pairs,
    draw_heading_of_several,
    draw_metrics,
    draw_pairs,
    notes_of_pairs,
)
from capsule.verdict.several import JudgedPair, SeveralVerdict, error_rate
from capsule.verdict.wording import number

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text


def draw_whole_of_several(verdict: SeveralVerdict) -> Iterator[RenderableType]:
    """Yield several re-runs judged, as renderables to be printed one below the other.

    What differs between two sides is only counted: `capsule diff` of those two lists it.
    """
    yield Screen(lambda width, plus_minus: _draw(verdict, width, plus_minus))


def _draw(verdict: SeveralVerdict, width: int, plus_minus: str) -> Iterator[Text]:
    blank = draw_line("")
    yield from draw_heading_of_several(verdict, width)
    yield blank
    yield from draw_pairs(verdict.pairs, width)
    for pair in verdict.pairs:
        yield blank
        yield from _draw_claims(pair, width, plus_minus)
    if verdict.metrics:
        yield blank
        yield from draw_metrics(verdict.metrics, width, is_full=True)
    yield blank
    for caution in cautions_of_pairs(verdict.pairs):
        yield from draw_labelled("caution", caution, width)
    for note in notes_of_pairs(verdict.pairs):
        yield from draw_labelled("note", note, width)
    yield from draw_labelled("error rate", error_rate(verdict) or "", width)
    for sentence in _footing(verdict):
        yield from draw_labelled("note", sentence, width)


def _draw_claims(pair: JudgedPair, width: int, plus_minus: str) -> Iterator[Text]:
    """Yield every claim of a pair, with its word and its sentence."""
    claims = agreement.list_claims(pair.verdict)
    names = ClaimNames([one.judged for one in claims])
    rows = [
        make_row(
            one,
            names.name(one.judged),
            plus_minus,
            f"{pair.label} {one.judged.word}: {one.judged.sentence}",
        )
        for one in claims
    ]
    yield from (
        draw_line(line, "bold") for line in wrap(f"A and {pair.label}: {names.prefix}", width)
    )
    table = ClaimTable(rows, pair.verdict.differences.names.heads, width)
    yield from map(draw_line, table.draw_heading())
    for row in rows:
        yield from map(draw_line, table.draw(row))


def _footing(verdict: SeveralVerdict) -> Iterator[str]:
    yield (
        "REPRODUCED needs every re-run, each at its own level, without a correction for the number"
        " of re-runs; DIFFERENT has Holm's correction for the number of re-runs"
    )
    if any(metric.precision for metric in verdict.metrics):
        widths = sorted({metric.alpha for metric in verdict.metrics if metric.precision})
        inside = " or ".join(f"{number(100 * (1 - 2 * alpha))} %" for alpha in widths)
        yield (
            f"limits have a confidence of {inside}, for normally distributed runs with the same"
            " spread on every machine; heavy tails make the limits of s_R too narrow"
        )
    yield "to list the differences between A and one re-run: `capsule diff` of these two capsules"
