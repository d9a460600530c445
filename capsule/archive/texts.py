"""Consistency of samples with the texts they were read from, by reading each text again."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from capsule.manifest import Benchmark, Manifest, commands
from capsule.manifest.sources import EventTag, Pattern, Pointer, Source
from capsule.record import Attempt, Record, Samples

if TYPE_CHECKING:
    from capsule.extraction import Extract, Value

_LONGEST_BYTES = 2000
_SHOWN = 100
_COUNTED = 100
_WHOLE_SINCE = (0, 3)
"""The version from which on a number that is read from a text is a whole one."""
Load = Callable[[str], Iterable[bytes]]
"""Loader of a file below `data/`, in pieces."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Values read again from the texts of one rank of an attempt.

    Attributes:
        attempt: Whose.
        rank: Which rank.
        sources: Where its metrics are, by the metric's name.
        paths: Paths of its texts below `data/`, by their names.
        texts: The texts.
        extract: What they give.
    """

    attempt: Attempt
    rank: int
    sources: Mapping[str, Source]
    paths: Mapping[str, str]
    texts: Mapping[str, bytes]
    extract: Extract


@dataclass(frozen=True, kw_only=True)
class Quotation:
    """A number, and the line that it was read from.

    Attributes:
        metric: Path of its metric.
        trial: Id of its trial.
        seed: The trial's.
        attempt: From 1.
        rank: Whose text it is.
        value: The number.
        step: Where on its way it was taken, None where that is not said.
        path: Path of the text, below `data/`.
        line: Where it stands, from 1; None in what has no lines.
        words: The line; in a JSON document the pointer, in event files step, time, tag and value.
    """

    metric: str
    trial: str
    seed: int
    attempt: int
    rank: int
    value: float
    step: float | None
    path: str
    line: int | None
    words: str


def quote(reading: Reading) -> Iterator[tuple[Quotation, ...]]:
    """Yield the numbers of each metric, with their lines, in the order of the text."""
    attempt = reading.attempt
    with_lines = {
        reading.sources[name].text
        for name in reading.extract.values
        if not isinstance(reading.sources[name], Pointer | EventTag)
    }
    rows = {name: reading.texts[name].split(b"\n") for name in with_lines}
    for name, values in reading.extract.values.items():
        source = reading.sources[name]
        yield tuple(
            Quotation(
                metric=f"{attempt.trial.rpartition('/')[0]}/{name}",
                trial=attempt.trial,
                seed=attempt.seed,
                attempt=attempt.attempt,
                rank=reading.rank,
                value=value.value,
                step=value.step,
                path=reading.paths[source.text],
                line=value.line,
                words=_words(source, rows.get(source.text, ()), value),
            )
            for value in values
        )


def _words(source: Source, rows: Sequence[bytes], value: Value) -> str:
    if isinstance(source, Pointer):
        return source.pointer
    if value.line is None:
        return value.words
    return rows[value.line - 1][:_LONGEST_BYTES].decode(errors="replace").strip()


def took_parts(record: Record) -> bool:
    """Return whether a version sealed it that read parts of numbers."""
    version = re.match(r"(\d+)\.(\d+)", record.tool)
    return version is None or tuple(map(int, version.groups())) < _WHOLE_SINCE


def read_again(
    record: Record, load: Load, *, before_whole: bool | None = None
) -> Iterator[Reading]:
    """Yield every rank's texts of every attempt that ended well, in the order of the attempts.

    Args:
        record: Says where its metrics are.
        load: Gives the texts.
        before_whole: True if by the rules before 0.3.0; None for those that it was sealed by.
    """
    by_old = took_parts(record) if before_whole is None else before_whole
    yield from _read_texts(record.manifest, record.attempts, load, before_whole=by_old)


def _read_texts(
    manifest: Manifest, attempts: Sequence[Attempt], load: Load, *, before_whole: bool
) -> Iterator[Reading]:
    benchmarks = {
        one.id: one
        for one in manifest.benchmarks
        if any(metric.source is not None for metric in one.metrics)
    }
    for attempt in attempts if benchmarks else ():
        benchmark = benchmarks.get(attempt.trial.split("/")[0])
        if benchmark is not None and attempt.exit_code == 0:
            yield from _of_attempt(benchmark, attempt, load, before_whole=before_whole)


def count_lines(
    manifest: Manifest, attempts: Sequence[Attempt], load: Load, *, before_whole: bool = False
) -> dict[str, tuple[int, int]]:
    """Count the matching lines of each metric, of which the last one gave its value.

    Args:
        manifest: Says where its metrics are.
        attempts: Those that are counted, of which the first ones stand for the rest.
        load: Gives the texts.
        before_whole: True if by the rules before 0.3.0.
    """
    counts: dict[str, tuple[int, int]] = {}
    chosen = [one for one in attempts if one.outcome == "completed"][:_COUNTED]
    for reading in _read_texts(manifest, chosen, load, before_whole=before_whole):
        subject = reading.attempt.trial.rpartition("/")[0]
        for name, count in reading.extract.lines.items():
            source = reading.sources[name]
            if isinstance(source, Pattern) and source.occurrence == "last":
                fewest, most = counts.get(f"{subject}/{name}", (count, count))
                counts[f"{subject}/{name}"] = min(fewest, count), max(most, count)
    return counts


def refused(record: Record, load: Load) -> Iterator[str]:
    """Yield values of an older record that today's rules refuse, or read otherwise, as
    sentences.
    """
    from capsule import extraction

    if not took_parts(record):
        return
    for reading in read_again(record, load):
        attempt = reading.attempt
        for name in reading.sources:
            values = reading.extract.values.get(name)
            today = extraction.extract({name: reading.sources[name]}, reading.texts)
            metric = f"{attempt.trial.rpartition('/')[0]}/{name}"
            where = f"{metric}, seed {attempt.seed}"
            if values is None:
                if today.reason is None:
                    value = today.values[name][0].value
                    yield (
                        f"this version reads a value that the sealing version refused: {where}:"
                        f" {value:g}"
                    )
            elif today.reason is not None:
                fault = today.message.rpartition("\n")[2].partition(": ")[2]
                yield f"this version refuses a value: {where}: {fault}"
            elif change := _difference(values, today.values[name], reading, name):
                yield f"this version reads another value: {where}: {change}"


def _difference(
    before: Sequence[Value], today: Sequence[Value], reading: Reading, name: str
) -> str | None:
    """Return the place where today's rules read other values, None if there is none."""
    for number, value in enumerate(today):
        old = before[number] if number < len(before) else None
        if old is None or not _is_equal(old.value, value.value) or old.step != value.step:
            source = reading.sources[name]
            rows = reading.texts[source.text].split(b"\n")
            sealed = "nothing" if old is None else f"{old.value:g} of line {old.line}"
            return (
                f"sealed as {sealed}; this version reads line {value.line}:"
                f" {_words(source, rows, value)[:_SHOWN]!a}"
            )
    if len(before) == len(today):
        return None
    return f"sealed with {len(before)} values, this version reads {len(today)}"


