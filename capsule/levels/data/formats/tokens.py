"""Files of tokens as nanoGPT writes them (Karpathy, github.com/karpathy/nanoGPT, `prepare.py`):
whole numbers of one width, little-endian, one text after the other, and nothing else.

OpenWebText in GPT-2's vocabulary is two bytes a token and 17 GB: the file is mapped, not read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .files import FormatError

TYPES = {"uint8": "|u1", "uint16": "<u2", "uint32": "<u4"}


def read(path: Path, kind: str) -> Any:
    """Return the tokens of a file.

    Args:
        path: Path of the file.
        kind: Key of `TYPES`; the file does not tell.

    Returns:
        A mapping of the file, (tokens,), of two tokens or more.

    Raises:
        FormatError: It is cut off within a token, or has fewer than two: none to be foretold.
        OSError: It cannot be read.
    """
    import numpy

    if not path.is_file():
        raise FormatError(path, "is missing, or not a file")
    width, length = numpy.dtype(TYPES[kind]).itemsize, path.stat().st_size
    if length % width:
        raise FormatError(
            path, f"has {length} bytes, expected a multiple of {width} bytes, the size of a token"
        )
    if length < 2 * width:
        raise FormatError(
            path,
            f"has {length // width} tokens, expected at least 2, because each token predicts the"
            " next token",
        )
    return numpy.memmap(path, TYPES[kind], "r")


def write(tokens: Any, path: Path, kind: str) -> None:
    """Write what `read` reads.

    Raises:
        ValueError: A token does not fit the type.
        OSError: It cannot be written.
    """
    import numpy

    width = numpy.dtype(TYPES[kind]).itemsize
    most = (1 << 8 * width) - 1
    if int(tokens.min()) < 0 or int(tokens.max()) > most:
        raise ValueError(
            f"tokens are {tokens.min()} to {tokens.max()}, expected 0 to {most}, the range of"
            f" {kind}"
        )
    path.write_bytes(tokens.astype(TYPES[kind]).tobytes())
