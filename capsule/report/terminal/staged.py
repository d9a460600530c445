"""A staged run on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from capsule.report.terminal.style import grid, text
from capsule.sizes import size

if TYPE_CHECKING:
    from rich.console import RenderableType

    from capsule.staging import Staged


def draw_staging(staged: Staged) -> tuple[RenderableType, ...]:
    """Draw the image and the data with their places, and the next step."""
    rows = grid()
    for name, value in _rows(staged):
        rows.add_row(name, text(value))
    return rows, text("to run on a machine without a network, with the same home and cache:", "dim")


def _rows(staged: Staged) -> Iterator[tuple[str, str]]:
    yield "engine", staged.runtime
    if staged.image is None:
        yield "image", "none"
    else:
        yield "image", staged.image.pinned or staged.image.reference
        yield "", staged.handle
    for dataset in staged.datasets:
        place = staged.data.get(dataset.name, "in the capsule")
        yield "data", f"{dataset.name}: {size(dataset.bytes)}, {place}"
    yield "cache", str(staged.cache)
