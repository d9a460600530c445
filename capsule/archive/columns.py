"""Short lines of samples by columns: their values are read at once, and apart from all else."""

from __future__ import annotations

import orjson

from capsule.archive.blocks import PIECE

_VALUES = b',"values":['


def split(block: bytes, start: int, end: int) -> tuple[list[bytes], list[list[float]]] | None:
    """Return the lines of a piece: what stands between their values, and these.

    Nothing is checked but that there are as many values as lines, and that they are floats all.

    Returns:
        What is before the first line's values, behind them and before the next line's, ..., behind
        the last line's; a newline stands before each line. None where the values may be others.
    """
    if end - start > PIECE:
        return None
    first, *rest = block[start:end].split(_VALUES)
    parts = [piece.partition(b"]") for piece in rest]
    text = b"],[".join([numbers for numbers, _, _ in parts])
    if len(parts) != block.count(b"\n", start, end) or b'"' in text:
        return None
    try:
        values: list[list[float]] = orjson.loads(b"[[%b]]" % text)
    except orjson.JSONDecodeError:
        return None
    # one point each and no string: they are floats all
    if text.count(b".") != sum(map(len, values)):
        return None
    return [b"\n" + first, *[behind for _, _, behind in parts]], values
