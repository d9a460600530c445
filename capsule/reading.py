"""The door through which every command takes a capsule: whole, and what follows from it follows.

archive.read -> plan, seeds, claims, notes and program made again, and compared
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from capsule import (
    __version__,
    archive,
    deviceseries,
    digest,
    freezing,
    levels,
    notes,
    program,
    quick,
    rankseries,
    summary,
)
from capsule import plan as plans
from capsule.archive import Capsule, Hashing
from capsule.collector import pause_collector
from capsule.errors import DamagedError, ManifestError, UsageError, add_advice
from capsule.levels.catalog.ruler import RULER
from capsule.manifest import Manifest, catalogued, looks, otherdevice
from capsule.manifest.problems import quote
from capsule.notes import Note
from capsule.origin import Extension, Rereading, Side, Verification
from capsule.record import FrozenClaim, Record
from capsule.summary import MetricRuns

OWN_LEVELS = Path(levels.__file__).parent
# logarithms and standard deviations differ in their last digits between machines
_DIGITS = 1e-9
_SHOWN, _LONGEST = 20, 100


def read(path: Path, expected: str | None = None, hashing: Hashing | None = None) -> Capsule:
    """Read a capsule, a file or a folder; nothing is executed or written.

    Args:
        path: Where it lies.
        expected: Its id, or how that begins; looked at before anything else. None for any.
        hashing: Hash of the same file, if it was begun before.

    Raises:
        UsageError: There is no such file.
        DamagedError: It is another capsule, or not as it was sealed, or states a plan, seeds or
            claims that do not follow from the rest of it.
    """
    with pause_collector(), add_advice(archive.GET_AGAIN):
        capsule = archive.read(path, expected, hashing)
        try:
            require(capsule.record, where=str(path))
            _require_same(capsule)
        except BaseException:
            capsule.close()
            raise
        return capsule


def require(record: Record, *, where: str) -> None:
    """Stop where a record states what does not follow from the rest of it.

    Raises:
        DamagedError: Names what differs.
    """
    if differences := list(islice(faults(record), _SHOWN)):
        raise DamagedError(
            f"the capsule contradicts its own manifest: {'; '.join(differences)}",
            where=where,
        )


def _require_same(capsule: Capsule) -> None:
    """Stop where a capsule that was read again is not what its predecessor's texts give.

    Raises:
        DamagedError: Names what differs, or a text was changed meanwhile.
    """
    if not isinstance(capsule.record.origin, Rereading):
        return
    from capsule import rereading

    faults = rereading.deviations(capsule.record, lambda name: (capsule.open(name),))
    if differences := list(islice(faults, _SHOWN)):
        raise DamagedError(
            f"the capsule contradicts its predecessor: {'; '.join(differences)}",
            where=str(capsule.path),
        )


def facts(record: Record) -> list[str]:
    """Return the facts that reading the capsule has established, one a line."""
    seeds = " and the original's id" if isinstance(record.origin, Verification) else ""
    return [
        f"plan and seeds follow from the manifest{seeds}",
        "claims, notes and release of the measuring code: identical when derived again",
    ]


def faults(record: Record) -> Iterator[str]:
    """Yield everything that does not follow, as sentences; a record whose parts agree is taken."""
    yield from quick.faults(record)
    yield from _plan_faults(record)
    yield from _look_faults(record)
    yield from _outcome_faults(record)
    yield from _claim_faults(record)
    yield from _note_faults(record)
    yield from release_faults(record)
    yield from _extension_faults(record)
    if record.predecessor is not None:
        before = faults(record.predecessor.record)
        yield from (f"its predecessor contradicts its own manifest: {fault}" for fault in before)


def _extension_faults(record: Record) -> Iterator[str]:
    if isinstance(record.origin, Extension):
        from capsule import extension

        yield from extension.deviations(record, record.origin)


def fresh_seeds(record: Record) -> tuple[int, ...]:
    """Return the fresh seeds of a record's plan, in their order."""
    trials = summary.planned_trials(record.plan)
    return tuple(dict.fromkeys(int(t["seed"]) for t in trials if t["seed_source"] == "fresh"))


def _plan_faults(record: Record) -> Iterator[str]:
    try:
        plan = _plan(record)
    except UsageError as error:
        yield f"capsule cannot plan its runs from manifest and origin: {error.what}"
        return
    if str(plan.digest) != record.plan_digest:
        yield _difference(record.plan, plans.to_json(plan))


