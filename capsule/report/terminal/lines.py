"""Lines of a report: a label, and beside it a text that breaks no name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from capsule import plain
from capsule.report.terminal.prose import cut, wrap
from capsule.report.terminal.style import STYLES
from capsule.verdict import ClaimWord

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.text import Text

LABEL_WIDTH = 13
"""Columns of a label: the longest verdict word, and a blank."""


class Screen:
    """A report that draws its lines for the width and the letters of the terminal.

    Args:
        draw: Returns the lines, given the columns of the terminal and its sign of margins.
    """

    def __init__(self, draw: Callable[[int, str], Iterable[Text]]) -> None:
        self._draw = draw

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> Iterator[Text]:
        yield from self._draw(options.max_width, "+-" if options.ascii_only else "\xb1")


def draw_line(line: str, style: str = "") -> Text:
    """Return one line that is drawn as it is."""
    from rich.text import Text

    return Text(plain.clean(line), style=style, overflow="fold")


def draw_labelled(
    label: str, value: str, width: int, *, most_lines: int | None = None
) -> Iterator[Text]:
    """Yield a label and its text, which goes on below itself; nothing for an empty text.

    Args:
        label: A verdict word has its colour.
        value: The text.
        width: Columns of the terminal.
        most_lines: A longer text is cut and names `--full`; None for no limit.
    """
    from rich.text import Text

    if not value:
        return
    room = width - LABEL_WIDTH
    lines = wrap(plain.clean(value), room)
    if most_lines is not None and len(lines) > most_lines:
        lines = cut(lines, most_lines, room)
    for place, line in enumerate(lines):
        name = label if place == 0 else ""
        yield Text.assemble(
            (name.ljust(LABEL_WIDTH), _style(name)), plain.clean(line), overflow="fold"
        )


def draw_word(word: ClaimWord, beside: str) -> Text:
    """Return a verdict word in its colour, above the claims that have it."""
    from rich.text import Text

    return Text.assemble((word, STYLES[word]), f" {beside}")


def _style(label: str) -> str:
    return next((style for word, style in STYLES.items() if word == label), "")
