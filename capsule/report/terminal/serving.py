"""Latencies of networks as they were served: median and tails of each run, with intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, groupby
from typing import TYPE_CHECKING, NamedTuple

from capsule import latencies, stats
from capsule.levels.catalog.serving import LATENCY, PERCENTILES
from capsule.manifest import serving as meaning
from capsule.record import Record
from capsule.report.terminal.listing import Column, Listing
from capsule.report.terminal.prose import Prose
from capsule.summary import MetricRuns
from capsule.verdict.wording import number

if TYPE_CHECKING:
    from rich.console import RenderableType

_SHARES = (0.5, *PERCENTILES.values())


class _Cell(NamedTuple):
    """A percentile of a run, and its interval or what it lacks for one."""

    value: str
    interval: str


class _Line(NamedTuple):
    """A run of a network that was served."""

    path: str
    scenario: str
    seed: int
    queries: int
    cells: tuple[_Cell, ...]


def draw_latencies(
    record: Record, metrics: Mapping[str, MetricRuns], most_lines: int | None
) -> Iterator[RenderableType]:
    """A table for each network with two lines for each run, none where nothing was served.

    An interval tells how well the latencies of one run place its percentile. Queries that wait for
    each other are worth fewer independent ones: it is that of so many as being above the percentile
    or not is worth (`stats.effective_sample_size`).

    Args:
        record: Of an original or a re-execution.
        metrics: Its values, as `summary.run_values` gives them.
        most_lines: Lines that each table may have; None for all runs.
    """
    lines = list(_lines(record, metrics))
    for (path, scenario), group in groupby(lines, key=lambda line: line[:2]):
        runs = list(group)
        percentiles = [
            Column(
                heading=f"p{100 * share:g}",
                cells=list(chain.from_iterable(run.cells[place] for run in runs)),
            )
            for place, share in enumerate(_SHARES)
        ]
        queries = list(chain.from_iterable((str(run.queries), "") for run in runs))
        yield Listing(
            title=f"Latencies of {path} ({scenario}), with {meaning.LEVEL:.0%} intervals from"
            " the queries of each run",
            heading="seed",
            names=list(chain.from_iterable((str(run.seed), "") for run in runs)),
            columns=[Column(heading="queries", cells=queries, rank=1), *percentiles],
            most_lines=most_lines,
            row="seed",
            part="interval",
        )
    if any(cell.interval.startswith("(") for one in lines for cell in one.cells):
        yield Prose(
            "(m of n): an interval needs n independent queries, and the run's queries count as m;"
            " queries that waited for each other count as fewer",
            "dim",
        )


def _lines(record: Record, metrics: Mapping[str, MetricRuns]) -> Iterator[_Line]:
    for benchmark in record.manifest.benchmarks:
        serving = meaning.of(benchmark)
        if serving is None:
            continue
        for case in benchmark.cases:
            for framework in benchmark.frameworks:
                path = f"{benchmark.id}/{case.name}/{framework}"
                runs = metrics[f"{path}/{LATENCY}"].runs if f"{path}/{LATENCY}" in metrics else ()
                for run in runs:
                    if run.value is not None:
                        values = [v for one in run.samples for v in one.values[one.warmup :]]
                        cells = tuple(_cell(values, share) for share in _SHARES)
                        yield _Line(path, serving.scenario, run.seed, len(values), cells)


def _cell(values: list[float], share: float) -> _Cell:
    """A percentile and its interval, or how many of the values that it would need there are."""
    middle = latencies.percentile(sorted(values), share)
    worth = stats.effective_sample_size([float(value > middle) for value in values])
    ends = stats.percentile_interval(values, share, level=meaning.LEVEL, worth=worth)
    if ends is not None:
        low, high = (number(1000 * end, 3) for end in ends)
        return _Cell(_write(middle), f"{low} to {high} ms")
    return _Cell(_write(middle), f"({int(worth)} of {meaning.fewest(share)})")


def _write(seconds: float) -> str:
    return f"{number(1000 * seconds, 3)} ms"
