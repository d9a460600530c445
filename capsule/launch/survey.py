"""Survey of the ranks' nodes: each rank reports its node, one rank of each node in full.

python -P -m capsule.launch.survey FOLDER RANK_VARIABLE
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from capsule import inventory, plain
from capsule.errors import CannotRunError
from capsule.jsons import JsonObject
from capsule.launch.rank import node_name
from capsule.manifest.model import Resources

PATIENCE_SECONDS = 120.0
"""Longest duration in seconds of the survey: Python may start from a cold network disk."""
_QUESTION = "question.json"


def ask(folder: Path, *, salt: str, keep_hosts: bool) -> None:
    """Lay out what every node is asked, in a new folder."""
    folder.mkdir(mode=0o700)
    (folder / _QUESTION).write_text(json.dumps({"salt": salt, "keep_hosts": keep_hosts}))


def program(folder: Path, rank: str) -> tuple[str, ...]:
    """Return the command that a launcher starts once for each rank."""
    return (sys.executable, "-P", "-m", "capsule.launch.survey", str(folder), rank)


def answer(folder: Path, rank: int) -> None:
    """Say where this rank is; the first one there describes the node."""
    name = node_name()
    facts: dict[str, Any] = {"node": name}
    if _is_first(folder, name):
        question = json.loads((folder / _QUESTION).read_text())
        facts["inventory"] = inventory.node(
            salt=question["salt"], keep_hosts=question["keep_hosts"], scheduled_as=name
        )
    path = folder / f"{rank:04}.json"
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(facts))
    partial.replace(path)


def read(folder: Path, resources: Resources, words: str) -> tuple[JsonObject, ...]:
    """Return the inventory of the node of each rank, by rank.

    Args:
        folder: Where all have answered by now.
        resources: What was asked for.
        words: What the launcher said.

    Raises:
        CannotRunError: A rank was not there, or the ranks are not as many on each node as they are
            to be.
    """
    names: list[str] = []
    inventories: dict[str, JsonObject] = {}
    for rank in range(resources.ranks):
        try:
            facts = json.loads((folder / f"{rank:04}.json").read_text())
        except OSError:
            raise CannotRunError(
                f"rank {rank} of {resources.ranks} did not start: "
                + (
                    plain.last_lines(words.strip(), _TAIL_LETTERS) or "the launcher gives no reason"
                ),
                advice="check that every node sees capsule's installation and the run folder",
            ) from None
        names.append(facts["node"])
        if "inventory" in facts:
            inventories[facts["node"]] = facts["inventory"]
    width = resources.ranks_per_node
    blocks = [set(names[first : first + width]) for first in range(0, len(names), width)]
    if any(len(block) != 1 for block in blocks) or len(set(names)) != resources.nodes:
        placed = ", ".join(f"{names.count(name)} on {name}" for name in dict.fromkeys(names))
        raise CannotRunError(
            f"{width} ranks requested on each of {resources.nodes} nodes, but the launcher placed"
            f" {placed}",
            where="/resources",
            advice="get an allocation of whole, equal nodes",
        )
    return tuple(inventories[name] for name in names)


_TAIL_LETTERS = 600


def _is_first(folder: Path, name: str) -> bool:
    try:
        # made by one of them, also on network file systems
        os.mkdir(folder / f"node-{name}")  # noqa: PTH102 - as short
    except FileExistsError:
        return False
    return True


if __name__ == "__main__":
    answer(Path(sys.argv[1]), int(os.environ[sys.argv[2]]))
