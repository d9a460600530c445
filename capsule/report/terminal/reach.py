"""The table of `lint`: what the number of seeds of each claim can confirm."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from capsule import lint, plain, stats
from capsule.lint import spreads, wording
from capsule.manifest import Claim, Manifest, looks
from capsule.report.terminal.naming import ShortNames
from capsule.report.terminal.prose import Prose, wrap
from capsule.report.terminal.style import text
from capsule.verdict.wording import count, number

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.text import Text

_MOST_LINES = 55
_INDENT = "    "
_GAP = 2
_LEAST_NAME = 12
_TIGHT = "yellow"
# warnings that a margin is too tight for the seeds
_TOO_TIGHT = ("too-few-seeds", "margin-out-of-reach")
_WITHOUT_MARGIN = ("exact", "ratio", "threshold", "bound")

Pair = tuple[str, str]
"""Cells for a power of 80 % and of 90 %; empty where unknown."""


def draw_reach(
    manifest: Manifest,
    warnings: Sequence[lint.Located],
    measured: Mapping[Claim, lint.Spread],
    *,
    full: bool,
) -> Iterator[RenderableType]:
    """Draw the table, and what its numbers mean.

    Args:
        manifest: The manifest.
        warnings: About it; they say which margins are too tight.
        measured: Spread of the runs of each claim, as far as there are runs.
        full: Whether every claim is shown.
    """
    names = ShortNames([claim.metric for claim in manifest.claims])
    tight = {one.pointer.split("/")[2] for one in warnings if one.code in _TOO_TIGHT}
    claims = [
        (claim, str(place) in tight)
        for place, claim in enumerate(manifest.claims)
        if claim.type not in _WITHOUT_MARGIN
    ]
    most = len(claims) if full else _MOST_LINES
    rows = [
        _row(claim, reach, names.shorten(claim.metric), measured.get(claim), is_tight=is_tight)
        for claim, is_tight in claims[:most]
        for reach in lint.outlook_of(claim, manifest)
    ]
    if rows:
        yield text("")
        if names.prefix and not all(claim.label for claim, _ in claims):
            yield Prose(f"metrics in {names.prefix}", "dim")
        left = max(len(claims) - most, 0)
        yield _Rows(rows, left=left, most_lines=None if full else _MOST_LINES)
        yield text("")
        yield Prose(_explain(rows, is_planned=looks.is_planned(manifest.claims)), "dim")
    others = Counter(one.type for one in manifest.claims if one.type in _WITHOUT_MARGIN)
    if others:
        listed = ", ".join(f"{number} {kind}" for kind, number in others.items())
        yield Prose(f"claims without a margin: {listed}", "dim")


@dataclass(frozen=True, kw_only=True)
class _Row:
    """Power of the runs of a claim.

    Attributes:
        name: Label or short metric path.
        needed: Seeds on each side, or of a distribution samples in each run.
        margins: Smallest margins, in standard deviations.
        sds: Largest standard deviations between runs.
        measured: Standard deviation of the runs.
        is_tight: Whether the margin is too tight for the seeds.
    """

    name: str
    type: str
    margin: str
    seeds: str
    needed: Pair
    margins: Pair
    sds: Pair
    measured: str
    is_tight: bool


def _row(
    claim: Claim, reach: lint.Outlook, name: str, spread: lint.Spread | None, *, is_tight: bool
) -> _Row:
    is_same = reach.seeds == reach.rerun_seeds
    margins, sds = _limits(claim, reach)
    return _Row(
        name=", ".join(filter(None, (claim.label or name, claim.value))),
        type=f"{claim.type}, paired" if reach.paired else claim.type,
        margin=wording.margin(claim),
        seeds=f"{reach.seeds}" if is_same else f"{reach.seeds} + {reach.rerun_seeds}",
        needed=_needed(reach, spread),
        margins=margins,
        sds=sds,
        measured="" if spread is None or reach.paired else _sd(claim, spread),
        is_tight=is_tight and not reach.paired,
    )


def _needed(reach: lint.Outlook, spread: lint.Spread | None) -> Pair:
    """Return how many seeds each side, or samples each run, needs for the margin."""
    if reach.type == "distribution":
        if reach.narrowest is None:
            return "", ""
        low, high = (f"{one or f'>{stats.MOST_SAMPLES}'} samples" for one in reach.runs)
        return low, high
    if reach.margin is not None:
        return str(spreads.needed(reach.margin, alpha=reach.alpha) or ">50"), ""
    if spread is None or spread.margin is None or reach.paired:
        return "", ""
    low, high = (
        str(stats.runs_for_margin(spread.margin, alpha=reach.alpha, power=power) or ">500")
        for power in lint.POWERS
    )
    return low, high


def _limits(claim: Claim, reach: lint.Outlook) -> tuple[Pair, Pair]:
    """Return the smallest margins and the largest standard deviations that the seeds allow."""
    if reach.narrowest is not None:
        return ("", ""), wording.limits(claim, reach.narrowest)
    if reach.margin is not None:
        limit = spreads.smallest(reach.seeds, reach.rerun_seeds, alpha=reach.alpha)
        return ("" if limit is None else f"{number(limit)} sd", ""), ("", "")
    return ("", ""), ("", "")


def _sd(claim: Claim, spread: lint.Spread) -> str:
    """Return a measured standard deviation as the claim's margin is written."""
    if claim.margin is not None and claim.margin.ratio is not None:
        return f"factor {math.exp(min(spread.sd, 700.0)):.3g}"
    if claim.margin is not None and claim.margin.relative is not None and spread.mean:
        return f"{number(100 * spread.sd / abs(spread.mean))} %"
    return number(spread.sd)


