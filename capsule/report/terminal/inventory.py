"""What a machine is, in the lines that a person asks for first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from capsule import inventory
from capsule.report.terminal.style import text
from capsule.runtimes.base import Availability

if TYPE_CHECKING:
    from rich.console import RenderableType


def draw_inventory(
    node: Mapping[str, Any], engines: Mapping[str, Availability]
) -> tuple[RenderableType, ...]:
    """An inventory in brief; `--json` has all of it, and what could not be read.

    Args:
        node: As `inventory.node` gives it.
        engines: By name.
    """
    return tuple(map(text, _lines(node, engines)))


def _lines(node: Mapping[str, Any], engines: Mapping[str, Availability]) -> Iterator[str]:
    memory, system = node["class"].get("memory") or {}, node["state"].get("system") or {}
    yield f"machine  {inventory.describe(node)}"
    if memory.get("total_bytes"):
        yield f"memory   {memory['total_bytes'] / 2**30:.0f} GiB"
    distribution = f"{system.get('distribution')} {system.get('distribution_version')}"
    yield f"system   {distribution}, Linux {system.get('kernel_release')}"
    for name, engine in engines.items():
        yield f"engine   {name}: {engine.version if engine.usable else engine.reason}"
    if node["missing"]:
        yield f"{len(node['missing'])} facts could not be read: --json says which and why"