def _plan(record: Record) -> plans.Plan:
    """Return the plan that `run`, `verify` or `pair` makes from a record's manifest and origin.

    Raises:
        UsageError: There are not so many seeds.
    """
    origin, manifest = record.origin, record.manifest
    if not isinstance(origin, Verification):
        return plans.make(manifest)
    there = len(fresh_seeds(record))
    # groups are numbered as in the whole plan, in which the manifest's seeds come by turns
    runs = max(1, min(origin.runs, max(there, len(manifest.seeds))))
    only = quick.deciding(origin, record.claims)
    plan = plans.make(manifest, verifies=origin.of, runs=runs, nonce=origin.nonce, only=only)
    if 0 < there < runs:
        plan = plans.first(plan, there)
    return plans.add_controls(plan, _controls(record, plan))


def _controls(record: Record, plan: plans.Plan) -> list[str]:
    """Return the control runs in a record's plan, of what has a fresh run that they could
    explain.
    """
    trials = (trial for group in plan.groups for trial in group.trials)
    fresh = {trial.id.rpartition("/")[0] for trial in trials if trial.seed_source == "fresh"}
    names = (t["id"] for t in summary.planned_trials(record.plan) if t["seed_source"] == "control")
    return [name for name in names if name.rpartition("/")[0] in fresh]


def _difference(stated: Mapping[str, Any], due: Mapping[str, Any]) -> str:
    """Return the first thing in which a plan is not the one that is due."""
    for name in {**due, **stated}:
        if name != "groups" and stated.get(name) != due.get(name):
            odd = _list_odd({name: stated.get(name)}, {name: due.get(name)})
            return f"the plan's {name} contradicts the manifest: {odd}"
    seeds, due_seeds = _fresh(stated), _fresh(due)
    for number, (seed, due_seed) in enumerate(zip_longest(seeds, due_seeds), 1):
        if seed != due_seed:
            return (
                f"fresh seed number {number} is {_or_none(seed)}, expected {_or_none(due_seed)} as"
                " derived from the original's id"
            )
    trials, due_trials = _trials(stated), _trials(due)
    for name in due_trials:
        if name not in trials:
            return f"trial {name} is missing from the plan"
        if trials[name] != due_trials[name]:
            odd = _list_odd(trials[name], due_trials[name])
            return f"trial {name} in the plan differs from the manifest's: {odd}"
    for name in trials:
        if name not in due_trials:
            return f"the plan has the unexpected trial {name}"
    return "the plan's process starts differ in order or names from the manifest's"


def _list_odd(stated: Mapping[str, Any], due: Mapping[str, Any]) -> str:
    """Return the fields that differ, each with the value found and the expected one."""
    words = []
    for name in {**due, **stated}:
        found, expected = stated.get(name), due.get(name)
        if found != expected:
            values = f"{quote(found)}, expected {quote(expected)}"
            # long values are cut, and may differ only later
            words.append(name if quote(found) == quote(expected) else f"{name} {values}")
    return ", ".join(words)


def _or_none(seed: int | None) -> str:
    return "none" if seed is None else str(seed)


def _fresh(plan: Mapping[str, Any]) -> list[int]:
    trials = summary.planned_trials(plan)
    return list(dict.fromkeys(t["seed"] for t in trials if t["seed_source"] == "fresh"))


def _trials(plan: Mapping[str, Any]) -> dict[str, Any]:
    return {
        trial["id"]: {**trial, "ranks": group["ranks"]}
        for group in plan["groups"]
        for trial in group["trials"]
    }


def _look_faults(record: Record) -> Iterator[str]:
    """Yield contradictions between a verification's number of seeds and its origin."""
    origin = record.origin
    if not isinstance(origin, Verification):
        return
    seeds = len(fresh_seeds(record))
    look = looks.place((claim.looks for claim in record.claims), seeds)
    if origin.look != look:
        yield (
            f"the origin says {_look_or_none(origin.look)}, expected {_look_or_none(look)} for"
            f" {seeds} fresh seeds"
        )
    if seeds > origin.runs:
        yield f"found {seeds} fresh seeds, expected at most {origin.runs} as the origin says"
    elif seeds < origin.runs and (look is None or origin.runs != _last_look(record)):
        yield f"the record ends after {seeds} of {origin.runs} fresh seeds, expected a planned look"