def _explain(rows: Sequence[_Row], *, is_planned: bool) -> str:
    chance = "80 %, 90 %" if any(one.needed[1] or one.sds[1] for one in rows) else "80 %"
    look = "last" if is_planned else "first"
    return (
        f"{chance}: chance that a verification is REPRODUCED by its {look} look if nothing"
        " changed; sd: standard deviation between runs"
    )


class _Rows:
    """Claims as a table, or as a list where the names need the whole line.

    Args:
        rows: At least one.
        left: Number of claims besides.
        most_lines: Lines for the rows, None for no limit.
    """

    def __init__(self, rows: Sequence[_Row], *, left: int, most_lines: int | None) -> None:
        self._rows = rows
        self._left = left
        self._most = most_lines
        self._names = [plain.clean(one.name) for one in rows]
        columns = {
            "type": [one.type for one in rows],
            "margin": [one.margin for one in rows],
            "seeds": [one.seeds for one in rows],
            **_join("needed", [one.needed for one in rows]),
            **_join("smallest margin", [one.margins for one in rows]),
            **_join("largest sd", [one.sds for one in rows]),
            "measured\nsd": [one.measured for one in rows],
        }
        self._columns = {heading: cells for heading, cells in columns.items() if any(cells)}

    def __rich_console__(
        self, _console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        from rich.cells import cell_len

        widths = [
            max(map(len, (*heading.split("\n"), *cells)))
            for heading, cells in self._columns.items()
        ]
        room = options.max_width - sum(widths) - _GAP * len(widths)
        names = [wrap(name, max(room, 1)) for name in self._names]
        longest = max(cell_len(line) for name in names for line in name)
        if longest <= room and (room >= _LEAST_NAME or max(map(len, names)) == 1):
            shown = self._count_fitting(names)
            yield self._table(names[:shown])
        else:
            blocks = [self._block(row, options.max_width) for row in range(len(self._rows))]
            shown = self._count_fitting(blocks)
            for block in blocks[:shown]:
                yield from block
        if left := self._left + len(self._rows) - shown:
            yield text(f"and {count(left, 'more claim')}: --full", "dim")

    def _table(self, names: Sequence[Sequence[str]]) -> RenderableType:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        drawn = Table(
            box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, _GAP - 1, 0, 0)
        )
        for heading in ("claim", *self._columns):
            drawn.add_column(heading, no_wrap=True)
        for row, name in enumerate(names):
            style = _TIGHT if self._rows[row].is_tight else ""
            cells = (
                Text(cells[row], style if heading == "margin" else "")
                for heading, cells in self._columns.items()
            )
            drawn.add_row(Text("\n".join(name)), *cells)
        return drawn

    def _block(self, row: int, width: int) -> list[Text]:
        """Return a row as lines: its name, and below it what its columns hold."""
        values = ", ".join(
            _word_cell(heading, cells[row])
            for heading, cells in self._columns.items()
            if cells[row]
        )
        style = _TIGHT if self._rows[row].is_tight else ""
        return [
            *(text(line) for line in wrap(self._names[row], width)),
            *(text(f"{_INDENT}{line}", style) for line in wrap(values, width - len(_INDENT))),
        ]

    def _count_fitting(self, blocks: Sequence[Sequence[object]]) -> int:
        """Return how many rows fit, at least one."""
        used = len(blocks[0])
        for shown, block in enumerate(blocks[1:], 1):
            used += len(block)
            if self._most is not None and used > self._most:
                return shown
        return len(blocks)


def _word_cell(heading: str, cell: str) -> str:
    """Return a cell as words, each number of a pair with its chance."""
    name, _, below = heading.partition("\n")
    if "%" not in below:
        return f"{heading} {cell}".replace("\n", " ")
    chances = zip(*(re.split(" {2,}", words) for words in (cell, below)), strict=False)
    return f"{name} {' and '.join(f'{value} ({chance})' for value, chance in chances)}"


def _join(heading: str, pairs: Sequence[Pair]) -> Mapping[str, Sequence[str]]:
    """Return a column of pairs side by side, by its heading of two lines."""
    if not any(high for _, high in pairs):
        return {f"{heading}\n80 %": [low for low, _ in pairs]}
    width = max(len("80 %"), *(len(low) for low, _ in pairs))
    first = f"{'80 %':<{width}}  90 %"
    return {f"{heading}\n{first}": [f"{low:<{width}}  {high}".rstrip() for low, high in pairs]}
