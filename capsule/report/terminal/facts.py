"""The facts of a record that stand above its numbers: what ran, on what, under which seeds."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from capsule import inventory, quick, software, summary
from capsule.durations import duration
from capsule.image import IDENTITIES
from capsule.manifest import (
    Benchmark,
    Collective,
    Command,
    Network,
    Operator,
    Reading,
    Recipe,
    otherdevice,
)
from capsule.origin import Side, predecessor_id
from capsule.record import Attempt, Dataset, Record, Source
from capsule.report.terminal.style import join_first
from capsule.runtimes.programs import PREFIX
from capsule.sizes import size
from capsule.starts import World
from capsule.verdict.wording import count, number

_FACTS = 3
_NAMES = 5
_PACKAGES = 4
_DIGITS = 12
_COMMIT_DIGITS = 8
_ALL = 10**9
# by the words of `levels.catalog.CONDITIONS`
_CONDITIONS = {"fresh": "new values for each call", "cold": "emptied caches before each call"}

Fact = tuple[str, str]
"""A label and a text."""


def list_facts(record: Record, capsule_id: str | None, *, whole: bool) -> Iterator[Fact]:
    """Return labels and texts, in the order of a screen; several of one kind one after the other.

    Args:
        record: Of an original or of a re-run.
        capsule_id: None while it is not sealed.
        whole: Whether ids have all digits and lists all entries.
    """
    facts = _Facts(record, whole=whole)
    yield from facts.failures()
    if whole:
        yield "capsule", capsule_id or "not sealed"
        yield "time", f"{record.started} to {record.ended}"
    yield from facts.relations()
    yield from facts.subjects()
    yield from facts.runs()
    yield from facts.places()
    yield from facts.origins()


class _Facts:
    """The facts of one record, with as many entries and digits as a screen has."""

    def __init__(self, record: Record, *, whole: bool) -> None:
        self._record = record
        self._whole = whole

    def failures(self) -> Iterator[Fact]:
        """Why runs failed."""
        ended = [one for one in self._record.attempts if summary.final_outcome(one)]
        failed = [one for one in ended if one.outcome == "failed"]
        if not failed:
            return
        number_of = "all" if len(failed) == len(ended) else str(len(failed))
        yield "failed", f"{number_of} of {count(len(ended), 'run')}"
        reasons = Counter(map(_word_failure, failed))
        yield from self._few(
            "failed",
            [
                reason if times == 1 else f"{reason} ({times} times)"
                for reason, times in reasons.items()
            ],
        )

    def relations(self) -> Iterator[Fact]:
        """The capsules that it has to do with, and what was changed."""
        record = self._record
        if record.verifies:
            yield "verifies", f"capsule {self._cut(record.verifies)}"
        if (before := predecessor_id(record.origin)) is not None:
            yield "made of", f"capsule {self._cut(before)}"
        if (winner := record.manifest.winner_of) is not None:
            yield "winner of", f"capsule {self._cut(winner.capsule)}, point {winner.point}"
        if isinstance(record.origin, Side):
            yield (
                "pair",
                f"side {record.origin.side.upper()} of {record.origin.pair}, run alternately",
            )
        if record.nonce is not None:
            yield "nonce", f"{record.nonce} (an input of the fresh seeds)"
        changed = record.manifest.changed.items()
        yield from self._few("set", [f"{place} to {value} (--set)" for place, value in changed])
        if record.manifest.other_device is not None:
            yield "device", f"{record.manifest.other_device} (--device)"
        yield from self._few("not run", otherdevice.list_left_out(record.manifest))
        if left_out := quick.not_run(record):
            yield (
                "quick",
                f"without {self._join(sorted(left_out))} (no primary claim needs them)",
            )
        yield from self._few(
            "counts",
            [f"{count(one.runs, 'run')} of capsule {self._cut(one.id)}" for one in record.chain],
        )

    def subjects(self) -> Iterator[Fact]:
        """Yield the benchmarks and their commands."""
        benchmarks = self._record.manifest.benchmarks
        yield from self._few(
            "benchmark", [f"{one.id}  {self._describe(one)}" for one in benchmarks]
        )
        yield from self._few(
            "setup",
            [
                f"{one.id}  {shlex.join(one.subject.setup)}"
                for one in benchmarks
                if isinstance(one.subject, Command) and one.subject.setup
            ],
        )
        conditions: dict[tuple[str, ...], list[str]] = {}
        for one in benchmarks:
            if isinstance(one.subject, Operator | Network) and one.subject.conditions:
                conditions.setdefault(one.subject.conditions, []).append(one.id)
        for names, ids in conditions.items():
            words = " and ".join(_CONDITIONS[name] for name in names)
            yield "timed", f"{self._join(ids)}: with {words}"

    def _describe(self, benchmark: Benchmark) -> str:
        subject = benchmark.subject
        match subject:
            case Command(words=words):
                what = shlex.join(words)
            case Operator(name=name, dtype=dtype):
                what = f"operator {name}, {dtype}"
            case Network(name=name, dtype=dtype):
                what = f"network {name}, {dtype}"
            case Recipe(name=name, dtype=dtype):
                what = f"training of {name}, {dtype}"
            case Reading():
                what = f"reading of {self._join(benchmark.datasets)}"
            case Collective():
                what = "exchange of arrays between ranks"
        if not isinstance(subject, Command):
            what += f", in {self._join(benchmark.frameworks)}"
        cases = len(benchmark.cases)
        return f"{what}, {cases} cases" if cases > 1 else what

    def runs(self) -> Iterator[Fact]:
        """Yield the number of runs, their seeds and their durations."""
        attempts = self._record.attempts
        outcomes = Counter(attempt.outcome for attempt in attempts)
        numbers = [f"{outcomes[name]} {name}" for name in sorted(outcomes)] or ["none"]
        times = _word_times([one.seconds for one in attempts])
        yield "runs", ", ".join((*numbers, *self._seeds(), *times))
        if times := _word_times([one.setup_seconds for one in attempts]):
            yield "runs", f"setup before each: {', '.join(times)}"

    def _seeds(self) -> Iterator[str]:
        """The seeds of the runs that were planned, the manifest's own first."""
        seeds: dict[str, dict[int, None]] = {"manifest": {}, "fresh": {}, "control": {}}
        for trial in summary.planned_trials(self._record.plan):
            seeds[trial["seed_source"]][trial["seed"]] = None
        words = {"manifest": "seed", "fresh": "fresh seed", "control": "control seed"}
        for source, some in seeds.items():
            if some:
                name = words[source] + "s" * (len(some) > 1)
                yield f"{name} {self._join(list_ranges(list(some)))}"

    def places(self) -> Iterator[Fact]:
        """Yield engine, interpreter, machines and packages."""
        record = self._record
        where = [self._word_engine(), *software.interpreters(record.software)]
        nodes = Counter(map(inventory.describe, record.nodes))
        if len(nodes) == 1:
            where += [_word_nodes(*one) for one in nodes.items()]
        yield "ran on", ", ".join(where)
        if len(nodes) > 1:
            yield from self._few("ran on", [_word_nodes(*one) for one in nodes.items()])
        if self._whole:
            for program in list_programs(record):
                yield "program", program
            if record.image is not None:
                yield "image", f"{record.image.identity}, {record.image.platform}"
        if self._whole or _claims_machine_metric(record):
            busy = dict.fromkeys(filter(None, map(inventory.busy, record.nodes)))
            yield from self._few("busy", [f"when the run began: {load}" for load in busy])
        yield from self._few("ranks", [_word_world(world) for world in record.worlds])
        worlds = summary.worlds(record)
        yield from self._few(
            "world",
            [words if len(worlds) == 1 else f"{words} ({name})" for name, words in worlds.items()],
        )
        yield from self._packages()

    def _word_engine(self) -> str:
        record = self._record
        if not record.contained or record.image is None:
            return f"{record.runtime}{'' if record.contained else ' (no container)'}"
        kind, digest = record.image.identity.kind, str(record.image.identity.digest)
        of = "" if kind == "manifest" else f"{IDENTITIES[kind]} "
        return f"{record.runtime}, {record.image.reference} ({of}{self._cut(digest, 'sha256:')})"

    def _packages(self) -> Iterator[Fact]:
        packages = [
            f"{name} {version}"
            for name, version in software.packages(self._record.software).items()
        ]
        if self._whole:
            for words in software.describe(self._record.software):
                yield "software", words
        if self._whole or 0 < len(packages) <= _PACKAGES:
            yield from (("packages", one) for one in packages)
        elif packages:
            first = ", ".join(packages[:_PACKAGES])
            yield "packages", f"{len(packages)}, for example {first} (--full lists all)"

    def origins(self) -> Iterator[Fact]:
        """Yield the origins of code, data and paper."""
        record = self._record
        yield from self._few("code", [self._word_source(one) for one in record.sources])
        yield from self._few("data", [self._word_dataset(one) for one in record.datasets])
        if record.manifest.paper_doi:
            yield "paper", f"https://doi.org/{record.manifest.paper_doi}"

    def _word_source(self, source: Source) -> str:
        states = {
            True: "modified",
            False: "unmodified",
            None: "git could not determine if modified",
        }
        commit = source.commit if self._whole else source.commit[:_COMMIT_DIGITS]
        inputs = f" ({self._join(source.inputs)})"
        is_alone = len(self._record.sources) == 1 and not self._whole
        return f"git {commit}, {states[source.modified]}{'' if is_alone else inputs}"

    def _word_dataset(self, dataset: Dataset) -> str:
        (spec,) = (one for one in self._record.manifest.datasets if one.name == dataset.name)
        extent = f"{dataset.bytes} bytes" if self._whole else size(dataset.bytes)
        words = [extent, self._cut(dataset.digest, "sha256:"), spec.provenance]
        words += ["in the capsule"] * dataset.embedded
        words += [spec.description] if spec.description and self._whole else []
        return f"{dataset.name}: {', '.join(words)}"

    def _cut(self, digits: str, prefix: str = "") -> str:
        """An id, or as many digits of it as tell it from others."""
        return digits if self._whole else digits[: len(prefix) + _DIGITS]

    def _join(self, names: Sequence[str]) -> str:
        return join_first(names, _ALL if self._whole else _NAMES)

    def _few(self, label: str, texts: Sequence[str]) -> Iterator[Fact]:
        """The first texts of a kind, and how many more there are."""
        most = len(texts) if self._whole else _FACTS
        yield from ((label, one) for one in texts[:most])
        if len(texts) > most:
            yield label, f"and {len(texts) - most} more: --full"


