"""A whole verdict on a terminal: every claim, every number, every difference, every note."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from capsule.diff import Differences, Pair, Side
from capsule.report.terminal.agreement import Claimed
from capsule.report.terminal.brief import advise, draw_heading, draw_sides
from capsule.report.terminal.claims import ClaimNames, ClaimTable, make_row
from capsule.report.terminal.environment import list_facts
from capsule.report.terminal.lines import Screen, draw_labelled, draw_line, draw_word
from capsule.report.terminal.order import in_time_order
from capsule.report.terminal.prose import wrap
from capsule.verdict import ClaimWord, Counts, Judged, Verdict, rates
from capsule.verdict.wording import number

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

_WORDS: tuple[ClaimWord, ...] = (
    "DIFFERENT",
    "INCONCLUSIVE",
    "REPRODUCED",
    "SKIPPED",
    "REPORTED",
)
_SEEDS = {
    "fresh": "fresh, derived from the id of the original",
    "pair": "the same on both sides, run alternately",
    "same": "the original's seeds (exact and paired claims)",
    "all": "all seeds of both sides",
}


def draw_whole(verdict: Verdict) -> Iterator[RenderableType]:
    """Yield a verdict with all that it holds, as renderables to be printed one below the other."""
    yield Screen(lambda width, plus_minus: _draw(verdict, width, plus_minus))


def _draw(verdict: Verdict, width: int, plus_minus: str) -> Iterator[Text]:
    blank = draw_line("")
    differences = verdict.differences
    yield from draw_heading(verdict, width)
    yield from draw_labelled("authors", _word_authors(differences), width)
    yield blank
    claimed = list(_list_all(verdict))
    if claimed:
        yield from _draw_claims(claimed, width, plus_minus)
        yield blank
    yield from draw_labelled("error rate", rates.summarize(verdict.claims) or "", width)
    for line in _failure_rates(verdict):
        yield from draw_labelled("failed runs", line, width)
    yield from draw_labelled("seeds", _word_seeds(verdict), width)
    for line in advise(verdict, ()):
        yield from draw_labelled("what now", line, width)
    yield blank
    yield from draw_sides(differences, width)
    yield blank
    yield from _draw_facts(differences, width)
    for note in differences.notes:
        yield from draw_labelled("note", note.sentence, width)


def _word_authors(differences: Differences) -> str:
    there, here = (_join_authors(side) for side in (differences.original, differences.rerun))
    if there == here:
        return there
    first, second = differences.names.heads
    return f"{first}: {there or 'none'}; {second}: {here or 'none'}"


def _join_authors(side: Side) -> str:
    return ", ".join(side.authors)


def _list_all(verdict: Verdict) -> Iterator[tuple[Claimed, Pair]]:
    """Yield every claim, then every metric without one, each with its runs."""
    pairs = sorted(verdict.differences.pairs, key=lambda pair: pair.claim is None)
    judged = (*verdict.claims, *verdict.reported)
    for one, pair in zip(judged, pairs, strict=True):
        yield Claimed(judged=one, original=pair.original), pair


def _draw_claims(
    claimed: Sequence[tuple[Claimed, Pair]], width: int, plus_minus: str
) -> Iterator[Text]:
    names = ClaimNames([one.judged for one, _ in claimed])
    if names.prefix:
        yield from map(draw_line, wrap(f"metrics in {names.prefix}", width))
    rows = [
        (one.judged.word, make_row(one, names.name(one.judged), plus_minus, *_below(one, pair)))
        for one, pair in claimed
    ]
    heads = claimed[0][0].judged.names.heads
    table = ClaimTable([row for _, row in rows], heads, width)
    yield from map(draw_line, table.draw_heading())
    for word in _WORDS:
        members = [row for own, row in rows if own == word]
        if members:
            yield draw_word(word, f"({len(members)})")
        for row in members:
            yield from map(draw_line, table.draw(row))


def _below(one: Claimed, pair: Pair) -> Iterator[str]:
    """Yield all that is known of a claim besides the numbers in its row."""
    judged = one.judged
    sides = zip(judged.names.heads, (pair.original, pair.rerun), strict=True)
    for name, side in sides:
        if values := in_time_order(side):
            yield f"{name} in time order: {values}"
    yield judged.sentence
    yield from (note.sentence for note in judged.notes)
    if judged.advice:
        yield judged.advice.sentence
    if judged.claim is not None and judged.superiority is not None and judged.p_zero is not None:
        first, second = judged.names.heads
        yield (
            f"for information: P({second} > {first}) = {number(judged.superiority)},"
            f" p-value for no difference = {number(judged.p_zero)}"
        )
    if judged.claim is not None and not judged.claim.primary and judged.word != "SKIPPED":
        yield "secondary claim: does not count for the capsule's verdict"


def _draw_facts(differences: Differences, width: int) -> Iterator[Text]:
    if not differences.facts:
        yield draw_line("No difference recorded between the two environments.")
        return
    first, second = differences.names.heads
    title = f"Differences in environment, {first} -> {second} (not necessarily the cause)"
    yield from (draw_line(line, "bold") for line in wrap(title, width))
    yield from map(draw_line, list_facts(differences, width))


def _word_seeds(verdict: Verdict) -> str:
    used = {one.seeds for one in verdict.claims if one.word != "SKIPPED"}
    return "; ".join(_SEEDS[rule] for rule in sorted(used))


def _failure_rates(verdict: Verdict) -> Iterator[str]:
    """Yield what the runs at hand say of how often a run fails, which is little for few runs."""
    first, second = verdict.differences.names.heads
    ran: list[Judged] = [one for one in verdict.claims if one.word != "SKIPPED"]
    both = {(_failures(one.original), _failures(one.rerun)) for one in ran}
    for there, here in sorted(filter(all, both)):
        yield f"{first} {there}, {second} {here}, with 95 % confidence"


def _failures(side: Counts) -> str:
    """Return how many runs of a side failed; empty without a run."""
    ended = side.values + side.failed
    if not ended:
        return ""
    return f"{side.failed} of {ended} (true rate below {number(100 * side.failure_bound, 2)} %)"
