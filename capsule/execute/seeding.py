"""Read which seeds of a program were replaced, as hostile input."""

from __future__ import annotations

import json
from pathlib import Path

from capsule import leavings, plain
from capsule.jsons import Json, JsonObject

_MOST_BYTES = 1 << 16
_MOST_FUNCTIONS = 100
_LONGEST = 200


def read(path: Path) -> JsonObject | None:
    """Return the functions that set a seed, with the first one that each was given.

    Args:
        path: The file that `CAPSULE_SEEDING` named: a JSON object a line, the Python that was
            seeded or a function of it. Lines that are none are left out.

    Returns:
        None where no Python was seeded.
    """
    stream = leavings.open_file(path)
    if stream is None:
        return None
    with stream:
        lines = stream.read(_MOST_BYTES).splitlines()
    replaced: dict[str, Json] = {}
    for line in lines:
        try:
            entry = json.loads(line)
            name, seed = entry["replaced"], entry["value"]
        except (ValueError, LookupError, TypeError, RecursionError):
            continue
        if isinstance(name, str) and isinstance(seed, str) and len(replaced) < _MOST_FUNCTIONS:
            replaced.setdefault(plain.clean(name)[:_LONGEST], plain.clean(seed)[:_LONGEST])
    return replaced if lines else None
