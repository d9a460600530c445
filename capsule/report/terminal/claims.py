"""The table of judged claims: both sides, the difference with its interval, the margin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

from capsule import plain
from capsule.report.terminal.agreement import Claimed, mean, runs
from capsule.report.terminal.naming import ShortNames
from capsule.report.terminal.prose import wrap
from capsule.verdict import Judged
from capsule.verdict.wording import constants, format_interval, number, split_margin
from capsule.verdict.words import JUDGEMENTS

_GAP = 2
_INDENT = 4
_MIN_NAME = 11
_MIN_COLUMN = 8
# a column of words is not made narrower than this
_MIN_WORDS = 15
# sentences whose facts all stand in the cells
_IN_CELLS = frozenset(
    {"equivalence", "noninferiority", "threshold", "distribution", "curve", "reported"}
)


class Cell(NamedTuple):
    """A value and what belongs to it, in one line or in two."""

    value: str
    detail: str = ""
    between: str = " "

    @property
    def line(self) -> str:
        """Both in one line."""
        return f"{self.value}{self.between}{self.detail}" if self.detail else self.value


@dataclass(frozen=True, kw_only=True)
class Row:
    """One claim, or one metric that is not claimed.

    Attributes:
        name: As short as it can be told from the others.
        cells: Original, re-run, difference and margin.
        below: Sentences below them.
    """

    name: str
    cells: tuple[Cell, Cell, Cell, Cell]
    below: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Widths and arrangement of the cells of a table.

    Attributes:
        is_named_above: Whether each name has lines of its own above its cells.
        indent: Width of what stands before the cells.
        splits: Whether the cells of each column have two lines.
        widths: Of each column; none where each cell has a line of its own.
    """

    is_named_above: bool
    indent: int
    splits: tuple[bool, ...]
    widths: tuple[int, ...]


_SPLITS = (
    (False, False, False, False),
    (False, False, True, True),
    (True, True, True, True),
)


class ClaimTable:
    """Rows of claims at a width, in which no name is broken and no column is narrow.

    Args:
        rows: All that the table may show.
        sides: What the two sides are called.
        width: Columns of the terminal.
    """

    def __init__(self, rows: Sequence[Row], sides: tuple[str, str], width: int) -> None:
        self._heads = (*sides, "difference", "margin")
        self._width = width
        self._layout = self._choose(rows)

    def _choose(self, rows: Sequence[Row]) -> Layout:
        name = max([_MIN_NAME, *(_width(row.name) for row in rows)])
        for is_above, indent in ((False, name + _GAP), (True, _INDENT)):
            for splits in _SPLITS:
                widths = self._fit(rows, splits, self._width - indent)
                if widths is not None:
                    return Layout(
                        is_named_above=is_above, indent=indent, splits=splits, widths=widths
                    )
        return Layout(is_named_above=True, indent=_INDENT, splits=(), widths=())

    def _fit(
        self, rows: Sequence[Row], splits: tuple[bool, ...], room: int
    ) -> tuple[int, ...] | None:
        """Return the widths of all columns, None where these have no room."""
        widths = []
        for place, (head, is_split) in enumerate(zip(self._heads, splits, strict=True)):
            lines = [
                line
                for row in rows
                for line in (row.cells[place][:2] if is_split else (row.cells[place].line,))
            ]
            widths.append(max(_MIN_COLUMN, *map(_width, (head, *lines))))
        *others, last = widths
        left = room - sum(others) - _GAP * len(others)
        words = [word for row in rows for word in row.cells[-1].line.split()]
        least = max(_MIN_COLUMN, *map(_width, words), min(_MIN_WORDS, last)) if words else last
        if left < (least if splits[-1] else last):
            return None
        return (*others, min(last, left))

    def draw_heading(self) -> list[str]:
        """Return the lines above the rows."""
        layout = self._layout
        if not layout.widths:
            return ["claim"]
        cells = [[head] for head in self._heads]
        if layout.is_named_above:
            return ["claim", *self._join("", cells)]
        return self._join("claim", cells)

    def draw(self, row: Row) -> list[str]:
        """Return the lines of a row."""
        layout = self._layout
        below = [
            " " * _INDENT + line
            for sentence in row.below
            for line in wrap(sentence, self._width - _INDENT)
        ]
        above = wrap(row.name, self._width) if layout.is_named_above else []
        if not layout.widths:
            listed = [
                " " * _INDENT + line
                for head, cell in zip(self._heads, row.cells, strict=True)
                for line in wrap(f"{head} {cell.line}", self._width - _INDENT)
            ]
            return [*above, *listed, *below]
        cells = [
            wrap(cell.value, width) + (wrap(cell.detail, width) if cell.detail else [])
            if is_split
            else [cell.line]
            for cell, is_split, width in zip(row.cells, layout.splits, layout.widths, strict=True)
        ]
        return [*above, *self._join("" if above else row.name, cells), *below]

    def _join(self, name: str, cells: Sequence[Sequence[str]]) -> list[str]:
        layout = self._layout
        lines = []
        for place, parts in enumerate(zip_longest(*cells, fillvalue="")):
            line = _pad(name if place == 0 else "", layout.indent)
            for part, width in zip(parts, layout.widths, strict=True):
                line += _pad(part, width + _GAP)
            lines.append(line.rstrip())
        return lines


