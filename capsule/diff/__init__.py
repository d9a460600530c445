"""Two records side by side: which runs of one meet which of the other, and what differs beside.

States facts only; what they mean is decided by `capsule.verdict`, and nothing here is a cause.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from capsule import inventory, summary
from capsule.diff import changes, facts
from capsule.diff.changes import ImageRelation, image_relation
from capsule.diff.facts import Fact
from capsule.notes import Note
from capsule.record import FrozenClaim, Record
from capsule.summary import MetricRuns, Run

SeedRule = Literal["same", "fresh", "all"]


@dataclass(frozen=True, kw_only=True)
class Side:
    """One capsule in a comparison.

    Attributes:
        id: The capsule's id, None when it has not been sealed.
        authors: Their names.
        machine: Its nodes in a few words.
        image: Digest by which the image is named, None for the `host` runtime.
        image_override: Reference given with `--image`.
    """

    id: str | None
    uuid: str
    title: str
    authors: tuple[str, ...]
    tool: str
    verifies: str | None
    started: str
    ended: str
    machine: str
    runtime: str
    contained: bool
    image: str | None
    image_override: str | None


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The runs of one metric that are held against each other.

    Attributes:
        claim: None for a metric that nobody claimed anything about.
        seeds: `same` compares under the original's seeds, run by run; `fresh` uses only the
            re-execution's fresh seeds, `all` every run of both sides.
        original: The original's runs in use; None when it has no such metric.
        rerun: The re-execution's runs in use; None when it has no such metric.
    """

    metric: str
    claim: FrozenClaim | None
    seeds: SeedRule
    original: MetricRuns | None
    rerun: MetricRuns | None


@dataclass(frozen=True, kw_only=True)
class Differences:
    """Everything that two records say about each other.

    Attributes:
        image: How the two images are related, the strongest identity that holds.
        changes: What was changed of the experiment itself; ends the verdict's sentence.
        facts: What differs beside the numbers, by topic and pointer.
        pairs: One for each of the original's frozen claims, then one for each metric nobody
            claimed and both sides measured.
        notes: Sentences that a reader of the verdict must see.
    """

    original: Side
    rerun: Side
    image: ImageRelation
    changes: tuple[Note, ...]
    facts: tuple[Fact, ...]
    pairs: tuple[Pair, ...]
    notes: tuple[Note, ...]


def compare(
    original: Record,
    rerun: Record,
    *,
    original_id: str | None = None,
    rerun_id: str | None = None,
) -> Differences:
    """Hold a re-execution against its original.

    Args:
        original: Its frozen claims are the ones in question.
        rerun: The re-execution, or any other record.
        original_id: Id of the capsule that `original` was read from.
        rerun_id: Id of the capsule that `rerun` was read from.
    """
    relation = image_relation(original, rerun)
    pairs = tuple(_pairs(original, rerun))
    sides = _side(original, original_id), _side(rerun, rerun_id)
    return Differences(
        original=sides[0],
        rerun=sides[1],
        image=relation,
        changes=changes.between(original, rerun),
        facts=facts.between(original, rerun),
        pairs=pairs,
        notes=tuple(_notes(original, rerun, sides, relation, pairs)),
    )


def _side(record: Record, capsule_id: str | None) -> Side:
    image = record.image
    return Side(
        id=capsule_id,
        uuid=record.uuid,
        title=record.manifest.title,
        authors=tuple(author.name for author in record.manifest.authors),
        tool=record.tool,
        verifies=record.verifies,
        started=record.started,
        ended=record.ended,
        machine=_machine(record),
        runtime=record.runtime,
        contained=record.contained,
        image=str(image.identity.digest) if image else None,
        image_override=record.image_override,
    )


def _machine(record: Record) -> str:
    kinds = Counter(map(inventory.describe, record.nodes))
    return "; ".join(f"{count} x {kind}" if count > 1 else kind for kind, count in kinds.items())


