"""A sealed run's numbers, read again by a corrected manifest: what follows, and what may change.

Nothing is executed. Only metrics and claims may be others than before, and only what a text that
was sealed gives can be read. A claim that was written or changed after its runs were sealed, or
that is about a metric that is read otherwise now, was made with those runs in sight: it is marked
and decides nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from capsule import (
    __version__,
    deviceseries,
    freezing,
    notes,
    plain,
    plan,
    rankseries,
    summary,
)
from capsule.archive import texts
from capsule.archive.texts import Reading
from capsule.errors import UsageError
from capsule.manifest import Benchmark, Claim, Command, Manifest, Metric
from capsule.manifest.sources import OUT
from capsule.origin import JUDGE_RULE, Rereading
from capsule.predecessor import Predecessor
from capsule.record import Attempt, FrozenClaim, Reason, Record, Samples, sample_order
from capsule.starts import word_missing, world_fault

Load = Callable[[str], Iterable[bytes]]

_STREAMS = ("stdout", "stderr")
_RESULTS = f"{OUT}results.jsonl"
_MOST_MESSAGE = 2000


def make(predecessor: Predecessor, capsule_id: str, manifest: Manifest, load: Load) -> Record:
    """Return the record of a capsule whose numbers are read again.

    Args:
        predecessor: A run of its author's own.
        capsule_id: Its id.
        manifest: The corrected one.
        load: Gives the pieces of a file of its, by the path below `data/`.

    Raises:
        UsageError: Something else was changed, or what is to be read was not sealed.
        ManifestError: A claim matches no metric.
    """
    before = predecessor.record
    for fault in faults(before, manifest):
        raise UsageError(fault, where=str(manifest.name), advice=_ADVICE)
    planned = plan.make(manifest)
    attempts, samples = read_again(before, manifest, load, before_whole=False)
    record = replace(
        before,
        tool=__version__,
        origin=Rereading(of=capsule_id),
        judge_rule=JUDGE_RULE,
        manifest=manifest,
        plan=plan.to_json(planned),
        plan_digest=str(planned.digest),
        attempts=attempts,
        samples=samples,
        predecessor=predecessor,
    )
    record = replace(record, claims=tuple(claims(record)))
    return replace(record, notes=(*inherited_notes(before), note(record)))


def inherited_notes(before: Record) -> list[notes.Note]:
    """Return the predecessor's notes, and those that its record calls for in our words."""
    due = list(notes_of_run(before))
    codes = {note.code for note in due}
    stated = [
        notes.inherit(note) for note in before.notes if note.is_known or note.code not in codes
    ]
    return [*stated, *(note for note in due if note not in stated)]


def notes_of_run(record: Record) -> Iterator[notes.Note]:
    """Yield the notes that follow from how its author ran what is in a record."""
    yield from notes.of_run(
        contained=record.contained,
        observations=record.image_observations,
        has_image=record.manifest.image is not None,
        override=record.image_override,
    )
    yield from filter(None, (rankseries.note(record.samples), deviceseries.note(record)))


_ADVICE = (
    "correct only metrics and claims in data/manifest.json of the capsule; any other change needs a"
    " new run"
)


def note(record: Record) -> notes.Note:
    """Return the note that a reader of a second reading must know."""
    assert isinstance(record.origin, Rereading)
    assert record.predecessor is not None
    kept = {_identify(one) for one in record.claims if not one.later}
    gone = [one for one in record.predecessor.record.claims if _identify(one) not in kept]
    later = sum(claim.later for claim in record.claims)
    return notes.second_reading(capsule=record.origin.of, later=later, gone=len(gone))


def faults(before: Record, manifest: Manifest) -> Iterator[str]:
    """Yield obstacles to reading a capsule again by a manifest, as sentences.

    Args:
        before: What the capsule states.
        manifest: The corrected one.
    """
    others = _rest(before.manifest.source), _rest(manifest.source)
    if others[0] != others[1]:
        names = [name for name in {**others[0], **others[1]} if _differ(*others, name)]
        yield f"the manifest changes {' and '.join(names)}, which the sealed runs used"
        return
    if (before.manifest.benchmarks, before.manifest.claims) == (
        manifest.benchmarks,
        manifest.claims,
    ):
        yield "nothing to do: the manifest has the same metrics and claims as the capsule"
        return
    reported = {
        attempt.trial.partition("/")[0]
        for attempt in before.attempts
        if any(one.name == _RESULTS for one in attempt.evidence)
    }
    for old, new in zip(before.manifest.benchmarks, manifest.benchmarks, strict=True):
        if isinstance(old.subject, Command):
            yield from _find_unread(old, new, reported=old.id in reported)


