"""What `capsule run` tells when it is done: the facts, and what was measured for each claim."""

from __future__ import annotations

from typing import TYPE_CHECKING

from capsule import summary
from capsule.record import Record
from capsule.report.contents import head
from capsule.report.style import Path, table, text
from capsule.verdict import wording
from capsule.verdict.wording import number

if TYPE_CHECKING:
    from rich.console import RenderableType

_ROWS = 20


def sealed(record: Record, capsule_id: str) -> tuple[RenderableType, ...]:
    """A newly sealed record in brief: primary claims first, `capsule show` has the rest."""
    metrics = summary.run_values(record)
    rows = table(
        ("claimed metric", {"overflow": "fold"}),
        ("median", {"justify": "right", "no_wrap": True}),
        ("smallest to largest", {"justify": "right", "no_wrap": True}),
        ("runs", {"justify": "right", "no_wrap": True}),
        ("allowed", {"overflow": "fold"}),
    )
    claims = sorted(record.claims, key=lambda claim: not claim.primary)
    for claim in claims[:_ROWS]:
        runs = metrics[claim.metric]
        low, high = min(runs.values, default=None), max(runs.values, default=None)
        rows.add_row(
            Path(claim.metric),
            number(summary.median(runs.values), 4) + ("" if runs.unit == "1" else f" {runs.unit}"),
            f"{number(low, 3)} to {number(high, 3)}",
            f"{len(runs.values)} of {len(runs.runs)}",
            text(wording.region(claim, runs)),
        )
    told: list[RenderableType] = [head(record, capsule_id), rows]
    if len(claims) > _ROWS:
        told.append(text(f"and {len(claims) - _ROWS} more claims: capsule show", "dim"))
    return (*told, *(text(f"note: {note}") for note in record.notes))
