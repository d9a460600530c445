"""Bytes of a dataset's files, which are somebody else's: nothing that they claim is believed."""

from __future__ import annotations

import gzip
import io
import re
import zlib
from pathlib import Path
from typing import Any

GZIP = b"\x1f\x8b\x08"
"""First bytes of a gzip file (RFC 1952, section 2.3)."""
MOST_GROWTH = 100
"""Largest ratio of an array's size to its file's; counts and pictures shrink tenfold."""
SLACK_BYTES = 1 << 20
"""Further bytes allowed, so that a small file of equal bytes is readable."""
_CHUNK_BYTES = 1 << 20
_NUMBER = re.compile(r"[0-9]+")


class FormatError(ValueError):
    """A file is not what its format says; one sentence that begins with its name."""

    def __init__(self, path: Path, fault: str) -> None:
        # its folder too, where several have files of one name
        super().__init__(f"{path.parent.name}/{path.name} {fault}")


def read(path: Path) -> bytes:
    """Return all bytes of a file.

    Raises:
        FormatError: There is no such file.
        OSError: It cannot be read.
    """
    if not path.is_file():
        raise FormatError(path, "is missing, or not a file")
    return path.read_bytes()


def read_head(path: Path, length: int) -> bytes:
    """Return the first bytes of a file, so many where it has them.

    Raises:
        FormatError: There is no such file.
        OSError: It cannot be read.
    """
    if not path.is_file():
        raise FormatError(path, "is missing, or not a file")
    with path.open("rb") as file:
        return file.read(length)


def unpack_file(path: Path) -> bytearray:
    """Return the unpacked contents of a gzip file.

    Raises:
        FormatError: There is none, or one that gzip did not write.
        OSError: It cannot be read.
    """
    data = read(path)
    if data[:3] != GZIP:
        found = data[:3].hex() or "no bytes"
        raise FormatError(path, f"begins with {found}, expected a gzip file ({GZIP.hex()})")
    return unpack(data, path)


def unpack(data: bytes, path: Path) -> bytearray:
    """Unpack gzip data, and check its checksums.

    Args:
        data: All bytes of a file.
        path: Its name, for messages.

    Raises:
        FormatError: It is broken, or grows beyond `most_bytes`.
    """
    whole, most = bytearray(), most_bytes(len(data))
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            while chunk := file.read(_CHUNK_BYTES):
                whole += chunk
                if len(whole) > most:
                    raise FormatError(
                        path,
                        f"unpacks to more than {MOST_GROWTH} times its size, the most that capsule"
                        " reads",
                    )
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise FormatError(path, f"is a damaged gzip file: {error}") from None
    return whole


def most_bytes(length: int) -> int:
    """Return the largest array that a file of some bytes may contain."""
    return MOST_GROWTH * length + SLACK_BYTES


def find(folder: Path, ending: str) -> list[Path]:
    """Return the files of a folder with an ending, by name, numbers in names by their value.

    Raises:
        FormatError: There is none.
        OSError: The folder cannot be read.
    """
    if not folder.is_dir():
        raise FormatError(folder, "is missing, or not a folder")
    paths = [path for path in folder.iterdir() if path.name.endswith(ending) and path.is_file()]
    if not paths:
        raise FormatError(folder, f"has no file *{ending}")
    return sorted(paths, key=_order)


def _order(path: Path) -> tuple[Any, ...]:
    numbers = [int(digits) for digits in _NUMBER.findall(path.name)]
    return (_NUMBER.sub("0", path.name), numbers, path.name)
