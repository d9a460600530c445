"""Consistency of the parts of a record: intact files can still contradict each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import chain, groupby, islice, pairwise, starmap
from math import isfinite
from operator import attrgetter, ge
from typing import Any

from capsule import averages, deviceseries, digest, plan, rankseries, summary
from capsule.digest import Digest
from capsule.manifest import Command, Metric, looks, otherdevice, recipes
from capsule.record import Attempt, FrozenClaim, RankSamples, Record, Samples, sample_order
from capsule.starts import DECLARED, INDEPENDENT, JOINED

EVIDENCE = "evidence/"
DATASETS = "datasets/"
# what samples and their metric say alike
_MEANING = ("unit", "direction", "kind", "resolution", "per")
_meaning = attrgetter(*_MEANING)
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
    yield from deviceseries.faults(record)
    plans = looks.accepted(record.manifest.claims, len(record.manifest.seeds))
    planned = next((one for one in plans if _follows(record.claims, one)), plans[0])
    # claims are about what the author measured, whatever device a verifier chose
    own = otherdevice.restore_all(record.manifest)
    claimable = frozenset(path for path, _ in plan.metric_paths(own))
    for claim in record.claims:
        yield from _claim_faults(claim, claimable)
        if claim.looks != looks.of(claim.pattern, planned):
            yield (
                f"the claim on {claim.metric} has the looks {list(claim.looks)}, expected"
                f" {list(looks.of(claim.pattern, planned))} as in the plan"
            )
    known = {spec.name: spec.digest for spec in record.manifest.datasets}
    for dataset in record.datasets:
        if dataset.name not in known:
            yield f"the manifest lacks dataset {dataset.name} of the record"
        elif known[dataset.name] not in (None, dataset.digest):
            yield (
                f"dataset {dataset.name} has digest {dataset.digest}, expected"
                f" {known[dataset.name]} as in the manifest"
            )
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
        stated = record.levels["digest"] or "no digest"
        found = f"has digest {tree}" if tree else "is missing"
        return f"levels/ {found}, expected {stated} as in the record"
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
                yield (
                    f"the capsule contains dataset {dataset.name}; the record says that the"
                    " dataset is not embedded"
                )
            continue
        # a dataset is a folder, or the one file in it
        digests = {str(digest.of_tree(files))} if files and "" not in files else set()
        digests |= {str(one) for name, one in files.items() if name and len(files) == 1}
        stated = dataset.bytes, dataset.files
        if dataset.digest not in digests or stated != (totals[dataset.name], len(files)):
            yield (
                f"dataset {dataset.name} has {totals[dataset.name]} bytes in {len(files)} files"
                f" with digest {' or '.join(sorted(digests)) or 'none'}, expected as in the record"
                f" {dataset.bytes} bytes in {dataset.files} files with digest {dataset.digest}"
            )
    yield from (f"the record lacks the dataset of {DATASETS}{name}" for name in carried)


def evidence_faults(record: Record, payload: Mapping[str, Digest]) -> Iterator[str]:
    """Yield contradictions between attempts and payload about evidence; paths below `data/`."""
    stated = [evidence.path for attempt in record.attempts for evidence in attempt.evidence]
    yield from (f"{path} is missing" for path in stated if path not in payload)
    if len(set(stated)) < len(stated):
        twice = next(path for path, count in Counter(stated).items() if count > 1)
        yield f"{twice} is the evidence of two attempts"
    kept = {path for path in payload if path.startswith(EVIDENCE)}
    unlisted = sorted(kept - set(stated))
    yield from (f"expected an attempt with the evidence {path}, found none" for path in unlisted)


def _time_faults(record: Record) -> Iterator[str]:
    times = chain(
        [("the run", "starts", record.started), ("the run", "ends", record.ended)],
        (
            (f"attempt {attempt.attempt} of {attempt.trial}", "starts", attempt.started)
            for attempt in record.attempts
        ),
    )
    unreadable = next((time for time in times if not _is_time(time[2])), None)
    if unreadable:
        name, verb, text = unreadable
        yield f"{name} {verb} at {text!r}, expected a time in UTC"
    elif datetime.fromisoformat(record.ended) < datetime.fromisoformat(record.started):
        yield f"the run ends at {record.ended}, before its start at {record.started}"


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).utcoffset() == timedelta(0)
    except ValueError:
        return False


def _plan_faults(
    record: Record, trials: Mapping[str, Any], paths: Mapping[str, Metric]
) -> Iterator[str]:
    plan_digest = str(plan.json_digest(record.plan))
    if record.plan_digest != plan_digest:
        yield (
            f"records/plan.json has digest {plan_digest}, expected {record.plan_digest} as in the"
            " record"
        )
    if record.plan["verifies"] != record.verifies:
        yield (
            f"the plan verifies {record.plan['verifies'] or 'no capsule'}, expected"
            f" {record.verifies or 'no capsule'} as in the record"
        )
    manifest_digest = str(digest.of_bytes(record.manifest.source))
    if record.plan["manifest"] != manifest_digest:
        stated = record.plan["manifest"]
        yield (
            f"the plan names manifest {stated}, expected {manifest_digest}, the digest of"
            " manifest.json"
        )
    counts = Counter(trial["id"] for group in record.plan["groups"] for trial in group["trials"])
    if counts.total() != len(trials):
        yield f"the plan has trial {counts.most_common(1)[0][0]} twice"
    subjects = {path.rpartition("/")[0] for path in paths}
    seeds = frozenset(record.manifest.seeds)
    for name, trial in trials.items():
        subject, _, seed = name.rpartition("/")
        if subject not in subjects:
            yield f"the manifest lacks the benchmark of trial {name}"
        if seed != str(trial["seed"]):
            yield f"trial {name} has seed {trial['seed']}, expected {seed} as in its id"
        if trial["seed_source"] == "manifest" and trial["seed"] not in seeds:
            yield f"trial {name} has a manifest seed, but the manifest lacks seed {trial['seed']}"
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
            yield f"{subject} has {subjects[subject]} control runs, expected at most 1"
        if subject not in failed:
            yield f"{subject} has a control run, but no failed fresh run"


def _added_faults(record: Record) -> Iterator[str]:
    """Yield contradictions between the claimed earlier runs and the runs of the record."""
    added = Counter(one.id for one in record.chain)
    yield from (f"verification {one} is added twice" for one in added if added[one] > 1)
    trials = summary.planned_trials(record.plan)
    fresh = {trial["seed"] for trial in trials if trial["seed_source"] == "fresh"}
    if record.chain and fresh <= summary.earlier_seeds(record):
        yield "all runs of the record are runs of earlier verifications, expected a new run"


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
            yield f"{name} has a setup duration, but its benchmark has no setup command"
        if attempt.setup_seconds is None and is_prepared and attempt.outcome == "completed":
            yield f"{name} completed, but its setup duration is missing"


def _world_faults(record: Record) -> Iterator[str]:
    """Yield ranks that ran together without a pre-flight, and worlds that nobody could have
    seen.
    """
    planned = {group["ranks"] for group in record.plan["groups"]}
    for world in record.worlds:
        if world.ranks not in planned:
            yield (
                f"the recorded test of ranks started {world.ranks} ranks, expected one of"
                f" {', '.join(map(str, sorted(planned)))}"
            )
        if (node := max(world.nodes, default=0)) >= len(record.nodes):
            yield (
                f"the recorded test of ranks lists node {node}, expected one of the"
                f" {len(record.nodes)} recorded nodes, 0 to {len(record.nodes) - 1}"
            )
        if (world.means, world.bytes, world.seconds) != ((), 0, 0) and not (
            world.means and world.bytes
        ):
            yield (
                f"the recorded test of ranks has the means {list(world.means)}, {world.bytes} bytes"
                f" and {world.seconds:g} s, expected all or none"
            )
    seen = {(world.ranks, frozenset(world.nodes)) for world in record.worlds}
    for attempt in record.attempts:
        if attempt.ranks > 1 and (attempt.ranks, frozenset(attempt.nodes)) not in seen:
            yield (
                f"attempt {attempt.attempt} of {attempt.trial} ran {attempt.ranks} ranks, but the"
                " record lacks a test of these ranks"
            )
        if attempt.world and (fault := _own_world_fault(attempt, record)):
            yield f"attempt {attempt.attempt} of {attempt.trial} {fault}"


def _own_world_fault(attempt: Attempt, record: Record) -> str | None:
    """Return why the world of an attempt's own ranks is not what a run would have stated."""
    benchmarks = {one.id: one.subject for one in record.manifest.benchmarks}
    command = benchmarks.get(attempt.trial.partition("/")[0])
    if attempt.ranks == 1 or not isinstance(command, Command):
        return (
            f"has the world {attempt.world!r} and {attempt.ranks} ranks, expected a world only for"
            " a command of several ranks"
        )
    if attempt.world == DECLARED and not command.declares_world:
        return f'has the world {DECLARED!r}, but its benchmark lacks "world"'
    if attempt.world == INDEPENDENT and not command.ranks_independent:
        return f'has the world {INDEPENDENT!r}, but its benchmark lacks "ranks_independent"'
    seen = ((world.ranks, world.means) for world in record.worlds)
    if attempt.world == JOINED and not any(
        ranks == attempt.ranks and _MPI in means for ranks, means in seen
    ):
        return (
            f"states {attempt.ranks} joined ranks, but the record lacks a test of"
            f" {attempt.ranks} ranks over MPI"
        )
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
            yield f"{name}: the plan lacks this trial"
            continue
        if attempt.trial.rpartition("/")[2] != str(attempt.seed):
            yield f"{name} has seed {attempt.seed}, expected {attempt.trial.rpartition('/')[2]}"
        if attempt.seed_source != trial["seed_source"]:
            yield f"{name} has a {attempt.seed_source} seed, expected a {trial['seed_source']} seed"
        if (node := max(attempt.nodes, default=-1)) >= len(record.nodes):
            yield (
                f"{name} ran on node {node}, expected one of the {len(record.nodes)} recorded"
                f" nodes, 0 to {len(record.nodes) - 1}"
            )
        if len(attempt.nodes) != len(set(attempt.nodes)):
            yield f"{name} lists node {Counter(attempt.nodes).most_common(1)[0][0]} twice"
        if attempt.ranks != trial_ranks[attempt.trial]:
            yield f"{name} ran {attempt.ranks} ranks, expected {trial_ranks[attempt.trial]}"
        highest = max((evidence.rank for evidence in attempt.evidence), default=0)
        if highest >= attempt.ranks:
            yield f"{name} has evidence of rank {highest}, expected ranks 0 to {attempt.ranks - 1}"
        if (attempt.reason is None) != (attempt.outcome == "completed"):
            due = "no reason" if attempt.outcome == "completed" else "a reason"
            given = "no reason" if attempt.reason is None else f"the reason {attempt.reason}"
            yield f"{name} has the outcome {attempt.outcome} with {given}, expected {due}"
        tries.setdefault(attempt.trial, []).append(attempt)
    for trial_id, attempts in tries.items():
        numbers = [attempt.attempt for attempt in attempts]
        if numbers != list(range(1, len(attempts) + 1)):
            yield f"the attempts of {trial_id} are {numbers[:10]}, expected 1 to {len(attempts)}"
        settled = (pair for pair in pairwise(attempts) if summary.final_outcome(pair[0]))
        for final, later in islice(settled, 1):
            yield (
                f"trial {trial_id} has attempt {later.attempt} after attempt {final.attempt} with"
                f" the final outcome {final.outcome}"
            )


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
            yield f"{name} resumed from a checkpoint, but its benchmark writes none"
        elif attempt.attempt == 1:
            yield f"{name} resumed from a checkpoint, but is the first attempt"
        elif not recipes.has_checkpoint(benchmarks[benchmark], case, attempt.resumed_after):
            yield (
                f"{name} resumed after {attempt.resumed_after} epochs, but its benchmark writes no"
                " checkpoint at this epoch"
            )


