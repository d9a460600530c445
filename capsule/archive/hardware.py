"""The nodes in a few words each; all of it is in `records/hardware.json`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from capsule import inventory
from capsule.jsons import Json


def summaries(nodes: Sequence[Mapping[str, Json]]) -> list[str]:
    """Return one sentence for each kind of node, with how many there are of it.

    >>> cpu = {"model": "Example", "cores": 2}
    >>> summaries([{"class": {"cpu": cpu, "memory": {"total_bytes": 8 << 30}, "gpus": None}}])
    ['1 node: Example, 2 cores, 8 GiB memory']
    """
    kinds = Counter(map(inventory.describe, nodes))
    return [f"{count} node{'s' * (count > 1)}: {kind}" for kind, count in kinds.items()]
