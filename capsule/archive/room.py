"""Whether a capsule has room for all that a plan will leave behind: asked before it is measured."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from capsule import rankseries
from capsule.archive import limits
from capsule.archive.indented import pretty
from capsule.errors import UsageError
from capsule.levels.catalog import schemes
from capsule.levels.data import generators
from capsule.manifest import (
    Benchmark,
    Claim,
    Collective,
    Command,
    Manifest,
    Metric,
    Network,
    Operator,
    Reading,
    Recipe,
    serving,
)
from capsule.manifest.kinds import Settings
from capsule.manifest.paths import matches
from capsule.plan import Plan, to_json

# bytes that one of each takes in a capsule's documents, at most but for very long names
_CLAIM, _METRIC, _RUN, _FILE, _LINE, _VALUE = 700, 700, 150, 450, 700, 25
# memory that one claim takes once it is parsed, and everything that is no plan and no claim
_PARSED_CLAIM, _PARSED_REST = 1600, 8 << 20
# the measuring program, and further starts of a run that is cut off again and again
_SPARE_ENTRIES = 20_000
_STREAMS = 2
# claims that look at more of a series than the run's value
_STEP_BY_STEP = ("curve", "distribution")
_SAMPLES = "results/samples.jsonl and results/ranks.jsonl"


def require(plan: Plan, *, carried: Sequence[Path]) -> None:
    """Stop before a day of measuring rather than after it, if its capsule could not be read.

    Args:
        plan: What will run.
        carried: Every input file that the capsule has.

    Raises:
        UsageError: Says what is too many, or which input cannot be read.
    """
    for what, number, most in _needs(plan, len(carried)):
        if number > most:
            raise UsageError(
                f"a capsule of this run would have about {number} {what}, and {most} are the most"
                " that a reader takes",
                where="/benchmarks",
                advice="leave out cases, seeds, metrics or claims, or split it into several runs",
            )
    try:
        size_bytes = sum(path.stat().st_size for path in carried)
    except OSError as error:
        where = str(error.filename)
        raise UsageError(f"cannot be read: {error.strerror}", where=where) from None
    if size_bytes > limits.MOST_INPUT_BYTES:
        raise UsageError(
            f"the inputs have {size_bytes} bytes together, and {limits.MOST_INPUT_BYTES} are the"
            " most that a capsule carries",
            where="/benchmarks",
            advice="name large files under /datasets: they are found by their digest, not carried",
        )


def choose_kept(plan: Plan) -> dict[tuple[str, str], bool]:
    """Decide which series of many ranks are folded, and which of these keep all of their values.

    All are kept where there is room for them; else those that a claim is about; else those of them
    that a claim looks at step by step. Of every other one the run's value stays as it is.

    Args:
        plan: All that will run.

    Returns:
        Of each metric to fold, by benchmark and name, whether it is kept whole.
    """
    if max(group.ranks for group in plan.groups) <= rankseries.MANY_RANKS:
        return {}
    parsed = _parsed_bytes(plan, pretty(to_json(plan)), _count_claims(plan))
    claims = plan.manifest.claims
    stepwise = [one for one in claims if one.type in _STEP_BY_STEP or one.mean_of_last]
    kept: dict[tuple[str, str], bool] = {}
    for whole in (None, claims, stepwise):
        kept = dict(_kept(plan.manifest.benchmarks, whole))
        if all(number <= most for _, number, most in _needs_of_samples(plan, kept, parsed)):
            break
    return kept


def _kept(
    benchmarks: Sequence[Benchmark], whole: Sequence[Claim] | None
) -> Iterator[tuple[tuple[str, str], bool]]:
    """The metrics to fold, and whether they are kept whole: all of them, or what claims name."""
    claimed = {
        (benchmark.id, metric.name)
        for claim in whole or ()
        for benchmark, metric in matches(claim.metric, benchmarks)
    }
    for benchmark in benchmarks:
        # what a text gives is read again from it, rank by rank
        if isinstance(benchmark.subject, Command | Recipe):
            for metric in benchmark.metrics:
                key = benchmark.id, metric.name
                # the value of a run with an aggregate is made of all values of a rank
                is_usual = metric.source is None and metric.aggregate is None
                if metric.per == "rank" and is_usual:
                    yield key, whole is None or key in claimed


class Projection:
    """What a run will leave behind as a whole, told by the trials of it that ended.

    How often a command reports a number is known only once it has, and a capsule that none could
    read is better refused after its first trial than after its last.

    Args:
        plan: What runs.
    """

    def __init__(self, plan: Plan) -> None:
        trials = (trial.id for group in plan.groups for trial in group.trials)
        self._kept = choose_kept(plan)
        self._planned = Counter(map(_subject, trials))
        self._bytes: dict[str, list[int]] = {}
        self._total = 0

    def add(self, trial: str, series: Iterable[tuple[str, int]]) -> None:
        """Count a trial that ended.

        Args:
            trial: Its id, `benchmark/case/framework/seed`.
            series: The metric's name of each of its series, and how many numbers it has, steps and
                clocks included.
        """
        subject = _subject(trial)
        by_metric: dict[str, list[int]] = {}
        for name, numbers in series:
            by_metric.setdefault(name, []).append(numbers)
        lines = []
        for name, counts in by_metric.items():
            whole, ranks = self._kept.get((subject.partition("/")[0], name)), len(counts)
            is_folded = whole is not None and ranks > rankseries.MANY_RANKS
            folded = [rankseries.count_values(ranks, max(counts), whole=bool(whole))]
            lines += [
                limits.lines_bytes(1, numbers, limits.LINE_BYTES)
                for numbers in (folded if is_folded else counts)
            ]
        taken = limits.lines_bytes(1, 0, limits.ATTEMPT_BYTES) + sum(lines)
        # sorted, so that the one in the middle is at hand
        insort(self._bytes.setdefault(subject, []), taken)
        self._total += taken

    def require(self) -> None:
        """Stop where all trials together would have more than a reader takes on.

        Raises:
            UsageError: Says how much, and what to change.
        """
        # one trial that says more than others do tells nothing of those that are to come
        expected = self._total + sum(
            ended[len(ended) // 2] * max(0, self._planned[subject] - len(ended))
            for subject, ended in self._bytes.items()
        )
        if expected > limits.MOST_KEPT_BYTES:
            raise UsageError(
                "with as many values in every trial as in those that ended, a capsule of this run"
                f" would take about {expected >> 20} MiB of memory to read, and"
                f" {limits.MOST_KEPT_BYTES >> 20} are the most that a reader takes on",
                where="/benchmarks",
                advice="report fewer values, such as every tenth step, or leave out cases, seeds or"
                " metrics; nothing is sealed, and what finished is kept in the run folder",
            )


def _subject(trial: str) -> str:
    return trial.rpartition("/")[0]


def _needs(plan: Plan, carried: int) -> Iterator[tuple[str, int, int]]:
    """What a capsule would hold how much of, and how much it may hold."""
    starts = sum(group.ranks for group in plan.groups)
    entries = _STREAMS * starts + carried + _SPARE_ENTRIES
    yield "files", entries, limits.MOST_ENTRIES
    benchmarks = plan.manifest.benchmarks
    paths = sum(map(_paths, benchmarks))
    claims = _count_claims(plan)
    runs = sum(_count_trials(plan)[one.id] * len(one.metrics) for one in benchmarks)
    document, most = pretty(to_json(plan)), limits.MOST_DOCUMENT_BYTES
    yield "bytes of records/plan.json", len(document), most
    yield "bytes of capsule.json", _CLAIM * claims, most
    yield "bytes of results/metrics.json", _METRIC * paths + _RUN * runs, most
    yield "bytes of ro-crate-metadata.json", _FILE * (entries + claims), most
    parsed = _parsed_bytes(plan, document, claims)
    yield "bytes of records once they are read", parsed, limits.MOST_PARSED_BYTES
    yield from _needs_of_samples(plan, choose_kept(plan), parsed)


def _parsed_bytes(plan: Plan, document: bytes, claims: int) -> int:
    return (
        limits.parsed_bytes(document)
        + limits.parsed_bytes(plan.manifest.source)
        + _PARSED_CLAIM * claims
        + _PARSED_REST
    )


def _count_claims(plan: Plan) -> int:
    benchmarks = plan.manifest.benchmarks
    return sum(
        len(benchmark.cases if case == "*" and metric != benchmark.score else (case,))
        * len(benchmark.frameworks if framework == "*" else (framework,))
        for claim in plan.manifest.claims
        for benchmark, metric in matches(claim.metric, benchmarks)
        for _, case, framework, _ in [claim.metric.split("/")]
    )


def _count_trials(plan: Plan) -> Counter[str]:
    return Counter(trial.benchmark.id for group in plan.groups for trial in group.trials)


def _needs_of_samples(
    plan: Plan, kept: Mapping[tuple[str, str], bool], parsed: int
) -> Iterator[tuple[str, int, int]]:
    """The bytes that samples would take, and the limit.

    Args:
        plan: What will run.
        kept: As of `choose_kept`.
        parsed: Memory of its documents once they are parsed.
    """
    benchmarks = {one.id: one for one in plan.manifest.benchmarks}
    worlds = Counter(
        (trial.benchmark.id, group.ranks) for group in plan.groups for trial in group.trials
    )
    lines = values = 0
    for (name, ranks), trials in worlds.items():
        for metric in benchmarks[name].metrics:
            count = _count_values(plan.manifest, benchmarks[name], metric)
            own, whole = (ranks if metric.per == "rank" else 1), kept.get((name, metric.name))
            if whole is not None and ranks > rankseries.MANY_RANKS:
                own, count = 1, rankseries.count_values(ranks, count, whole=whole)
            lines += trials * own
            values += trials * own * count
    yield (
        f"bytes of {_SAMPLES}",
        _LINE * lines + _VALUE * values,
        limits.MOST_LINES_BYTES,
    )
    attempts = sum(worlds.values())
    yield (
        "bytes of samples, attempts and records once they are read",
        limits.bytes_to_keep(parsed)
        + limits.lines_bytes(lines, values, limits.LINE_BYTES)
        + limits.lines_bytes(attempts, 0, limits.ATTEMPT_BYTES),
        limits.MOST_KEPT_BYTES,
    )


def _paths(benchmark: Benchmark) -> int:
    return len(benchmark.cases) * len(benchmark.frameworks) * len(benchmark.metrics)


def _count_values(manifest: Manifest, benchmark: Benchmark, metric: Metric) -> int:
    """Return the number of values of one rank in a trial; a command's is unknown."""
    match benchmark.subject:
        case Command():
            calls = 1
        case Reading(epochs=epochs):
            # the number of minibatches follows from the data
            calls = epochs
        case Recipe(settings=settings):
            calls = max(one.epochs for one in settings.values())
            if metric.name in schemes.OF_STEPS:
                return _count_steps(manifest, benchmark, settings.values())
        case Collective(repetitions=repetitions, warmup=warmup):
            return repetitions + warmup
        case Operator() | Network() as subject:
            calls = subject.repetitions + subject.warmup
    served = serving.of(benchmark)
    return serving.values(served, metric.name) or (calls if metric.per in ("call", "step") else 1)


def _count_steps(manifest: Manifest, benchmark: Benchmark, settings: Iterable[Settings]) -> int:
    """The most steps of a training's cases; its epochs where its data does not say how many."""
    samples = None
    for one in manifest.datasets:
        if one.name == benchmark.datasets[0] and one.generator is not None:
            samples = generators.complete(one.generator, one.parameters)["samples"]
    return max(
        one.epochs * (1 if samples is None else max(1, samples // one.batch)) for one in settings
    )
