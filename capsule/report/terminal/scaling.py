"""Scaling of trainings: a table for each, a line for each number of ranks."""

from __future__ import annotations

from collections.abc import Iterator

from capsule.report.terminal.listing import Column, Listing
from capsule.sweeps import LEVEL, Mean, Size, Sweep
from capsule.verdict.wording import number

# heading, and how soon the column goes where there is no room
_COLUMNS = (
    ("samples/s", 1),
    ("step", 3),
    ("speed-up", 1),
    ("efficiency", 0),
    ("comm.", 4),
    ("sent", 5),
    ("cores", 2),
)


def draw_sweeps(sweeps: Iterator[Sweep], most_lines: int | None) -> Iterator[Listing]:
    """Sweeps as rich renderables, to be printed one below the other.

    Args:
        sweeps: In their order.
        most_lines: Lines that each table may have; None for all numbers of ranks.
    """
    for sweep in sweeps:
        cells = list(zip(*map(_cells, sweep.sizes), strict=True))
        yield Listing(
            title=f"{sweep.kind.capitalize()} scaling of {sweep.benchmark} in {sweep.framework},"
            f" with intervals at {LEVEL:.0%}",
            heading="ranks",
            names=list(map(_name, sweep.sizes)),
            columns=[
                Column(heading=heading, cells=own, rank=rank)
                for (heading, rank), own in zip(_COLUMNS, cells, strict=True)
            ],
            most_lines=most_lines,
            row="number of ranks",
        )


def _name(one: Size) -> str:
    name = str(one.ranks)
    return name if one.case == f"ranks{name}" else f"{name} ({one.case})"


def _cells(one: Size) -> tuple[str, ...]:
    is_base = one.base is None
    return (
        _write(one.throughput),
        _write(one.step_time, " s"),
        "1 (base)" if is_base else _write_interval(one.speedup),
        "1 (base)" if is_base else _write_interval(one.efficiency),
        "" if one.communication_share is None else f"{one.communication_share.value:.1%}",
        _write(one.bytes_sent, " By"),
        "shared" if one.shared else "own",
    )


def _write(mean: Mean | None, unit: str = "") -> str:
    return "none" if mean is None else f"{number(mean.value, 4)}{unit}"


def _write_interval(mean: Mean | None) -> str:
    if mean is None or mean.interval is None:
        return _write(mean)
    lower, upper = (number(end, 3) for end in mean.interval)
    return f"{number(mean.value, 3)} [{lower}, {upper}]"
