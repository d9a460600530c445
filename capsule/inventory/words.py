"""A node in a few words; everything else stands in its document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from capsule.jsons import Json

_GIB = 1 << 30


def describe(node: Mapping[str, Json]) -> str:
    """Return the processors, memory and accelerators of a node, as `capsule.inventory.node`
    returns it.

    >>> cpu, gpu = {"model": "Example", "cores": 2}, {"model": "GPU"}
    >>> describe({"class": {"cpu": cpu, "memory": {"total_bytes": 8 << 30}, "gpus": [gpu, gpu]}})
    'Example, 2 cores, 8 GiB memory, 2 x GPU'
    """
    words = [str(at(node, "class", "cpu", "model") or "unknown processor")]
    if cores := at(node, "class", "cpu", "cores"):
        words.append(f"{cores} cores")
    if isinstance(size := at(node, "class", "memory", "total_bytes"), int):
        words.append(f"{size / _GIB:.0f} GiB memory")
    models = Counter(
        str(at(gpu, "model") or "unknown GPU") for gpu in entries_at(node, "class", "gpus")
    )
    words += [f"{count} x {model}" for model, count in models.items()]
    return ", ".join(words)


def busy(node: Mapping[str, Json]) -> str | None:
    """Describe the load of a node at its inventory; None if more than half was idle.

    >>> load = {"system": {"load_average_1_minute": 9.04}}
    >>> busy({"class": {"cpu": {"threads": 2}}, "state": {"momentary": load}})
    'load 9.04 on 2 processors'
    """
    load = at(node, "state", "momentary", "system", "load_average_1_minute")
    processors = at(node, "class", "cpu", "threads")
    if not isinstance(load, int | float) or not isinstance(processors, int):
        return None
    if 2 * load <= processors:
        return None
    return f"load {load:.3g} on {processors} processor{'s' * (processors != 1)}"


def at(value: Json, *names: str) -> Json:
    """Return the value below some names of a document, or None."""
    for name in names:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def entries_at(value: Json, *names: str) -> Sequence[Json]:
    """Return the entries of a list in a document, none where there is no list."""
    entries = at(value, *names)
    return entries if isinstance(entries, list | tuple) else ()
