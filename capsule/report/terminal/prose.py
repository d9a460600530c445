"""Text that breaks between words, and inside a long word only behind its slashes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from capsule import plain
from capsule.report.terminal.style import Path

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.measure import Measurement
    from rich.segment import Segment

_CUT = "... (--full)"


class Prose:
    """A text of one paragraph in which no metric's name is broken inside a segment.

    Args:
        words: The text; what would steer a terminal is escaped.
        style: Of all of it.
        most_lines: A longer text is cut between words and names `--full`; None for no limit.
    """

    def __init__(self, words: str, style: str = "", *, most_lines: int | None = None) -> None:
        self._words = plain.clean(words)
        self._style = style
        self._most = most_lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        from rich.text import Text

        lines = wrap(self._words, options.max_width)
        if self._most is not None and len(lines) > self._most:
            lines = cut(lines, self._most, options.max_width)
        for line in lines:
            yield from console.render(Text(line, style=self._style, overflow="fold"), options)

    def __rich_measure__(self, _console: Console, options: ConsoleOptions) -> Measurement:
        from rich.cells import cell_len
        from rich.measure import Measurement

        longest = max(map(cell_len, self._words.split(" ")))
        whole = cell_len(self._words)
        return Measurement(min(longest, options.max_width), min(whole, options.max_width))


def wrap(words: str, width: int) -> list[str]:
    """Break a text between words, and a word that fills more than a line behind its slashes.

    >>> wrap("loss of moons/default/command/loss fell", 14)
    ['loss of', 'moons/default/', 'command/loss', 'fell']
    """
    from rich.cells import cell_len

    lines = [""]
    for word in words.split(" "):
        pieces = [word] if cell_len(word) <= width else Path(word).lines(width)
        for place, piece in enumerate(pieces):
            line = f"{lines[-1]} {piece}" if lines[-1] and place == 0 else lines[-1] + piece
            if lines[-1] and cell_len(line) > width:
                lines.append(piece)
            else:
                lines[-1] = line
    return lines


def cut(lines: list[str], most: int, width: int) -> list[str]:
    """Return the first lines, the last of which ends in where the rest is.

    >>> cut(["one two", "three", "four"], 2, 20)
    ['one two', 'three ... (--full)']
    """
    from rich.cells import cell_len

    kept = lines[:most]
    last = kept[-1]
    while last and cell_len(f"{last} {_CUT}") > width:
        last = last.rpartition(" ")[0]
    kept[-1] = f"{last} {_CUT}" if last else _CUT
    return kept
