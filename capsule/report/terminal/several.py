"""The judgement of several re-executions on a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from capsule.diff import Side
from capsule.report.terminal.facing import runtime, short
from capsule.report.terminal.several_brief import (
    error_rate_of_several,
    heading_of_several,
    notes_of_pairs,
    values_of,
)
from capsule.report.terminal.style import Path, draw_notes, table, text, word
from capsule.verdict.model import Judged
from capsule.verdict.several import JudgedPair, SeveralVerdict
from capsule.verdict.spread import Spread
from capsule.verdict.wording import number

if TYPE_CHECKING:
    from rich.console import RenderableType


def draw_whole_of_several(verdict: SeveralVerdict) -> Iterator[RenderableType]:
    """Several re-executions judged, as rich renderables to be printed one below the other.

    Readable without colour and at 80 columns. What differs between two sides is only counted:
    `capsule diff` of those two lists it.
    """
    yield heading_of_several(verdict)
    yield _pairs(verdict.pairs)
    if verdict.metrics:
        yield _metrics(verdict)
    yield _beside(verdict)
    yield from draw_notes(list(notes_of_pairs(verdict.pairs)))
    yield from (text(sentence, "dim") for sentence in _footing(verdict))


def _pairs(pairs: Sequence[JudgedPair]) -> RenderableType:
    rows = table(
        ("verdict", {"no_wrap": True}),
        ("pair", {"no_wrap": True}),
        ("", {"overflow": "fold"}),
        title="Each re-execution against the original",
    )
    for pair in pairs:
        sentence = str(pair.verdict.sentence)
        if pair.word != pair.verdict.word:
            sentence += f", by itself; not after Holm over {len(pairs)} pairs"
        rows.add_row(word(pair.word), f"A-{pair.label}", text(sentence))
    return rows


def _metrics(verdict: SeveralVerdict) -> RenderableType:
    rows = table(
        ("claims", {"no_wrap": True}),
        ("metric", {"overflow": "fold", "ratio": 1}),
        title="Over all machines",
    )
    for metric in verdict.metrics:
        rows.add_row(_words(metric, verdict.pairs), _body(metric))
    return rows


def _words(metric: Spread, pairs: Sequence[JudgedPair]) -> RenderableType:
    """Every claim's word in every pair, one below the other."""
    from rich.text import Text

    lines: list[Text] = []
    for pair in pairs:
        claims = [one for one in pair.verdict.claims if one.metric == metric.metric]
        for one in claims:
            kind = f"{_kind(one)} " if len(claims) > 1 else ""
            lines.append(Text.assemble(f"{pair.label} {kind}", word(one.word)))
    return Text("\n").join(lines)


def _kind(one: Judged) -> str:
    """What tells a claim from the others on its metric."""
    if one.claim is None:
        return ""
    return ", ".join(filter(None, (one.claim.type, one.claim.pattern.value)))


def _body(metric: Spread) -> RenderableType:
    from rich.console import Group

    values = values_of(metric)
    notes = (note.sentence for note in metric.notes)
    lines = (metric.precision_sentence, metric.mean_sentence, *notes)
    return Group(Path(metric.metric), text(values), *(text(line, "dim") for line in lines))


def _beside(verdict: SeveralVerdict) -> RenderableType:
    rows = table(
        ("", {"no_wrap": True}),
        ("capsule", {"overflow": "fold"}),
        ("image", {"overflow": "fold"}),
        ("runtime", {"overflow": "fold"}),
        ("differs from A in", {"overflow": "fold", "ratio": 1}),
        title="What is not the same beside the numbers (no cause is implied)",
    )
    rows.add_row("A", *map(text, _side(verdict.sides[0])), "")
    for pair in verdict.pairs:
        differences = pair.verdict.differences
        counts = Counter(fact.topic for fact in differences.facts)
        topics = ", ".join(f"{topic} ({count})" for topic, count in counts.items())
        side = _side(differences.rerun, differences.image)
        rows.add_row(pair.label, *map(text, side), text(topics or "none"))
    return rows


def _side(side: Side, relation: str | None = None) -> tuple[str, str, str]:
    image = short(side.image or "none")
    differs = relation in ("different", "same-index", "same-tree")
    return (
        short(side.id or side.uuid),
        f"{image} {relation}" if differs else image,
        runtime(side),
    )


def _footing(verdict: SeveralVerdict) -> Iterator[str]:
    yield (
        "REPRODUCED asks for every pair, each at its own level, and needs no correction for their"
        " number. DIFFERENT is corrected by Holm over the pairs."
    )
    rate = error_rate_of_several(verdict)
    if rate:
        yield f"Error rate: {rate}."
    if any(metric.precision for metric in verdict.metrics):
        widths = sorted({metric.alpha for metric in verdict.metrics if metric.precision})
        inside = " or ".join(f"{number(100 * (1 - 2 * alpha))} %" for alpha in widths)
        yield (
            f"Limits have a confidence of {inside}, for normal runs that spread equally on every"
            " machine; heavy tails make those of s_R too narrow."
        )
    yield "`capsule diff` of A and one other lists what differs between the two."
