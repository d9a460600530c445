"""Activity of devices during the attempts of a record, a line for each device and attempt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from capsule.record import DeviceSeries, Record
from capsule.report.terminal.listing import Column, Listing
from capsule.sizes import size
from capsule.verdict.wording import number

if TYPE_CHECKING:
    from rich.console import RenderableType

_DIGITS = 3


def draw_devices(record: Record) -> Iterator[RenderableType]:
    """Draw the table, or nothing without samples of devices."""
    lines = record.devices
    if not lines:
        return
    columns = {
        "device": [one.device for one in lines],
        "use": ["-" if one.source == "rapl" else one.use for one in lines],
        "energy": [
            str(one.energy_gap) if one.joules is None else f"{number(one.joules, _DIGITS)} J"
            for one in lines
        ],
        "mean power": [_mean(one, "power_watts", 1.0, "W") for one in lines],
        "mean SM clock": [_mean(one, "sm_clock_hertz", 1e6, "MHz") for one in lines],
        "hottest": [_largest(one, "temperature_celsius", "°C") for one in lines],
        "most memory": [_most_memory(one) for one in lines],
        "busy": [_mean(one, "utilization", 0.01, "%") for one in lines],
        "clocks limited by": [
            ", ".join(f"{reason} {number(time, 2)} s" for reason, time in one.throttled.items())
            for one in lines
        ],
    }
    yield Listing(
        title="Devices during the runs: of the whole card or processor package",
        heading="trial",
        names=[
            one.trial if one.attempt == 1 else f"{one.trial}, attempt {one.attempt}"
            for one in lines
        ],
        columns=[
            Column(heading=heading, cells=cells, is_text=heading == "clocks limited by")
            for heading, cells in columns.items()
        ],
        row="device",
    )


def _mean(one: DeviceSeries, name: str, scale: float, unit: str) -> str:
    for quantity in one.quantities:
        if quantity.name == name and quantity.seconds > 0:
            return f"{number(quantity.integral / quantity.seconds / scale, _DIGITS)} {unit}"
    return ""


def _largest(one: DeviceSeries, name: str, unit: str) -> str:
    for quantity in one.quantities:
        if quantity.name == name:
            return f"{number(quantity.largest, _DIGITS)} {unit}"
    return ""


def _most_memory(one: DeviceSeries) -> str:
    found = [quantity.largest for quantity in one.quantities if quantity.name == "memory_bytes"]
    return size(int(found[0])) if found else ""
