"""Bounds that two programs take by other rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from capsule.levels.catalog.ruler import RULED
from capsule.record import Record

if TYPE_CHECKING:
    from capsule.diff import Pair


def mark(pairs: Iterable[Pair], original: Record, rerun: Record) -> Iterator[Pair]:
    """The same pairs; those of errors over bounds by other rules are of no one scale."""
    one, other = original.levels.get("ruler"), rerun.levels.get("ruler")
    for pair in pairs:
        is_ruled = pair.metric.rpartition("/")[2] in RULED
        yield replace(pair, scale=_word(pair, one, other)) if is_ruled and one != other else pair


def _word(pair: Pair, one: str | None, other: str | None) -> str:
    return (
        f"another ruler: {pair.names.there} has bounds by rules {_name(one)}, {pair.names.here} by"
        f" rules {_name(other)}, and errors over them are not of one scale"
    )


def _name(ruler: str | None) -> str:
    return "without a number" if ruler is None else f"number {ruler}"
