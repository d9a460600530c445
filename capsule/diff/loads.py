"""Warnings about machines that were busy when a run began."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from capsule import inventory, summary
from capsule.diff import words
from capsule.diff.names import Names
from capsule.notes import Note
from capsule.record import Record

if TYPE_CHECKING:
    from capsule.diff import Pair


def notes(original: Record, rerun: Record, pairs: Iterable[Pair], names: Names) -> Iterator[Note]:
    """A note for each side whose machine was busy; none where no number of a machine is there."""
    sides = (side for pair in pairs for side in (pair.original, pair.rerun) if side is not None)
    if all(side.kind != "machine" for side in sides):
        return
    for record, name in ((original, names.there), (rerun, names.here)):
        for load in dict.fromkeys(filter(None, map(inventory.busy, summary.own_nodes(record)))):
            yield words.NOTES("busy", side=name, load=load)
