"""Notes on claims that a quick verification left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from capsule import quick
from capsule.diff import words
from capsule.notes import Note
from capsule.record import Record

if TYPE_CHECKING:
    from capsule.diff import Pair


def mark(pairs: Iterable[Pair], original: Record, rerun: Record) -> Iterator[Pair]:
    """The same pairs, each with the sides that left it out."""
    there, here = quick.not_run(original), quick.not_run(rerun)
    if not (there or here):
        yield from pairs
        return
    for pair in pairs:
        benchmark = quick.benchmark_of(pair.metric)
        sides = [pair.names.there] * (benchmark in there) + [pair.names.here] * (benchmark in here)
        yield replace(pair, skipped=" and ".join(sides)) if sides else pair


def notes(original: Record, rerun: Record) -> Iterator[Note]:
    """Yield the note on the original's claims that a quick re-run left out."""
    left_out = quick.not_run(rerun)
    if not left_out:
        return
    claims = [one for one in original.claims if quick.benchmark_of(one.metric) in left_out]
    decides = any(map(quick.decides, claims))
    yield words.quick(claims=len(claims), benchmarks=len(left_out), decides=decides)
