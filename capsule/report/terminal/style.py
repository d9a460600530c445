"""Style of a report: coloured words, open tables, paths that break at their slashes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from capsule import plain
from capsule.verdict import ClaimWord

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.measure import Measurement
    from rich.segment import Segment
    from rich.table import Table
    from rich.text import Text

_NOTES = 20

STYLES: Mapping[ClaimWord, str] = {
    "REPRODUCED": "bold green",
    "DIFFERENT": "bold red",
    "INCONCLUSIVE": "bold yellow",
    "REPORTED": "cyan",
    "SKIPPED": "dim",
}


def join_first(names: Sequence[str], most: int) -> str:
    """Names one after the other, of more than `most` the first.

    >>> join_first(["a", "b", "c"], 3), join_first(["a", "b", "c"], 2)
    ('a, b, c', 'a, b and 1 more')
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def text(value: object, style: str = "") -> Text:
    """Plain text of one line: neither markup in it nor what would steer a terminal is obeyed."""
    from rich.text import Text

    return Text(plain.clean(value), style=style)


def draw_rest(left: int, of: str) -> Iterator[Text]:
    """Yield the line that counts the omitted lines of a list, if any."""
    if left > 0:
        yield text(f"and {left} more {of}: --json lists all", "dim")


def draw_notes(sentences: Sequence[str]) -> Iterator[Text]:
    """A note a line, of many the first."""
    yield from (text(f"note: {sentence}") for sentence in sentences[:_NOTES])
    yield from draw_rest(len(sentences) - _NOTES, "notes")


def grid(style: str = "bold") -> Table:
    """Names and values without a rule, one below the other.

    Args:
        style: Of the names.
    """
    from rich.table import Table

    drawn = Table.grid(padding=(0, 2, 0, 0))
    drawn.add_column(style=style, no_wrap=True)
    drawn.add_column(overflow="fold")
    return drawn


def table(*columns: tuple[str, Mapping[str, object]], title: str | None = None) -> Table:
    """An open table: a rule below the heading and nothing else.

    Args:
        columns: Heading and options of `rich.table.Table.add_column`.
        title: Above the table, on the left.
    """
    from rich import box
    from rich.table import Table

    drawn = Table(
        box=box.SIMPLE_HEAD,
        title=title,
        title_justify="left",
        title_style="bold",
        pad_edge=False,
        padding=(0, 2, 0, 0),
        expand=False,
    )
    for heading, options in columns:
        drawn.add_column(heading, **options)  # type: ignore[arg-type]
    return drawn


class Path:
    """A metric path that breaks after a slash when its column is narrow."""

    def __init__(self, path: str) -> None:
        pieces = plain.clean(path).split("/")
        self._pieces = [f"{piece}/" for piece in pieces[:-1]] + pieces[-1:]

    @property
    def longest(self) -> int:
        """The width of its longest segment, with the slash behind it."""
        return max(map(len, self._pieces))

    def lines(self, width: int) -> list[str]:
        """The path in lines of at most `width` columns, as far as its segments allow.

        >>> Path("gemm/m64/torch/l2_error").lines(12)
        ['gemm/m64/', 'torch/', 'l2_error']
        """
        lines = [""]
        for piece in self._pieces:
            if lines[-1] and len(lines[-1]) + len(piece) > width:
                lines.append("")
            lines[-1] += piece
        return lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        from rich.text import Text

        for line in self.lines(options.max_width):
            yield from console.render(Text(line, overflow="fold"), options)

    def __rich_measure__(self, _console: Console, options: ConsoleOptions) -> Measurement:
        from rich.measure import Measurement

        whole = sum(map(len, self._pieces))
        return Measurement(min(self.longest, options.max_width), min(whole, options.max_width))