def _look_or_none(look: int | None) -> str:
    return "no planned look" if look is None else f"look {look}"


def _last_look(record: Record) -> int:
    return max(number for claim in record.claims for number in claim.looks)


def _outcome_faults(record: Record) -> Iterator[str]:
    """Yield trials that were planned and of which nobody says what became."""
    ended = {one.trial for one in record.attempts if summary.final_outcome(one)}
    for trial in summary.planned_trials(record.plan):
        if trial["id"] not in ended:
            yield f"trial {trial['id']} lacks a final outcome"


def _claim_faults(record: Record) -> Iterator[str]:
    """Yield claims that are not the manifest's, one for one, frozen by the runs."""
    due, verifies = _due_claims(record), isinstance(record.origin, Verification)
    try:
        for stated, frozen in zip_longest(record.claims, due):
            if fault := _place_fault(stated, frozen):
                yield fault
                return
            assert stated is not None
            assert frozen is not None
            if fault := _frozen_fault(stated, frozen, verifies=verifies):
                yield fault
    except (ManifestError, ArithmeticError, ValueError) as error:
        yield f"capsule cannot compute the regions of the claims: {error}"


def _metrics(record: Record) -> Mapping[str, MetricRuns]:
    """Return every metric of the manifest: those of benchmarks that were left out are without
    runs.
    """
    metrics = summary.run_values(record)
    if record.manifest.other_device is not None:
        return _author_metrics(record, metrics)
    if not (left_out := quick.not_run(record)):
        return metrics
    return {
        **{
            path: summary.without_runs(path, metric)
            for path, metric in plans.metric_paths(record.manifest)
            if quick.benchmark_of(path) in left_out
        },
        **metrics,
    }


def _author_metrics(record: Record, metrics: Mapping[str, MetricRuns]) -> dict[str, MetricRuns]:
    """Return the metrics of the author's device; metrics that the re-run's lacks have no runs."""
    planned = {trial["id"].rpartition("/")[0] for trial in summary.planned_trials(record.plan)}
    here = {path for path, _ in plans.metric_paths(record.manifest)}
    due = dict(plans.metric_paths(otherdevice.restore_all(record.manifest)))
    return {
        path: metrics[path] if path in metrics else summary.without_runs(path, metric)
        for path, metric in due.items()
        if path in metrics or path.rpartition("/")[0] not in planned or path not in here
    }


def _place_fault(stated: FrozenClaim | None, due: FrozenClaim | None) -> str | None:
    if stated is None:
        return None if due is None else f"the claim on {due.metric} is missing"
    if due is None:
        return f"found an unexpected claim on {stated.metric}"
    if (stated.metric, stated.pattern) != (due.metric, due.pattern):
        return f"found a claim on {stated.metric}, expected a claim on {due.metric}"
    return None


def _frozen_fault(stated: FrozenClaim, due: FrozenClaim, *, verifies: bool) -> str | None:
    """Return the contradiction between a claim, its pattern and the runs, or None.

    Args:
        stated: By the capsule.
        due: Made of its runs; of which a verification has others than those that froze the claim.
        verifies: True if it is one.
    """
    # planned from the number of the original's runs, as the rest of the reader checks
    due = replace(due, looks=stated.looks)
    if verifies:
        # which claims came later only the original tells
        due = replace(due, later=stated.later, primary=stated.primary)
    if verifies and freezing.is_of_runs(stated.pattern):
        due = replace(
            due, lower=stated.lower, upper=stated.upper, margin_source=stated.margin_source
        )
    ends = ((stated.lower, due.lower), (stated.upper, due.upper))
    if all(_is_equal(*end) for end in ends):
        due = replace(due, lower=stated.lower, upper=stated.upper)
    if stated == due:
        return None
    if (stated.lower, stated.upper) != (due.lower, due.upper):
        return (
            f"the claim on {stated.metric} allows {_region(stated)}, expected {_region(due)} as"
            " computed from the runs"
        )
    names = [one.name for one in fields(due) if one.name not in ("pattern", "looks")]
    odd = _list_odd(*({name: getattr(one, name) for name in names} for one in (stated, due)))
    return f"the claim on {stated.metric} contradicts its text in the manifest: {odd}"