def _rank_fault(line: Samples, attempt: Attempt, *, is_repeated: bool) -> str | None:
    """Return why a rank has no such samples; `is_repeated` where another one has them, too."""
    if line.rank >= attempt.ranks:
        return f"rank {line.rank}, expected 0 to {attempt.ranks - 1}"
    if is_repeated and line.per != "rank" and attempt.outcome == "completed":
        return (
            f"rank {line.rank} and an earlier rank have samples, expected one rank because the"
            f" metric is per {line.per}"
        )
    return None


def _folding_fault(line: Samples, attempt: Attempt) -> str | None:
    """Return why a series of many ranks cannot be as it is."""
    if not isinstance(line, RankSamples):
        return None
    if line.ranks != attempt.ranks:
        return f"a series of {line.ranks} ranks, expected {attempt.ranks}"
    if line.ranks <= rankseries.MANY_RANKS:
        return f"a series of {line.ranks} ranks, expected more than {rankseries.MANY_RANKS}"
    if attempt.outcome == "completed" and not line.count:
        return (
            "the ranks of a completed attempt measured different numbers of values, expected equal"
            " numbers"
        )
    return next(rankseries.faults(line), None)


def _sample_faults(record: Record, paths: Mapping[str, Metric]) -> Iterator[str]:
    if any(starmap(ge, pairwise(map(sample_order, record.samples)))):
        orders = pairwise(map(sample_order, record.samples))
        first, second = next(pair for pair in orders if pair[0] >= pair[1])
        yield (
            f"samples with metric, seed, attempt and rank {second} follow {first}, expected"
            " ascending order"
        )
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
                missing = "the record lacks this attempt"
                fault = "the manifest lacks this metric" if metric is None else missing
            elif line.trial != f"{subject}/{line.seed}":
                fault = f"the samples are of trial {line.trial}, expected {subject}/{line.seed}"
            elif _meaning(line) != meaning:
                pairs = zip(_MEANING, _meaning(line), _meaning(metric), strict=True)
                fault = next(
                    f"{name} is {found!r}, expected {due!r} as in the metric"
                    for name, found, due in pairs
                    if found != due
                )
            elif wrong := (
                _rank_fault(line, attempt, is_repeated=is_repeated) or _folding_fault(line, attempt)
            ):
                fault = wrong
            elif line.steps is not None and line.per not in ("call", "step", "rank"):
                fault = (
                    f"the samples have steps and are per {line.per}, expected steps only per call,"
                    " step or rank"
                )
            elif attempt.outcome == "completed" and not _usable(line):
                fault = _explain_unusable(line)
            elif attempt.resumed_after and metric.is_of_one_attempt:
                fault = (
                    "the attempt was resumed, but the metric needs the whole trial in one attempt"
                )
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


