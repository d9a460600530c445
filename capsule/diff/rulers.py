"""Refusal of errors whose bounds two programs compute by different rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from capsule.diff import words
from capsule.levels.catalog.ruler import RULED
from capsule.record import Record

if TYPE_CHECKING:
    from capsule.diff import Pair


def mark(pairs: Iterable[Pair], original: Record, rerun: Record) -> Iterator[Pair]:
    """The same pairs; those of errors over bounds by other rules are of no one scale."""
    one, other = original.levels.get("ruler"), rerun.levels.get("ruler")
    for pair in pairs:
        is_ruled = pair.metric.rpartition("/")[2] in RULED
        if is_ruled and one != other:
            there, here = pair.names.there, pair.names.here
            scale = words.another_ruler(there=there, ours=one, here=here, theirs=other)
            yield replace(pair, scale=scale)
        else:
            yield pair
