"""Source line of each number of a capsule, on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from capsule.archive.texts import Quotation
from capsule.report.terminal.listing import Column, Listing
from capsule.report.terminal.naming import ShortNames
from capsule.report.terminal.style import text

if TYPE_CHECKING:
    from rich.console import RenderableType

_ROWS = 200


def draw_evidence(
    quotations: Sequence[tuple[Quotation, ...]], *, full: bool = False
) -> Iterator[RenderableType]:
    """A row for each metric and run; of several numbers the last, and how many there are.

    Args:
        quotations: Those of one metric in one rank of one attempt together.
        full: Print all of them.
    """
    if not quotations:
        yield text(
            "no lines to show: each metric was reported to CAPSULE_RESULTS or measured by capsule"
        )
        return
    shown = quotations if full else quotations[:_ROWS]
    lasts = [numbers[-1] for numbers in shown]
    names = ShortNames(one.metric for one in lasts)
    yield Listing(
        title="Numbers and their source lines"
        + (f": metrics in {names.prefix}" if names.prefix else ""),
        names=[names.shorten(one.metric) for one in lasts],
        columns=[
            Column(heading="seed", cells=list(map(_seed, lasts))),
            Column(heading="number", cells=list(map(_number, shown))),
            Column(
                heading="read from",
                cells=[f"{_place(one)}: {one.words}" for one in lasts],
                is_text=True,
            ),
        ],
        row="number",
        more_rows=len(quotations) - len(shown),
    )


def _seed(one: Quotation) -> str:
    attempt = f", attempt {one.attempt}" if one.attempt > 1 else ""
    return f"{one.seed}{attempt}" + (f", rank {one.rank}" if one.rank else "")


def _number(numbers: Sequence[Quotation]) -> str:
    count = f" (last of {len(numbers)})" if len(numbers) > 1 else ""
    return f"{numbers[-1].value!r}{count}"


def _place(one: Quotation) -> str:
    return one.path if one.line is None else f"{one.path}:{one.line}"
