"""What `capsule stage` brought here, on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from capsule.report.terminal.style import grid, text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from capsule.staging import Staged


def draw_staging(staged: Staged) -> tuple[RenderableType, ...]:
    """Image and data, where each lies, and what a compute node has to see of it."""
    rows = grid()
    for name, value in _rows(staged):
        rows.add_row(name, text(value))
    return rows, text("where there is no network, with the same home and cache:", "dim")


def _rows(staged: Staged) -> Iterator[tuple[str, str]]:
    yield "engine", staged.runtime
    if staged.image is None:
        yield "image", "none"
    else:
        yield "image", staged.image.pinned or staged.image.reference
        yield "", staged.handle
    for dataset in staged.datasets:
        place = staged.data.get(dataset.name, "in the capsule")
        yield "data", f"{dataset.name}: {dataset.bytes} bytes, {place}"
    yield "cache", str(staged.cache)