def _rest(source: bytes) -> dict[str, Any]:
    """Return a manifest without what may be corrected."""
    raw: dict[str, Any] = json.loads(source)
    kept = {name: value for name, value in raw.items() if name not in ("claims", "$schema")}
    kept["benchmarks"] = [
        {name: value for name, value in one.items() if name != "metrics"}
        if "command" in one
        else one
        for one in raw["benchmarks"]
    ]
    return kept


def _differ(there: dict[str, Any], here: dict[str, Any], name: str) -> bool:
    return (name in there, there.get(name)) != (name in here, here.get(name))


def _find_unread(old: Benchmark, new: Benchmark, *, reported: bool) -> Iterator[str]:
    """Yield metrics of a command that no sealed text gives."""
    sealed = {*_STREAMS, *(one.source.text for one in old.metrics if one.source is not None)}
    sealed |= {_RESULTS} if reported else set()
    kept = {one.name for one in old.metrics if one.source is None}
    for metric in new.metrics:
        if metric.source is None and metric.name not in kept:
            yield (
                f"{old.id}: the results in the capsule lack {metric.name}"
                + ('; read the metric with "from" and "file": "results.jsonl"' if reported else "")
            )
        elif metric.source is not None and metric.source.text not in sealed:
            name = metric.source.text.removeprefix(OUT)
            yield f"{old.id}: {metric.name} needs {name}, which the capsule lacks"


def claims(record: Record) -> Iterator[FrozenClaim]:
    """Yield the claims of a record that was read again: those that stayed as they were sealed
    first.

    Raises:
        ManifestError: A claim matches no metric.
    """
    assert record.predecessor is not None
    before = record.predecessor.record
    metrics, old_metrics = dict(plan.metric_paths(record.manifest)), _metrics_of(before)
    sealed = {_identify(one): one for one in before.claims}
    for claim in freezing.follow(record.manifest.claims, summary.run_values(record)):
        same = sealed.get(_identify(claim))
        # a margin that could not be frozen then was frozen later, with the runs in sight
        frozen = same is not None and same.margin_source == claim.margin_source
        if same is not None and frozen and metrics[claim.metric] == old_metrics.get(claim.metric):
            yield replace(same, pattern=claim.pattern)
        else:
            yield replace(claim, primary=False, later=True)


def _identify(claim: FrozenClaim) -> tuple[str, Claim]:
    """Return what a claim says of which metric: a new label makes no new claim."""
    return claim.metric, replace(claim.pattern, label=None)


def _metrics_of(record: Record) -> dict[str, Metric]:
    return dict(plan.metric_paths(record.manifest))


def read_again(
    before: Record, manifest: Manifest, load: Load, *, before_whole: bool
) -> tuple[tuple[Attempt, ...], tuple[Samples, ...]]:
    """Return the attempts of a record, and what its texts and results give by another manifest.

    Args:
        before: The record.
        manifest: The other one, of which the texts that it names were sealed.
        load: Gives the pieces of a file, by its path below `data/`.
        before_whole: True if by the rules before 0.3.0.
    """
    there = _readings(before, load)
    here = _readings(replace(before, manifest=manifest), load, before_whole=before_whole)
    metrics = dict(plan.metric_paths(manifest))
    kept: dict[tuple[str, int], list[Samples]] = {}
    for line in before.samples:
        metric = metrics.get(line.metric)
        if metric is not None and metric.source is None:
            key = line.trial, line.attempt
            kept.setdefault(key, []).append(_relabel(line, metric))
    benchmarks = {one.id: one for one in manifest.benchmarks}
    attempts: list[Attempt] = []
    samples: list[Samples] = []
    for attempt in before.attempts:
        benchmark = benchmarks[attempt.trial.partition("/")[0]]
        key = attempt.trial, attempt.attempt
        readings = here.get(key, ())
        lines = [*kept.get(key, ()), *_lines(readings, benchmark)]
        samples += lines
        if _keeps_outcome(attempt, benchmark, there.get(key, ()), before):
            attempts.append(attempt)
        else:
            attempts.append(_judge(attempt, _Outcome.of(readings, lines, benchmark, attempt.ranks)))
    return tuple(attempts), tuple(sorted(samples, key=sample_order))