def faults(record: Record, load: Load) -> Iterator[str]:
    """Yield samples that contradict their texts, as sentences."""
    stated = {
        (line.metric, line.seed, line.attempt, line.rank): line for line in _read_samples(record)
    }
    for reading in read_again(record, load):
        attempt, rank = reading.attempt, reading.rank
        where = f"seed {attempt.seed}, attempt {attempt.attempt}"
        if reading.extract.reason is not None and attempt.outcome == "completed":
            sentence = reading.extract.message.rpartition("\n")[2]
            yield f"{attempt.trial} completed, but its texts lack values: {sentence}"
        for name, values in reading.extract.values.items():
            metric = f"{attempt.trial.rpartition('/')[0]}/{name}"
            line = stated.pop((metric, attempt.seed, attempt.attempt, rank), None)
            if line is None or not _gives(values, line):
                yield f"samples of {metric}, {where}, contradict the text that they were read from"
    for metric, seed, number, _ in stated:
        yield f"the evidence lacks the samples of {metric}, seed {seed}, attempt {number}"


def count(record: Record) -> int:
    """Return the number of series of samples that were read from texts."""
    return sum(1 for _ in _read_samples(record))


def _read_samples(record: Record) -> Iterator[Samples]:
    """Yield the samples of metrics that are read from a text."""
    read = {
        (one.id, metric.name)
        for one in record.manifest.benchmarks
        for metric in one.metrics
        if metric.source is not None
    }
    if read:
        for line in record.samples:
            if (line.metric.partition("/")[0], line.metric.rpartition("/")[2]) in read:
                yield line


def _of_attempt(
    benchmark: Benchmark, attempt: Attempt, load: Load, *, before_whole: bool
) -> Iterator[Reading]:
    # few capsules have such metrics, and every command that reads one would pay for it
    from capsule import extraction

    _, name, *_ = attempt.trial.split("/")
    case = next(case for case in benchmark.cases if case.name == name)
    for rank in range(attempt.ranks):
        values = commands.name_values(case, trial=attempt.trial, seed=attempt.seed, rank=rank)
        if sources := extraction.select(benchmark.metrics, rank, values):
            yield _read(attempt, rank, sources, load, before_whole=before_whole)


def _read(
    attempt: Attempt,
    rank: int,
    sources: Mapping[str, Source],
    load: Load,
    *,
    before_whole: bool,
) -> Reading:
    from capsule import extraction

    names = {source.text for source in sources.values()}
    paths = {
        one.name: one.path for one in attempt.evidence if one.rank == rank and one.name in names
    }
    texts = {name: extraction.take(load(path)) for name, path in paths.items()}
    return Reading(
        attempt=attempt,
        rank=rank,
        sources=sources,
        paths=paths,
        texts=texts,
        extract=extraction.extract(sources, texts, before_whole=before_whole),
    )


def _gives(values: tuple[Value, ...], line: Samples) -> bool:
    """Return whether these are the values of a line of samples; two that are NaN are equal."""
    steps = tuple(value.step for value in values) if values[0].step is not None else None
    return (
        line.warmup == 0
        and (line.wall, line.active) == (None, None)
        and line.steps == steps
        and len(line.values) == len(values)
        and all(_is_equal(one, other.value) for one, other in zip(line.values, values, strict=True))
    )


def _is_equal(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))
