"""The nodes in a few words each; all of it is in `records/hardware.json`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_GIB = 1 << 30


def summaries(nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    """One sentence for each kind of node, with how many there are of it.

    >>> cpu = {"model": "Example", "cores": 2}
    >>> summaries([{"class": {"cpu": cpu, "memory": {"total_bytes": 8 << 30}, "gpus": None}}])
    ['1 node: Example, 2 cores, 8 GiB memory']
    """
    kinds = Counter(", ".join(_words(node["class"])) for node in nodes)
    return [f"{count} node{'s' * (count > 1)}: {kind}" for kind, count in kinds.items()]


def _words(kind: Mapping[str, Any]) -> Iterator[str]:
    cpu, memory = kind.get("cpu") or {}, kind.get("memory") or {}
    yield str(cpu.get("model") or "unknown processor")
    if cores := cpu.get("cores"):
        yield f"{cores} cores"
    if size := memory.get("total_bytes"):
        yield f"{size / _GIB:.0f} GiB memory"
    models = Counter(str(gpu.get("model") or "unknown GPU") for gpu in kind.get("gpus") or ())
    yield from (f"{count} x {model}" for model, count in models.items())
