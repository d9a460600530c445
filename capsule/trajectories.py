"""Runs that went through exactly the same values."""

from __future__ import annotations

from collections.abc import Sequence

from capsule.record import Samples

# so many different counts do not follow each other twice by chance
_COUNTS = 5


def alike(runs: Sequence[tuple[tuple[Samples, ...], ...]]) -> dict[int, int]:
    """Return, for each place whose series all occur elsewhere, the first place where they do."""
    if _begin_apart(runs):
        return {}
    places: dict[tuple[tuple[int, float, float], ...], list[int]] = {}
    for place, metrics in enumerate(runs):
        if all(metrics):
            series = [line.values for ranks in metrics for line in ranks]
            key = tuple([(len(values), values[0], values[-1]) for values in series])
            places.setdefault(key, []).append(place)
    first: dict[int, int] = {}
    for candidates in places.values():
        for index, place in enumerate(candidates):
            for earlier in candidates[:index]:
                if all(map(_equal, runs[place], runs[earlier])) and any(map(_tells, runs[place])):
                    first[place] = first[earlier] = first.get(earlier, earlier)
                    break
    return first


def _begin_apart(runs: Sequence[tuple[tuple[Samples, ...], ...]]) -> bool:
    """Return whether no two begin with the same value, as most do not: then nothing else is looked
    at.
    """
    first = [metrics[0][0].values[0] for metrics in runs if all(metrics)]
    return len(set(first)) == len(first)


def _tells(lines: tuple[Samples, ...]) -> bool:
    """Return whether a series has enough in it not to be the same twice by chance."""
    different: set[float] = set()
    for line in lines:
        for value in line.values:
            different.add(value)
            if len(different) >= (_COUNTS if line.resolution > 0 else 2):
                return True
    return False


def _equal(these: tuple[Samples, ...], those: tuple[Samples, ...]) -> bool:
    return len(these) == len(those) and all(
        one.values == other.values and one.steps == other.steps
        for one, other in zip(these, those, strict=True)
    )
