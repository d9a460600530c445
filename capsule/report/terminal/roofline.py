"""Operators against their machine's roofline: a table for each framework and type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from capsule.manifest import Benchmark, Operator
from capsule.record import Record
from capsule.report.terminal.listing import Column, Listing
from capsule.report.terminal.prose import Prose
from capsule.summary import MetricRuns
from capsule.verdict.wording import number

if TYPE_CHECKING:
    from rich.console import RenderableType

_PRODUCTS, _COPIES = "machine_flops_per_second", "machine_bytes_per_second"

Metrics = Mapping[str, MetricRuns]
"""By their paths."""


@dataclass(frozen=True, kw_only=True)
class _Line:
    """One case of an operator.

    Attributes:
        path: `benchmark/case/framework`.
        flops: Of a call.
        moved: Bytes that a call must move at least.
        rate: FLOP/s, of one without them bytes a second.
        share: Of what the roofline allows.
    """

    path: str
    flops: float
    moved: float
    rate: float
    share: float


def draw_rooflines(
    record: Record, metrics: Metrics, most_lines: int | None
) -> Iterator[RenderableType]:
    """Rooflines as rich renderables, to be printed one below the other.

    Roofs are the fastest product and copy of all runs; all else is the middle one of the runs.

    Args:
        record: Of an original or a re-execution.
        metrics: Its values, as `summary.run_values` gives them.
        most_lines: Lines that each table may have; None for all operators.
    """
    groups: dict[tuple[str, str], list[Benchmark]] = {}
    for benchmark in record.manifest.benchmarks:
        match benchmark.subject:
            case Operator(roofline=True, dtype=dtype):
                for framework in benchmark.frameworks:
                    groups.setdefault((framework, dtype), []).append(benchmark)
            case _:
                continue
    for (framework, dtype), benchmarks in groups.items():
        lines = [line for one in benchmarks for line in _lines(one, framework, metrics)]
        products, copies = (_fastest(metrics, lines, name) for name in (_PRODUCTS, _COPIES))
        if min(products, copies) > 0:
            yield from _draw(framework, dtype, lines, (products, copies), most_lines)


def _lines(benchmark: Benchmark, framework: str, metrics: Metrics) -> Iterator[_Line]:
    """Of the cases of which a run completed."""
    for case in benchmark.cases:
        path = f"{benchmark.id}/{case.name}/{framework}"
        share, moved = (
            _middle(metrics, path, name) for name in ("roofline_share", "forward_bytes")
        )
        if share is None or moved is None:
            continue
        flops = _middle(metrics, path, "forward_flops") or 0.0
        rate = _middle(metrics, path, f"forward_{'flops' if flops else 'bytes'}_per_second")
        yield _Line(path=path, flops=flops, moved=moved, rate=rate or 0.0, share=share)


def _middle(metrics: Metrics, path: str, name: str) -> float | None:
    from capsule.averages import median

    runs = metrics.get(f"{path}/{name}")
    return median(runs.values) if runs is not None and runs.values else None


def _fastest(metrics: Metrics, lines: Iterable[_Line], name: str) -> float:
    """The largest of all samples; 0 where there is none."""
    paths = (f"{line.path}/{name}" for line in lines)
    runs = (run for path in paths if path in metrics for run in metrics[path].runs)
    series = (one for run in runs for one in run.samples)
    return max((value for one in series for value in one.values), default=0.0)


def _draw(
    framework: str,
    dtype: str,
    lines: Sequence[_Line],
    roofs: tuple[float, float],
    most_lines: int | None,
) -> Iterator[RenderableType]:
    products, copies = roofs
    units = ["FLOP/s" if line.flops else "By/s" for line in lines]
    reached = [_scale(line.rate) + unit for line, unit in zip(lines, units, strict=True)]
    allowed = [
        _scale(line.rate / line.share) + unit if line.share else ""
        for line, unit in zip(lines, units, strict=True)
    ]
    intensities = [number(line.flops / line.moved, 3) if line.moved else "" for line in lines]
    limits = [
        "products" if line.flops / products >= line.moved / copies else "memory" for line in lines
    ]
    yield Listing(
        title=f"Roofline of {framework} in {dtype}: products {_scale(products)}FLOP/s, memory"
        f" {_scale(copies)}By/s, ridge point {number(products / copies, 3)} FLOP/By",
        heading="operator",
        names=[line.path for line in lines],
        columns=[
            Column(heading="FLOP/By", cells=intensities, rank=4),
            Column(heading="reached", cells=reached, rank=1),
            Column(heading="allowed", cells=allowed, rank=3),
            Column(heading="limit", cells=limits, rank=2),
            Column(heading="share", cells=[f"{line.share:.1%}" for line in lines]),
        ],
        most_lines=most_lines,
        row="operator",
    )
    if any(line.share > 1 for line in lines):
        yield Prose(
            "more than 100 % of memory: the data stayed in a cache, or no data moved; more than"
            " 100 % of products: the machine was slower while capsule measured the products",
            "dim",
        )


def _scale(value: float) -> str:
    """A number in steps of 1000, with the prefix.

    >>> _scale(95.2e9), _scale(12.0)
    ('95.2 G', '12 ')
    """
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{number(value / factor, 3)} {prefix}"
    return f"{number(value, 3)} "
