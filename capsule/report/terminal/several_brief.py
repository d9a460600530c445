"""The judgement of several re-runs on one screen: a line for each machine and each metric."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from capsule.diff.several import label
from capsule.notes import Note
from capsule.report.terminal import agreement
from capsule.report.terminal.brief import choose_notes, draw_claims, draw_some
from capsule.report.terminal.environment import word_environment
from capsule.report.terminal.facing import describe, describe_rerun, describe_worlds
from capsule.report.terminal.lines import Screen, draw_labelled, draw_line
from capsule.report.terminal.naming import ShortNames
from capsule.report.terminal.prose import wrap
from capsule.verdict import Verdict
from capsule.verdict.model import Counts
from capsule.verdict.several import JudgedPair, SeveralVerdict, error_rate
from capsule.verdict.spread import Spread
from capsule.verdict.wording import count

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

_METRICS = 6
_PAIRS = 8
_OPEN_LINES = 40
_INDENT = "    "


def draw_brief_of_several(verdict: SeveralVerdict) -> Iterator[RenderableType]:
    """Yield several re-runs judged, as renderables to be printed one below the other."""
    yield Screen(lambda width, plus_minus: _draw(verdict, width, plus_minus))


def _draw(verdict: SeveralVerdict, width: int, plus_minus: str) -> Iterator[Text]:
    blank = draw_line("")
    yield from draw_heading_of_several(verdict, width)
    yield blank
    yield from draw_pairs(verdict.pairs[:_PAIRS], width)
    if (left := len(verdict.pairs) - _PAIRS) > 0:
        yield draw_line(f"and {left} more re-runs: --full")
    room = _OPEN_LINES
    for pair in verdict.pairs:
        claims = [
            one
            for one in agreement.list_claims(pair.verdict)
            if one.judged.decisive and one.judged.word != "REPRODUCED"
        ]
        heads = pair.verdict.differences.names.heads
        lines = list(draw_claims(claims, heads, width, plus_minus)) if claims else []
        room -= len(lines) + 2
        if lines and room >= 0:
            yield blank
            yield draw_line(f"{pair.label}: claims that are not reproduced", "bold")
            yield from lines
        elif lines:
            yield draw_line(f"{pair.label}: {count(len(claims), 'claim')} not reproduced: --full")
    if verdict.metrics:
        yield blank
        yield from draw_metrics(verdict.metrics[:_METRICS], width)
    if (left := len(verdict.metrics) - _METRICS) > 0:
        yield draw_line(f"and {count(left, 'more claimed metric')}: --full")
    yield blank
    yield from draw_labelled("error rate", error_rate(verdict) or "", width)
    yield from draw_some("warning", list(notes_of_pairs(verdict.pairs, choose_notes)), width)


def draw_heading_of_several(verdict: SeveralVerdict, width: int) -> Iterator[Text]:
    """Yield the word, what was measured, the reason, what weakens it, and the original."""
    yield from draw_labelled(verdict.word, verdict.sides[0].title, width)
    yield from draw_labelled("", verdict.sentence, width)
    yield from draw_some("caution", list(cautions_of_pairs(verdict.pairs)), width)
    yield draw_line("")
    yield from draw_labelled("A, original", describe(verdict.sides[0]), width)
    reruns = ((pair.label, pair.verdict.differences.rerun) for pair in verdict.pairs)
    world = describe_worlds([("A", verdict.sides[0]), *reruns])
    yield from draw_labelled("world", world or "", width)


def draw_pairs(pairs: Sequence[JudgedPair], width: int) -> Iterator[Text]:
    """Yield each re-run: its word, its machine, and what differs from the original's."""
    for pair in pairs:
        differences = pair.verdict.differences
        line = f"{pair.label}: {describe_rerun(differences)}"
        yield from draw_labelled(pair.word, line, width)
        sentence = str(pair.verdict.sentence)
        if pair.word != pair.verdict.word:
            sentence += f" alone, but not after Holm's correction for {len(pairs)} pairs"
        yield from draw_labelled("", sentence, width)
        environment = f"environment: {word_environment(differences)}"
        yield from draw_labelled("", environment, width, most_lines=2)


def draw_metrics(metrics: Sequence[Spread], width: int, *, is_full: bool = False) -> Iterator[Text]:
    """Yield the mean of each metric on every side, and how far these lie apart."""
    names = ShortNames([one.metric for one in metrics])
    title = f"means over all machines, metrics in {names.prefix}"
    yield from (
        draw_line(line, "bold") for line in wrap(title.removesuffix(", metrics in "), width)
    )
    for one in metrics:
        yield from map(draw_line, wrap(names.shorten(one.metric), width))
        precision = one.precision_sentence
        below = [values_of(one), precision if is_full else precision.partition(";")[0]]
        if is_full:
            below += [one.mean_sentence, *(note.sentence for note in one.notes)]
        for sentence in below:
            for line in wrap(sentence, width - len(_INDENT)):
                yield draw_line(f"{_INDENT}{line}")


def values_of(metric: Spread) -> str:
    """Return a metric's mean on every side."""
    return ", ".join(
        f"{label(index)} {_value(counts)}" for index, counts in enumerate(metric.counts)
    )


def _value(counts: Counts | None) -> str:
    if counts is None:
        return "none"
    return f"{agreement.mean(counts)} ({agreement.runs(counts)})"


def cautions_of_pairs(pairs: Sequence[JudgedPair]) -> Iterator[str]:
    """Yield what weakens the verdicts of all pairs, as `notes_of_pairs` yields notes."""
    return notes_of_pairs(pairs, lambda verdict: verdict.differences.cautions)


def notes_of_pairs(
    pairs: Sequence[JudgedPair],
    choose: Callable[[Verdict], Sequence[Note]] = lambda verdict: verdict.differences.notes,
) -> Iterator[str]:
    """Yield the notes of all pairs, each once, with the pairs that it belongs to.

    Args:
        pairs: All of them.
        choose: Return the notes of a pair that are wanted; by default all.
    """
    owners: dict[str, list[str]] = {}
    for pair in pairs:
        for note in choose(pair.verdict):
            owners.setdefault(note.sentence, []).append(f"A-{pair.label}")
    for sentence, named in owners.items():
        yield f"{', '.join(named)}: {sentence}"
