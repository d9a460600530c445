"""Three records or more: every re-execution against the original, and each metric on all sides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from capsule import summary
from capsule.diff import Differences, Side, compare, evidence, refuse, rounds, words
from capsule.errors import UsageError
from capsule.record import FrozenClaim, Record
from capsule.sentences import Sentence, about
from capsule.summary import MetricRuns

LEAST = 3


@dataclass(frozen=True, kw_only=True)
class Across:
    """One claimed metric on every side.

    Attributes:
        claims: The original's frozen claims on it, in their order.
        sides: The runs of each record that count as independent: all of the original's, of a
            re-execution only the fresh ones where it has any. None where a record has no such
            metric, or is a copy of another one.
    """

    metric: str
    claims: tuple[FrozenClaim, ...]
    sides: tuple[MetricRuns | None, ...]


@dataclass(frozen=True, kw_only=True)
class Several:
    """Everything that three records or more say about each other.

    Attributes:
        sides: The original, then every re-execution as given.
        pairs: The original against each re-execution.
        metrics: Each metric that the original claims something about, by its first claim.
    """

    sides: tuple[Side, ...]
    pairs: tuple[Differences, ...]
    metrics: tuple[Across, ...]


def compare_several(records: Sequence[Record], ids: Sequence[str | None]) -> Several:
    """Hold several re-executions against one original.

    Args:
        records: The original, whose frozen claims are the ones in question, then at least two
            re-executions.
        ids: Id of the capsule that each record was read from, None when it has none.

    Raises:
        UsageError: Fewer than three records, a capsule that is given twice, or a pair's two sides.
    """
    if len(records) < LEAST:
        raise UsageError(
            f"{len(records)} capsules given, expected at least {LEAST}",
            advice="name the original and at least two more capsules",
        )
    for index, capsule_id in enumerate(ids):
        if capsule_id is not None and capsule_id in ids[:index]:
            raise UsageError(
                f"{label(ids.index(capsule_id))} and {label(index)} are the same capsule"
                f" {capsule_id[:12]}",
                advice="name each capsule once",
            )
    original, *reruns = records
    for index, rerun in enumerate(reruns, 1):
        if rounds.pair_of(original, rerun) is not None:
            raise UsageError(
                f"{label(0)} and {label(index)} are the two sides of one pair",
                advice=f"compare the pair alone: capsule diff {label(0)} {label(index)}",
            )
    pairs = [
        compare(original, rerun, original_id=ids[0], rerun_id=rerun_id)
        for rerun, rerun_id in zip(reruns, ids[1:], strict=True)
    ]
    metrics = [summary.run_values(record) for record in records]
    for index, reason in _copies(records, ids):
        pair = pairs[index - 1]
        pairs[index - 1] = replace(pair, pairs=refuse(pair.pairs, reason))
        metrics[index] = {}
    return Several(
        sides=(pairs[0].original, *(pair.rerun for pair in pairs)),
        pairs=tuple(pairs),
        metrics=tuple(_metrics(original.claims, metrics)),
    )


def _copies(records: Sequence[Record], ids: Sequence[str | None]) -> Iterator[tuple[int, Sentence]]:
    """Each record that has runs of one before it, and why they are no further evidence."""
    for index, record in enumerate(records):
        for earlier in range(index):
            reason = _counted_twice(record, ids[earlier]) or _counted_twice(
                records[earlier], ids[index]
            )
            if reason := reason or evidence.copy(records[earlier], record):
                beside = f"{label(index)} is not independent of {label(earlier)}"
                yield index, about(beside, reason)
                break


def _counted_twice(record: Record, other: str | None) -> Sentence | None:
    """Why a verification says nothing beside one that was added to it."""
    if other is None or all(one.id != other for one in record.chain):
        return None
    return words.REFUSALS("counted-twice", capsule=other)


def label(index: int) -> str:
    """Return the letter of a side: A is the original.

    >>> label(0), label(25), label(26)
    ('A', 'Z', 'AA')
    """
    before, letter = divmod(index, 26)
    return (label(before - 1) if before else "") + chr(ord("A") + letter)


def _metrics(
    claims: Sequence[FrozenClaim], values: Sequence[Mapping[str, MetricRuns]]
) -> Iterator[Across]:
    for metric in dict.fromkeys(claim.metric for claim in claims):
        yield Across(
            metric=metric,
            claims=tuple(claim for claim in claims if claim.metric == metric),
            sides=(
                values[0].get(metric),
                *(_independent(side.get(metric)) for side in values[1:]),
            ),
        )


def _independent(side: MetricRuns | None) -> MetricRuns | None:
    """The fresh runs, or all where none is fresh."""
    if side is None:
        return None
    fresh = tuple(run for run in side.runs if run.seed_source == "fresh")
    return replace(side, runs=fresh) if fresh else side
