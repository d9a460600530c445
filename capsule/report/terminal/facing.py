"""Which two capsules a verdict is about: title and authors, then each side in one line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from capsule.diff import Side
from capsule.durations import duration
from capsule.verdict import Counts, Judged
from capsule.verdict.wording import count


def subject(side: Side) -> str:
    """What was measured, and by whom."""
    return f"{side.title}, by {', '.join(side.authors)}" if side.authors else side.title


def describe(side: Side, counts: Iterable[Counts]) -> str:
    """A side in one line: its id, runs, time, machine and image.

    Args:
        side: The capsule.
        counts: Of its metrics that are judged.
    """
    name = short(side.id) if side.id else "not sealed"
    return ", ".join((name, f"{_runs(side, list(counts))} {_time(side)}", *_place(side)))


def sides_of(judged: Sequence[Judged]) -> tuple[list[Counts], list[Counts]]:
    """The counts of both sides of all judgements."""
    return [one.original for one in judged], [one.rerun for one in judged]


def describe_worlds(sides: Sequence[tuple[str, Side]]) -> str | None:
    """What is known of the world of each side's own ranks, None where none has several.

    Args:
        sides: Each with what it is called.
    """
    worlds = [(name, side.world) for name, side in sides if side.world]
    if len(worlds) == len(sides) and len({world for _, world in worlds}) == 1:
        return worlds[0][1]
    return "; ".join(f"{name}: {world}" for name, world in worlds) or None


def short(name: str) -> str:
    """Enough of a digest to tell it from another; `show` and the JSON form have all of it."""
    return name.removeprefix("sha256:")[:12]


def runtime(side: Side) -> str:
    """What started the image, or that nothing was contained."""
    return side.runtime if side.contained else f"{side.runtime}, not contained"


def _runs(side: Side, counts: Sequence[Counts]) -> str:
    seeds = {seed for side in counts for seed in side.seeds}
    failed = max((side.failed for side in counts), default=0)
    earlier = sum(one.runs for one in side.added)
    parts = [f"{failed} failed"] * bool(failed) + [f"{earlier} of them before"] * bool(earlier)
    return count(len(seeds), "run") + (f" ({', '.join(parts)})" if parts else "")


def _time(side: Side) -> str:
    try:
        taken = datetime.fromisoformat(side.ended) - datetime.fromisoformat(side.started)
    except ValueError:
        return "at an unknown time"
    return f"in {duration(taken.total_seconds())}"


def _place(side: Side) -> Iterator[str]:
    if side.machine:
        yield side.machine
    yield f"{runtime(side)} {short(side.image)}" if side.image else runtime(side)
