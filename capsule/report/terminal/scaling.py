"""How trainings scaled: a table for each, a line for each number of ranks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from capsule.report.terminal.style import table, text
from capsule.sweeps import LEVEL, Mean, Size, Sweep
from capsule.verdict.wording import number

if TYPE_CHECKING:
    from rich.console import RenderableType


def draw_sweeps(sweeps: Iterator[Sweep]) -> Iterator[RenderableType]:
    """Sweeps as rich renderables, to be printed one below the other."""
    right = {"justify": "right"}
    for sweep in sweeps:
        rows = table(
            ("ranks", right),
            ("samples/s", right),
            ("step in s", right),
            ("speed-up", right),
            ("efficiency", right),
            ("comm.", right),
            ("sent By", right),
            ("cores", {"overflow": "fold"}),
            title=f"{sweep.kind.capitalize()} scaling of {sweep.benchmark} in {sweep.framework},"
            f" with intervals at {LEVEL:.0%}",
        )
        for one in sweep.sizes:
            rows.add_row(*map(text, _cells(one)))
        yield rows


def _cells(one: Size) -> Iterator[str]:
    name = str(one.ranks)
    yield name if one.case == f"ranks{name}" else f"{name} ({one.case})"
    yield _write(one.throughput)
    yield _write(one.step_time)
    yield "1 (base)" if one.base is None else _write_interval(one.speedup)
    yield "1 (base)" if one.base is None else _write_interval(one.efficiency)
    yield "" if one.ranks == 1 else _write(one.communication_share, share=True)
    yield _write(one.bytes_sent)
    yield "shared" if one.shared else "own"


def _write(mean: Mean | None, *, share: bool = False) -> str:
    if mean is None:
        return "none"
    return f"{mean.value:.1%}" if share else number(mean.value, 4)


def _write_interval(mean: Mean | None) -> str:
    if mean is None or mean.interval is None:
        return _write(mean)
    lower, upper = (number(end, 3) for end in mean.interval)
    return f"{number(mean.value, 3)} [{lower}, {upper}]"