def list_programs(record: Record) -> list[str]:
    """Return which of the machine's own programs ran where nothing was contained."""
    return [
        f"{name.removeprefix(PREFIX)}: {program}"
        for name, program in sorted(record.image_observations.items())
        if name.startswith(PREFIX) and not record.contained
    ]


def list_ranges(seeds: Sequence[int]) -> list[str]:
    """Return numbers as they come, three and more consecutive ones as one range.

    >>> list_ranges([17, 18, 19, 5, 6])
    ['17-19', '5', '6']
    """
    breaks = [place for place, (a, b) in enumerate(pairwise(seeds), 1) if b != a + 1]
    ranges: list[str] = []
    for first, end in pairwise([0, *breaks, len(seeds)]):
        own = seeds[first:end]
        ranges += [f"{own[0]}-{own[-1]}"] if len(own) > 2 else map(str, own)
    return ranges


def _word_failure(attempt: Attempt) -> str:
    words = attempt.last_line
    return f"{attempt.reason}: {words}" if words else str(attempt.reason)


def _word_times(durations: Iterable[float | None]) -> list[str]:
    """Return the sum and the range of the known durations, in words."""
    known = [seconds for seconds in durations if seconds is not None]
    if not known:
        return []
    shortest, longest = duration(min(known)), duration(max(known))
    each = shortest if shortest == longest else f"{shortest} to {longest}"
    return [f"{duration(sum(known))} in all", *[f"{each} each"] * (len(known) > 1)]


def _word_nodes(description: str, nodes: int) -> str:
    return description if nodes == 1 else f"{nodes} nodes: {description}"


def _claims_machine_metric(record: Record) -> bool:
    """Return whether a claim that is judged, which a ratio is not, is on a machine metric."""
    metrics = summary.run_values(record)
    claimed = (metrics.get(claim.metric) for claim in record.claims if claim.type != "ratio")
    return any(metric is not None and metric.kind == "machine" for metric in claimed)


def _word_world(world: World) -> str:
    """Return the world of pre-flight's own program, which does not vouch for the benchmark's."""
    ranks = f"{world.ranks} on {count(len(set(world.nodes)), 'node')}; pre-flight"
    if not world.means:
        return f"{ranks}: world not checked, because no python3 starts in the image"
    added = f"{ranks}: test ranks summed {world.bytes >> 20} MiB"
    return f"{added} by {' and '.join(world.means)}, in {number(world.seconds, 2)} s"
