"""Compare and judge sealed capsules; nothing is executed.

reading.read -> reexecution.require -> diff.compare -> verdict.judge
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import overload

from capsule import diff as differences
from capsule import reading, reexecution, verdict
from capsule.archive import Capsule, Hashing
from capsule.collector import pause_collector
from capsule.diff import words
from capsule.diff.several import compare_several
from capsule.errors import UsageError
from capsule.manifest import catalogued
from capsule.record import Record
from capsule.verdict import Verdict
from capsule.verdict.several import SeveralVerdict, judge_several


@overload
def diff(original: str | Path, rerun: str | Path, /, *, expected: str | None = None) -> Verdict: ...
@overload
def diff(
    original: str | Path,
    first: str | Path,
    second: str | Path,
    /,
    *more: str | Path,
    expected: str | None = None,
) -> SeveralVerdict: ...
def diff(
    original: str | Path, *reruns: str | Path, expected: str | None = None
) -> Verdict | SeveralVerdict:
    """Judge the claims of an original by the runs of one or several other capsules.

    Args:
        original: Path of the capsule whose claims are judged.
        reruns: Paths of the capsules to compare with the original.
        expected: Required id of the original, or at least its first 12 digits; None accepts any.

    Raises:
        UsageError: A capsule does not exist, or `reruns` is empty.
        DamagedError: A capsule was changed after sealing, or states that it verifies the original
            but contradicts the original.
    """
    if not reruns:
        raise UsageError(
            "expected at least two capsules, found one", advice="give a second capsule to compare"
        )
    with pause_collector(), ExitStack() as stack:
        capsules = list(_read([Path(path) for path in (original, *reruns)], expected, stack))
        for rerun in capsules[1:]:
            reexecution.require(capsules[0], rerun)
        if len(capsules) == 2:
            judged = judge(capsules[0], capsules[1].record, capsules[1].id)
            return _with_refused(judged, capsules[1])
        return judge_several(
            compare_several([one.record for one in capsules], [one.id for one in capsules])
        )


def _read(
    paths: Sequence[Path], expected: str | None, open_capsules: ExitStack
) -> Iterator[Capsule]:
    """Read each capsule, and hash the next one meanwhile on another core."""
    hashing = open_capsules.enter_context(closing(Hashing(paths[0], expected)))
    # Every judgement needs it. Imported by whoever calls it first, deep inside, it takes a third
    # longer: there Python maps and unmaps a piece of its stack at every other call.
    from capsule.stats import special  # noqa: F401

    for place, path in enumerate(paths, 1):
        current = hashing
        current.wait()
        if place < len(paths):
            hashing = open_capsules.enter_context(closing(Hashing(paths[place])))
        yield open_capsules.enter_context(reading.read(path, hashing=current))


def judge(original: Capsule, rerun: Record, rerun_id: str | None) -> Verdict:
    """Judge the claims of a capsule by the runs of another record, sealed or not."""
    return _with_refused(judge_records(original.record, original.id, rerun, rerun_id), original)


def _with_refused(judged: Verdict, capsule: Capsule) -> Verdict:
    """Add notes to a verdict: values of an older capsule that today's rules refuse."""
    if not (sentences := capsule.refused_values()):
        return judged
    refused = (words.NOTES(words.REFUSED_VALUE, fault=one) for one in sentences)
    compared = judged.differences
    return replace(judged, differences=replace(compared, notes=(*refused, *compared.notes)))


def judge_records(
    original: Record, original_id: str, rerun: Record, rerun_id: str | None
) -> Verdict:
    """Judge the claims of one record by the runs of another."""
    compared = differences.compare(original, rerun, original_id=original_id, rerun_id=rerun_id)
    # where this version's own program measures, there are none: the reader sees to that
    others = catalogued.deviations(original.manifest.benchmarks)
    meanings = (words.NOTES(words.OTHER_METRIC, fault=one) for one in others)
    return verdict.judge(replace(compared, notes=(*meanings, *compared.notes)))
