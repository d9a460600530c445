"""The file by which a training goes on where an earlier attempt at it was ended.

Facts in JSON and arrays, in NumPy's zip: whole or not there, with a check sum of each part.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_FACTS = "facts"


class CheckpointError(Exception):
    """A file that nothing can go on from; the message says why."""


def paths(benchmark: str, case: str) -> tuple[str, str]:
    """Return the paths of the last two checkpoints below the trial's output folder."""
    return f"checkpoints/{benchmark}/{case}.npz", f"checkpoints-before/{benchmark}/{case}.npz"


def write(
    place: Path, before: Path | None = None, *, facts: Mapping[str, Any], arrays: Mapping[str, Any]
) -> None:
    """Put a checkpoint in the place of the last one, so that a kill at any instant leaves either.

    Args:
        place: Place of the file.
        before: Where the last one is put, None for nowhere.
        facts: What JSON can hold, NaN and infinities included.
        arrays: Numpy arrays by name, none of objects.

    Raises:
        OSError: It cannot be written.
    """
    import numpy

    text = json.dumps({**facts, "names": list(arrays)}).encode()
    numbered = {str(number): array for number, array in enumerate(arrays.values())}
    place.parent.mkdir(parents=True, exist_ok=True)
    partial = place.with_name(f"{place.name}.partial")
    with partial.open("wb") as stream:
        # names of parameters are none of files
        numpy.savez(stream, **{_FACTS: numpy.frombuffer(text, "uint8"), **numbered})
        stream.flush()
        os.fsync(stream.fileno())
    if before is not None and place.exists():
        before.parent.mkdir(parents=True, exist_ok=True)
        place.replace(before)
        _sync(before.parent)
    partial.replace(place)
    _sync(place.parent)


def _sync(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def read(place: Path) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Return the facts and the arrays of a checkpoint; None where there is none.

    Raises:
        CheckpointError: What lies there is damaged, or something else.
    """
    import numpy

    try:
        with place.open("rb") as stream, numpy.load(stream, allow_pickle=False) as parts:
            facts = json.loads(parts[_FACTS].tobytes())
            names = facts.pop("names")
            arrays = {name: parts[str(number)] for number, name in enumerate(names)}
    except FileNotFoundError:
        return None
    except (
        *(OSError, EOFError, ValueError, LookupError, TypeError, AttributeError),
        *(RecursionError, MemoryError, NotImplementedError, zipfile.BadZipFile),
    ) as error:
        raise CheckpointError(f"{type(error).__name__}: {error}") from None
    return facts, arrays
