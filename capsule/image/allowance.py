"""Limit on the unpacked size of an image, against endless archives."""

from __future__ import annotations

from capsule import sizes
from capsule.errors import DamagedError

# ten times what installed software reaches; zeros alone come to 1032 with gzip
_MOST_RATIO = 200
_ALWAYS_BYTES = 256 << 20
MOST_FILES = 2_000_000


class Allowance:
    """Bytes and files that may still come out of an image or a layer."""

    def __init__(self, packed_bytes: int, *, where: str) -> None:
        self._packed_bytes = packed_bytes
        self._most_bytes = self._bytes = _ALWAYS_BYTES + _MOST_RATIO * packed_bytes
        self._files = MOST_FILES
        self._where = where

    def take(self, count: int) -> None:
        """Take so many bytes.

        Raises:
            DamagedError: More than may come of what is packed.
        """
        self._bytes -= count
        if self._bytes < 0:
            raise DamagedError(
                f"the image unpacks to more than {sizes.size(self._most_bytes)}, the limit for"
                f" {sizes.size(self._packed_bytes)} of packed data",
                where=self._where,
            )

    def take_file(self) -> None:
        """Take one file, link or folder.

        Raises:
            DamagedError: There are too many.
        """
        self._files -= 1
        if self._files < 0:
            raise DamagedError(
                f"the image contains more than {MOST_FILES} files, the limit", where=self._where
            )
