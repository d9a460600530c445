"""The two capsules of a verdict report, each in one line: id, engine, machine, time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from capsule.diff import Differences, Side
from capsule.durations import duration


def describe(side: Side, *beside: str) -> str:
    """Return a side in one line: its id, engine and image, machine, time.

    Args:
        side: The capsule.
        beside: In place of engine, image and machine.
    """
    name = short(side.id) if side.id else "not sealed"
    place = beside or (_engine(side), side.machine)
    return ", ".join(filter(None, (name, *place, _time(side))))


def describe_rerun(differences: Differences) -> str:
    """Return the re-run in one line, without what is as on the original's side."""
    a, b = differences.original, differences.rerun
    is_alike = not any(fact.topic == "node class" for fact in differences.facts)
    if is_alike and b.machine and (_engine(a), a.machine) == (_engine(b), b.machine):
        return describe(b, "same machine class")
    return describe(b)


def describe_worlds(sides: Sequence[tuple[str, Side]]) -> str | None:
    """Return what is known of the world of each side's own ranks, None where none has several.

    Args:
        sides: Each with what it is called.
    """
    worlds = [(name, side.world) for name, side in sides if side.world]
    if len(worlds) == len(sides) and len({world for _, world in worlds}) == 1:
        return worlds[0][1]
    return "; ".join(f"{name}: {world}" for name, world in worlds) or None


def short(name: str) -> str:
    """Return enough of a digest to tell it from another."""
    return name.removeprefix("sha256:")[:12]


def runtime(side: Side) -> str:
    """Return what started the image, or that there was no container."""
    return side.runtime if side.contained else f"{side.runtime} (no container)"


def _engine(side: Side) -> str:
    return f"{runtime(side)} {short(side.image)}" if side.image else runtime(side)


def _time(side: Side) -> str:
    try:
        taken = datetime.fromisoformat(side.ended) - datetime.fromisoformat(side.started)
    except (TypeError, ValueError):  # of an untrusted clock
        return "unknown time"
    return duration(taken.total_seconds())