def _explain_unusable(line: Samples) -> str:
    """Return why no metric of a completed attempt can have such samples."""
    if line.warmup >= len(line.values):
        return (
            f"the attempt completed with {len(line.values)} values, {line.warmup} of them warm-up;"
            " expected a value after the warm-up"
        )
    number, value = next(one for one in enumerate(line.values, 1) if not isfinite(one[1]))
    return f"the attempt completed, but value {number} is {value:g}, expected a finite number"


def _follows(claims: Iterable[FrozenClaim], planned: tuple[int, ...]) -> bool:
    return all(claim.looks == looks.of(claim.pattern, planned) for claim in claims)


def _claim_faults(claim: FrozenClaim, paths: Collection[str]) -> Iterator[str]:
    if claim.metric not in paths:
        yield f"the manifest lacks metric {claim.metric}, which has a claim"
    wrong = [name for name in _AS_WRITTEN if getattr(claim, name) != getattr(claim.pattern, name)]
    if wrong:
        found, due = (getattr(one, wrong[0]) for one in (claim, claim.pattern))
        yield (
            f"the claim on {claim.metric} differs from the manifest in {', '.join(wrong)}:"
            f" {wrong[0]} is {found!r}, expected {due!r}"
        )
    if claim.primary != (claim.pattern.primary and not claim.later):
        found, due = ("primary", "secondary") if claim.primary else ("secondary", "primary")
        yield f"the claim on {claim.metric} is {found}, expected {due} as in the manifest"
    if claim.lower is not None and claim.upper is not None and claim.lower > claim.upper:
        yield (
            f"the claim on {claim.metric} has a lower limit {claim.lower} above its upper limit"
            f" {claim.upper}"
        )
