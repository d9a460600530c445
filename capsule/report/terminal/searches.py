"""Sealed searches on a terminal: score, quality by budget, winner."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from capsule.report.terminal.metrics import with_unit
from capsule.report.terminal.prose import Prose
from capsule.report.terminal.style import grid, join_first
from capsule.verdict.wording import count, number
from capsule.winners import Outcome

if TYPE_CHECKING:
    from rich.console import RenderableType

_MOST = 20


def draw_searches(outcomes: Sequence[Outcome]) -> tuple[RenderableType, ...]:
    """Draw searches, one below the other."""
    tables = []
    for outcome in outcomes:
        rows = grid()
        for name, value in _rows(outcome):
            rows.add_row(name, Prose(value))
        tables.append(rows)
    return tuple(tables)


def _rows(outcome: Outcome) -> Iterator[tuple[str, str]]:
    better = f"{outcome.direction} is better"
    yield "search", f"{outcome.benchmark} in {outcome.framework}: {outcome.metric}, {better}"
    seeds = len(outcome.scores)
    failed = f" ({outcome.failed} failed)" if outcome.failed else ""
    points = f"{count(outcome.trials, 'point')} by {outcome.method}"
    yield (
        "trials",
        f"{outcome.trials * seeds}{failed}: {points} in {len(outcome.studies)} studies, each under"
        f" {count(seeds, 'seed')}",
    )
    scores = [_write(outcome, value) for value in outcome.scores.values()]
    yield (
        "score",
        f"{join_first(scores, _MOST)}: for each seed, the median of the studies' best values",
    )
    studies = [_write(outcome, value) for value in outcome.studies]
    yield (
        "studies",
        f"{join_first(studies, _MOST)}: the best value of each study, median over seeds",
    )
    for trials, value in outcome.budget:
        yield f"best of {trials}", _write(outcome, value)
    if outcome.winner is not None:
        values = ", ".join(f"{name} {value}" for name, value in outcome.parameters.items())
        yield "winner", f"{outcome.winner}: {values}"
        yield (
            "",
            f"{_write(outcome, outcome.value)}, biased by the selection: run the winner again"
            " under fresh seeds with the manifest from `capsule sweep winner`",
        )


def _write(outcome: Outcome, value: float | None) -> str:
    return "none succeeded" if value is None else with_unit(number(value, 4), outcome.unit)
