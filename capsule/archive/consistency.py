"""Consistency of the parts of a record: intact files can still contradict each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import groupby, pairwise, starmap
from operator import attrgetter, ge
from typing import Any

from capsule import averages, digest, plan, rankseries, summary
from capsule.digest import Digest
from capsule.manifest import Command, Metric, looks, recipes
from capsule.record import Attempt, FrozenClaim, RankSamples, Record, Samples, sample_order
from capsule.starts import DECLARED, INDEPENDENT, JOINED

EVIDENCE = "evidence/"
DATASETS = "datasets/"
# what samples and their metric say alike
_meaning = attrgetter("unit", "direction", "kind", "resolution", "per")
_MPI = "mpi"
_AS_WRITTEN = ("type", "alpha", "paired", "resolution")


def faults(record: Record) -> Iterator[str]:
    """Yield every contradiction within a record, as sentences."""
    yield from _time_faults(record)
    trials = {trial["id"]: trial for trial in summary.planned_trials(record.plan)}
    paths = dict(plan.trial_paths(record.manifest))
    yield from _plan_faults(record, trials, paths)
    yield from _attempt_faults(record, trials)
    yield from _setup_faults(record)
    yield from _world_faults(record)
    yield from _resumption_faults(record)
    yield from _added_faults(record)
    yield from _sample_faults(record, paths)
    planned = looks.plan(record.manifest.claims, len(record.manifest.seeds))
    claimable = frozenset(path for path, _ in plan.metric_paths(record.manifest))
    for claim in record.claims:
        yield from _claim_faults(claim, claimable)
        if claim.looks != looks.of(claim.pattern, planned):
            yield f"the looks of the claim on {claim.metric} contradict the plan: {claim.looks}"
    known = {spec.name: spec.digest for spec in record.manifest.datasets}
    for dataset in record.datasets:
        if dataset.name not in known:
            yield f"dataset {dataset.name} is not in the manifest"
        elif known[dataset.name] not in (None, dataset.digest):
            yield f"dataset {dataset.name} has another digest than in the manifest"
    if record.contained and record.image is None:
        yield "the runs used a container, but the record names no image"
    if record.image is not None and not record.contained:
        yield "the record names an image, but the runs used no container"


def levels_fault(record: Record, payload: Mapping[str, Digest]) -> str | None:
    """Return whether `levels/` in the payload (path below `data/` -> digest) is the recorded
    one.
    """
    prefix = "levels/"
    digests = {
        path.removeprefix(prefix): file_digest
        for path, file_digest in payload.items()
        if path.startswith(prefix)
    }
    tree = str(digest.of_tree(digests)) if digests else None
    if tree != record.levels["digest"]:
        return f"levels/ has digest {tree}; the record says {record.levels['digest']}"
    return None


def dataset_faults(
    record: Record, payload: Mapping[str, Digest], sizes: Mapping[str, int]
) -> Iterator[str]:
    """Yield contradictions between the record's datasets and the files of the capsule."""
    carried: dict[str, dict[str, Digest]] = {}
    totals: Counter[str] = Counter()
    for path, file_digest in payload.items():
        if path.startswith(DATASETS):
            name, _, rest = path.removeprefix(DATASETS).partition("/")
            carried.setdefault(name, {})[rest] = file_digest
            totals[name] += sizes[path]
    for dataset in record.datasets:
        files = carried.pop(dataset.name, {})
        if not dataset.embedded:
            if files:
                yield f"the capsule contains dataset {dataset.name}; the record says it does not"
            continue
        # a dataset is a folder, or the one file in it
        digests = {str(digest.of_tree(files))} if files and "" not in files else set()
        digests |= {str(one) for name, one in files.items() if name and len(files) == 1}
        stated = dataset.bytes, dataset.files
        if dataset.digest not in digests or stated != (totals[dataset.name], len(files)):
            yield f"the files of dataset {dataset.name} contradict its digest"
    yield from (f"{DATASETS}{name} is not a dataset of the record" for name in carried)


def evidence_faults(record: Record, payload: Mapping[str, Digest]) -> Iterator[str]:
    """Yield contradictions between attempts and payload about evidence; paths below `data/`."""
    stated = [evidence.path for attempt in record.attempts for evidence in attempt.evidence]
    yield from (f"{path} is missing" for path in stated if path not in payload)
    if len(set(stated)) < len(stated):
        yield "two attempts name one file as their evidence"
    kept = {path for path in payload if path.startswith(EVIDENCE)}
    yield from (f"{path} belongs to no attempt" for path in sorted(kept - set(stated)))


