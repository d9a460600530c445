"""Two records side by side: which runs of one meet which of the other, and what differs beside.

States facts only; what they mean is decided by `capsule.verdict`, and nothing here is a cause.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from capsule import summary
from capsule.diff import facts
from capsule.diff.facts import Fact
from capsule.manifest import Claim, Margin
from capsule.manifest.paths import match
from capsule.notes import Note
from capsule.origin import Side as PairSide
from capsule.record import FrozenClaim, Record
from capsule.summary import MetricRuns, Run

ImageRelation = Literal[
    "same-manifest", "same-config", "same-tree", "same-index", "different", "none"
]
SeedRule = Literal["same", "fresh", "all", "pair"]


@dataclass(frozen=True, kw_only=True)
class Side:
    """One capsule in a comparison.

    Attributes:
        id: The capsule's id, None when it has not been sealed.
        image: Digest by which the image is named, None for the `host` runtime.
        image_override: Reference given with `--image`.
    """

    id: str | None
    uuid: str
    tool: str
    verifies: str | None
    started: str
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
            re-execution's fresh seeds, `all` every run of both sides, `pair` the rounds of a pair.
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
        facts: What differs beside the numbers, by topic and pointer.
        pairs: One for each of the original's frozen claims, then one for each metric nobody
            claimed and both sides measured.
        notes: Sentences that a reader of the verdict must see.
    """

    original: Side
    rerun: Side
    image: ImageRelation
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
        facts=facts.between(original, rerun),
        pairs=pairs,
        notes=tuple(_notes(original, rerun, sides, relation, pairs)),
    )


def image_relation(a: Record, b: Record) -> ImageRelation:
    """The strongest identity that two records' images share; `none` when one ran without."""
    if a.image is None or b.image is None:
        return "none"
    x, y = a.image, b.image
    if x.manifest_digest is not None and x.manifest_digest == y.manifest_digest:
        return "same-manifest"
    if x.config_digest == y.config_digest:
        return "same-config"
    if x.layers and [layer.diff_id for layer in x.layers] == [layer.diff_id for layer in y.layers]:
        return "same-tree"
    if x.index_digest is not None and x.index_digest == y.index_digest:
        return "same-index"
    return "different"


def _side(record: Record, capsule_id: str | None) -> Side:
    image = record.image
    return Side(
        id=capsule_id,
        uuid=record.uuid,
        tool=record.tool,
        verifies=record.verifies,
        started=record.started,
        runtime=record.runtime,
        contained=record.contained,
        image=str(image.identity.digest) if image else None,
        image_override=record.image_override,
    )


def _pairs(original: Record, rerun: Record) -> Iterator[Pair]:
    there, here = summary.run_values(original), summary.run_values(rerun)
    if (side := _pair_of(original, rerun)) is not None:
        yield from _rounds(side, there, here)
        return
    for claim in original.claims:
        yield _pair(claim.metric, claim, there.get(claim.metric), here.get(claim.metric))
    claimed = {claim.metric for claim in original.claims}
    for metric in sorted(there.keys() & here.keys() - claimed):
        yield _pair(metric, None, there[metric], here[metric])


def _pair_of(original: Record, rerun: Record) -> PairSide | None:
    """What two sides of one pair agree on; None of two records that are none."""
    a, b = original.origin, rerun.origin
    if not isinstance(a, PairSide) or not isinstance(b, PairSide):
        return None
    return a if replace(a, side=b.side) == b and a.side != b.side else None


def _rounds(
    side: PairSide, there: Mapping[str, MetricRuns], here: Mapping[str, MetricRuns]
) -> Iterator[Pair]:
    """The machine metrics of a pair, judged by its margin; nothing else differs between sides."""
    for metric in sorted(there.keys() & here.keys()):
        if there[metric].kind != "machine":
            continue
        patterns = [pattern for pattern in side.metrics if match(pattern, metric)]
        claim = _claim(side, metric, patterns[0]) if patterns else None
        rule: SeedRule = "pair" if claim is not None else "all"
        yield Pair(
            metric=metric, claim=claim, seeds=rule, original=there[metric], rerun=here[metric]
        )


def _claim(side: PairSide, metric: str, pattern: str) -> FrozenClaim:
    written = Claim(
        metric=pattern, type="equivalence", margin=Margin(ratio=side.margin), paired=True
    )
    return FrozenClaim(
        metric=metric,
        type="equivalence",
        scale="log",
        lower=-math.log(side.margin),
        upper=math.log(side.margin),
        margin_source="author",
        alpha=written.alpha,
        primary=True,
        pattern=written,
        paired=True,
    )


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
    if (side := _pair_of(original, rerun)) is not None:
        yield Note(
            code="pair",
            sentence=f"a pair: {len(side.order)} rounds by turns on one node under equal seeds;"
            " what is judged is how long they take, never whether a number was published honestly",
        )
    elif rerun.verifies is None:
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
    if rerun.image_override is not None:
        yield Note(
            code="image-override",
            sentence=f"the re-execution ran another image on request: {rerun.image_override}",
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
