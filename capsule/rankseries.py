"""Series of many ranks, folded into one: whole where there is room for them, else reduced."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from sys import byteorder, intern

from capsule import averages
from capsule.notes import Note, reduced_series
from capsule.record import Attempt, RankSamples, Samples
from capsule.series import pack

MANY_RANKS = 64
"""Up to so many ranks every one has its own samples."""

MANY_STEPS = 10
"""Up to so many values of each rank, all of them are kept."""

MOST_WHOLE = 1 << 20
"""Values in one line of all ranks: more of them would be a line that no reader takes."""

# memory of a digest, counted in values
_DIGEST_VALUES = 14


def count_values(ranks: int, count: int, *, whole: bool) -> int:
    """Return about how many values the folded series of so many ranks holds.

    Args:
        ranks: Their number.
        count: Number of values of each.
        whole: True if all of them are to be kept where they can be.
    """
    if not can_be_reduced(ranks, count) or (whole and ranks * count <= MOST_WHOLE):
        return ranks * (1 + count)
    return 2 * ranks + (3 + _DIGEST_VALUES) * count


def can_be_reduced(ranks: int, count: int) -> bool:
    """Return whether series of so many ranks, with so many values each, may be reduced."""
    return ranks > MANY_RANKS and count > MANY_STEPS


def fold(
    samples: Iterable[Samples],
    attempts: Mapping[str, Attempt],
    kept: Mapping[tuple[str, str], bool],
) -> Iterator[Samples]:
    """Put the series of all ranks of an attempt into one, for each metric that asks for it.

    Args:
        samples: Samples of one process start.
        attempts: Its attempts, by the id of their trial.
        kept: Whether all values of a metric to fold are kept, by benchmark and name.
    """
    many: dict[tuple[str, str], list[Samples]] = {}
    for line in samples:
        if attempts[line.trial].ranks > MANY_RANKS and _key(line.metric) in kept:
            many.setdefault((line.trial, line.metric), []).append(line)
        else:
            yield line
    for (trial, metric), lines in many.items():
        attempt = attempts[trial]
        folded = _fold(lines, attempt, whole=kept[_key(metric)])
        yield from lines if folded is None else [folded]


def _key(metric: str) -> tuple[str, str]:
    benchmark, *_, name = metric.split("/")
    return benchmark, name


def _fold(lines: Sequence[Samples], attempt: Attempt, *, whole: bool) -> RankSamples | None:
    """Return all ranks in one; None where they are not alike, and all that they measured counts."""
    shapes = {(len(line.values), line.warmup, line.steps is not None) for line in lines}
    alike = len(shapes) == 1 and len(lines) == attempt.ranks and not shapes.copy().pop()[2]
    if not alike and attempt.outcome == "completed":
        return None
    by_rank = {line.rank: line.values for line in lines}
    own: dict[int, float | None] = dict(
        zip(
            by_rank,
            averages.medians([array("d", line.values[line.warmup :]) for line in lines]),
            strict=True,
        )
    )
    numbers = [own.get(rank) for rank in range(attempt.ranks)]
    count, discarded, _ = shapes.pop() if alike else (0, 0, False)
    first = lines[0]
    folded = RankSamples(
        metric=first.metric,
        trial=first.trial,
        attempt=first.attempt,
        seed=first.seed,
        unit=first.unit,
        direction=first.direction,
        kind=first.kind,
        resolution=first.resolution,
        per=first.per,
        warmup=0,
        values=pack([math.nan if one is None else one for one in numbers]),
        count=count,
        discarded=discarded,
    )
    rows = [by_rank.get(rank, ()) for rank in range(attempt.ranks)]
    few = not can_be_reduced(attempt.ranks, count)
    if alike and (few or (whole and count * len(rows) <= MOST_WHOLE)):
        return replace(folded, whole=pack([value for row in rows for value in row]))
    last = pack([row[-1] if row else math.nan for row in rows])
    return replace(_summarize(folded, rows if alike else ()), last=last)


def _summarize(folded: RankSamples, rows: Sequence[Sequence[float]]) -> RankSamples:
    """Return the same with what all ranks had at each of their values."""
    columns = _transpose(rows)
    middles = averages.medians(columns)
    return replace(
        folded,
        least=pack([min(column) for column in columns]),
        median=pack([math.nan if one is None else one for one in middles]),
        largest=pack([max(column) for column in columns]),
        digests=tuple([intern(digest(column)) for column in columns]),
    )


def _transpose(rows: Sequence[Sequence[float]]) -> list[array[float]]:
    import numpy as np

    columns = []
    for column in np.array([array("d", row) for row in rows]).T:
        columns.append(array("d"))
        columns[-1].frombytes(column.tobytes())
    return columns


def digest(values: Sequence[float]) -> str:
    """Return the SHA-256 in hex of values as little-endian doubles."""
    column = array("d", values)
    if byteorder == "big":
        column.byteswap()
    return sha256(column.tobytes()).hexdigest()


def row(line: RankSamples, rank: int) -> Sequence[float]:
    """Return all values of a rank, of a series that is whole."""
    return line.whole[rank * line.count : (rank + 1) * line.count]


def faults(line: RankSamples) -> Iterator[str]:
    """Yield contradictions in a folded series."""
    if line.whole:
        if len(line.whole) != line.ranks * line.count or line.last or line.digests:
            yield (
                f"found {len(line.whole)} values, {len(line.last)} last values and"
                f" {len(line.digests)} digests; a series of {line.ranks} ranks in full needs"
                f" {line.ranks * line.count} values, no last value and no digest"
            )
            return
        yield from _wrong_medians(line)
        return
    sizes = [len(line.least), len(line.median), len(line.largest), len(line.digests)]
    if len(line.last) != line.ranks or set(sizes) != {line.count}:
        yield (
            f"found {len(line.last)} last values, and smallest values, medians, largest values and"
            f" digests of {'/'.join(map(str, sizes))} steps; expected {line.ranks} last values and"
            f" {line.count} steps of each"
        )
    elif not can_be_reduced(line.ranks, line.count) and line.count:
        yield (
            f"found a series of {line.ranks} ranks with {line.count} values each in reduced form;"
            f" expected more than {MANY_RANKS} ranks and more than {MANY_STEPS} values"
        )
    elif line.count:
        # one after the other: a series may have millions of steps
        steps = zip(line.least, line.median, line.largest, strict=True)
        if averages.finite(line.last):
            ends = min(line.last), averages.median(line.last), max(line.last)
            last = line.least[-1], line.median[-1], line.largest[-1]
            if ends != last:
                yield (
                    "the last values contradict the last step: their smallest, median and largest"
                    f" are {_triple(ends)}; expected {_triple(last)}"
                )
            wrong = (one for one in enumerate(steps, 1) if not one[1][0] <= one[1][1] <= one[1][2])
            if (step := next(wrong, None)) is not None:
                yield (
                    f"smallest, median and largest of step {step[0]} are {_triple(step[1])},"
                    " expected an ascending order"
                )
            else:
                yield from _values_beyond(line)
        if line.digests[-1] != (found := digest(line.last)):
            yield (
                f"the last values contradict the last step: their digest is {found}, expected"
                f" {line.digests[-1]}"
            )


def _wrong_medians(line: RankSamples) -> Iterator[str]:
    rows = [array("d", row(line, rank)[line.discarded :]) for rank in range(line.ranks)]
    for rank, (value, due) in enumerate(zip(line.values, averages.medians(rows), strict=True)):
        if not (math.isnan(value) if due is None else value == due):
            median = "not finite" if due is None else f"{due:.17g}"
            yield (
                f"rank {rank} has the value {value:.17g}, expected the median of the rank's"
                f" samples, {median}"
            )
            return


def _triple(numbers: Iterable[float | None]) -> str:
    return ", ".join(["not finite" if one is None else f"{one:.17g}" for one in numbers])


def _values_beyond(line: RankSamples) -> Iterator[str]:
    counted = slice(line.discarded, None)
    low, high = min(line.least[counted]), max(line.largest[counted])
    for rank, value in enumerate(line.values):
        if not low <= value <= high:
            yield (
                f"rank {rank} has the value {value:.17g}, expected a value from {low:.17g} to"
                f" {high:.17g}, the range of the steps after the warm-up"
            )
            return


def note(samples: Iterable[Samples]) -> Note | None:
    """Return the note that names every metric of which values are not kept, None for none."""
    reduced: dict[str, set[str]] = {}
    ranks = 0
    for line in samples:
        if isinstance(line, RankSamples) and line.is_reduced and line.count:
            benchmark, name = _key(line.metric)
            reduced.setdefault(name, set()).add(benchmark)
            ranks = max(ranks, line.ranks)
    if not reduced:
        return None
    metrics = tuple((name, len(of)) for name, of in sorted(reduced.items()))
    return reduced_series(metrics=metrics, ranks=ranks)
