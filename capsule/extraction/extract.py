"""The values of all metrics that one rank's texts give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from capsule import plain
from capsule.extraction import documents, printed
from capsule.extraction.values import UnreadError, Value, check_steps, cut
from capsule.manifest import Metric
from capsule.manifest.sources import OUT, Column, LogKey, Pattern, Pointer, Source

MOST_BYTES = 64 << 20
"""Of a text that numbers are read from."""
_LINES, _LONGEST_LINE, _END_BYTES = 8, 150, 4096


@dataclass(frozen=True, kw_only=True)
class Extract:
    """What texts give.

    Attributes:
        values: Of each metric that has some, in the order of the text.
        reason: Why the trial has failed by them, None where every metric has its values.
        message: Which metrics have none, and what was searched; its last line says most.
    """

    values: Mapping[str, tuple[Value, ...]]
    reason: Literal["no-result", "bad-result"] | None = None
    message: str = ""


def take(pieces: Iterable[bytes]) -> bytes:
    """A text in one piece; of one that is too large, so much that this is seen."""
    taken, size_bytes = [], 0
    for piece in pieces:
        taken.append(piece)
        size_bytes += len(piece)
        if size_bytes > MOST_BYTES:
            break
    return b"".join(taken)


def select(metrics: Sequence[Metric], rank: int) -> dict[str, Source]:
    """Where the metrics are read that a rank's texts give: of all but the first what is per rank.

    Args:
        metrics: All that are due.
        rank: Whose texts.
    """
    return {
        metric.name: metric.source
        for metric in metrics
        if metric.source is not None and (rank == 0 or metric.per == "rank")
    }


def extract(
    sources: Mapping[str, Source], texts: Mapping[str, bytes], *, beside: Sequence[str] = ()
) -> Extract:
    """Read every metric.

    Args:
        sources: Where each is, by its name.
        texts: By the names that sources have for them; those that are not there are left out.
        beside: Names in the out folder, for a message.
    """
    values: dict[str, tuple[Value, ...]] = {}
    faults: list[tuple[str, UnreadError]] = []
    for name, source in sources.items():
        try:
            values[name] = _read(source, texts, beside)
        except UnreadError as error:
            faults.append((name, error))
    if not faults:
        return Extract(values=values)
    searched = dict.fromkeys(sources[name].text for name, _ in faults)
    ends = [quote_end(text, texts[text]) for text in searched if texts.get(text)]
    sentences = [f"{name}: {error}" for name, error in faults]
    message = "\n".join((*ends[:1], *sentences[:_LINES]))
    return Extract(values=values, reason=faults[0][1].reason, message=message)


def describe(text: str) -> str:
    """The name of a text, in words.

    >>> describe("stdout"), describe("out/log.txt")
    ('standard output', 'log.txt')
    """
    if text.startswith(OUT):
        return text.removeprefix(OUT)
    return {"stdout": "standard output", "stderr": "standard error"}[text]


def quote_end(name: str, text: bytes) -> str:
    """The last lines of a text that was searched, for a message."""
    end = text[-_END_BYTES:].decode(errors="replace").replace("\r", "\n")
    rows = [row for row in end.split("\n") if row.strip()][-_LINES:]
    quoted = [f"  | {plain.clean(row[:_LONGEST_LINE])}" for row in rows]
    return "\n".join((f"{describe(name)} ends with", *quoted))


def _read(source: Source, texts: Mapping[str, bytes], beside: Sequence[str]) -> tuple[Value, ...]:
    """The values of one metric.

    Raises:
        UnreadError: There are none, or something else is in their place.
    """
    text, name = texts.get(source.text), describe(source.text)
    if text is None and source.text.startswith(OUT):
        names = ", ".join(map(cut, beside)) or "nothing"
        message = f"there is no file {name} in the out folder, which holds {names}"
        raise UnreadError("no-result", message)
    if not text:
        raise UnreadError("no-result", f"{name} is empty")
    if len(text) > MOST_BYTES:
        message = f"{name} has more bytes than are searched, which are {MOST_BYTES}"
        raise UnreadError("bad-result", message)
    match source:
        case Pattern():
            values = printed.by_pattern(source, text, name)
        case LogKey():
            values = printed.by_key(source, text, name)
        case Column():
            values = documents.of_column(source, text, name)
        case Pointer():
            values = documents.at_pointer(source, text, name)
    check_steps(values)
    return values