def _time_faults(record: Record) -> Iterator[str]:
    times = [record.started, record.ended, *(attempt.started for attempt in record.attempts)]
    unreadable = [text for text in times if not _is_time(text)]
    if unreadable:
        yield f"not a time: {unreadable[0]!r}"
    elif datetime.fromisoformat(record.ended) < datetime.fromisoformat(record.started):
        yield "the run ends before it starts"


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).utcoffset() == timedelta(0)
    except ValueError:
        return False


def _plan_faults(
    record: Record, trials: Mapping[str, Any], paths: Mapping[str, Metric]
) -> Iterator[str]:
    if record.plan_digest != str(plan.json_digest(record.plan)):
        yield "the plan's digest differs from that of records/plan.json"
    if record.plan["verifies"] != record.verifies:
        yield "the plan verifies another capsule than the record"
    if record.plan["manifest"] != str(digest.of_bytes(record.manifest.source)):
        yield "the plan was made from another manifest"
    if sum(len(group["trials"]) for group in record.plan["groups"]) != len(trials):
        yield "the plan has a trial twice"
    subjects = {path.rpartition("/")[0] for path in paths}
    seeds = frozenset(record.manifest.seeds)
    for name, trial in trials.items():
        subject, _, seed = name.rpartition("/")
        if subject not in subjects:
            yield f"trial {name} belongs to no benchmark of the manifest"
        if seed != str(trial["seed"]):
            yield f"trial {name} has seed {trial['seed']}"
        if trial["seed_source"] == "manifest" and trial["seed"] not in seeds:
            yield f"trial {name} has a seed that is not in the manifest"
    yield from _control_faults(record, trials)


def _control_faults(record: Record, trials: Mapping[str, Any]) -> Iterator[str]:
    """Yield control runs that nothing calls for."""
    controls = [name for name, trial in trials.items() if trial["seed_source"] == "control"]
    if controls and record.verifies is None:
        yield f"trial {controls[0]} is a control run outside of a verification"
    failed = {
        attempt.trial.rpartition("/")[0]
        for attempt in record.attempts
        if attempt.seed_source == "fresh" and attempt.outcome == "failed"
    }
    subjects = Counter(name.rpartition("/")[0] for name in controls)
    for subject in sorted(subjects):
        if subjects[subject] > 1:
            yield f"{subject} has a second control run"
        if subject not in failed:
            yield f"{subject} has a control run, but no failed fresh run"


def _added_faults(record: Record) -> Iterator[str]:
    """Yield contradictions between the claimed earlier runs and the runs of the record."""
    if len({one.id for one in record.chain}) < len(record.chain):
        yield "a verification is added twice"
    trials = summary.planned_trials(record.plan)
    fresh = {trial["seed"] for trial in trials if trial["seed_source"] == "fresh"}
    if record.chain and fresh <= summary.earlier_seeds(record):
        yield "all runs are claimed to be those of earlier verifications"


def _setup_faults(record: Record) -> Iterator[str]:
    prepared = {
        one.id
        for one in record.manifest.benchmarks
        if isinstance(one.subject, Command) and one.subject.setup
    }
    for attempt in record.attempts:
        name = f"attempt {attempt.attempt} of {attempt.trial}"
        is_prepared = attempt.trial.partition("/")[0] in prepared
        if attempt.setup_seconds is not None and not is_prepared:
            yield f"{name} has a setup duration, but no setup command"
        if attempt.setup_seconds is None and is_prepared and attempt.outcome == "completed":
            yield f"{name} completed, but its setup duration is missing"


def _world_faults(record: Record) -> Iterator[str]:
    """Yield ranks that ran together without a pre-flight, and worlds that nobody could have
    seen.
    """
    planned = {group["ranks"] for group in record.plan["groups"]}
    for world in record.worlds:
        if world.ranks not in planned:
            yield f"the recorded test saw {world.ranks} ranks, which were not planned"
        if any(node >= len(record.nodes) for node in world.nodes):
            yield "the recorded test saw ranks on an unrecorded node"
        if (world.means, world.bytes, world.seconds) != ((), 0, 0) and not (
            world.means and world.bytes
        ):
            yield "the recorded test of ranks lacks its means or its sum"
    seen = {(world.ranks, frozenset(world.nodes)) for world in record.worlds}
    for attempt in record.attempts:
        if attempt.ranks > 1 and (attempt.ranks, frozenset(attempt.nodes)) not in seen:
            yield f"attempt {attempt.attempt} of {attempt.trial} ran without a test of its ranks"
        if attempt.world and (fault := _own_world_fault(attempt, record)):
            yield f"attempt {attempt.attempt} of {attempt.trial} {fault}"