def _readings(
    record: Record, load: Load, *, before_whole: bool | None = None
) -> dict[tuple[str, int], list[Reading]]:
    by_attempt: dict[tuple[str, int], list[Reading]] = {}
    for reading in texts.read_again(record, load, before_whole=before_whole):
        key = reading.attempt.trial, reading.attempt.attempt
        by_attempt.setdefault(key, []).append(reading)
    return by_attempt


def _relabel(line: Samples, metric: Metric) -> Samples:
    """Return samples that a command reported, with what the manifest says now that they mean."""
    return replace(
        line,
        unit=metric.unit,
        direction=metric.direction,
        kind=metric.kind,
        resolution=metric.resolution,
        per=metric.per,
    )


def _lines(readings: Sequence[Reading], benchmark: Benchmark) -> Iterator[Samples]:
    metrics = {metric.name: metric for metric in benchmark.metrics}
    for reading in readings:
        attempt = reading.attempt
        for name, values in reading.extract.values.items():
            steps = tuple(value.step for value in values if value.step is not None)
            line = Samples(
                metric=f"{attempt.trial.rpartition('/')[0]}/{name}",
                trial=attempt.trial,
                attempt=attempt.attempt,
                seed=attempt.seed,
                unit="",
                direction="none",
                kind="portable",
                resolution=0.0,
                rank=reading.rank,
                warmup=0,
                values=tuple(value.value for value in values),
                steps=steps or None,
            )
            yield _relabel(line, metrics[name])


def _keeps_outcome(
    attempt: Attempt, benchmark: Benchmark, readings: Sequence[Reading], before: Record
) -> bool:
    """Return whether an attempt ended by what no other reading of its texts mends."""
    if attempt.exit_code != 0 or not isinstance(benchmark.subject, Command):
        return True
    if attempt.reason == "ran-without-gpu":
        return True
    if attempt.outcome != "failed":
        return False
    effective = before.environment.get("effective", {})
    replaced = effective.get("command", {}) if isinstance(effective, dict) else {}
    if benchmark.subject.injects_seed and f"seeds replaced in {benchmark.id}" not in replaced:
        return True
    unread = any(reading.extract.reason is not None for reading in readings)
    return not unread and attempt.reason == "bad-result"


@dataclass(frozen=True, kw_only=True)
class _Outcome:
    """Outcome of a trial by the values that were read; failed if it has a reason.

    Attributes:
        reason: Reason of a failure.
        message: Message of a failure, or a remark that readers of the numbers need.
    """

    reason: Reason | None = None
    message: str = ""

    @classmethod
    def of(
        cls,
        readings: Sequence[Reading],
        lines: Sequence[Samples],
        benchmark: Benchmark,
        ranks: int,
    ) -> _Outcome:
        for reading in readings:
            if reading.extract.reason is not None:
                prefix = f"rank {reading.rank}: " if ranks > 1 else ""
                message = f"{prefix}{reading.extract.message}"
                return cls(reason=reading.extract.reason, message=message)
        by_name: dict[str, list[Samples]] = {}
        for line in lines:
            by_name.setdefault(line.metric.rpartition("/")[2], []).append(line)
        due = benchmark.due("command")
        missing = [
            f"'{one.name}'" for one in due if not _is_whole(one, by_name.get(one.name, ()), ranks)
        ]
        if missing:
            return cls(reason="no-result", message=word_missing(missing))
        for metric in due:
            for line in by_name[metric.name]:
                fault = _misfit(metric, line, len(by_name[metric.name]))
                if fault := fault or world_fault(metric.name, line.values, ranks):
                    return cls(reason="bad-result", message=fault)
                bad = [value for value in line.values if not math.isfinite(value)]
                if bad:
                    share = f"({len(bad)} of {len(line.values)} values)"
                    return cls(reason="non-finite", message=f"{metric.name} is {bad[0]} {share}")
        return cls(message="\n".join(note for one in readings for note in one.extract.notes))