def _is_equal(stated: float | None, due: float | None) -> bool:
    if stated is None or due is None:
        return stated is due
    return math.isclose(stated, due, rel_tol=_DIGITS)


def _region(claim: FrozenClaim) -> str:
    lower = "-inf" if claim.lower is None else f"{claim.lower:.6g}"
    upper = "inf" if claim.upper is None else f"{claim.upper:.6g}"
    return f"{lower} to {upper}"


def _note_faults(record: Record) -> Iterator[str]:
    """Yield notes that the record calls for and lacks, or has and does not call for."""
    if len(set(record.notes)) < len(record.notes):
        twice, _ = Counter(record.notes).most_common(1)[0]
        yield f"a note is given twice: {twice.sentence[:_LONGEST]}"
    due = list(_notes(record))
    before = record.predecessor.record.notes if record.predecessor is not None else ()
    inherited = frozenset(map(notes.inherit, before))
    for note in due:
        if not notes.has(record.notes, note):
            yield f"a note is missing: {note.sentence}"
    for note in record.notes:
        if record.tool == __version__ and notes.is_forged(note):
            yield f"a note contradicts its code and facts: {note.code}"
        elif note.code in notes.DERIVED and not (
            _is_due(note, due) or _may_be(note, record, inherited)
        ):
            yield f"a note does not follow from the record: {note.sentence[:_LONGEST]}"


def _is_due(note: Note, due: Iterable[Note]) -> bool:
    return any(notes.has([note], one) for one in due)


def _due_claims(record: Record) -> Iterable[FrozenClaim]:
    # what few capsules are is imported for these alone
    if record.predecessor is None:
        return freezing.follow(record.manifest.claims, _metrics(record))
    from capsule import extension, rereading

    added = isinstance(record.origin, Extension)
    return extension.claims(record) if added else rereading.claims(record)


def _notes(record: Record) -> Iterator[Note]:
    """Yield the notes that a record alone calls for."""
    verifies = isinstance(record.origin, Verification)
    yield from notes.of_run(
        contained=record.contained,
        observations=record.image_observations,
        has_image=record.manifest.image is not None and not verifies,
        override=None if verifies else record.image_override,
    )
    yield from filter(None, (rankseries.note(record.samples), deviceseries.note(record)))
    if isinstance(record.origin, Rereading | Extension):
        from capsule import extension, rereading

        is_reread = isinstance(record.origin, Rereading)
        yield from (rereading.note(record),) if is_reread else extension.due_notes(record)


def _may_be(note: Note, record: Record, inherited: frozenset[Note]) -> bool:
    """Tell whether a note may be there that only an original, or what else was asked for, tells.

    Args:
        note: The note.
        record: Has it.
        inherited: The notes of its predecessor.
    """
    origin = record.origin
    if note.code in notes.OF_SITES or note.code == notes.UNCHECKED:
        # of runs that these were added to
        return note in inherited or (isinstance(origin, Verification) and bool(origin.added))
    if isinstance(origin, Side):
        return note.code in notes.OF_IMAGES
    if not isinstance(origin, Verification):
        return False
    if note.code in notes.OF_IMAGES:
        # runs that were added may have named the same image otherwise
        choices = [
            notes.choice_of_image(origin.image or "", replaces=replaces, verifies=True)
            for replaces in (True, False)
        ]
        return bool(origin.added) or _is_due(note, choices)
    return not record.contained and _is_due(note, [notes.NOTES(notes.IMAGE_UNUSED, verifies=True)])


def own_program(manifest: Manifest) -> str:
    """Return the tree digest of this version's measuring code, as a manifest's capsule carries
    it.
    """
    return str(digest.of_sources(OWN_LEVELS, program.parts(manifest)))


def release_faults(record: Record) -> Iterator[str]:
    """Yield a measuring code that is said to be this release's, and is another, or has its
    ruler.
    """
    stated = record.levels
    is_own = stated["digest"] == own_program(record.manifest)
    if is_own:
        # those of another version's program may have other catalogues
        yield from catalogued.deviations(record.manifest.benchmarks)
    if is_own and stated.get("ruler") not in (None, str(RULER)):
        yield (
            f"the record says that levels/ computes bounds by rules {stated['ruler']}, expected"
            f" rules {RULER}"
        )
    if stated["release"] == __version__ and not is_own:
        yield f"levels/ differs from capsule-hpc {__version__}, which the record names"
