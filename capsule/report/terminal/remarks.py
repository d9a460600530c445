"""Notes of a record, and remarks that follow from it."""

from __future__ import annotations

import json
from collections.abc import Iterator

from capsule import inventory, sweeps
from capsule.record import Record
from capsule.verdict.wording import count


def list_remarks(record: Record) -> list[str]:
    """Return the notes of a record, and what is said of trials that completed."""
    messages = (one.message for one in record.attempts if one.outcome == "completed")
    sentences = (
        *(note.sentence for note in record.notes),
        *_uneven_nodes(record),
        *sweeps.explain_sharing(list(sweeps.find(record))),
        *filter(None, messages),
    )
    return list(dict.fromkeys(sentences))


def _uneven_nodes(record: Record) -> Iterator[str]:
    """Nodes that are not as the others are which ranks ran on at the same time."""
    for together in dict.fromkeys(one.nodes for one in record.attempts if len(one.nodes) > 1):
        nodes = [record.nodes[index] for index in together]
        for place, differences in inventory.outliers(nodes):
            pointer, usual, own = differences[0]
            more = f", and {count(len(differences) - 1, 'more difference')}"
            yield (
                f"node {place + 1} of {len(nodes)} differs from most nodes:"
                f" {pointer.removeprefix('/')} is {json.dumps(own)}, not {json.dumps(usual)}"
                f"{more if len(differences) > 1 else ''}"
            )