def _is_whole(metric: Metric, lines: Sequence[Samples], ranks: int) -> bool:
    present = {line.rank for line in lines}
    return present >= set(range(ranks)) if metric.per == "rank" else bool(present)


def _misfit(metric: Metric, line: Samples, ranks: int) -> str | None:
    """Return why a series is not what its metric is declared to be, None when it is."""
    if metric.per == "step" and line.steps is None:
        return f"{metric.name} is declared per step, but has no steps"
    if line.steps is not None and metric.per not in ("call", "step", "rank"):
        return f"{metric.name} is declared per {metric.per}, but has steps"
    if metric.per == "trial" and len(line.values) != 1:
        return f"{metric.name} is declared per trial, but has {len(line.values)} values"
    if metric.per != "rank" and ranks > 1:
        return f"{metric.name} was reported by {ranks} ranks, but is not declared per rank"
    return None


def _judge(attempt: Attempt, outcome: _Outcome) -> Attempt:
    if outcome.reason is not None:
        return replace(
            attempt,
            outcome="failed",
            reason=outcome.reason,
            message=plain.first_and_last_lines(outcome.message, _MOST_MESSAGE),
        )
    before = attempt.message.split("\n") if attempt.outcome == "completed" else []
    told = filter(None, dict.fromkeys((*before, *outcome.message.split("\n"))))
    message = "\n".join(told)[:_MOST_MESSAGE]
    return replace(attempt, outcome="completed", reason=None, message=message)


def deviations(record: Record, load: Load) -> Iterator[str]:
    """Yield differences of a second reading from its predecessor's texts.

    Args:
        record: With its predecessor.
        load: Gives the pieces of a file, by its path below `data/`.
    """
    assert record.predecessor is not None
    before = record.predecessor.record
    if sentences := list(faults(before, record.manifest)):
        yield from sentences
        return
    attempts, samples = read_again(
        before, record.manifest, load, before_whole=texts.took_parts(record)
    )
    stated = _comparable_attempts(record.attempts, record)
    place = _find_difference(stated, _comparable_attempts(attempts, record))
    if place is not None:
        odd = (record.attempts if place < len(record.attempts) else attempts)[place]
        yield f"its attempts contradict the texts of its predecessor: trial {odd.trial}"
    place = _find_difference(_comparable(record.samples), _comparable(samples))
    if place is not None:
        line = (record.samples if place < len(record.samples) else samples)[place]
        yield (
            "its samples contradict the results and texts of its predecessor:"
            f" {line.metric}, seed {line.seed}"
        )
    if list(map(repr, record.devices)) != list(map(repr, before.devices)):
        yield "its devices differ from its predecessor's"
    stayed = [name for name in _SAME if getattr(record, name) != getattr(before, name)]
    if stayed:
        yield f"its {' and '.join(stayed)} differ from its predecessor's"


def _find_difference(stated: Sequence[object], due: Sequence[object]) -> int | None:
    """Return the first index at which two sequences differ, None if they are equal."""
    if stated == due:
        return None
    both = enumerate(zip(stated, due, strict=False))
    return next((place for place, (a, b) in both if a != b), min(len(stated), len(due)))


def _comparable_attempts(attempts: Iterable[Attempt], record: Record) -> tuple[Attempt, ...]:
    """Return attempts to compare: without messages if another version worded those of a record."""
    if record.tool == __version__:
        return tuple(attempts)
    return tuple(replace(one, message="") for one in attempts)


def _comparable(samples: Iterable[Samples]) -> list[str]:
    """Return lines of samples as they are written: two that are NaN are equal there."""
    return list(map(repr, samples))


_SAME = (
    "uuid",
    "started",
    "ended",
    "runtime",
    "contained",
    "image",
    "image_observations",
    "nodes",
    "worlds",
    "software",
    "environment",
    "levels",
    "datasets",
    "sources",
)
