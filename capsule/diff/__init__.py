"""Two records side by side: which runs of one meet which of the other, and what differs beside.

States facts only; what they mean is decided by `capsule.verdict`, and nothing here is a cause.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from capsule import inventory, origin, quick, summary, sweeps
from capsule.diff import (
    altered,
    cautions,
    changes,
    devices,
    evidence,
    facts,
    inability,
    loads,
    records,
    rounds,
    rulers,
    skipped,
    words,
)
from capsule.diff.changes import ImageRelation, image_relation
from capsule.diff.facts import Fact
from capsule.diff.inability import Inability
from capsule.diff.names import ROLES, Names
from capsule.notes import Note
from capsule.record import FrozenClaim, Record
from capsule.sentences import Sentence
from capsule.summary import MetricRuns, Run

SeedRule = Literal["same", "fresh", "all", "pair"]
# these compare run by run, or decide nothing
_BY_SEED = ("exact", "ratio")


@dataclass(frozen=True, kw_only=True)
class Side:
    """One capsule in a comparison.

    Attributes:
        id: The capsule's id, None when it has not been sealed.
        authors: Their names.
        machine: Its nodes in a few words.
        image: Digest by which the image is named, None for the `host` runtime.
        image_override: Reference given with `--image`.
        nonce: The word that its fresh seeds follow from besides the original's id.
        added: Earlier verifications whose runs count with its own and are in it.
        quick: Whether it is a verification that left out what decides nothing.
        world: What is known of the world of its commands' own ranks; empty without several ranks.
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
    nonce: str | None
    added: tuple[origin.Added, ...]
    quick: bool
    world: str


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The runs of one metric that are held against each other.

    Attributes:
        claim: None for a metric that nobody claimed anything about.
        seeds: `same` compares under the original's seeds, run by run; `fresh` uses only the
            re-execution's fresh seeds, `all` every run of both sides, `pair` the rounds of a pair.
        original: The original's runs in use, with the values that the claim judges; None when it
            has no such metric.
        rerun: The same of the re-execution.
        refused: Why these runs are no evidence, None where they are.
        inability: Why no run of the re-execution could be made, None where one could.
        skipped: Which side did not run it, being quick; None where both were to.
        scale: Why the numbers of the two sides are not of one scale, None where they are.
        altered: What of the manifest was set that its metric of a machine depends on, None for
            nothing.
        not_run: Why a side did not run it on its device, None if both sides were to run it.
        is_moved: True for a machine metric whose sides ran on different devices by the choice of a
            verifier.
        names: What the sides are called.
    """

    metric: str
    claim: FrozenClaim | None
    seeds: SeedRule
    original: MetricRuns | None
    rerun: MetricRuns | None
    refused: Sentence | None = None
    inability: Inability | None = None
    skipped: str | None = None
    scale: Sentence | None = None
    altered: str | None = None
    not_run: str | None = None
    is_moved: bool = False
    names: Names = ROLES


@dataclass(frozen=True, kw_only=True)
class Differences:
    """Everything that two records say about each other.

    Attributes:
        image: How the two images are related, the strongest identity that holds.
        changes: What was changed of the experiment itself; ends the verdict's sentence.
        facts: What differs beside the numbers, by topic and pointer.
        pairs: One for each of the original's frozen claims, two for a paired one that stands alone
            (under equal seeds and under fresh ones), then one for each metric nobody claimed and
            both sides measured.
        notes: Sentences that a reader of the verdict must see.
        cautions: Facts that weaken the verdict.
        names: What the sides are called.
    """

    original: Side
    rerun: Side
    image: ImageRelation
    changes: tuple[Note, ...]
    facts: tuple[Fact, ...]
    pairs: tuple[Pair, ...]
    notes: tuple[Note, ...]
    cautions: tuple[Note, ...] = ()
    names: Names = ROLES


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
    there, here = summary.run_values(original), summary.run_values(rerun)
    side = rounds.pair_of(original, rerun)
    met = pair_rounds(side, there, here) if side else pair_up(original.claims, there, here)
    met = devices.mark(skipped.mark(met, original, rerun), original, rerun)
    marked = altered.mark(met, original, rerun)
    pairs = tuple(rulers.mark(marked, original, rerun))
    if copied := evidence.copy(original, rerun):
        pairs = refuse(pairs, copied)
    sides = _side(original, original_id), _side(rerun, rerun_id)
    names = ROLES if side is None else rounds.names(side)
    return Differences(
        original=sides[0],
        rerun=sides[1],
        image=relation,
        changes=changes.between(original, rerun, original_id=original_id, rerun_id=rerun_id)
        if side is None
        else (),
        facts=facts.between(original, rerun),
        pairs=pairs,
        notes=tuple(_notes(original, rerun, sides, relation, pairs)),
        cautions=tuple(cautions.notes(original, rerun, pairs, names)),
        names=names,
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
        nonce=record.nonce,
        added=record.chain,
        quick=bool(quick.not_run(record)),
        world="; ".join(sorted(set(summary.worlds(record).values()))),
    )


def _machine(record: Record) -> str:
    kinds = Counter(map(inventory.describe, summary.own_nodes(record)))
    return "; ".join(f"{count} x {kind}" if count > 1 else kind for kind, count in kinds.items())


def pair_up(
    claims: Sequence[FrozenClaim], there: Mapping[str, MetricRuns], here: Mapping[str, MetricRuns]
) -> Iterator[Pair]:
    """Pair the runs of both sides for every claim and every unclaimed metric.

    Args:
        claims: The original's.
        there: The original's metrics by path.
        here: The re-execution's.
    """
    for claim in claims:
        pair = _pair(claim, there.get(claim.metric), here.get(claim.metric))
        yield replace(pair, refused=pair.refused or evidence.wide_bound(claim, here))
        beside = (other.pattern for other in claims if other.metric == claim.metric)
        if claim.paired and not any(other.answers_for(claim.pattern) for other in beside):
            # pairs tell what the machine does; whether the number is right, only fresh seeds do
            fresh = replace(claim, paired=False)
            yield _pair(fresh, there.get(claim.metric), here.get(claim.metric))
    claimed = {claim.metric for claim in claims}
    for metric in sorted(there.keys() & here.keys() - claimed):
        rule, runs = _fresh(here[metric])
        yield Pair(metric=metric, claim=None, seeds=rule, original=there[metric], rerun=runs)


def pair_rounds(
    side: origin.Side, there: Mapping[str, MetricRuns], here: Mapping[str, MetricRuns]
) -> Iterator[Pair]:
    """The machine metrics of a pair: under equal seeds nothing else can tell the sides apart.

    Args:
        side: The origin of the first.
        there: The first side's metrics by path.
        here: The second's.
    """
    for metric in sorted(there.keys() & here.keys()):
        if there[metric].kind == "machine":
            claim = rounds.claim(side, metric)
            yield Pair(
                metric=metric,
                claim=claim,
                seeds="pair" if claim is not None else "all",
                original=there[metric],
                rerun=here[metric],
                names=rounds.names(side),
            )


def refuse(pairs: Iterable[Pair], reason: Sentence) -> tuple[Pair, ...]:
    """The same pairs, none of which is evidence."""
    return tuple(replace(pair, refused=reason) for pair in pairs)


def _pair(claim: FrozenClaim, there: MetricRuns | None, here: MetricRuns | None) -> Pair:
    rule: SeedRule = "all"
    refused: Sentence | None = None
    unable: Inability | None = None
    there, here = (
        None if side is None else summary.values_for(claim.pattern, side) for side in (there, here)
    )
    if there is not None and here is not None:
        whole = there, here
        if claim.type == "exact":
            rule = "same"
            common = {run.seed for run in there.runs} & {run.seed for run in here.runs}
            there = _only(there, lambda run: run.seed in common)
            here = _only(here, lambda run: run.seed in common)
        elif claim.paired:
            # the original stays whole: its margin is told by all of its runs
            rule = "same"
            own = {run.seed for run in there.runs}
            here = _only(here, lambda run: run.seed in own)
        elif claim.type == "ratio":
            rule, here = _fresh(here)
        else:
            rule, runs = _fresh(here)
            here = evidence.without_repeated_seeds(there, runs)
            refused = _refusal(claim, there, runs, here)
            if claim.type == "bound":
                # a bound that one run breaks is broken, under whatever seed
                here = runs
        unable = inability.find(whole[0], here, whole[1])
    return Pair(
        metric=claim.metric,
        claim=claim,
        seeds=rule,
        original=there,
        rerun=here,
        refused=refused,
        inability=unable,
    )


def _refusal(
    claim: FrozenClaim, there: MetricRuns, runs: MetricRuns, here: MetricRuns
) -> Sentence | None:
    """Why a re-execution's runs say nothing of a claim, None where they do."""
    if there.aggregate != here.aggregate:
        return words.another_aggregate(there=there.aggregate, here=here.aggregate)
    if runs.runs and not here.runs:
        return words.REFUSALS("repeated-seeds")
    reasons = [evidence.reuse(there, here)]
    if claim.type not in ("threshold", "bound"):
        reasons += [evidence.repetition(there, "original")]
        reasons += [evidence.repetition(here, "re-run")]
    return next(filter(None, reasons), None)


