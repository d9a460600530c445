"""Check before and during a run that its capsule fits what a reader takes on."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from capsule import deviceseries, rankseries, sizes
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
from capsule.telemetry import sources

# bytes that one of each takes in a capsule's documents, at most but for very long names
_METRIC, _RUN, _FILE = 700, 150, 450
# memory that one claim takes once it is parsed, and everything that is no plan and no claim
_PARSED_CLAIM, _PARSED_REST = 1600, 8 << 20
# the measuring code, and further starts of a run that is cut off again and again
_SPARE_ENTRIES = 20_000
_STREAMS = 2
# claims that look at more of a series than the run's value
_STEP_BY_STEP = ("curve", "distribution")

Kept = Mapping[tuple[str, str], bool]
"""True for each series of many ranks whose values are all kept, by benchmark and metric."""


class _Load(NamedTuple):
    """The values of a trial, and the lines of samples that they stand in."""

    values: int
    lines: int


@dataclass
class _Subject:
    """A case in one framework.

    Attributes:
        expected: Size of each trial that is left: the median of the ended ones, if any.
        to_come: Number of trials that are left.
        ended: Sorted, so that the one in the middle is at hand.
    """

    expected: _Load
    to_come: int = 0
    ended: list[_Load] = field(default_factory=list)


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
                f"a capsule of this run would have about {number} {what}, the limit is {most}",
                where="/benchmarks",
                advice="remove cases, seeds, metrics or claims, or split the manifest into several",
            )
    try:
        size_bytes = sum(path.stat().st_size for path in carried)
    except OSError as error:
        where = str(error.filename)
        raise UsageError(
            f"cannot read: {error.strerror}",
            where=where,
            advice="make the file readable, or remove it from the manifest's inputs",
        ) from None
    if size_bytes > limits.MOST_INPUT_BYTES:
        raise UsageError(
            f"the inputs have {sizes.size(size_bytes)} in total; the limit is"
            f" {sizes.size(limits.MOST_INPUT_BYTES)}",
            where="/benchmarks",
            advice="declare large files as datasets: a capsule stores only their digest",
        )


class Projection:
    """The memory that a capsule of a run will take: by its plan, then by the trials that ended.

    How often a command reports a number is known only once it has, and a capsule that none could
    read is better refused after its first trial than after its last.

    Attributes:
        kept: All are kept where there is room for them; else those that a claim is about; else
            those of them that a claim looks at step by step. Of every other one the run's value
            stays as it is.
        parsed: Bytes of its documents once they are parsed.
    """

    def __init__(self, plan: Plan) -> None:
        """Foresee all that will run."""
        self.parsed = (
            limits.parsed_bytes(pretty(to_json(plan)))
            + limits.parsed_bytes(plan.manifest.source)
            + _PARSED_CLAIM * _count_claims(plan)
            + _PARSED_REST
        )
        self._of_devices = _count_device_bytes(plan)
        claims = plan.manifest.claims
        stepwise = [one for one in claims if one.type in _STEP_BY_STEP or one.mean_of_last]
        for whole in (None, claims, stepwise):
            self.kept: Kept = dict(_kept(plan.manifest.benchmarks, whole))
            self._foresee(plan)
            if self.bytes <= limits.MOST_KEPT_BYTES:
                break

    def add(self, trial: str, series: Iterable[tuple[str, int]]) -> None:
        """Count a trial that ended.

        Args:
            trial: Its id, `benchmark/case/framework/seed`.
            series: The metric's name of each of its series, and how many numbers it has, steps and
                clocks included.
        """
        counts: dict[str, list[int]] = {}
        for name, numbers in series:
            counts.setdefault(name, []).append(numbers)
        load = self._measure(trial, counts)
        subject = self._subjects.setdefault(_subject(trial), _Subject(load))
        self._take(subject.expected, -subject.to_come)
        insort(subject.ended, load)
        # one trial that says more than others do tells nothing of those that are to come
        subject.expected = subject.ended[len(subject.ended) // 2]
        subject.to_come = max(0, subject.to_come - 1)
        self._take(subject.expected, subject.to_come)
        self._take(load, 1)

    def require(self) -> None:
        """Stop where all trials together would have more than a reader takes on.

        Raises:
            UsageError: Says how much, and what to change.
        """
        if self.bytes > limits.MOST_KEPT_BYTES:
            raise UsageError(
                f"reading a capsule of this run would need about {self.bytes >> 20} MiB of memory"
                " if the other trials report as many values as the finished ones; the limit is"
                f" {limits.MOST_KEPT_BYTES >> 20} MiB",
                where="/benchmarks",
                advice="the run folder keeps the finished trials; to seal a capsule, report fewer"
                " values, for example every tenth step, or remove cases, seeds or metrics",
            )

    @property
    def bytes(self) -> int:
        """Return the bytes of memory of samples, attempts and documents once read."""
        return (
            limits.bytes_to_keep(self.parsed)
            + limits.lines_bytes(self._lines, self._values, limits.LINE_BYTES)
            + limits.lines_bytes(self._attempts, 0, limits.ATTEMPT_BYTES)
            + self._of_devices
        )

    def _foresee(self, plan: Plan) -> None:
        self._subjects: dict[str, _Subject] = {}
        self._values = self._lines = self._attempts = 0
        for group in plan.groups:
            for trial in group.trials:
                name, benchmark = _subject(trial.id), trial.benchmark
                if name not in self._subjects:
                    counts = {
                        one.name: [_count_values(plan.manifest, benchmark, one)]
                        * (group.ranks if one.per == "rank" else 1)
                        for one in benchmark.metrics
                    }
                    self._subjects[name] = _Subject(self._measure(trial.id, counts))
                self._subjects[name].to_come += 1
                self._take(self._subjects[name].expected, 1)

    def _measure(self, trial: str, counts: Mapping[str, Sequence[int]]) -> _Load:
        """Measure a trial by the number of values of each rank that reports a metric."""
        rows: list[int] = []
        for name, of_ranks in counts.items():
            whole, ranks = self.kept.get((trial.partition("/")[0], name)), len(of_ranks)
            if whole is None or ranks <= rankseries.MANY_RANKS:
                rows += of_ranks
            else:
                rows.append(rankseries.count_values(ranks, max(of_ranks), whole=whole))
        return _Load(sum(rows), len(rows))

    def _take(self, load: _Load, trials: int) -> None:
        self._values += trials * load.values
        self._lines += trials * load.lines
        self._attempts += trials


def _count_device_bytes(plan: Plan) -> int:
    """Return the largest memory of the activity of GPUs in a record, in bytes."""
    gpus = plan.manifest.resources.gpus_per_rank
    lines = sum(group.ranks * gpus * len(group.trials) for group in plan.groups)
    points = deviceseries.count_points(lines, 1) if lines else 0
    lines = min(lines, deviceseries.MAX_LINES)
    columns = 1 + len(sources.QUANTITIES)
    return limits.lines_bytes(lines, columns * points * lines, limits.LINE_BYTES * columns)


def _subject(trial: str) -> str:
    return trial.rpartition("/")[0]


def _kept(
    benchmarks: Sequence[Benchmark], whole: Sequence[Claim] | None
) -> Iterator[tuple[tuple[str, str], bool]]:
    """Yield the metrics to fold, and whether they are kept whole: all of them, or what claims
    name.
    """
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


def _needs(plan: Plan, carried: int) -> Iterator[tuple[str, int, int]]:
    """Yield the needs of a capsule: kind, number and limit."""
    entries = _STREAMS * sum(group.ranks for group in plan.groups) + carried + _SPARE_ENTRIES
    yield "files", entries, limits.MOST_ENTRIES
    paths = sum(
        len(one.cases) * len(one.frameworks) * len(one.metrics) for one in plan.manifest.benchmarks
    )
    runs = sum(len(trial.benchmark.metrics) for group in plan.groups for trial in group.trials)
    room, most = Projection(plan), limits.MOST_DOCUMENT_BYTES
    yield "bytes of results/metrics.json", _METRIC * paths + _RUN * runs, most
    yield "bytes of ro-crate-metadata.json", _FILE * (entries + _count_claims(plan)), most
    yield "bytes of records in memory", room.parsed, limits.MOST_PARSED_BYTES
    what = "bytes of samples, attempts and records in memory"
    yield what, room.bytes, limits.MOST_KEPT_BYTES


def _count_claims(plan: Plan) -> int:
    benchmarks = plan.manifest.benchmarks
    return sum(
        len(benchmark.cases if case == "*" and metric != benchmark.score else (case,))
        * len(benchmark.frameworks if framework == "*" else (framework,))
        for claim in plan.manifest.claims
        for benchmark, metric in matches(claim.metric, benchmarks)
        for _, case, framework, _ in [claim.metric.split("/")]
    )


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
    """Return the most steps of a training's cases; its epochs where its data does not say how
    many.
    """
    samples = None
    for one in manifest.datasets:
        if one.name == benchmark.datasets[0] and one.generator is not None:
            samples = generators.complete(one.generator, one.parameters)["samples"]
    return max(
        one.epochs * (1 if samples is None else max(1, samples // one.batch)) for one in settings
    )