def _pairs(original: Record, rerun: Record) -> Iterator[Pair]:
    there, here = summary.run_values(original), summary.run_values(rerun)
    for claim in original.claims:
        yield _pair(claim.metric, claim, there.get(claim.metric), here.get(claim.metric))
    claimed = {claim.metric for claim in original.claims}
    for metric in sorted(there.keys() & here.keys() - claimed):
        yield _pair(metric, None, there[metric], here[metric])


def _pair(
    metric: str, claim: FrozenClaim | None, there: MetricRuns | None, here: MetricRuns | None
) -> Pair:
    rule: SeedRule = "all"
    if there is not None and here is not None:
        if claim is not None and claim.type == "exact":
            rule = "same"
            common = {run.seed for run in there.runs} & {run.seed for run in here.runs}
            there = _only(there, lambda run: run.seed in common)
            here = _only(here, lambda run: run.seed in common)
        elif claim is not None and claim.paired:
            # the original stays whole: its margin is told by all of its runs
            rule = "same"
            own = {run.seed for run in there.runs}
            here = _only(here, lambda run: run.seed in own)
        elif any(run.seed_source == "fresh" for run in here.runs):
            rule = "fresh"
            here = _only(here, lambda run: run.seed_source == "fresh")
    return Pair(metric=metric, claim=claim, seeds=rule, original=there, rerun=here)


def _only(metric: MetricRuns, wanted: Callable[[Run], bool]) -> MetricRuns:
    return replace(metric, runs=tuple(run for run in metric.runs if wanted(run)))


def _notes(
    original: Record,
    rerun: Record,
    sides: tuple[Side, Side],
    relation: ImageRelation,
    pairs: tuple[Pair, ...],
) -> Iterator[Note]:
    if rerun.verifies is None:
        yield Note(
            code="not-a-reexecution",
            sentence="the second capsule is no re-execution of the first: two separate runs are"
            " compared",
        )
    elif sides[0].id is not None and rerun.verifies != sides[0].id:
        yield Note(
            code="of-another-original",
            sentence="the second capsule re-executed another capsule than the first",
        )
    if relation == "different":
        yield Note(
            code="images-differ",
            sentence="the images differ: what is compared is not the same program",
        )
    if original.contained != rerun.contained:
        loose = "original" if rerun.contained else "re-execution"
        yield Note(
            code="containment-differs",
            sentence=f"the {loose} ran without a container, the other side in one",
        )
    yield from _seed_notes(pairs)
    yield from _record_notes(original, rerun)


def _record_notes(original: Record, rerun: Record) -> Iterator[Note]:
    """What each record says of itself, with whose it is."""
    for note in dict.fromkeys((*original.notes, *rerun.notes)):
        both = note in original.notes and note in rerun.notes
        owner = "both sides" if both else "original" if note in original.notes else "re-execution"
        yield Note(code=note.code, sentence=f"{owner}: {note.sentence}")


def _seed_notes(pairs: tuple[Pair, ...]) -> Iterator[Note]:
    shared: set[int] = set()
    for pair in pairs:
        if pair.original is None or pair.rerun is None or pair.claim is None:
            continue
        if pair.claim.type in ("exact", "ratio") or pair.claim.paired:
            continue
        seeds = {run.seed for run in pair.original.runs}
        shared |= seeds & {run.seed for run in pair.rerun.runs}
    if shared:
        yield Note(
            code="shared-seeds",
            sentence=f"{len(shared)} seeds were used on both sides: repeated seeds are weaker"
            " evidence than fresh ones",
        )
    for pair in pairs:
        for name, side in (("original", pair.original), ("re-execution", pair.rerun)):
            if pair.claim is not None and side is not None and _repeats(side):
                yield Note(
                    code="equal-values",
                    sentence=f"{pair.metric}: all {len(side.values)} runs of the {name} have the"
                    " same value under different seeds",
                )


def _repeats(side: MetricRuns) -> bool:
    # counted quantities agree legitimately, and so does an error of exactly 0
    alike = len(side.values) >= 3 and len(set(side.values)) == 1
    return alike and side.values[0] != 0 and side.resolution == 0
