"""How near operators came to their machine's roofline: a table for each framework and type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from capsule.manifest import Benchmark, Operator
from capsule.record import Record
from capsule.report.terminal.style import Path, draw_rest, table, text
from capsule.summary import MetricRuns
from capsule.verdict.wording import number

if TYPE_CHECKING:
    from rich.console import RenderableType

_ROWS = 40
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


def draw_rooflines(record: Record, metrics: Metrics) -> Iterator[RenderableType]:
    """Rooflines as rich renderables, to be printed one below the other.

    Roofs are the fastest product and copy of all runs; all else is the middle one of the runs.

    Args:
        record: Of an original or a re-execution.
        metrics: Its values, as `summary.run_values` gives them.
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
            yield from _draw(framework, dtype, lines, products, copies)


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
    framework: str, dtype: str, lines: list[_Line], products: float, copies: float
) -> Iterator[RenderableType]:
    right = {"justify": "right", "no_wrap": True}
    rows = table(
        ("operator", {"overflow": "fold"}),
        ("FLOP/By", right),
        ("reached", right),
        ("allowed", right),
        ("limit", {"no_wrap": True}),
        ("share", right),
        title=f"Roofline of {framework} in {dtype}: products {_scale(products)}FLOP/s, memory"
        f" {_scale(copies)}By/s, they meet at {number(products / copies, 3)} FLOP/By",
    )
    for line in lines[:_ROWS]:
        by_products = line.flops / products >= line.moved / copies
        unit = "FLOP/s" if line.flops else "By/s"
        rows.add_row(
            Path(line.path),
            number(line.flops / line.moved, 3) if line.moved else "",
            text(_scale(line.rate) + unit),
            text(_scale(line.rate / line.share) + unit if line.share else ""),
            "products" if by_products else "memory",
            f"{line.share:.1%}",
        )
    yield rows
    yield from draw_rest(len(lines) - _ROWS, "operators")
    if any(line.share > 1 for line in lines):
        yield text(
            "more than 100 %: of memory, the data stayed in a cache, or nothing was moved; of"
            " products, the machine was slower while they were measured than at another time",
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
