"""Plan of a run: everything pinned, nothing started."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, zip_longest
from sys import intern
from typing import Any, Literal

from capsule import digest
from capsule.digest import Digest
from capsule.manifest import (
    Benchmark,
    Case,
    Collective,
    Command,
    Manifest,
    Metric,
    Network,
    Operator,
    Reading,
    Recipe,
    Subject,
    otherdevice,
    scaling,
)
from capsule.manifest.benchmarks import subject_to_json
from capsule.manifest.paths import match, matches
from capsule.manifest.paths import metric_paths as _paths_of
from capsule.manifest.paths import trial_paths as _trial_paths_of
from capsule.seeds import fresh_seeds, require_winner

__all__ = [
    "Group",
    "Plan",
    "SeedSource",
    "Trial",
    "add_controls",
    "first",
    "fresh_seeds",
    "make",
    "match",
    "metric_paths",
    "subjects_to_json",
    "to_json",
    "trial_paths",
]

SeedSource = Literal["manifest", "fresh", "control"]
# as they stand in canonical JSON, once: in a string a backslash would stand before the second mark
_GROUPS = b'"groups":[]'
_TOGETHER = 100
_SOURCES: tuple[SeedSource, SeedSource] = ("manifest", "fresh")


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """A trial: one case, framework and seed, the unit of execution and resumption.

    Attributes:
        id: `benchmark/case/framework/seed`, unique in a plan and the same in every plan of the
            manifest that has this seed.
        seed: Unsigned 32-bit; a fresh one lies in the manifest's range.
        seed_source: `manifest` for the author's seed, `fresh` for one derived at verification,
            `control` for the author's where it tells only why every fresh one failed.
    """

    id: str
    benchmark: Benchmark
    case: Case
    framework: str
    seed: int
    seed_source: SeedSource


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Trials of one framework, seed and world size, in order; see `starts`.

    Attributes:
        id: Fit for a file name; starts with the group's place in the plan, from 0001.
        ranks: Processes that are started together, each of which runs every trial.
    """

    id: str
    framework: str
    seed: int
    ranks: int = 1
    trials: tuple[Trial, ...]

    @property
    def subject(self) -> Subject:
        """Return the subject of its first trial; all trials of a group are of one kind."""
        return self.trials[0].benchmark.subject


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Every trial, in the order of process starts.

    Attributes:
        verifies: Id of the capsule that is verified, None for a run of its own.
        nonce: The word that its fresh seeds follow from besides, None for none.
        digest: Names the plan's canonical JSON.
    """

    manifest: Manifest
    groups: tuple[Group, ...]
    verifies: str | None
    nonce: str | None = None
    digest: Digest


def make(
    manifest: Manifest,
    *,
    verifies: str | None = None,
    original_seeds: Sequence[int] | None = None,
    runs: int | None = None,
    nonce: str | None = None,
    only: Collection[str] | None = None,
) -> Plan:
    """Lay out every process start of a run or a verification.

    Without `verifies` every benchmark runs under the manifest's seeds. With it, a benchmark runs
    under the manifest's seeds if an `exact` or paired claim matches it; under fresh seeds if any
    but an `exact` claim does, or none. Pairs tell what a machine does to these runs, and fresh
    seeds beside them whether the number is right.

    The order is the same whenever the arguments are. Seeds follow each other; under each seed the
    frameworks take turns, and the one that went first goes last under the next seed. Inside a
    process, and between processes of one framework and seed, the order is that of
    sha256(seed, trial id): another one for each seed, so that no case always comes after the same.

    Args:
        manifest: What was asked.
        verifies: Id of the capsule that is verified, 64 hex digits.
        original_seeds: The seeds that its runs used, which fresh ones must not repeat; the
            manifest's by default.
        runs: Number of fresh seeds; as many as `original_seeds` by default.
        nonce: A word that the fresh seeds follow from besides the id.
        only: Ids of the benchmarks that run, as in the whole; None for all.

    Raises:
        UsageError: The range of seeds has not so many left, the word is none, or somebody chose
            the seeds of a search's winner.
    """
    require_winner(manifest)
    originals = tuple(manifest.seeds if original_seeds is None else original_seeds)
    fresh: tuple[int, ...] = ()
    if verifies is not None:
        taken = (*originals, *manifest.seeds)
        count = len(originals) if runs is None else runs
        fresh = fresh_seeds(verifies, taken, count=count, within=manifest.seed_range, nonce=nonce)
    sources = [
        (benchmark, _sources(manifest, benchmark, verifies)) for benchmark in manifest.benchmarks
    ]
    starts = (
        start
        for place, pair in enumerate(zip_longest(manifest.seeds, fresh))
        for seed, source in zip(pair, _SOURCES, strict=True)
        if seed is not None
        for start in _round(
            [one for one, wanted in sources if source in wanted], seed, source, place
        )
    )
    if only is not None:
        parts = ([trial for trial in start if trial.benchmark.id in only] for start in starts)
        starts = (part for part in parts if part)
    groups = tuple(_group(number, start, manifest) for number, start in enumerate(starts, 1))
    return Plan(
        manifest=manifest,
        groups=groups,
        verifies=verifies,
        nonce=nonce,
        digest=json_digest(_json(manifest, groups, verifies)),
    )


def first(plan: Plan, runs: int) -> Plan:
    """Return the plan without the fresh seeds after the first `runs`: a planned look at a part of
    it.

    Trials and groups keep their ids, so what ran for one look counts for the next.
    """
    fresh = list(dict.fromkeys(group.seed for group in plan.groups if is_fresh(group)))
    kept = set(fresh[:runs])
    return _with_groups(
        plan,
        [group for group in plan.groups if not is_fresh(group) or group.seed in kept],
    )


def without(plan: Plan, trials: Collection[str]) -> Plan:
    """Return the plan without the process starts of these trials, which ran before.

    Args:
        plan: What is left of it keeps its names.
        trials: Ids; a start is left out where all of its trials are among them.
    """
    return _with_groups(
        plan,
        [group for group in plan.groups if any(trial.id not in trials for trial in group.trials)],
    )


def is_fresh(group: Group) -> bool:
    """Return whether its seed was drawn for a verification, and is none of the original's."""
    return group.trials[0].seed_source == "fresh"


