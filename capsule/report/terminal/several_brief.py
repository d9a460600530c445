"""The judgement of several re-executions in a few lines: one a machine, one a metric."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from capsule.diff.several import label
from capsule.report.terminal import agreement
from capsule.report.terminal.brief import SAID_ABOVE, add_footing, open_claims
from capsule.report.terminal.facing import describe, describe_worlds, sides_of, subject
from capsule.report.terminal.footing import error_rate
from capsule.report.terminal.style import grid, text, word
from capsule.verdict.model import Counts
from capsule.verdict.several import JudgedPair, SeveralVerdict
from capsule.verdict.spread import Spread
from capsule.verdict.wording import count

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_METRICS = 6


def draw_brief_of_several(verdict: SeveralVerdict) -> Iterator[RenderableType]:
    """Several re-executions judged, a line each, as renderables to be printed below each other."""
    from rich.text import Text

    rows = heading_of_several(verdict)
    for pair in verdict.pairs:
        decisive = [one for one in agreement.list_claims(pair.verdict) if one.judged.decisive]
        for name, claim in open_claims(decisive):
            rows.add_row(Text.assemble(f"{pair.label} ", name), claim)
    for metric in verdict.metrics[:_METRICS]:
        spread = metric.precision_sentence.partition(";")[0]
        line = f"{metric.metric}: {values_of(metric)}; {spread}"
        rows.add_row("metric", text(line))
    left = len(verdict.metrics) - _METRICS
    if left > 0:
        rows.add_row("besides", text(f"{count(left, 'claimed metric')}: --full"))
    notes = list(notes_of_pairs(verdict.pairs, SAID_ABOVE))
    add_footing(rows, notes, error_rate_of_several(verdict))
    yield rows


def heading_of_several(verdict: SeveralVerdict) -> Table:
    """The word and its reason, then what was run again, where and for how long."""
    rows = grid(style="")
    rows.add_row(word(verdict.word), text(verdict.sentence))
    rows.add_row("title", text(subject(verdict.sides[0])))
    first = verdict.pairs[0].verdict
    there, _ = sides_of(first.claims or first.reported)
    rows.add_row("A, original", text(describe(verdict.sides[0], there)))
    for pair in verdict.pairs:
        _, here = sides_of(pair.verdict.claims or pair.verdict.reported)
        side = describe(pair.verdict.differences.rerun, here)
        rows.add_row(pair.label, text(f"{pair.word}: {side}"))
    reruns = ((pair.label, pair.verdict.differences.rerun) for pair in verdict.pairs)
    if (world := describe_worlds([("A", verdict.sides[0]), *reruns])) is not None:
        rows.add_row("world", text(world))
    return rows


def values_of(metric: Spread) -> str:
    """A metric's mean on every side."""
    return ", ".join(
        f"{label(index)} {_value(counts)}" for index, counts in enumerate(metric.counts)
    )


def _value(counts: Counts | None) -> str:
    if counts is None:
        return "none"
    return f"{agreement.mean(counts)} ({agreement.runs(counts)})"


def notes_of_pairs(
    pairs: Sequence[JudgedPair], without: frozenset[str] = frozenset()
) -> Iterator[str]:
    """The notes of all pairs, each once, with the pairs that it belongs to.

    Args:
        pairs: All of them.
        without: Codes of notes that are left out.
    """
    owners: dict[str, list[str]] = {}
    for pair in pairs:
        for note in pair.verdict.differences.notes:
            if note.code not in without:
                owners.setdefault(note.sentence, []).append(f"A-{pair.label}")
    for sentence, named in owners.items():
        yield f"{', '.join(named)}: {sentence}"


def error_rate_of_several(verdict: SeveralVerdict) -> str | None:
    """How likely a wrong verdict is, where DIFFERENT is corrected for the number of machines."""
    claims = (one for pair in verdict.pairs for one in pair.verdict.claims)
    return error_rate(claims, "any wrong DIFFERENT among the pairs")
