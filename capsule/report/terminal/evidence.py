"""Where the numbers of a capsule were read: the line of each, on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from capsule.archive.texts import Quotation
from capsule.report.terminal.style import Path, draw_rest, table, text

if TYPE_CHECKING:
    from rich.console import RenderableType

_ROWS = 200


def draw_evidence(quotations: Sequence[tuple[Quotation, ...]]) -> Iterator[RenderableType]:
    """A row for each metric and run; of several numbers the last, and how many there are.

    Args:
        quotations: Those of one metric in one rank of one attempt together.
    """
    if not quotations:
        yield text(
            "no metric is read from a text: each was reported to CAPSULE_RESULTS, or measured"
        )
        return
    rows = table(
        ("metric", {"overflow": "fold"}),
        ("seed", {"justify": "right", "no_wrap": True}),
        ("number", {"justify": "right", "no_wrap": True}),
        ("read from", {"overflow": "fold"}),
        title="Numbers, and the lines that they were read from",
    )
    for numbers in quotations[:_ROWS]:
        last = numbers[-1]
        count = f" (last of {len(numbers)})" if len(numbers) > 1 else ""
        rows.add_row(
            Path(last.metric),
            text(_seed(last)),
            text(f"{last.value!r}{count}"),
            text(f"{_place(last)}: {last.words}"),
        )
    yield rows
    yield from draw_rest(len(quotations) - _ROWS, "numbers")


def _seed(one: Quotation) -> str:
    attempt = f", attempt {one.attempt}" if one.attempt > 1 else ""
    return f"{one.seed}{attempt}" + (f", rank {one.rank}" if one.rank else "")


def _place(one: Quotation) -> str:
    return one.path if one.line is None else f"{one.path}:{one.line}"
