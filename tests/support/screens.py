"""Rules that every screen keeps at every width, checked on its text as a reader sees it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from rich.cells import cell_len

MOST_LINES = 120
MIN_COLUMN = 8
# of a name that is cut or broken; less says nothing
_MIN_PIECE = 3
_MIN_CROPPED = 6
_MAX_INDENT = 4
_WORD = re.compile(r"\S+")
_CELL = re.compile(r"\S+(?: \S+)*")
_RULE = re.compile(r"\s*[─━]{10,}\s*")
_ELLIPSIS = re.compile(r"(\S*?)(?:…|\.\.\.)(\S*)")
_QUOTES = "()[]{}<>\"'`,;:=|"


class Word(NamedTuple):
    """A word of a line, and the cell of a table that it stands in."""

    text: str
    start: int
    cell_start: int
    is_last: bool

    @property
    def end(self) -> int:
        """The column behind it."""
        return self.start + len(self.text)


def find_faults(
    screen: str, width: int, paths: Iterable[str], most_lines: int = MOST_LINES
) -> list[str]:
    """Return every breach of a rule, each with its line; empty for a good screen.

    Args:
        screen: Its text without colour.
        width: Columns of the terminal.
        paths: Metric paths of the record that it shows.
        most_lines: Lines that it may have.
    """
    lines = screen.splitlines()
    faults = [f"{len(lines)} lines, {most_lines} are allowed"] * (len(lines) > most_lines)
    faults += list(find_long_lines(lines, width))
    faults += list(find_broken_names(lines, paths))
    return faults + list(find_narrow_columns(lines))


def find_long_lines(lines: Sequence[str], width: int) -> Iterator[str]:
    """Find lines over the width, but for commands, which are copied whole."""
    for number, line in enumerate(lines, 1):
        if cell_len(line) > width and " capsule " not in f" {line}":
            yield f"line {number} has {cell_len(line)} of {width} columns: {line}"


def find_broken_names(lines: Sequence[str], paths: Iterable[str]) -> Iterator[str]:
    """Find segments of metric paths that a line breaks or cuts."""
    segments = {segment for path in paths for segment in path.split("/")}
    rests: dict[str, list[str]] = defaultdict(list)
    for segment in segments:
        for length in range(1, len(segment)):
            rests[segment[:length]].append(segment[length:])
    tails = {segment[at:] for segment in segments for at in range(1, len(segment))} - segments
    for number, (line, below) in enumerate(pairwise([*lines, ""]), 1):
        following = list(_words(below))
        for word in _words(line):
            piece = word.text.lstrip(_QUOTES).rpartition("/")[2]
            if any(
                _continues(word, piece, rest, after, is_name=piece in segments)
                for rest in rests.get(piece, ())
                for after in following
            ):
                yield f"line {number} breaks a name: {line.strip()} | {below.strip()}"
            elif _is_cut(word.text, segments, rests, tails):
                yield f"line {number} cuts a name: {line.strip()}"


def _words(line: str) -> Iterator[Word]:
    for cell in _CELL.finditer(line):
        for word in _WORD.finditer(cell[0]):
            start = cell.start() + word.start()
            yield Word(word[0], start, cell.start(), start + len(word[0]) == cell.end())


def _continues(word: Word, piece: str, rest: str, after: Word, *, is_name: bool) -> bool:
    """Return whether a word of the next line is the rest of a name that this one begins."""
    if len(piece) < _MIN_PIECE or (is_name and len(rest) < _MIN_PIECE) or not word.is_last:
        return False
    is_below = after.start == after.cell_start and after.start - word.cell_start in range(
        _MAX_INDENT + 1
    )
    if not (is_below or after.end == word.end):
        return False
    if after.text.startswith(rest):
        behind = after.text[len(rest) : len(rest) + 1]
        return not (behind.isalnum() or behind == "_")
    return len(after.text) >= _MIN_PIECE and rest.startswith(after.text)


def _is_cut(text: str, segments: set[str], rests: dict[str, list[str]], tails: set[str]) -> bool:
    """Return whether a word ends or begins within a segment, with or without an ellipsis."""
    if match := _ELLIPSIS.search(text):
        before = match[1].lstrip(_QUOTES).rpartition("/")[2]
        after = match[2].rstrip(_QUOTES).partition("/")[0]
        return any(
            len(part) >= _MIN_PIECE and part not in segments and part in known
            for part, known in ((before, rests), (after, tails))
        )
    piece = text.strip(_QUOTES).rpartition("/")[2]
    if len(piece) < _MIN_CROPPED or piece in segments:
        return False
    return any(piece[-1].isalnum() and rest[0].isalnum() for rest in rests.get(piece, ()))


def find_narrow_columns(lines: Sequence[str]) -> Iterator[str]:
    """Find columns of tables that wrap their text within fewer than eight characters."""
    for number, line in enumerate(lines):
        if not _RULE.fullmatch(line):
            continue
        body = []
        for row in lines[number + 1 :]:
            if not row.strip() or _RULE.fullmatch(row):
                break
            body.append(row)
        columns = list(_columns([*lines[max(0, number - 1) : number], *body]))
        for start, end in columns:
            if end - start < MIN_COLUMN and any(
                _wraps(above, row, (start, end), columns) for above, row in pairwise(body)
            ):
                yield f"table at line {number + 1}: {end - start} characters, too few to wrap"


def _columns(rows: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Columns of a table: what gaps of two spaces or more in all of its rows separate."""
    width = max(map(len, rows), default=0)
    inked = "".join(
        "#" if any(row[at : at + 1].strip() for row in rows) else " " for at in range(width)
    )
    for column in _CELL.finditer(inked):
        yield column.span()


def _wraps(
    above: str, row: str, column: tuple[int, int], columns: Sequence[tuple[int, int]]
) -> bool:
    """Return whether a row only goes on with the text that one column of the row above has."""
    filled = [span for span in columns if row[slice(*span)].strip()]
    return (
        column in filled and 2 * len(filled) <= len(columns) and bool(above[slice(*column)].strip())
    )