def _own_world_fault(attempt: Attempt, record: Record) -> str | None:
    """Return why the world of an attempt's own ranks is not what a run would have stated."""
    benchmarks = {one.id: one.subject for one in record.manifest.benchmarks}
    command = benchmarks.get(attempt.trial.partition("/")[0])
    if attempt.ranks == 1 or not isinstance(command, Command):
        return "states a world, but is not a command of several ranks"
    if attempt.world == DECLARED and not command.declares_world:
        return "states a world that its author did not declare"
    if attempt.world == INDEPENDENT and not command.ranks_independent:
        return "states independent ranks, which its author did not declare"
    seen = ((world.ranks, world.means) for world in record.worlds)
    if attempt.world == JOINED and not any(
        ranks == attempt.ranks and _MPI in means for ranks, means in seen
    ):
        return "states joined ranks, but the recorded test did not see as many"
    return None


def _attempt_faults(record: Record, trials: Mapping[str, Any]) -> Iterator[str]:
    tries: dict[str, list[Attempt]] = {}
    trial_ranks = {
        trial["id"]: group["ranks"] for group in record.plan["groups"] for trial in group["trials"]
    }
    for attempt in record.attempts:
        name = f"attempt {attempt.attempt} of {attempt.trial}"
        trial = trials.get(attempt.trial)
        if trial is None:
            yield f"{name}: no such trial in the plan"
            continue
        if attempt.trial.rpartition("/")[2] != str(attempt.seed):
            yield f"{name} has another seed than its trial"
        if attempt.seed_source != trial["seed_source"]:
            yield f"{name} has another seed source than its trial"
        if any(node >= len(record.nodes) for node in attempt.nodes):
            yield f"{name} ran on an unrecorded node"
        if len(attempt.nodes) != len(set(attempt.nodes)):
            yield f"{name} names a node twice"
        if attempt.ranks != trial_ranks[attempt.trial]:
            yield f"{name} ran with another number of ranks than planned: {attempt.ranks}"
        if any(evidence.rank >= attempt.ranks for evidence in attempt.evidence):
            yield f"{name} has evidence of a missing rank"
        if (attempt.reason is None) != (attempt.outcome == "completed"):
            yield f"{name} has contradictory outcome and reason"
        tries.setdefault(attempt.trial, []).append(attempt)
    for trial_id, attempts in tries.items():
        if [attempt.attempt for attempt in attempts] != list(range(1, len(attempts) + 1)):
            yield f"the attempts of {trial_id} are not numbered from 1"
        if any(map(summary.final_outcome, attempts[:-1])):
            yield f"{trial_id} was tried again after its final outcome"


def _resumption_faults(record: Record) -> Iterator[str]:
    """Yield attempts that cannot have gone on from a checkpoint, though they are said to have."""
    benchmarks = {one.id: one for one in record.manifest.benchmarks}
    for attempt in record.attempts:
        benchmark, case, *_ = attempt.trial.split("/")
        if attempt.resumed_after is None or benchmark not in benchmarks:
            continue
        every = recipes.checkpoint_epochs(benchmarks[benchmark], case)
        name = f"attempt {attempt.attempt} of {attempt.trial}"
        if every is None:
            yield f"{name} resumed from a checkpoint, but its benchmark has none"
        elif attempt.attempt == 1:
            yield f"{name} resumed from a checkpoint, but no attempt before it left one"
        elif not recipes.has_checkpoint(benchmarks[benchmark], case, attempt.resumed_after):
            yield f"{name} resumed after {attempt.resumed_after} epochs, where no checkpoint is"


def _rank_fault(line: Samples, attempt: Attempt, *, is_repeated: bool) -> str | None:
    """Return why a rank has no such samples; `is_repeated` where another one has them, too."""
    if line.rank >= attempt.ranks:
        return f"rank {line.rank} does not exist"
    if is_repeated and line.per != "rank" and attempt.outcome == "completed":
        return "several ranks have it, but it is not declared per rank"
    return None


