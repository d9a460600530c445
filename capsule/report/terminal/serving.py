"""Latencies of networks as they were served: median and tails of each run, with intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from capsule import latencies, stats
from capsule.levels.catalog.serving import LATENCY, PERCENTILES
from capsule.manifest import serving as meaning
from capsule.record import Record
from capsule.report.terminal.style import Path, draw_rest, table, text
from capsule.summary import MetricRuns
from capsule.verdict.wording import number

if TYPE_CHECKING:
    from rich.console import RenderableType

_ROWS = 40
_SHARES = (0.5, *PERCENTILES.values())


class _Cell(NamedTuple):
    """A percentile of a run in s, and its interval or what it lacks for one."""

    value: str
    interval: str


class _Line(NamedTuple):
    """A run of a network that was served."""

    path: str
    scenario: str
    seed: int
    queries: int
    cells: tuple[_Cell, ...]


def draw_latencies(record: Record, metrics: Mapping[str, MetricRuns]) -> Iterator[RenderableType]:
    """A table with a line for each run, none where nothing was served.

    An interval tells how well the latencies of one run place its percentile. Queries that wait for
    each other are worth fewer independent ones: it is that of so many as being above the percentile
    or not is worth (`stats.effective_sample_size`).

    Args:
        record: Of an original or a re-execution.
        metrics: Its values, as `summary.run_values` gives them.
    """
    from rich.console import Group

    right = {"justify": "right", "no_wrap": True}
    rows = table(
        ("network", {"overflow": "fold"}),
        ("seed", right),
        ("queries", right),
        *((f"p{100 * share:g} in s", right) for share in _SHARES),
        title=f"Latencies as served, with intervals at {meaning.LEVEL:.0%} of a run's own queries",
    )
    lines = list(_lines(record, metrics))
    for one in lines[:_ROWS]:
        network = Group(Path(one.path), text(one.scenario, "dim"))
        cells = (Group(text(cell.value), text(cell.interval, "dim")) for cell in one.cells)
        rows.add_row(network, text(one.seed), text(one.queries), *cells)
    if lines:
        yield rows
        yield from draw_rest(len(lines) - _ROWS, "runs")
    if any(cell.interval.startswith("(") for one in lines for cell in one.cells):
        yield text(
            "(m of n): n independent queries have an interval, and these are worth m; those that"
            " waited for each other are worth fewer than they are",
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
        low, high = (number(end, 3) for end in ends)
        return _Cell(number(middle, 3), f"[{low}, {high}]")
    return _Cell(number(middle, 3), f"({int(worth)} of {meaning.fewest(share)})")