def add_controls(plan: Plan, trial_ids: Collection[str]) -> Plan:
    """Return the plan, and after it runs that are no evidence: they tell why fresh seeds all
    failed.

    A control runs with the trials that its benchmark, case and framework ran with under the first
    fresh seed. Those of them that the plan has already are not added again.

    Args:
        plan: Plan of a verification.
        trial_ids: `benchmark/case/framework/seed`, with a seed of the original's.
    """
    known: set[str] = set()
    models: dict[str, tuple[Group, Trial]] = {}
    for group in plan.groups:
        for trial in group.trials:
            known.add(trial.id)
            if is_fresh(group):
                models.setdefault(trial.id.rpartition("/")[0], (group, trial))
    controls: dict[str, Group] = {}
    for trial_id in sorted(set(trial_ids) - known):
        subject, _, seed = trial_id.rpartition("/")
        group, trial = models[subject]
        control = replace(trial, id=trial_id, seed=int(seed), seed_source="control")
        name = f"{group.id}-control-{seed}"
        start = controls.get(name, replace(group, id=name, seed=control.seed, trials=()))
        controls[name] = replace(start, trials=(*start.trials, control))
    return _with_groups(plan, [*plan.groups, *controls.values()]) if controls else plan


def _with_groups(plan: Plan, groups: Sequence[Group]) -> Plan:
    return replace(
        plan,
        groups=tuple(groups),
        digest=json_digest(_json(plan.manifest, groups, plan.verifies)),
    )


def metric_paths(manifest: Manifest) -> tuple[tuple[str, Metric], ...]:
    """Return every metric path that a run of this manifest yields, with what its numbers mean."""
    return _paths_of(manifest.benchmarks)


def trial_paths(manifest: Manifest) -> tuple[tuple[str, Metric], ...]:
    """Return the paths of metrics that trials have samples of, without those of several trials."""
    return _trial_paths_of(manifest.benchmarks)


def to_json(plan: Plan) -> dict[str, Any]:
    """Return the plan as it is kept in a capsule; `plan.digest` is the digest of its canonical
    form.
    """
    document = _json(plan.manifest, plan.groups, plan.verifies)
    return {**document, "groups": list(document["groups"])}


def subjects_to_json(manifest: Manifest) -> list[dict[str, Any]]:
    """Return the subject of each benchmark of `levels`, as a plan stores it."""
    return [
        subject_to_json(benchmark)
        for benchmark in manifest.benchmarks
        if not isinstance(benchmark.subject, Command)
    ]


def json_digest(document: Mapping[str, Any]) -> Digest:
    """Return the digest of a plan's canonical JSON, of which never more than some groups is in
    memory.

    Args:
        document: As `to_json` gives it; its groups may be an iterator.
    """
    before, name, after = digest.canonical_json({**document, "groups": []}).partition(_GROUPS)
    groups = iter(document["groups"])
    first = digest.canonical_json(list(islice(groups, _TOGETHER)))
    # the brackets of each part are left out
    parts = iter(lambda: digest.canonical_json(list(islice(groups, _TOGETHER))), b"[]")
    rest = (b"," + part[1:-1] for part in parts)
    return digest.of_pieces(chain([before, name[:-1], first[1:-1]], rest, [b"]", after]))


