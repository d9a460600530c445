"""A table of named rows that leaves out columns, then rows, before it breaks a name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from capsule import plain
from capsule.report.terminal.prose import cut, wrap
from capsule.report.terminal.style import Path
from capsule.verdict.wording import count

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.text import Text

MOST_ROWS = 120
"""Rows that have room on a screen: cells of more need not be made."""
MOST_COLUMNS = 24
"""Columns likewise."""

_GAP = 2
_INDENT = " " * 4
_LEAST_TEXT = 8
# a column of words is not made narrower than this while another one can go
_EASY_TEXT = 24
_VALUE_LINES = 3
_NAMED_WIDTH = 60
_NONE = "-"


@dataclass(frozen=True, kw_only=True, eq=False)
class Column:
    """A column beside the names.

    Attributes:
        heading: Breaks behind its slashes.
        cells: One for each row, which may be empty.
        rank: 0 for a column that no table lacks; else those of the highest rank go first.
        is_text: Whether its cells are words, which wrap; numbers stand whole, on the right.
    """

    heading: str
    cells: Sequence[str]
    rank: int = 0
    is_text: bool = False

    @cached_property
    def least(self) -> int:
        """The narrowest that it may be, in columns of the terminal."""
        longest = max(map(_width, self.cells), default=0)
        if self.is_text:
            words = (word for cell in self.cells for word in plain.clean(cell).split(" "))
            longest = max(_LEAST_TEXT, min(longest, _EASY_TEXT), *map(_width, words))
        return max(longest, Path(self.heading).longest)

    @cached_property
    def most(self) -> int:
        """The widest that it has use for."""
        return max((self.least, *map(_width, self.cells))) if self.is_text else self.least


@dataclass(frozen=True, kw_only=True)
class Listing:
    """Rows with a name and cells: a table, or a list where names leave no room for the cells.

    Attributes:
        title: Above it; empty for none.
        heading: Of the names.
        names: One for each row; a row without one goes on with the row above.
        columns: Their cells.
        most_lines: Of all of it; None prints every row and every column.
        row, part: What a row with a name is called, and one without.
        more_rows, more_columns: How many there are besides.
    """

    title: str = ""
    heading: str = "metric"
    names: Sequence[str]
    columns: Sequence[Column]
    most_lines: int | None = None
    row: str = "metric"
    part: str = "claim"
    more_rows: int = 0
    more_columns: int = 0

    def __rich_console__(
        self, _console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        width = options.max_width
        title = wrap(plain.clean(self.title), width) if self.title else []
        yield from _texts(title, "bold")
        columns = self._choose(width)
        left_out = [] if columns is None else [one for one in self.columns if one not in columns]
        hidden = len(left_out) + self.more_columns
        room = None if self.most_lines is None else self.most_lines - len(title) - bool(hidden)
        if columns is None:
            blocks = [self._block(row, width) for row in range(len(self.names))]
            shown = self._count_fitting(list(map(len, blocks)), room)
            for block in blocks[:shown]:
                yield from block
        else:
            drawn, shown = self._table(columns, width, room)
            yield drawn
        yield from _texts(self._word_rest(shown), "dim")
        if hidden:
            names = ", ".join(one.heading for one in left_out)
            is_short = hidden == len(left_out) and _width(names) <= _NAMED_WIDTH
            yield from _texts(
                [f"left out: {names if is_short else count(hidden, 'column')} (--full)"], "dim"
            )

    @cached_property
    def _name_width(self) -> int:
        return max(map(_width, (self.heading, *self.names)))

    def _choose(self, width: int) -> list[Column] | None:
        """The columns that have room beside the names; None where those of rank 0 have none."""
        kept = sorted(self.columns, key=lambda one: one.rank)
        while self._spare(kept, width) < 0:
            if self.most_lines is None or not kept or kept[-1].rank == 0:
                return None
            kept.pop()
        return [one for one in self.columns if one in kept]

    def _spare(self, columns: Sequence[Column], width: int) -> int:
        """Return the columns that the narrowest table leaves free; negative if it is too wide."""
        gaps = _GAP * (len(columns) + 1) - 1
        return width - gaps - self._name_width - sum(one.least for one in columns)

    def _table(
        self, columns: Sequence[Column], width: int, room: int | None
    ) -> tuple[RenderableType, int]:
        """The table, and the number of rows in it."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        spare, widths = self._spare(columns, width), []
        for one in columns:
            widths.append(min(one.most, one.least + spare))
            spare -= widths[-1] - one.least
        drawn = Table(
            box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, _GAP - 1, 0, 0)
        )
        drawn.add_column(self.heading, width=self._name_width, no_wrap=True)
        for one, own in zip(columns, widths, strict=True):
            drawn.add_column(
                Path(one.heading),
                width=own,
                no_wrap=True,
                justify="left" if one.is_text else "right",
            )
        rows = [
            [
                wrap(plain.clean(one.cells[row]), own)
                for one, own in zip(columns, widths, strict=True)
            ]
            for row in range(len(self.names))
        ]
        heads = (
            len(Path(one.heading).lines(own)) for one, own in zip(columns, widths, strict=True)
        )
        room = None if room is None else room - max(heads, default=1) - 1
        shown = self._count_fitting([max(map(len, row), default=1) for row in rows], room)
        for name, row in zip(self.names[:shown], rows[:shown], strict=True):
            drawn.add_row(Text(plain.clean(name)), *(Text("\n".join(lines)) for lines in row))
        return drawn, shown

    def _block(self, row: int, width: int) -> list[Text]:
        """A row as lines: its name, and below it what its columns hold."""
        name = plain.clean(self.names[row])
        cells = [
            f"{one.heading} {cell}"
            for one in self.columns
            if (cell := plain.clean(one.cells[row])) not in ("", _NONE)
        ]
        values = wrap(", ".join(cells), width - len(_INDENT))
        if self.most_lines is not None and len(values) > _VALUE_LINES:
            values = cut(values, _VALUE_LINES, width - len(_INDENT))
        lines = [*(Path(name).lines(width) if name else []), *(f"{_INDENT}{one}" for one in values)]
        return list(_texts(lines))

    def _count_fitting(self, heights: Sequence[int], room: int | None) -> int:
        """Return the number of rows that fit, with room for the line that counts the others."""
        if room is None or (sum(heights) <= room and not self.more_rows):
            return len(heights)
        used = 1
        for row, height in enumerate(heights):
            used += height
            if used > room:
                return row
        return len(heights)

    def _word_rest(self, shown: int) -> list[str]:
        """Return the lines that count the rows without room."""
        left = self.names[shown:]
        named = sum(map(bool, left))
        numbers = ((named + self.more_rows, self.row), (len(left) - named, self.part))
        parts = [count(number, f"more {thing}") for number, thing in numbers if number]
        return [f"and {', '.join(parts)}: --full"] if parts else []


def _width(words: str) -> int:
    from rich.cells import cell_len

    return cell_len(plain.clean(words))


def _texts(lines: Sequence[str], style: str = "") -> Iterator[Text]:
    from rich.text import Text

    yield from (Text(line, style=style, overflow="fold") for line in lines)
