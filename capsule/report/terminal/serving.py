"""Latencies of networks as they were served: median and tails of each run, with intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

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


def draw_latencies(record: Record, metrics: Mapping[str, MetricRuns]) -> Iterator[RenderableType]:
    """A table with a line for each run, none where nothing was served.

    An interval tells how well the latencies of one run place its percentile. Queries that wait for
    each other are worth fewer independent ones: it is that of so many as being above the percentile
    or not is worth (`stats.effective_sample_size`).

    Args:
        record: Of an original or a re-execution.
        metrics: Its values, as `summary.run_values` gives them.
    """
    right = {"justify": "right", "no_wrap": True}
    rows = table(
        ("network", {"overflow": "fold"}),
        ("scenario", {"no_wrap": True}),
        ("seed", right),
        ("queries", right),
        *((f"p{100 * share:g} in s", right) for share in _SHARES),
        title=f"Latencies as served, with intervals at {meaning.LEVEL:.0%} of a run's own queries",
    )
    lines = list(_lines(record, metrics))
    for path, *cells in lines[:_ROWS]:
        rows.add_row(Path(path), *map(text, cells))
    if lines:
        yield rows
        yield from draw_rest(len(lines) - _ROWS, "runs")
    if any(cell.endswith(")") for line in lines for cell in line):
        yield text(
            "(m of n): n independent queries have an interval, and these are worth m; those that"
            " waited for each other are worth fewer than they are",
            "dim",
        )


def _lines(record: Record, metrics: Mapping[str, MetricRuns]) -> Iterator[Sequence[str]]:
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
                        cells = (_cell(values, share) for share in _SHARES)
                        yield path, serving.scenario, str(run.seed), str(len(values)), *cells


def _cell(values: list[float], share: float) -> str:
    """A percentile and its interval, or how many of the values that it would need there are."""
    middle = latencies.percentile(sorted(values), share)
    worth = stats.effective_sample_size([float(value > middle) for value in values])
    ends = stats.percentile_interval(values, share, level=meaning.LEVEL, worth=worth)
    if ends is not None:
        low, high = (number(end, 3) for end in ends)
        return f"{number(middle, 3)} [{low}, {high}]"
    return f"{number(middle, 3)} ({int(worth)} of {meaning.fewest(share)})"