def _sources(manifest: Manifest, benchmark: Benchmark, verifies: str | None) -> list[SeedSource]:
    """Return the kinds of seeds that a benchmark runs under; none for a verification on another
    device if its claims are about equal bits alone.
    """
    if verifies is None:
        return ["manifest"]
    claims = [claim for claim in manifest.claims if matches(claim.metric, [benchmark])]
    is_claimed = bool(claims)
    if manifest.other_device is not None:
        # what is not judged there is not run there
        of_command = isinstance(benchmark.subject, Command)
        claims = [
            one
            for one in claims
            if not otherdevice.compares_bits(one.type, one.metric, of_command=of_command)
        ]
    by_seed = any(claim.type == "exact" or claim.paired for claim in claims)
    sources: list[SeedSource] = ["manifest"] if by_seed else []
    only_exact = is_claimed and all(claim.type == "exact" for claim in claims)
    return sources if only_exact else [*sources, "fresh"]


def _round(
    benchmarks: list[Benchmark], seed: int, source: SeedSource, place: int
) -> Iterator[list[Trial]]:
    """Yield the process starts of one seed."""
    frameworks = list(
        dict.fromkeys(name for benchmark in benchmarks for name in benchmark.frameworks)
    )
    turn = place % len(frameworks) if frameworks else 0
    for framework in frameworks[turn:] + frameworks[:turn]:
        own = sorted(_trials(benchmarks, framework, seed, source), key=_shuffle_key)
        starts: dict[object, list[Trial]] = {}
        for trial in own:
            ranks = scaling.ranks_of(trial.benchmark, trial.case.name)
            key = trial.id if trial.benchmark.isolation == "trial" else ranks
            starts.setdefault(key, []).append(trial)
        yield from sorted(starts.values(), key=lambda s: _shuffle_key(s[0]))


def _trials(
    benchmarks: list[Benchmark], framework: str, seed: int, source: SeedSource
) -> Iterator[Trial]:
    for benchmark in benchmarks:
        runs = framework in benchmark.frameworks and framework not in benchmark.refusals
        for case in benchmark.cases if runs else ():
            yield Trial(
                # a record that was read holds it, too
                id=intern(f"{benchmark.id}/{case.name}/{framework}/{seed}"),
                benchmark=benchmark,
                case=case,
                framework=framework,
                seed=seed,
                seed_source=source,
            )


def _shuffle_key(trial: Trial) -> bytes:
    return hashlib.sha256(f"{trial.seed}\n{trial.id}\n".encode()).digest()


def _group(number: int, trials: list[Trial], manifest: Manifest) -> Group:
    first = trials[0]
    return Group(
        id=intern(f"{number:04d}-{first.framework}-{first.seed}"),
        framework=first.framework,
        seed=first.seed,
        ranks=scaling.ranks_of(first.benchmark, first.case.name) or manifest.resources.ranks,
        trials=tuple(trials),
    )


def _json(manifest: Manifest, groups: Sequence[Group], verifies: str | None) -> dict[str, Any]:
    return {
        "format": "capsule-plan/1",
        "manifest": str(digest.of_bytes(manifest.source)),
        "determinism": manifest.determinism,
        "verifies": verifies,
        **({"set": dict(manifest.changed)} if manifest.changed else {}),
        **({"device": manifest.other_device} if manifest.other_device else {}),
        "subjects": subjects_to_json(manifest),
        "groups": map(_group_json, groups),
    }


def _group_json(group: Group) -> dict[str, Any]:
    return {
        "id": group.id,
        "framework": group.framework,
        "seed": group.seed,
        "ranks": group.ranks,
        "trials": [_trial_json(trial) for trial in group.trials],
    }


def _trial_json(trial: Trial) -> dict[str, Any]:
    benchmark = trial.benchmark
    planned = {
        "id": trial.id,
        "benchmark": benchmark.id,
        "case": trial.case.name,
        "parameters": dict(trial.case.parameters),
        "framework": trial.framework,
        "seed": trial.seed,
        "seed_source": trial.seed_source,
    }
    match benchmark.subject:
        case Command():  # its words stand in the manifest, once: here they would in every trial
            return planned
        case Reading(level=level) | Collective(level=level):
            return {**planned, "level": level}
        case Recipe(name=name, dtype=dtype, level=level, source=source):
            origin = {"source": source} if source else {}
            return {**planned, "level": level, "network": name, **origin, "dtype": dtype}
        case Operator() as subject:
            kind = "operator"
        case Network() as subject:
            kind = "network"
    return {
        **planned,
        "level": subject.level,
        kind: subject.name,
        **({"source": subject.source} if subject.source else {}),
        "dtype": subject.dtype,
        "repetitions": subject.repetitions,
        "warmup": subject.warmup,
    }
