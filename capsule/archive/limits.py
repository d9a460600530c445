"""Size limits of a capsule, known before a run and enforced before parsing.

Sized for the 100 000 trials that a manifest may ask for, each a process that prints to both of its
streams, and for a reader with 256 MiB.
"""

from __future__ import annotations

from capsule import sizes
from capsule.errors import DamagedError
from capsule.series import FEW_VALUES

MOST_ENTRIES = 250_000
MOST_DIRECTORY_BYTES = 32 << 20
MOST_FOLDERS = 50_000
MOST_NAME_BYTES = 200
MOST_DOCUMENT_BYTES = 1 << 27
MOST_LINES_BYTES = 1 << 32
MOST_TAG_BYTES = 1 << 16
MOST_LINE_BYTES = 1 << 25
# numbers of one series, each of 25 bytes at most, and of one trial: so many take a quarter of what
# is kept of a capsule
MOST_SERIES_NUMBERS = MOST_LINE_BYTES // 25
# of a document, whose numbers and strings each have a line, and of an attempt
MOST_TEXT_BYTES = 1 << 23
MOST_PARSED_BYTES = 216 << 20
MOST_KEPT_BYTES = 212 << 20
MOST_TRIAL_NUMBERS = MOST_KEPT_BYTES // 4 // 8
# all files together: a file with holes costs whoever sends it nothing, and hashing it a day
MOST_BYTES = 128 << 30
MOST_INPUT_BYTES = MOST_BYTES // 2
MOST_LOG_BYTES = MOST_BYTES // 4

# bytes that CPython takes, about: a line of samples with its run, an attempt, one value of a series
# of many, and what it takes more in one of few (see `record.Values`); of a document half is kept
LINE_BYTES, ATTEMPT_BYTES = 640, 320
_COMMAS, _VALUE_BYTES, _LOOSE_VALUE_BYTES = 14, 8, 24
_KEPT_SHARE = 0.55
_OBJECT, _MEMBER, _LIST, _ITEM, _STRING = 64, 48, 56, 8, 60
# a number in a list: itself, and what a validator makes of it
_NUMBER = 72


def parsed_bytes(data: bytes) -> int:
    """About how much memory a JSON document takes once it is parsed, told by its punctuation.

    >>> parsed_bytes(b'[{}, {}, "a"]') > parsed_bytes(b'["aaaaaaaaaa"]')
    True
    """
    members, commas = data.count(b":"), data.count(b",")
    objects, lists = data.count(b"{"), data.count(b"[")
    strings = max(0, data.count(b'"') // 2 - members)
    # what no member, string, object or list is
    numbers = max(0, commas + lists + objects - members - strings - lists - objects)
    return (
        2 * len(data) * (1 if data.isascii() else 2)
        + _OBJECT * objects
        + _MEMBER * members
        + _LIST * lists
        + _ITEM * commas
        + _STRING * strings
        + _NUMBER * numbers
    )


def lines_bytes(lines: int, values: int, line_bytes: int) -> int:
    """About how much memory so many lines with so many values take.

    Args:
        lines: Of samples or of attempts.
        values: In all of them.
        line_bytes: `LINE_BYTES` or `ATTEMPT_BYTES`.

    >>> lines_bytes(1, 1_000_000, LINE_BYTES) < 1.01 * 8_000_000
    True
    """
    loose = min(values, FEW_VALUES * lines)
    return line_bytes * lines + _VALUE_BYTES * values + _LOOSE_VALUE_BYTES * loose


def bytes_to_keep(parsed: int) -> int:
    """About how much memory is left of documents, once they are read, that took so much."""
    return int(_KEPT_SHARE * parsed)


def require_short_lines(data: bytes, *, where: str, most: int | None = None) -> None:
    """Stop where a line is longer than a reader takes on.

    Args:
        data: Some lines.
        where: Their name in messages.
        most: How many bytes one may have, None for as many as one of samples.

    Raises:
        DamagedError: One is.
    """
    start, most = 0, MOST_LINE_BYTES if most is None else most
    while len(data) - start > most:
        end = data.rfind(b"\n", start, start + most + 1)
        if end < 0:
            raise DamagedError(f"a line is longer than {sizes.size(most)}, the limit", where=where)
        start = end + 1


class Budget:
    """Memory that is left for the parts of a capsule."""

    def __init__(self) -> None:
        self._left = MOST_PARSED_BYTES
        self._left_to_keep = MOST_KEPT_BYTES

    def spend(self, data: bytes, *, where: str) -> None:
        """Take off what a document takes.

        Raises:
            DamagedError: There is not so much left, or a line of it is too long.
        """
        require_short_lines(data, where=where, most=MOST_TEXT_BYTES)
        taken = parsed_bytes(data)
        if taken > self._left:
            raise DamagedError(
                f"too many values: they need about {taken >> 20} MiB of memory;"
                f" {self._left >> 20} of {MOST_PARSED_BYTES >> 20} MiB are left",
                where=where,
            )
        self._left -= taken
        self._keep(bytes_to_keep(taken), where)

    def spend_lines(self, piece: bytes, line_bytes: int, *, where: str) -> None:
        """Take off what a piece of samples or attempts takes.

        Args:
            piece: Some of the lines.
            line_bytes: As for `lines_bytes`.
            where: Its name in messages.

        Raises:
            DamagedError: There is not so much left.
        """
        lines = piece.count(b"\n")
        values = max(0, piece.count(b",") - _COMMAS * lines)
        self._keep(lines_bytes(lines, values, line_bytes), where)

    def _keep(self, taken: int, where: str) -> None:
        self._left_to_keep -= taken
        if self._left_to_keep < 0:
            raise DamagedError(
                "too many samples, attempts and documents: together they need more than"
                f" {MOST_KEPT_BYTES >> 20} MiB of memory, the limit",
                where=where,
            )