def _pad(line: str, width: int) -> str:
    return line + " " * (width - _width(line))


def _width(line: str) -> int:
    from rich.cells import cell_len

    return cell_len(line)


class ClaimNames:
    """Names of claims that tell each from the others, without what all paths begin with.

    Args:
        judged: All that the screen names.

    Attributes:
        prefix: What all paths begin with; may be empty.
    """

    def __init__(self, judged: Sequence[Judged]) -> None:
        self._short = ShortNames([one.metric for one in judged])
        self.prefix = self._short.prefix
        self._named = Counter(map(self._name, judged))
        self._typed = Counter(map(self._add_type, judged))

    def name(self, one: Judged) -> str:
        """Return a name with the claim's label, or with its type where that is needed."""
        if self._named[self._name(one)] == 1 or one.claim is None:
            return self._name(one)
        typed = self._add_type(one)
        is_alone = self._typed[typed] == 1 or one.seeds != "same"
        return typed if is_alone else f"{typed}, equal seeds"

    def _name(self, one: Judged) -> str:
        pattern = None if one.claim is None else one.claim.pattern
        name = self._short.shorten(one.metric)
        if pattern is not None and pattern.value:
            name += f", {pattern.value}"
        return f"{pattern.label} {name}" if pattern is not None and pattern.label else name

    def _add_type(self, one: Judged) -> str:
        return self._name(one) if one.claim is None else f"{self._name(one)}, {one.claim.type}"


def make_row(one: Claimed, name: str, plus_minus: str, *below: str) -> Row:
    """Return the row of a claim, or of a metric that is not claimed.

    Args:
        one: The claim.
        name: Of it.
        plus_minus: The sign of margins, in what the terminal can show.
        below: Sentences below it.
    """
    judged = one.judged
    original = _side(judged, is_original=True)
    cells = (original, _side(judged), _difference(judged), _margin(one, plus_minus))
    a, b, difference, margin = (Cell(*map(plain.clean, cell)) for cell in cells)
    return Row(
        name=plain.clean(name),
        cells=(a, b, difference, margin),
        below=tuple(map(plain.clean, below)),
    )


def needs_sentence(one: Judged) -> bool:
    """Return whether the cells of a row leave out what the sentence of a judgement says."""
    facts = dict(one.sentence.facts)
    code = one.sentence.code
    return (
        code not in _IN_CELLS
        or len(facts) > len(JUDGEMENTS.hints(code))
        or bool(facts.get("is_of_one_run"))
    )


def _side(judged: Judged, *, is_original: bool = False) -> Cell:
    published = judged.claim.pattern.published if judged.claim is not None else None
    if is_original and published is not None:
        unit = "" if judged.rerun.unit == "1" else f" {judged.rerun.unit}"
        number_of_runs = "" if published.n is None else f", n={published.n}"
        return Cell(f"{number(published.mean, 4)}{unit}", f"(published{number_of_runs})")
    counts = judged.original if is_original else judged.rerun
    return Cell("-" if counts.mean is None else mean(counts), f"({runs(counts)})")


def _difference(judged: Judged) -> Cell:
    kind = judged.claim.type if judged.claim is not None else ""
    if kind == "exact":
        return Cell("none" if judged.word == "REPRODUCED" else "-")
    if judged.estimate is None:
        return Cell("-")
    unit = "" if judged.rerun.unit == "1" else f" {judged.rerun.unit}"
    if kind == "bound":
        return Cell(f"worst {number(judged.estimate, 4)}{unit}")
    log = judged.scale == "log"
    is_shift = kind not in ("threshold", "distribution")
    value, low, high = format_interval(
        judged.estimate, judged.lower, judged.upper, log=log, is_signed=is_shift and not log
    )
    interval = "" if judged.lower is None and judged.upper is None else f"[{low}, {high}]"
    if judged.step is not None:
        interval += f" at step {number(judged.step, 6)}"
    if kind == "threshold":
        return Cell(f"mean {value}{unit}", interval)
    if kind == "distribution":
        return Cell(f"distance {value}", interval)
    return Cell(f"ratio {value}" if log else f"{value}{unit}", interval)


def _margin(one: Claimed, plus_minus: str) -> Cell:
    claim, original = one.judged.claim, one.original
    if claim is None:
        return Cell("not claimed")
    if claim.type == "ratio":
        return Cell("not judged")
    if claim.type == "exact":
        return Cell("equal values", "under equal seeds", ", ")
    if claim.type == "threshold":
        return Cell(constants(claim))
    if claim.type == "bound":
        return Cell(constants(claim), "in every run")
    if claim.type == "distribution":
        return Cell(f"below {number(claim.upper)}")
    if original is None or (claim.lower is None and claim.upper is None):
        return Cell("none")
    value, source = split_margin(claim, original)
    unit = "" if original.unit == "1" else f" {original.unit}"
    if claim.type == "curve":
        source = ", ".join(filter(None, (source, "at every step")))
    value = value.removeprefix("a ") if claim.scale == "log" else f"{value}{unit}"
    if claim.type == "noninferiority":
        value += " worse"
    elif claim.scale == "linear":
        value = f"{plus_minus}{value}"
    return Cell(value, source, ", ")