def _fresh(here: MetricRuns) -> tuple[SeedRule, MetricRuns]:
    """The runs under fresh seeds, all where none is fresh."""
    if any(run.seed_source == "fresh" for run in here.runs):
        return "fresh", _only(here, lambda run: run.seed_source == "fresh")
    return "all", here


def _only(metric: MetricRuns, wanted: Callable[[Run], bool]) -> MetricRuns:
    return replace(metric, runs=tuple(run for run in metric.runs if wanted(run)))


def _notes(
    original: Record,
    rerun: Record,
    sides: tuple[Side, Side],
    relation: ImageRelation,
    pairs: tuple[Pair, ...],
) -> Iterator[Note]:
    side = rounds.pair_of(original, rerun)
    names = ROLES if side is None else rounds.names(side)
    if side is not None:
        yield words.NOTES("pair", rounds=len(side.order), there=names.there, here=names.here)
    elif evidence.common_run(original, rerun) is not None:
        yield words.NOTES("same-run")
    elif rerun.verifies is None:
        yield words.NOTES("not-a-reexecution")
    elif sides[0].id is not None and rerun.verifies != sides[0].id:
        yield words.NOTES("of-another-original")
    if added := sides[1].added:
        yield records.added_note(rerun, added)
    # of a pair it is what was asked for
    if relation == "different" and side is None:
        yield words.NOTES("images-differ")
    for name, record in ((names.there, original), (names.here, rerun)):
        for sentence in sweeps.explain_sharing(list(sweeps.find(record))):
            yield words.NOTES("shared-cores", side=name, sharing=sentence)
    if original.judge_rule != origin.JUDGE_RULE:
        rule = original.judge_rule
        yield words.NOTES("older-rule", side=names.there, rule=rule, ours=origin.JUDGE_RULE)
    if original.contained != rerun.contained:
        yield words.NOTES(
            "containment-differs", side=names.there if rerun.contained else names.here
        )
    yield from _seed_notes(original, rerun, pairs)
    yield from records.of_both(original, rerun, names)
    yield from devices.notes(original, rerun)
    yield from loads.notes(original, rerun, pairs, names)


def _seed_notes(original: Record, rerun: Record, pairs: tuple[Pair, ...]) -> Iterator[Note]:
    own = {trial["seed"] for trial in summary.planned_trials(original.plan)}
    if evidence.common_run(original, rerun) is not None:
        own = set()  # under whatever seeds, they are the same runs
    shared = own & {trial["seed"] for trial in summary.planned_trials(rerun.plan)}
    of_numbers = (pair for pair in pairs if pair.claim and pair.claim.type not in _BY_SEED)
    if shared and any(pair.seeds == "all" for pair in of_numbers):
        yield words.NOTES("shared-seeds", seeds=len(shared))
    for pair in pairs:
        # that they are equal is what an exact claim says, and a bound each run keeps by itself
        claimed = pair.claim is not None and pair.claim.type not in ("exact", "bound")
        named = ((pair.names.there, pair.original), (pair.names.here, pair.rerun))
        for name, side in named:
            if claimed and side is not None and evidence.is_constant(side):
                runs = len(side.values)
                yield words.NOTES("equal-values", metric=pair.metric, runs=runs, side=name)
