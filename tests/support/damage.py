"""Files of a dataset with something wrong, and what reading them may take."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from hypothesis import strategies as st

from capsule.levels.data.formats import files, records
from capsule.levels.data.formats.files import FormatError

Read = TypeVar("Read")
_COPIES = 6
"""How often what was read may lie in memory on the way, at most."""


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """The bytes with one changed, some left out, or some put in."""
    at = draw(st.integers(0, len(data) - 1))
    match draw(st.sampled_from(("change", "cut", "drop", "insert"))):
        case "change":
            return data[:at] + bytes([draw(st.integers(0, 255))]) + data[at + 1 :]
        case "cut":
            return data[:at]
        case "drop":
            return data[:at] + data[at + draw(st.integers(1, 9)) :]
        case _:
            return data[:at] + draw(st.binary(min_size=1, max_size=9)) + data[at:]


def read_or_refuse(read: Callable[[Path], Read], path: Path) -> Read | None:
    """What is read; None where it is refused as it should be. Any other end is a fault."""
    with bounded(path):
        try:
            return read(path)
        except FormatError as error:
            assert str(error).startswith(f"{path.parent.name}/{path.name}"), error
            assert "\n" not in str(error)
            return None


@contextmanager
def bounded(path: Path) -> Iterator[None]:
    """Fails where more memory is taken than the length of the file allows."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < _COPIES * files.most_bytes(path.stat().st_size)


def read_all(path: Path) -> list[memoryview]:
    """Every record of a file."""
    return [records.read(path, place) for place in records.locate(path)]
