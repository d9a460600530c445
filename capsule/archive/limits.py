"""How much a capsule may hold: known before anything is measured, refused before it is parsed.

Sized for the 100 000 trials that a manifest may ask for, each a process that prints to both of its
streams, and for a reader with 256 MiB.
"""

from __future__ import annotations

from capsule.errors import DamagedError

MOST_ENTRIES = 250_000
MOST_DIRECTORY_BYTES = 40 << 20
MOST_FOLDERS = 50_000
MOST_NAME_BYTES = 200
MOST_DOCUMENT_BYTES = 1 << 27
MOST_LINES_BYTES = 1 << 32
MOST_TAG_BYTES = 1 << 16
MOST_LINE_BYTES = 1 << 28
MOST_PARSED_BYTES = 224 << 20
MOST_SAMPLES_BYTES = 512 << 20
# all files together: a file with holes costs whoever sends it nothing, and hashing it a day
MOST_BYTES = 128 << 30
MOST_INPUT_BYTES = MOST_BYTES // 2
MOST_LOG_BYTES = MOST_BYTES // 4

# bytes that CPython takes, about; a comma stands for a value, and a line's fields for its runs
SAMPLE_COMMA = 32
_OBJECT, _MEMBER, _LIST, _ITEM, _STRING = 64, 48, 56, 8, 60


def parsed_bytes(data: bytes) -> int:
    """About how much memory a JSON document takes once it is parsed, told by its punctuation.

    >>> parsed_bytes(b'[{}, {}, "a"]') > parsed_bytes(b'["aaaaaaaaaa"]')
    True
    """
    members = data.count(b":")
    strings = max(0, data.count(b'"') // 2 - members)
    return (
        2 * len(data) * (1 if data.isascii() else 2)
        + _OBJECT * data.count(b"{")
        + _MEMBER * members
        + _LIST * data.count(b"[")
        + _ITEM * data.count(b",")
        + _STRING * strings
    )


class Budget:
    """What is left of the memory that a capsule's documents may take, all together."""

    def __init__(self) -> None:
        self._left = MOST_PARSED_BYTES
        self._left_for_lines = MOST_SAMPLES_BYTES

    def spend(self, data: bytes, *, where: str) -> None:
        """Take off what a document takes.

        Raises:
            DamagedError: There is not so much left.
        """
        taken = parsed_bytes(data)
        if taken > self._left:
            raise DamagedError(
                f"holds more values than a reader takes on: about {taken >> 20} MiB of memory, of"
                f" {self._left >> 20} MiB that are left of {MOST_PARSED_BYTES >> 20}",
                where=where,
            )
        self._left -= taken

    def spend_lines(self, piece: bytes, *, where: str) -> None:
        """Take off what a piece of samples or attempts takes.

        Raises:
            DamagedError: There is not so much left.
        """
        self._left_for_lines -= SAMPLE_COMMA * piece.count(b",")
        if self._left_for_lines < 0:
            raise DamagedError(
                "samples and attempts hold more values than a reader takes on: more than"
                f" {MOST_SAMPLES_BYTES >> 20} MiB of memory",
                where=where,
            )
