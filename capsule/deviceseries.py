"""Activity of devices during attempts: limits, contradictions, energy of runs, notes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise

from capsule.manifest import Command
from capsule.notes import Note, unused_gpu
from capsule.record import Attempt, DeviceSeries, Record, device_order

MAX_POINTS = 1000
"""Points that a record keeps at most of one device and attempt."""

MAX_LINES = 10_000
"""Devices of attempts that a record keeps at most: those of the first process starts."""

_MAX_RECORD_POINTS = 200_000
# a statistic of many samples is rounded otherwise than each of them
_TOLERANCE = 1e-9


def count_points(attempts: int, devices: int) -> int:
    """Return the largest number of points for one device and attempt of a run.

    Args:
        attempts: Expected number of attempts of the run.
        devices: Number of devices of each attempt.

    >>> count_points(30, 4), count_points(1000, 4), count_points(100_000, 8)
    (1000, 50, 20)
    """
    lines = min(max(1, attempts * devices), MAX_LINES)
    return min(MAX_POINTS, _MAX_RECORD_POINTS // lines)


def find_unused(devices: Sequence[DeviceSeries]) -> Mapping[tuple[str, int], int]:
    """Return attempts with a rank that used none of its GPUs: the first such rank of each.

    Returns:
        By trial and number of the attempt. Nothing else may have used these GPUs.
    """
    found: dict[tuple[str, int], int] = {}
    gpus = (one for one in devices if one.source != "rapl")
    for (trial, attempt, rank), own in groupby(sorted(gpus, key=_rank_of), key=_rank_of):
        if all(one.use == "unused" for one in own):
            found.setdefault((trial, attempt), rank)
    return found


def _rank_of(one: DeviceSeries) -> tuple[str, int, int]:
    return one.trial, one.attempt, one.rank


def note(record: Record) -> Note | None:
    """Return the note that names benchmarks whose runs did not use their GPUs, None for none."""
    runs = Counter(trial.partition("/")[0] for trial, _ in find_unused(record.devices))
    return unused_gpu(benchmarks=tuple(sorted(runs.items()))) if runs else None


def sum_joules(record: Record) -> Mapping[str, float]:
    """Return the energy of the settled attempt of each trial, in joules.

    It is that of all GPUs of the attempt; without GPUs, that of all processor packages of its
    nodes. A trial is left out if the energy of one of them is unknown.
    """
    resources = record.manifest.resources
    settled = {
        (one.trial, one.attempt): one for one in record.attempts if one.outcome == "completed"
    }
    found: dict[str, float] = {}
    for key, some in groupby(record.devices, key=lambda one: (one.trial, one.attempt)):
        if (attempt := settled.get(key)) is None or attempt.resumed_after is not None:
            continue
        lines = [one for one in some if (one.source == "rapl") == (not resources.gpus_per_rank)]
        known = {(one.node, one.device): one.joules for one in lines}
        joules = [one for one in known.values() if one is not None]
        if len(joules) == len(known) and _is_whole(lines, attempt, resources.gpus_per_rank):
            found[attempt.trial] = math.fsum(joules)
    return found


def _is_whole(lines: Sequence[DeviceSeries], attempt: Attempt, gpus_per_rank: int) -> bool:
    """Return whether every GPU, or every node, of an attempt is there."""
    if gpus_per_rank:
        counts = Counter(one.rank for one in lines)
        return len(counts) == attempt.ranks and set(counts.values()) == {gpus_per_rank}
    return {one.node for one in lines} == set(attempt.nodes)


def faults(record: Record) -> Iterator[str]:
    """Yield contradictions of the activity of devices with itself and with the attempts."""
    for before, after in pairwise(map(device_order, record.devices)):
        if after <= before:
            yield f"device {after} follows {before}, expected ascending order"
            break
    attempts = {(one.trial, one.attempt): one for one in record.attempts}
    for one in record.devices:
        attempt = attempts.get((one.trial, one.attempt))
        if attempt is None:
            fault: str | None = "the record lacks this attempt"
        else:
            fault = next(_place_faults(one, attempt, record), None)
        fault = fault or next(_own_faults(one), None)
        if fault:
            yield f"device {one.device} of attempt {one.attempt} of {one.trial}: {fault}"
    required = {
        one.id
        for one in record.manifest.benchmarks
        if isinstance(one.subject, Command) and one.subject.gpu_required
    }
    unused = find_unused(record.devices)
    sampled = {(one.trial, one.attempt) for one in record.devices}
    for key, attempt in attempts.items():
        is_required = attempt.trial.partition("/")[0] in required
        name = f"attempt {attempt.attempt} of {attempt.trial}"
        if attempt.reason == "ran-without-gpu" and not is_required:
            yield f'{name} failed as ran-without-gpu, but its benchmark lacks "gpu_required"'
        elif attempt.reason == "ran-without-gpu" and key in sampled and key not in unused:
            yield f"{name} failed as ran-without-gpu, but each rank used a GPU or may have used one"
        elif attempt.outcome == "completed" and is_required and key in unused:
            yield f"{name} completed, but rank {unused[key]} did not use the required GPU"


def _place_faults(one: DeviceSeries, attempt: Attempt, record: Record) -> Iterator[str]:
    if one.rank >= attempt.ranks:
        yield f"found rank {one.rank}, expected 0 to {attempt.ranks - 1}"
    if one.node not in attempt.nodes:
        yield f"found node {one.node}, expected one of {', '.join(map(str, attempt.nodes))}"
    if one.source != "rapl" and not record.manifest.resources.gpus_per_rank:
        yield "found a GPU, but the manifest asks for none"


def _own_faults(one: DeviceSeries) -> Iterator[str]:
    if len(one.times) > min(MAX_POINTS, one.samples):
        yield (
            f"found {len(one.times)} points, expected at most {min(MAX_POINTS, one.samples)} of"
            f" {one.samples} samples"
        )
    ends = [0.0, *one.times, one.seconds]
    if any(after < before for before, after in pairwise(ends)):
        yield f"the times of the points do not increase from 0 to {one.seconds:g} s"
    if (one.joules is None) == (one.energy_gap is None):
        yield "expected either an energy or the reason of its absence"
    if one.use == "unused" and (one.source != "nvml" or not one.is_gapless):
        yield "unused, but its samples cannot show that: they have gaps, or name no process"
    names = [quantity.name for quantity in one.quantities]
    if names != sorted(set(names)):
        yield f"found the quantities {', '.join(names)}, expected each once, in order"
    for quantity in one.quantities:
        known = [value for value in quantity.values if not math.isnan(value)]
        if len(quantity.values) != len(one.times):
            yield (
                f"found {len(quantity.values)} values of {quantity.name}, expected"
                f" {len(one.times)}, one for each point"
            )
        elif known and not quantity.least <= min(known) <= max(known) <= quantity.largest:
            yield (
                f"found {quantity.name} from {min(known):g} to {max(known):g}, expected values"
                f" from {quantity.least:g} to {quantity.largest:g}"
            )
        elif not _is_between(quantity.integral, quantity.least, quantity.largest, quantity.seconds):
            yield (
                f"the integral of {quantity.name} over {quantity.seconds:g} s is"
                f" {quantity.integral:g}, expected that of values from {quantity.least:g} to"
                f" {quantity.largest:g}"
            )
    lengths = [*one.throttled.values(), *(quantity.seconds for quantity in one.quantities)]
    longest = max(lengths, default=0.0)
    if longest > one.seconds * (1 + _TOLERANCE):
        yield f"found {longest:g} s of an attempt of {one.seconds:g} s"


def _is_between(integral: float, least: float, largest: float, seconds: float) -> bool:
    slack = _TOLERANCE * max(abs(least), abs(largest)) * seconds
    return least * seconds - slack <= integral <= largest * seconds + slack
