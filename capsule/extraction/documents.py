"""Numbers in documents: at a place of a JSON document, and in a column of a table."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from capsule.extraction import whole
from capsule.extraction.values import (
    Found,
    UnreadError,
    Value,
    cut,
    json_number,
    require_room,
    to_number,
)
from capsule.jsons import Json
from capsule.manifest.sources import Column, Pointer

# a document of empty lists takes some twenty times as much once it is parsed
MOST_JSON_BYTES = 8 << 20
_SEPARATORS = (",", ";", "\t")
_NAMES = 10


def at_pointer(source: Pointer, text: bytes, name: str) -> tuple[Value, ...]:
    """Return the number at a place of a JSON document, or every number of the list that is there.

    Args:
        source: The place.
        text: The document.
        name: Name of the text, for messages.

    Raises:
        UnreadError: It is no document, or something else is at the place.
    """
    if len(text) > MOST_JSON_BYTES:
        message = (
            f"{name} exceeds the limit of a JSON file: found {len(text)} bytes, expected at most"
            f" {MOST_JSON_BYTES} bytes"
        )
        raise UnreadError("bad-result", message)
    try:
        value: Json = json.loads(text.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        reason = cut(str(error))
        raise UnreadError("bad-result", f"cannot read {name} as JSON: {reason}") from None
    for key in _keys(source.pointer):
        value = _step_into(value, key, f"{name} has no {source.pointer}")
    what = f"{source.pointer} of {name}"
    if not isinstance(value, list):
        return (Value(value=json_number(value, what)),)
    if not value:
        raise UnreadError("no-result", f"{what} is an empty list, expected numbers")
    require_room(len(value))
    return tuple(Value(value=json_number(one, what)) for one in value)


def _keys(pointer: str) -> list[str]:
    return [key.replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:]]


def _step_into(value: Json, key: str, missing: str) -> Json:
    if isinstance(value, Mapping):
        if key in value:
            inner: Json = value[key]
            return inner
        names = ", ".join(cut(name) for name in list(value)[:_NAMES]) or "nothing"
        raise UnreadError("no-result", f"{missing}: expected {cut(key)!a}, found {names}")
    if isinstance(value, list):
        if key.isascii() and key.isdigit() and len(key) < 10 and int(key) < len(value):
            entry: Json = value[int(key)]
            return entry
        raise UnreadError(
            "no-result",
            f"{missing}: expected entry {cut(key)!a}, found a list of {len(value)} entries",
        )
    raise UnreadError("no-result", f"{missing}: no {cut(key)!a} in {cut(repr(value))}")


def of_column(source: Column, text: bytes, name: str) -> Found:
    """Return the last number of a column, or with a column of steps all of them; empty cells have
    none.

    Args:
        source: Names the columns.
        text: The table, separated by commas, semicolons or tabs, as its header is.
        name: Name of the text, for messages.

    Raises:
        UnreadError: There is no such column, or nothing in it, or something else than numbers.
    """
    values: list[Value] = []
    units: dict[str, int] = {}
    last: tuple[int, str] | None = None
    end = 0
    rows = _rows(text, name)
    _, header = next(rows, (0, []))
    place = _place(header, source.column, name)
    step_place = None if source.step is None else _place(header, source.step, name)
    for line, row in rows:
        _require_width(row, header, f"line {line} of {name}")
        end = line
        cell = row[place].strip() if place < len(row) else ""
        if not cell:
            continue
        if step_place is None:
            last = line, cell
            continue
        what = f"{source.column} in line {line} of {name}"
        step = row[step_place] if step_place < len(row) else ""
        where = to_number(step, f"{source.step} in line {line} of {name}")
        number = _cell_number(cell, what, source.unit, units, line)
        values.append(Value(value=number, step=where, line=line))
        require_room(len(values))
    notes = []
    if last is not None:
        line, cell = last
        what = f"{source.column} in line {line} of {name}"
        values = [Value(value=_cell_number(cell, what, source.unit, units, line), line=line)]
        if line != end:
            notes = [
                f"the last number of column {source.column} of {name} is in line {line} of {end}"
            ]
    if not values:
        raise UnreadError("no-result", f"column {source.column} of {name} is empty")
    whole.require_one_unit(units, name)
    return Found(tuple(values), notes=(*notes, *whole.tell_units(units, source.unit, name)))


def _require_width(row: Sequence[str], header: Sequence[str], what: str) -> None:
    """Stop at a row with more cells than the header, as digits that are grouped make some."""
    if any(cell.strip() for cell in row[len(header) :]):
        message = f"{what} has {len(row)} cells, expected {len(header)} as in the header"
        raise UnreadError("bad-result", f"{message}: quote cells that contain the separator")


def _cell_number(cell: str, what: str, unit: str, units: dict[str, int], line: int) -> float:
    """Return the number of a cell, behind which its unit may stand.

    Args:
        cell: Without white space at its ends.
        what: It is, for a message.
        unit: Unit of the metric.
        units: Collects the units that stand in cells, each with its first line.
        line: Where the cell is.

    Raises:
        UnreadError: It is no number, or has letters behind it that are not the metric's unit.
    """
    split = whole.split_unit(cell, unit)
    if isinstance(split, whole.Fault):
        message = f"{what}: expected a plain number, found {cut(cell)!a}"
        raise UnreadError("bad-result", f"{message}: {whole.REASONS[split.kind]}")
    word, found = split
    if found:
        units.setdefault(found, line)
    return to_number(word, what)


def _rows(text: bytes, name: str) -> Iterator[tuple[int, list[str]]]:
    """Yield every row that is not empty, with the number of the line that it ends in."""
    head = text[: text.find(b"\n") if b"\n" in text else None].decode("utf-8-sig", "replace")
    separator = max(_SEPARATORS, key=head.count)
    stream = io.TextIOWrapper(io.BytesIO(text), encoding="utf-8-sig", errors="replace", newline="")
    lines = _Lines(stream)
    reader = csv.reader(lines, delimiter=separator)
    try:
        for row in reader:
            if any(row):
                yield lines.number, row
    except csv.Error as error:
        message = f"cannot read line {lines.number} of {name} as CSV: {error}"
        raise UnreadError("bad-result", message) from None


class _Lines:
    r"""The lines of a table, of which `\r` alone ends some: those of a text it does not."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = lines
        self.number = 1

    def __iter__(self) -> Iterator[str]:
        ends = 0
        for line in self._lines:
            self.number = ends + 1
            ends += line.endswith("\n")
            yield line


def _place(header: Sequence[str], column: str, name: str) -> int:
    names = [cell.strip() for cell in header]
    if names.count(column) == 1:
        return names.index(column)
    if column in names:
        raise UnreadError(
            "bad-result",
            f"{name} has column {column} {names.count(column)} times; columns need unique names",
        )
    known = ", ".join(cut(cell) for cell in names[:_NAMES]) or "none"
    raise UnreadError("no-result", f"{name} has no column {column}; its columns: {known}")
