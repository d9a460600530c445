"""A whole verdict on a terminal: every claim, every number, and what else is not the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from capsule.diff import Differences, Pair
from capsule.diff.facts import Fact
from capsule.diff.names import Names
from capsule.report.terminal.agreement import mean
from capsule.report.terminal.brief import heading
from capsule.report.terminal.facing import runtime, short
from capsule.report.terminal.footing import error_rate
from capsule.report.terminal.order import in_time_order
from capsule.report.terminal.style import Path, draw_notes, draw_rest, table, text, word
from capsule.verdict import Counts, Judged, Verdict
from capsule.verdict.wording import number

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table

_WIDE = 100
_REPORTED_ROWS = 12
_FACT_ROWS = 24
_FACTS_OF_A_TOPIC = 6
_FAILURE_ROWS = 3
_GRAVITY = {"DIFFERENT": 0, "INCONCLUSIVE": 1, "REPRODUCED": 2, "REPORTED": 3, "SKIPPED": 4}


def draw_whole(verdict: Verdict) -> Iterator[RenderableType]:
    """A verdict with all of its claims, as renderables to be printed one below the other.

    Readable without colour and at 80 columns. Gravest claims come first; long lists of what nobody
    claimed end in how many were left out, which the JSON form has.
    """
    names = verdict.differences.names
    yield heading(verdict)
    orders = _orders(verdict)
    if verdict.claims:
        yield _Judgements(verdict.claims, "Claims", names, orders)
    if verdict.reported:
        reported = verdict.reported[:_REPORTED_ROWS]
        yield _Judgements(reported, "Not claimed, reported only", names, orders)
        yield from draw_rest(len(verdict.reported) - _REPORTED_ROWS, "metrics")
    yield from _beside(verdict.differences)
    yield from (text(sentence, "dim") for sentence in _footing(verdict))


class _Judgements:
    """Claims and their judgements: a table where there is room for its numbers, else a list."""

    def __init__(
        self,
        judged: Sequence[Judged],
        title: str,
        names: Names,
        orders: Mapping[int, Sequence[str]],
    ) -> None:
        self._names = names
        self._judged = sorted(judged, key=lambda one: _GRAVITY[one.word])
        self._title = title
        self._orders = orders

    def __rich_console__(
        self, _console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        yield self._wide() if options.max_width >= _WIDE else self._narrow()

    def _wide(self) -> Table:
        rows = table(
            ("verdict", {"no_wrap": True}),
            ("metric", {"overflow": "fold", "ratio": 1}),
            *(
                (f"mean, {name}", {"justify": "right", "no_wrap": True})
                for name in self._names.heads
            ),
            ("runs", {"justify": "right"}),
            title=self._title,
        )
        for one in self._judged:
            rows.add_row(
                word(one.word),
                _body(one, *self._orders[id(one)]),
                text(mean(one.original)),
                text(mean(one.rerun)),
                _both_runs(one),
            )
        return rows

    def _narrow(self) -> Table:
        rows = table(
            ("verdict", {"no_wrap": True}),
            ("metric", {"overflow": "fold", "ratio": 1}),
            title=self._title,
        )
        for one in self._judged:
            values = f"mean {mean(one.original)} -> {mean(one.rerun)}"
            numbers = (f"{values}, runs {_both_runs(one)}", *self._orders[id(one)])
            rows.add_row(word(one.word), _body(one, *numbers))
        return rows


def _orders(verdict: Verdict) -> dict[int, tuple[str, ...]]:
    """For each judgement, by its `id`, the values of both sides in the order of time."""
    pairs = sorted(verdict.differences.pairs, key=lambda pair: pair.claim is None)
    judged = (*verdict.claims, *verdict.reported)
    return {id(one): _in_time_order(pair) for one, pair in zip(judged, pairs, strict=True)}


def _in_time_order(pair: Pair) -> tuple[str, ...]:
    """Both sides' values in the order in which their runs started."""
    sides = zip(pair.names.heads, (pair.original, pair.rerun), strict=True)
    return tuple(
        f"{name} in time order: {values}" for name, side in sides if (values := in_time_order(side))
    )