def _folding_fault(line: Samples, attempt: Attempt) -> str | None:
    """Return why a series of many ranks cannot be as it is."""
    if not isinstance(line, RankSamples):
        return None
    if line.ranks != attempt.ranks or line.ranks <= rankseries.MANY_RANKS:
        return f"a series of {line.ranks} ranks; {attempt.ranks} were started"
    if attempt.outcome == "completed" and not line.count:
        return "the ranks of a completed attempt measured different numbers of values"
    return next(rankseries.faults(line), None)


def _sample_faults(record: Record, paths: Mapping[str, Metric]) -> Iterator[str]:
    if any(starmap(ge, pairwise(map(sample_order, record.samples)))):
        yield "samples are repeated, or not sorted by metric, seed, attempt and rank"
    attempts = {(attempt.trial, attempt.attempt): attempt for attempt in record.attempts}
    # of how many metrics each attempt has samples
    counts = dict.fromkeys(attempts, 0)
    for path, lines in groupby(record.samples, key=attrgetter("metric")):
        metric, subject = paths.get(path), path.rpartition("/")[0]
        meaning = None if metric is None else _meaning(metric)
        before = None
        for line in lines:
            key = line.trial, line.attempt
            attempt = attempts.get(key)
            if attempt is not None and key != before:
                counts[key] += 1
            is_repeated, before = key == before, key
            if metric is None or attempt is None:
                fault = "no such metric or attempt"
            elif line.trial != f"{subject}/{line.seed}":
                fault = "they belong to another trial"
            elif _meaning(line) != meaning:
                fault = "unit, direction, kind, resolution or per differ from the metric's"
            elif wrong := (
                _rank_fault(line, attempt, is_repeated=is_repeated) or _folding_fault(line, attempt)
            ):
                fault = wrong
            elif line.steps is not None and line.per not in ("call", "step", "rank"):
                fault = f"a metric per {line.per} has no steps"
            elif attempt.outcome == "completed" and not _usable(line):
                fault = "none after warm-up, or one is not finite, though it completed"
            elif attempt.resumed_after and metric.is_of_one_attempt:
                fault = "the attempt was resumed, and none has seen all of the trial"
            else:
                continue
            yield f"samples of {line.metric}, seed {line.seed}, attempt {line.attempt}: {fault}"
    yield from _missing_samples(record, paths, counts)


def _missing_samples(
    record: Record, paths: Mapping[str, Metric], counts: Mapping[tuple[str, int], int]
) -> Iterator[str]:
    """Yield completed trials without samples of a metric.

    Args:
        record: Of which each line of samples belongs to a metric of its attempt, or is a fault.
        paths: Every metric that a trial yields, by its path.
        counts: Of how many metrics there are samples, by trial and attempt.
    """
    names: dict[str, list[str]] = {}
    lost: dict[str, set[str]] = {}
    for path, metric in paths.items():
        subject, _, name = path.rpartition("/")
        names.setdefault(subject, []).append(name)
        if metric.is_of_one_attempt:
            lost.setdefault(subject, set()).add(name)
    fewer: dict[tuple[str, int], str] = {}
    for attempt in record.attempts:
        key, subject = (attempt.trial, attempt.attempt), attempt.trial.rpartition("/")[0]
        if attempt.outcome == "completed" and counts[key] != len(names.get(subject, ())):
            fewer[key] = subject
    resumed = {(one.trial, one.attempt) for one in record.attempts if one.resumed_after}
    present = {
        (line.metric, key)
        for line in (record.samples if fewer else ())
        if (key := (line.trial, line.attempt)) in fewer
    }
    for key, subject in fewer.items():
        spared = lost.get(subject, set()) if key in resumed else ()
        for name in names.get(subject, ()):
            if name not in spared and (f"{subject}/{name}", key) not in present:
                yield f"{key[0]} completed without samples of {name}"


def _usable(line: Samples) -> bool:
    return line.warmup < len(line.values) and averages.finite(line.values)


def _claim_faults(claim: FrozenClaim, paths: Collection[str]) -> Iterator[str]:
    if claim.metric not in paths:
        yield f"the claim on {claim.metric} matches no metric of the manifest"
    if any(getattr(claim, name) != getattr(claim.pattern, name) for name in _AS_WRITTEN):
        yield f"the claim on {claim.metric} is judged otherwise than written"
    if claim.primary != (claim.pattern.primary and not claim.later):
        yield f"the claim on {claim.metric} counts otherwise than written"
    if claim.lower is not None and claim.upper is not None and claim.lower > claim.upper:
        yield f"the claim on {claim.metric} allows nothing: {claim.lower} to {claim.upper}"
