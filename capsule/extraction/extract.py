"""The values of all metrics that one rank's texts give."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from capsule import plain
from capsule.extraction import documents, events, printed
from capsule.extraction.values import Found, UnreadError, Value, check_steps
from capsule.manifest import Metric, templates
from capsule.manifest.sources import (
    OUT,
    SCALARS,
    Column,
    EventTag,
    LogKey,
    Pattern,
    Pointer,
    Source,
)
from capsule.sizes import size

MOST_BYTES = 64 << 20
"""Text that values are read from."""
_LINES, _LONGEST_LINE, _END_BYTES = 8, 150, 4096


@dataclass(frozen=True, kw_only=True)
class Extract:
    """Values read from texts.

    Attributes:
        values: Values of each metric that has some, in the order of the text.
        lines: Of each metric with a pattern, how many lines of its text that fits.
        notes: What whoever reads the numbers must know of them.
        reason: Why the trial has failed by them, None where every metric has its values.
        message: Which metrics have none, and what was searched; its last line says most.
    """

    values: Mapping[str, tuple[Value, ...]]
    lines: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    reason: Literal["no-result", "bad-result"] | None = None
    message: str = ""


_OTHER = {"stdout": "stderr", "stderr": "stdout"}


def _find_elsewhere(source: Source, load: Callable[[str], bytes | None] | None) -> str:
    """Return a hint if the number is in the other stream, stdout or stderr; else an empty text."""
    other = _OTHER.get(source.text)
    if other is None or load is None or not isinstance(source, Pattern | LogKey):
        return ""
    text = load(other)
    if not text or len(text) > MOST_BYTES:
        return ""
    try:
        found = _read(replace(source, text=other), text, {}, before_whole=False)
    except UnreadError:
        return ""
    return (
        f"; line {found.values[-1].line} of {describe(other)} has a value:"
        f' write "stream": "{other}" in the metric\'s "from"'
    )


def take(pieces: Iterable[bytes]) -> bytes:
    """Return a text in one piece; of one that is too large, so much that this is seen."""
    taken, size_bytes = [], 0
    for piece in pieces:
        taken.append(piece)
        size_bytes += len(piece)
        if size_bytes > MOST_BYTES:
            break
    return b"".join(taken)


def select(metrics: Sequence[Metric], rank: int, values: Mapping[str, str]) -> dict[str, Source]:
    """Return the sources of the metrics that a rank's texts give; later ranks give only some.

    Args:
        metrics: All that are due.
        rank: Whose texts.
        values: Values of the placeholders that the names of files may have.
    """
    return {
        metric.name: replace(metric.source, text=templates.fill(metric.source.text, values))
        for metric in metrics
        if metric.source is not None and (rank == 0 or metric.per == "rank")
    }


def extract(
    sources: Mapping[str, Source],
    texts: Mapping[str, bytes],
    *,
    absent: Mapping[str, str] | None = None,
    before_whole: bool = False,
    load: Callable[[str], bytes | None] | None = None,
) -> Extract:
    """Read every metric.

    Args:
        sources: Where each is, by its name.
        texts: By the names that sources have for them; those that are not there are left out.
        absent: Why those are not there, by their names, for a message.
        before_whole: True if numbers are read as before 0.3.0, which took parts of numbers.
        load: Gives the standard output or error, to see whether a number is there instead.
    """
    founds: dict[str, Found] = {}
    faults: list[tuple[str, UnreadError]] = []
    logs = _read_logs(sources.values(), texts)
    for name, source in sources.items():
        try:
            text = _require_text(source.text, texts, absent or {})
            founds[name] = _read(source, text, logs, before_whole=before_whole)
        except UnreadError as error:
            place = _find_elsewhere(source, load) if error.reason == "no-result" else ""
            faults.append((name, UnreadError(error.reason, f"{error}{place}")))
    values = {name: found.values for name, found in founds.items()}
    counts = {name: found.lines for name, found in founds.items() if found.lines is not None}
    notes = tuple(f"{name}: {note}" for name, found in founds.items() for note in found.notes)
    if not faults:
        return Extract(values=values, lines=counts, notes=notes)
    searched = dict.fromkeys(sources[name].text for name, _ in faults)
    ends = [
        quote_end(text, texts[text])
        for text in searched
        if texts.get(text) and not text.endswith(SCALARS)
    ]
    sentences = [f"{name}: {error}" for name, error in faults]
    message = "\n".join((*ends[:1], *sentences[:_LINES]))
    return Extract(values=values, lines=counts, reason=faults[0][1].reason, message=message)


def describe(text: str) -> str:
    """Return the name of a text, in words.

    >>> describe("stdout"), describe("out/log.txt")
    ('stdout', 'log.txt')
    >>> describe("out/runs/scalars.tfevents")
    'the event files of runs'
    """
    if text.startswith(OUT):
        name = text.removeprefix(OUT)
        is_log = name.endswith(SCALARS)
        return f"the event files of {name.removesuffix(SCALARS)}" if is_log else name
    return text


def quote_end(name: str, text: bytes) -> str:
    """Return the last lines of a text that was searched, for a message."""
    end = text[-_END_BYTES:].decode(errors="replace").replace("\r", "\n")
    rows = [row for row in end.split("\n") if row.strip()][-_LINES:]
    quoted = [f"  | {plain.clean(row[:_LONGEST_LINE])}" for row in rows]
    return "\n".join((f"{describe(name)} ends with", *quoted))


def _read_logs(sources: Iterable[Source], texts: Mapping[str, bytes]) -> dict[str, events.Log]:
    """Return event files, each read once for all tags that are due."""
    tags: dict[str, list[str]] = {}
    for source in sources:
        if isinstance(source, EventTag):
            tags.setdefault(source.text, []).append(source.tag)
    return {
        text: events.read_log(texts[text], own)
        for text, own in tags.items()
        if text in texts and len(texts[text]) <= MOST_BYTES
    }


def _require_text(name: str, texts: Mapping[str, bytes], absent: Mapping[str, str]) -> bytes:
    """Return a text that can be searched.

    Raises:
        UnreadError: It cannot.
    """
    text, shown = texts.get(name), describe(name)
    if text is None and name.startswith(OUT):
        message = absent.get(name, f"no file {shown} in the output folder {{out}}")
        raise UnreadError("no-result", message)
    if not text:
        raise UnreadError("no-result", f"{shown} {'are' if name.endswith(SCALARS) else 'is'} empty")
    if len(text) > MOST_BYTES:
        message = f"{shown} exceeds {size(MOST_BYTES)}, the most that capsule searches"
        raise UnreadError("bad-result", message)
    return text


def _read(
    source: Source, text: bytes, logs: Mapping[str, events.Log], *, before_whole: bool
) -> Found:
    """Return the values of one metric.

    Raises:
        UnreadError: There are none, or something else is in their place.
    """
    name = describe(source.text)
    match source:
        case Pattern():
            by_pattern = printed.by_pattern_before if before_whole else printed.by_pattern
            found = by_pattern(source, text, name)
        case LogKey():
            found = Found(printed.by_key(source, text, name))
        case Column():
            found = documents.of_column(source, text, name)
        case Pointer():
            found = Found(documents.at_pointer(source, text, name))
        case EventTag():
            found = Found(events.of_tag(source, logs[source.text], name))
    check_steps(found.values)
    return found
