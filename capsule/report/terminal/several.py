"""The judgement of several re-executions on a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from capsule.diff import Side
from capsule.diff.several import label
from capsule.report.terminal.style import STYLES, Path, table, text, word
from capsule.verdict.model import Counts, Judged
from capsule.verdict.several import JudgedPair, SeveralVerdict
from capsule.verdict.spread import Spread
from capsule.verdict.wording import number

if TYPE_CHECKING:
    from rich.console import RenderableType


def draw_several(verdict: SeveralVerdict) -> tuple[RenderableType, ...]:
    """Several re-executions judged, as rich renderables to be printed one below the other.

    Readable without colour and at 80 columns. What differs between two sides is only counted:
    `capsule diff` of those two lists it.
    """
    return tuple(_parts(verdict))


def _parts(verdict: SeveralVerdict) -> Iterator[RenderableType]:
    from rich.text import Text

    yield Text.assemble(
        (verdict.word, STYLES[verdict.word]), "  ", text(verdict.sentence), no_wrap=False
    )
    yield _pairs(verdict.pairs)
    if verdict.metrics:
        yield _metrics(verdict)
    yield _beside(verdict)
    for note in _notes(verdict.pairs):
        yield text(f"note: {note}")
    yield from (text(sentence, "dim") for sentence in _footing(verdict))


def _pairs(pairs: Sequence[JudgedPair]) -> RenderableType:
    rows = table(
        ("verdict", {"no_wrap": True}),
        ("pair", {"no_wrap": True}),
        ("", {"overflow": "fold"}),
        title="Each re-execution against the original",
    )
    for pair in pairs:
        sentence = pair.verdict.sentence
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
            kind = f"{_type(one)} " if len(claims) > 1 else ""
            lines.append(Text.assemble(f"{pair.label} {kind}", word(one.word)))
    return Text("\n").join(lines)


def _type(one: Judged) -> str:
    return one.claim.type if one.claim else ""


def _body(metric: Spread) -> RenderableType:
    from rich.console import Group

    values = ", ".join(
        f"{label(index)} {_value(counts, metric.unit)}"
        for index, counts in enumerate(metric.counts)
    )
    notes = (note.sentence for note in metric.notes)
    lines = (metric.precision_sentence, metric.mean_sentence, *notes)
    return Group(Path(metric.metric), text(values), *(text(line, "dim") for line in lines))


def _value(counts: Counts | None, unit: str) -> str:
    if counts is None:
        return "none"
    mean = number(counts.mean, 4)
    value = mean if unit == "1" or counts.mean is None else f"{mean} {unit}"
    lost = f", {counts.failed} failed" * bool(counts.failed)
    lost += f", {counts.missing} missing" * bool(counts.missing)
    return f"{value} ({counts.independent} runs{lost})"


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
    image = (side.image or "none").removeprefix("sha256:")[:12]
    return (
        (side.id or side.uuid)[:12],
        image if relation in (None, "none") else f"{image} {relation}",
        side.runtime if side.contained else f"{side.runtime}, not contained",
    )


def _notes(pairs: Sequence[JudgedPair]) -> Iterator[str]:
    """The notes of all pairs, each once, with the pairs that it belongs to."""
    owners: dict[str, list[str]] = {}
    for pair in pairs:
        for note in pair.verdict.differences.notes:
            owners.setdefault(note.sentence, []).append(f"A-{pair.label}")
    for sentence, named in owners.items():
        yield f"{', '.join(named)}: {sentence}"


def _footing(verdict: SeveralVerdict) -> Iterator[str]:
    levels = sorted({pair.alpha for pair in verdict.pairs})
    rates = " or ".join(f"{number(100 * level)} %" for level in levels)
    yield (
        "REPRODUCED asks for every pair, each at its own level, and needs no correction for their"
        f" number. DIFFERENT is corrected by Holm: any wrong one among the pairs has a probability"
        f" of at most {rates}."
    )
    if any(metric.precision for metric in verdict.metrics):
        widths = sorted({metric.alpha for metric in verdict.metrics if metric.precision})
        inside = " or ".join(f"{number(100 * (1 - 2 * alpha))} %" for alpha in widths)
        yield (
            f"Limits have a confidence of {inside}, for normal runs that spread equally on every"
            " machine; heavy tails make those of s_R too narrow."
        )
    yield "`capsule diff` of A and one other lists what differs between the two."
