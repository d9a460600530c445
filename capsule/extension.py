"""Seeds added to a run that was sealed: which they are, what becomes of its claims, one record.

Its author has seen the first runs, and stops adding when it pleases. So nobody chooses the seeds,
every run stays, and margins keep the numbers that they were frozen to. A claim that the original's
runs have a part in, by their values or by how many failed, is about another number now: it is
marked, and decides nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

from capsule import freezing, manifest, notes, population, summary
from capsule.archive import Capsule
from capsule.archive.predecessors import ADDED
from capsule.manifest import Manifest, search
from capsule.origin import Extension
from capsule.record import (
    Attempt,
    DeviceSeries,
    File,
    FrozenClaim,
    Record,
    device_order,
    find_early_runs,
    sample_order,
)
from capsule.seeds import added_seeds, winner_seeds
from capsule.summary import MetricRuns

# these hold re-runs against a constant, whatever the original's runs were
_CONSTANT = ("threshold", "bound")
_KEPT = ("runtime", "contained", "image", "levels", "datasets", "sources")


@dataclass(frozen=True, kw_only=True)
class Extended:
    """A run of its author's own that seeds are added to.

    Attributes:
        capsule: Open, and whole.
    """

    capsule: Capsule

    @property
    def record(self) -> Record:
        """Return the record of the extended capsule."""
        return self.capsule.record

    @property
    def seeds(self) -> tuple[int, ...]:
        """Return the fresh seeds of a verification; empty here."""
        return ()

    @property
    def trials(self) -> frozenset[str]:
        """Return ids of the trials that need not run again."""
        return frozenset(trial["id"] for trial in summary.planned_trials(self.record.plan))

    def name_origin(self, longer: Manifest) -> Extension:
        """Return the origin of a run with more seeds."""
        count = len(longer.seeds) - len(self.record.manifest.seeds)
        return Extension(of=self.capsule.id, seeds=count)


def add_seeds(before: Record, capsule_id: str, count: int) -> Manifest:
    """Return the manifest of a run with more seeds.

    Raises:
        UsageError: Its range of seeds has not so many left.
        ManifestError: It has more trials, then, than a manifest may ask for.
    """
    seeds = before.manifest.seeds
    more = _more_seeds(before.manifest, capsule_id, count)
    raw = {**json.loads(before.manifest.source), "seeds": [*seeds, *more]}
    return manifest.read(
        search.write(raw),
        where=f"{before.manifest.name} with {count} more seeds",
        folder=None,
        subjects=before.plan["subjects"],
    )


def _more_seeds(first: Manifest, capsule_id: str, count: int) -> tuple[int, ...]:
    """Return the seeds to add to a run.

    Raises:
        UsageError: Its range of seeds has not so many left.
    """
    seeds, within, winner = first.seeds, first.seed_range, first.winner_of
    if winner is None:
        return added_seeds(capsule_id, seeds, count=count, within=within)
    # they follow from the search, as the first ones do
    due = winner_seeds(winner.capsule, winner.seeds, count=len(seeds) + count, within=within)
    return due[len(seeds) :]


def merge(record: Record, extended: Extended) -> Record:
    """Merge the runs of both records, the first ones unchanged.

    Args:
        record: Record of the present run; its plan is that of both.
        extended: What ran before.
    """
    before = extended.record
    attempts = tuple(_place(one, len(before.nodes)) for one in record.attempts)
    placed = (replace(one, node=one.node + len(before.nodes)) for one in record.devices)
    record = replace(
        record,
        image=before.image,
        # the same bytes, wherever they were this time
        datasets=before.datasets,
        sources=before.sources,
        nodes=(*before.nodes, *record.nodes),
        worlds=(*before.worlds, *(one.follow(len(before.nodes)) for one in record.worlds)),
        attempts=(*before.attempts, *attempts),
        samples=tuple(sorted((*before.samples, *record.samples), key=sample_order)),
        devices=tuple(sorted((*before.devices, *placed), key=device_order)),
        predecessor=extended.capsule.as_predecessor(),
    )
    record = replace(record, claims=tuple(claims(record)))
    stated = (*record.notes, *map(notes.inherit, before.notes), *due_notes(record))
    return replace(record, notes=tuple(dict.fromkeys(stated)))


def place(files: list[File]) -> list[File]:
    """Return logs and evidence of the added runs, under paths of their own."""
    return [replace(one, path=_place_path(one.path)) for one in files]


def _place(attempt: Attempt, nodes: int) -> Attempt:
    return replace(
        attempt,
        nodes=tuple(node + nodes for node in attempt.nodes),
        evidence=tuple(replace(one, path=_place_path(one.path)) for one in attempt.evidence),
    )


def _place_path(path: str) -> str:
    kind, _, rest = path.partition("/")
    return f"{kind}/{ADDED}{rest}"


def claims(record: Record) -> Iterator[FrozenClaim]:
    """Yield the claims of a record with added seeds: fixed by the first runs, looks by all.

    Raises:
        ManifestError: A claim matches no metric.
    """
    assert record.predecessor is not None
    metrics = summary.run_values(record)
    # an added run may have reported a metric that no sealed claim was frozen for
    due = {
        (claim.metric, claim.pattern): claim
        for claim in freezing.follow(record.manifest.claims, metrics)
    }
    for before in record.predecessor.record.claims:
        claim = due.get((before.metric, before.pattern), before)
        stays = _is_of_reruns(claim, metrics.get(claim.metric))
        primary = before.primary and stays
        yield replace(before, looks=claim.looks, primary=primary, later=not stays)


def _is_of_reruns(claim: FrozenClaim, metric: MetricRuns | None) -> bool:
    """Return whether only re-runs decide a claim: no value or failure of the original's runs.

    Every claim compares how often runs fail. Where all of the original's ran well, there was but
    one way to go on, so its number of runs is as good as fixed.
    """
    if claim.type not in _CONSTANT and claim.pattern.published is None:
        return False
    if claim.pattern.failure_margin is not None or metric is None:
        return False
    metric = summary.values_for(claim.pattern, metric)
    missing = sum(run.status == "missing" for run in metric.runs)
    return len(population.numbers(metric)) + missing == len(metric.runs)


def _seed(one: DeviceSeries) -> int:
    return int(one.trial.rpartition("/")[2])


def due_notes(record: Record) -> Iterator[notes.Note]:
    """Yield notes that a reader of a record with added seeds must know."""
    assert isinstance(record.origin, Extension)
    assert record.predecessor is not None
    before = record.predecessor.record
    if record.image is None and record.software != before.software:
        yield notes.NOTES("added-software")
    own = record.attempts[len(before.attempts) :]
    if clocks := find_early_runs(record.started, own, before.ended, "its predecessor"):
        yield clocks
    seeds = len(before.manifest.seeds)
    yield notes.addition(
        capsule=record.origin.of,
        first=seeds,
        added=record.origin.seeds,
        later=sum(claim.later for claim in record.claims),
    )


def deviations(record: Record, origin: Extension) -> Iterator[str]:
    """Yield differences of a record with added seeds from its predecessor plus such seeds.

    Args:
        record: With its predecessor.
        origin: What it says.
    """
    assert record.predecessor is not None
    before = record.predecessor.record
    there, here = (json.loads(one.manifest.source) for one in (before, record))
    if {**there, "seeds": None} != {**here, "seeds": None}:
        names = (name for name in {**there, **here} if there.get(name) != here.get(name))
        fields = ", ".join(name for name in names if name != "seeds") or "its field names"
        yield (
            f"the manifest differs from that of the extended capsule in {fields}, expected only in"
            " seeds"
        )
    first = before.manifest.seeds
    more = _more_seeds(before.manifest, origin.of, origin.seeds)
    if tuple(record.manifest.seeds) != (*first, *more):
        yield (
            f"the seeds differ from the seeds of the extended capsule plus the {origin.seeds} seeds"
            " derived from the id of the extended capsule"
        )
    if record.attempts[: len(before.attempts)] != before.attempts or any(
        one.seed in first for one in record.attempts[len(before.attempts) :]
    ):
        yield "the attempts under the seeds of the extended capsule differ from its attempts"
    if [repr(one) for one in record.samples if one.seed in first] != list(
        map(repr, before.samples)
    ):
        yield "the samples under the seeds of the extended capsule differ from its samples"
    if [repr(one) for one in record.devices if _seed(one) in first] != list(
        map(repr, before.devices)
    ):
        yield "the devices under the seeds of the extended capsule differ from its devices"
    if record.nodes[: len(before.nodes)] != before.nodes:
        yield "the first nodes differ from the nodes of the extended capsule"
    if record.worlds[: len(before.worlds)] != before.worlds:
        yield "the first worlds differ from the worlds of the extended capsule"
    for name in _KEPT:
        if getattr(record, name) != getattr(before, name):
            yield f"the {name} differs from that of the extended capsule"
