"""Whether a capsule has room for all that a plan will leave behind: asked before it is measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from capsule.archive import limits
from capsule.archive.indented import pretty
from capsule.errors import UsageError
from capsule.manifest import (
    Benchmark,
    Collective,
    Command,
    Network,
    Operator,
    Reading,
    Recipe,
    serving,
)
from capsule.manifest.paths import matches
from capsule.plan import Plan, to_json

# bytes that one of each takes in a capsule's documents, at most but for very long names
_CLAIM, _METRIC, _RUN, _FILE, _LINE, _VALUE = 700, 700, 150, 450, 700, 25
# memory that one claim takes once it is parsed, and everything that is no plan and no claim
_PARSED_CLAIM, _PARSED_REST = 1600, 8 << 20
# the measuring program, and further starts of a run that is cut off again and again
_SPARE_ENTRIES = 20_000
_STREAMS = 2


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


class Projection:
    """What a run will leave behind as a whole, told by the trials of it that ended.

    How often a command reports a number is known only once it has, and a capsule that none could
    read is better refused after its first trial than after its last.

    Args:
        plan: What runs.
    """

    def __init__(self, plan: Plan) -> None:
        trials = (trial.id for group in plan.groups for trial in group.trials)
        self._planned = Counter(map(_subject, trials))
        self._ended: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()

    def add(self, trial: str, series: Iterable[int]) -> None:
        """Count a trial that ended.

        Args:
            trial: Its id, `benchmark/case/framework/seed`.
            series: How many numbers each of its series has, steps and clocks included.
        """
        subject = _subject(trial)
        lines = [limits.lines_bytes(1, numbers, limits.LINE_BYTES) for numbers in series]
        self._ended[subject] += 1
        self._bytes[subject] += limits.lines_bytes(1, 0, limits.ATTEMPT_BYTES) + sum(lines)

    def require(self) -> None:
        """Stop where all trials together would have more than a reader takes on.

        Raises:
            UsageError: Says how much, and what to change.
        """
        expected = sum(
            self._bytes[subject] * max(self._planned[subject], ended) // ended
            for subject, ended in self._ended.items()
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
    claims = sum(
        len(benchmark.cases if case == "*" and metric != benchmark.score else (case,))
        * len(benchmark.frameworks if framework == "*" else (framework,))
        for claim in plan.manifest.claims
        for benchmark, metric in matches(claim.metric, benchmarks)
        for _, case, framework, _ in [claim.metric.split("/")]
    )
    trials = Counter(trial.benchmark.id for group in plan.groups for trial in group.trials)
    runs = sum(trials[one.id] * len(one.metrics) for one in benchmarks)
    document = pretty(to_json(plan))
    most = limits.MOST_DOCUMENT_BYTES
    yield "bytes of records/plan.json", len(document), most
    yield "bytes of capsule.json", _CLAIM * claims, most
    yield "bytes of results/metrics.json", _METRIC * paths + _RUN * runs, most
    yield "bytes of ro-crate-metadata.json", _FILE * (entries + claims), most
    parsed = (
        limits.parsed_bytes(document)
        + limits.parsed_bytes(plan.manifest.source)
        + _PARSED_CLAIM * claims
        + _PARSED_REST
    )
    yield "bytes of records once they are read", parsed, limits.MOST_PARSED_BYTES
    ranks = plan.manifest.resources.ranks
    values = sum(trials[one.id] * _values(one, ranks) for one in benchmarks)
    yield (
        "bytes of results/samples.jsonl",
        _LINE * runs + _VALUE * values,
        limits.MOST_LINES_BYTES,
    )
    attempts = sum(trials.values())
    yield (
        "bytes of samples, attempts and records once they are read",
        limits.bytes_to_keep(parsed)
        + limits.lines_bytes(runs, values, limits.LINE_BYTES)
        + limits.lines_bytes(attempts, 0, limits.ATTEMPT_BYTES),
        limits.MOST_KEPT_BYTES,
    )


def _paths(benchmark: Benchmark) -> int:
    return len(benchmark.cases) * len(benchmark.frameworks) * len(benchmark.metrics)


def _values(benchmark: Benchmark, ranks: int) -> int:
    """How many one trial has; how often a command reports a number is not known."""
    match benchmark.subject:
        case Command():
            calls = 1
        case Reading(epochs=epochs):
            # the number of minibatches follows from the data
            calls = epochs
        case Recipe(settings=settings):
            calls = max(one.epochs for one in settings.values())
        case Collective(repetitions=repetitions, warmup=warmup):
            return len(benchmark.metrics) * (repetitions + warmup) * ranks
        case Operator() | Network() as subject:
            calls = subject.repetitions + subject.warmup
    served = serving.of(benchmark)
    return sum(
        serving.values(served, metric.name) or (calls if metric.per in ("call", "step") else 1)
        for metric in benchmark.metrics
    )
