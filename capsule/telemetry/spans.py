"""One device during one attempt, out of the samples of its process start."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from capsule.record import EnergyGap, Quantity, Use
from capsule.series import pack
from capsule.telemetry.sources import QUANTITIES, REASONS
from capsule.telemetry.trace import Track

if TYPE_CHECKING:
    _Array = array[float]

MAX_GAP_SECONDS = 1.0
"""Longest pause between two samples of a sampler that works."""

MIN_UNUSED_SECONDS = 5.0
"""Shortest attempt of which capsule says that it used no device."""

MIN_USED_BYTES = 50 << 20
"""Growth of a device's memory that can be the workload's, which may use it unseen."""

_MAX_UNCOVERED_SHARE = 0.02


class Span(NamedTuple):
    """Monotonic time in seconds from `begin` to `end`, on the node of the rank."""

    begin: float
    end: float


@dataclass(frozen=True, kw_only=True)
class Activity:
    """Activity of a device during a span; the attributes are those of `DeviceSeries`."""

    seconds: float
    samples: int
    is_gapless: bool
    use: Use
    joules: float | None
    energy_gap: EnergyGap | None
    times: Sequence[float]
    quantities: tuple[Quantity, ...]
    throttled: dict[str, float]


def summarize(track: Track, whole: Span, timed: Sequence[Span], most_points: int) -> Activity:
    """Return the activity of a device during an attempt.

    Args:
        track: Samples of the process start.
        whole: The attempt.
        timed: Parts of it whose energy counts, in order.
        most_points: Largest number of points to keep; the others are left out evenly.
    """
    first, end = bisect_left(track.times, whole.begin), bisect_right(track.times, whole.end)
    is_gapless = _is_gapless(track.times, first, end, whole)
    gap = _find_energy_gap(track, first, end, timed)
    kept = _choose(first, end, most_points)
    return Activity(
        seconds=whole.end - whole.begin,
        samples=end - first,
        is_gapless=is_gapless,
        use=_judge_use(track, first, end, whole, is_gapless=is_gapless),
        joules=_count_joules(track, timed) if gap is None else None,
        energy_gap=gap,
        times=pack([track.times[place] - whole.begin for place in kept]),
        quantities=tuple(_quantities(track, first, end, kept)),
        throttled=_sum_reasons(track, first, end),
    )


def _choose(first: int, end: int, most: int) -> Sequence[int]:
    """Return at most so many places from `first` to before `end`, evenly, with both ends."""
    count = end - first
    if count <= most:
        return range(first, end)
    if most <= 1:
        return [first][:most]
    return [first + round(place * (count - 1) / (most - 1)) for place in range(most)]


def _is_gapless(times: _Array, first: int, end: int, whole: Span) -> bool:
    """Return whether samples follow each other closely, the one before the span included."""
    # the memory before the workload began counts too
    start = first - 1
    if start < 0 or first == end:
        return False
    moments = [*times[start:end], whole.end]
    is_close = whole.begin - times[start] <= MAX_GAP_SECONDS
    return is_close and all(b - a <= MAX_GAP_SECONDS for a, b in pairwise(moments))


def _quantities(track: Track, first: int, end: int, kept: Sequence[int]) -> Iterator[Quantity]:
    for name in QUANTITIES:
        column = track.columns[name]
        present = [value for value in column[first:end] if not math.isnan(value)]
        if not present:
            continue
        areas, lengths = [], []
        for place in range(first, end - 1):
            seconds = track.times[place + 1] - track.times[place]
            area = (column[place] + column[place + 1]) / 2 * seconds
            if seconds <= MAX_GAP_SECONDS and not math.isnan(area):
                areas.append(area)
                lengths.append(seconds)
        yield Quantity(
            name=name,
            values=pack([column[place] for place in kept]),
            least=min(present),
            largest=max(present),
            integral=math.fsum(areas),
            seconds=math.fsum(lengths),
        )


def _sum_reasons(track: Track, first: int, end: int) -> dict[str, float]:
    """Return the seconds of each reason; one holds from the sample that shows it to the next."""
    lengths: dict[str, list[float]] = {}
    masks = track.columns["reasons"]
    for place in range(first, end - 1):
        seconds = track.times[place + 1] - track.times[place]
        if math.isnan(masks[place]) or seconds > MAX_GAP_SECONDS:
            continue
        for bit, name in REASONS.items():
            if int(masks[place]) & bit:
                lengths.setdefault(name, []).append(seconds)
    return {name: math.fsum(some) for name, some in sorted(lengths.items())}


def _judge_use(track: Track, first: int, end: int, whole: Span, *, is_gapless: bool) -> Use:
    """Return whether the workload used the device; `unused` only if nothing else did either."""
    own = track.columns["own"]
    if any(value > 0 for value in own[first:end]):
        return "used"
    is_known = track.facts.source == "nvml" and not track.facts.is_mig
    if not (is_known and is_gapless and whole.end - whole.begin >= MIN_UNUSED_SECONDS):
        return "not seen"
    # from the last sample before the workload began
    seen = slice(first - 1, end)
    memory, busy = track.columns["memory_bytes"][seen], track.columns["utilization"][seen]
    idle = [own[seen], track.columns["others"][seen], busy]
    # a reading that failed is NaN, which is no 0
    if any(value != 0 for column in idle for value in column) or any(map(math.isnan, memory)):
        return "not seen"
    return "unused" if max(memory) - memory[0] < MIN_USED_BYTES else "not seen"


def _find_energy_gap(track: Track, first: int, end: int, timed: Sequence[Span]) -> EnergyGap | None:
    """Return why the energy counter gives no energy of the workload, None if it does."""
    facts = track.facts
    if facts.is_mig:
        return "mig"
    if facts.wrap_joules is None:
        return "no-counter"
    if facts.source != "rapl":
        others = track.columns["others"][max(first - 1, 0) : end + 1]
        if any(value > 0 for value in others):
            return "other-processes"
        if any(map(math.isnan, others)):
            return "unknown-processes"
    ends = [(_nearest(track, span.begin), _nearest(track, span.end)) for span in timed]
    for a, b in ends:
        counter = track.columns["joules"][a : b + 1]
        if any(map(math.isnan, counter)):
            return "no-counter"
        longest = max((y - x for x, y in pairwise(track.times[a : b + 1])), default=0.0)
        may_wrap = facts.limit_watts is None or longest * facts.limit_watts >= facts.wrap_joules
        if may_wrap or any(y < x for x, y in pairwise(counter)):
            return "wrapped"
    missed = math.fsum(
        abs(track.times[a] - span.begin) + abs(track.times[b] - span.end)
        for (a, b), span in zip(ends, timed, strict=True)
        if a < b
    )
    total = math.fsum(span.end - span.begin for span in timed)
    is_covered = bool(ends) and all(a < b for a, b in ends)
    return None if is_covered and missed <= _MAX_UNCOVERED_SHARE * total else "uncovered"


def _nearest(track: Track, moment: float) -> int:
    """Return the place of the sample that is nearest to a moment, -1 without a sample."""
    after = bisect_left(track.times, moment)
    near = [place for place in (after - 1, after) if 0 <= place < len(track.times)]
    return min(near, key=lambda place: abs(track.times[place] - moment), default=-1)


def _count_joules(track: Track, timed: Sequence[Span]) -> float:
    counter = track.columns["joules"]
    return math.fsum(
        counter[_nearest(track, span.end)] - counter[_nearest(track, span.begin)] for span in timed
    )