def _body(one: Judged, *numbers: str) -> RenderableType:
    from rich.console import Group

    below = [text(line) for line in numbers]
    below += [text(line, "dim") for line in (one.sentence, *(note.sentence for note in one.notes))]
    if one.advice:
        below.append(text(one.advice.sentence, "italic"))
    first, second = one.names.heads
    if one.claim is not None and one.superiority is not None and one.p_zero is not None:
        below.append(
            text(
                f"for information: P({second} > {first}) {number(one.superiority)},"
                f" p of no shift {number(one.p_zero)}",
                "dim",
            )
        )
    if one.claim is not None and not one.claim.primary and one.word != "SKIPPED":
        below.append(text("secondary claim: no part of the capsule's verdict", "dim"))
    return Group(Path(one.metric), *below)


def _both_runs(one: Judged) -> str:
    return f"{_runs(one.original)} + {_runs(one.rerun)}"


def _runs(side: Counts) -> str:
    lost = [f"{side.failed} failed"] * bool(side.failed)
    lost += [f"{side.missing} missing"] * bool(side.missing)
    return f"{side.values} ({', '.join(lost)})" if lost else str(side.values)


def _beside(differences: Differences) -> Iterator[RenderableType]:
    rows = table(
        ("", {"no_wrap": True}),
        ("", {"overflow": "fold"}),
        *((name, {"overflow": "fold"}) for name in differences.names.heads),
        title="What is not the same beside the numbers (no cause is implied)",
    )
    for topic, there, here in _headlines(differences):
        rows.add_row(topic, "", text(there), text(here))
    others = other_facts(differences)
    shown = list(_few(others))
    for fact in shown:
        rows.add_row(
            text(fact.topic),
            Path(fact.pointer.removeprefix("/")),
            text(_leaf(fact.original)),
            text(_leaf(fact.rerun)),
        )
    if rows.row_count:
        yield rows
        yield from draw_rest(len(others) - len(shown), "differences")
    else:
        yield text("Nothing else that was recorded differs between the two sides.")
    yield from draw_notes([note.sentence for note in differences.notes])


def other_facts(differences: Differences) -> list[Fact]:
    """What is not the same apart from image and runtime, which have lines of their own."""
    return [fact for fact in differences.facts if fact.topic not in ("image", "runtime")]


def _headlines(differences: Differences) -> Iterator[tuple[str, str, str]]:
    there, here = differences.original, differences.rerun
    if there.image != here.image:
        yield "image", short(there.image or "none"), short(here.image or "none")
    if runtime(there) != runtime(here):
        yield "runtime", runtime(there), runtime(here)


def _few(facts: Iterable[Fact]) -> Iterator[Fact]:
    """So many of each topic, and so many in all, that the list stays on a screen."""
    seen: Counter[str] = Counter()
    for fact in facts:
        seen[fact.topic] += 1
        if seen[fact.topic] <= _FACTS_OF_A_TOPIC and seen.total() <= _FACT_ROWS:
            yield fact


def _leaf(value: object) -> str:
    shown = "-" if value is None else str(value)
    return shown if len(shown) <= 72 else f"{shown[:69]}..."


def _footing(verdict: Verdict) -> Iterator[str]:
    used = {one.seeds for one in verdict.claims if one.word != "SKIPPED"}
    kinds = {
        "fresh": "fresh seeds, which follow from the id of the capsule that was verified",
        "pair": "the same seeds on both sides, by turns",
        "same": "the original's own seeds (exact and paired claims)",
        "all": "all seeds of both sides",
    }
    if used:
        whose = "Seeds" if used == {"pair"} else "Seeds of the re-run"
        yield f"{whose}: " + "; ".join(kinds[rule] for rule in sorted(used)) + "."
    rate = error_rate(verdict.claims)
    if rate:
        yield f"Error rate: {rate}."
    yield from _failure_rates(verdict)


def _failure_rates(verdict: Verdict) -> Iterator[str]:
    """What the runs at hand say of how often a run fails, which is little when they are few."""
    first, second = verdict.differences.names.heads
    ran = [one for one in verdict.claims if one.word != "SKIPPED"]
    both = {(_failures(one.original), _failures(one.rerun)) for one in ran}
    for there, here in sorted(both)[:_FAILURE_ROWS]:
        yield f"Failed runs (and their rate at most, 95 % bound): {first} {there}, {second} {here}."


def _failures(side: Counts) -> str:
    ended = side.values + side.failed
    return f"{side.failed} of {ended} (up to {number(100 * side.failure_bound, 2)} %)"
