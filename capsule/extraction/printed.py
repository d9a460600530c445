"""Numbers in lines: those that a pattern fits, and those of MLPerf's logging."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from capsule.extraction.places import LineReader
from capsule.extraction.values import (
    Found,
    UnreadError,
    Value,
    cut,
    json_number,
    lines,
    require_room,
    to_number,
)
from capsule.jsons import Json
from capsule.manifest.sources import LogKey, Pattern
from capsule.patterns import Match, compile_pattern

_MARK = b":::MLLOG"
_STEPS = ("epoch_num", "step_num", "samples_count")


def by_pattern(source: Pattern, text: bytes, name: str) -> Found:
    """Return the number of the last line that a pattern fits, or of all; of a line the first place
    counts.

    A line in which `nan`, or what else stands for a number that is missing, is in the number's
    place counts as one that the pattern fits.

    Args:
        source: The pattern.
        text: What is searched.
        name: Name of the text, for messages.

    Raises:
        UnreadError: It fits no line, or several where one is due, or what it gives is no whole
            number.
    """
    reader = LineReader(source, name)
    if source.occurrence == "last":
        return reader.read_last(text)
    hits = list(reader.find(text))
    shown = cut(source.pattern)
    numbers = [hit for hit in hits if not hit.is_word]
    if not numbers:
        raise reader.nothing(hits)
    if source.occurrence == "only":
        if len(numbers) > 1:
            places = ", ".join(str(hit.number) for hit in numbers[:5])
            message = (
                f'{len(numbers)} lines of {name} match {shown}; "occurrence": "only" allows one'
                f" (lines {places})"
            )
            raise UnreadError("bad-result", message)
        return reader.evaluate(numbers, 1)
    first = hits.index(numbers[0])
    later = [hit for hit in hits[first:] if hit.is_word]
    if later:
        raise reader.no_number(later[0])
    found = reader.evaluate(numbers, len(numbers))
    skipped = reader.tell_skipped(hits[:first])
    return found._replace(notes=(*skipped, *found.notes))


def by_pattern_before(source: Pattern, text: bytes, name: str) -> Found:
    """Read numbers as `by_pattern` did before 0.3.0, which took parts of numbers.

    Args:
        source: The pattern.
        text: What is searched.
        name: Name of the text, for messages.

    Raises:
        UnreadError: It fits no line, or several where one is due, or what it gives is no number.
    """
    pattern = compile_pattern(source.pattern)
    matches: list[tuple[int, Match]] = []
    count = 0
    for number, line in lines(text):
        match = pattern.search(line)
        if match is None:
            continue
        count += 1
        if source.occurrence == "last":
            matches.clear()
        matches.append((number, match))
        require_room(len(matches))
    shown = cut(source.pattern)
    if not matches:
        raise UnreadError("no-result", f"no line of {name} matches {shown}")
    if source.occurrence == "only" and len(matches) > 1:
        places = ", ".join(str(number) for number, _ in matches[:5])
        message = (
            f'{len(matches)} lines of {name} match {shown}; "occurrence": "only" allows one'
            f" (lines {places})"
        )
        raise UnreadError("bad-result", message)
    value, step = pattern.names.get("value", 1), pattern.names.get("step")
    return Found(
        tuple(
            Value(
                value=_group(match, value, f"the match of {shown} in line {number} of {name}"),
                step=None
                if step is None
                else _group(match, step, f"the step in line {number} of {name}"),
                line=number,
            )
            for number, match in matches
        ),
        count,
    )


def _group(match: Match, group: int, what: str) -> float:
    word = match.group(group)
    if word is None:
        raise UnreadError("bad-result", f"{what} is empty: its group matched nothing")
    return to_number(word.decode(errors="replace"), what)


def by_key(source: LogKey, text: bytes, name: str) -> tuple[Value, ...]:
    """Return every value of one key of MLPerf's logging, with the steps that its metadata give to
    all.

    Args:
        source: The key.
        text: What is searched.
        name: Name of the text, for messages.

    Raises:
        UnreadError: No line has the key, or one is none of MLPerf's.
    """
    values: list[Value] = []
    metadata: list[Mapping[str, Json]] = []
    for number, line in lines(text):
        start = line.find(_MARK)
        if start < 0 or source.key.encode() not in line:
            continue
        entry = _entry(line[start + len(_MARK) :], f"line {number} of {name}")
        if entry.get("key") != source.key:
            continue
        what = f"{source.key} in line {number} of {name}"
        values.append(Value(value=json_number(entry.get("value"), what), line=number))
        place = entry.get("metadata")
        metadata.append(place if isinstance(place, Mapping) else {})
        require_room(len(values))
    if not values:
        raise UnreadError("no-result", f"no :::MLLOG line of {name} has the key {source.key}")
    for step in _STEPS:
        if all(_is_number(place.get(step)) for place in metadata):
            return tuple(
                replace(value, step=json_number(place[step], step))
                for value, place in zip(values, metadata, strict=True)
            )
    return tuple(values)


def _entry(line: bytes, what: str) -> Mapping[str, Json]:
    text = line.decode(errors="replace").strip()
    fault = f"{what}: expected a JSON object after :::MLLOG, found {cut(text)!a}"
    try:
        entry, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        raise UnreadError("bad-result", fault) from None
    if not isinstance(entry, dict):
        raise UnreadError("bad-result", fault)
    return entry


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
