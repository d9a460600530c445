"""What `capsule run` tells when it is done: the facts, and what was measured for each claim."""

from __future__ import annotations

from typing import TYPE_CHECKING

from capsule import summary
from capsule.errors import ExecutionError
from capsule.record import Attempt, Record
from capsule.report.terminal.contents import head
from capsule.report.terminal.style import Path, table, text
from capsule.verdict import wording
from capsule.verdict.wording import number

if TYPE_CHECKING:
    import pathlib

    from rich.console import RenderableType

_ROWS = 20
# what `levels` says of a framework that it does not find
_ABSENT = "is not installed in this image"


def draw_sealed(record: Record, capsule_id: str) -> tuple[RenderableType, ...]:
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
    return (*told, *(text(f"note: {note.sentence}") for note in record.notes))


def failure(record: Record, target: pathlib.Path) -> ExecutionError:
    """The error that tells of a sealed record's failed attempts, of which there is at least one."""
    failed = [each for each in record.attempts if each.outcome == "failed"]
    first = failed[0]
    more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
    advice = f"failures count as outcomes and are sealed in {target}; its logs/ tell more"
    absent = {_framework(each) for each in failed if _ABSENT in each.message}
    there = {_framework(each) for each in record.attempts} - absent
    if absent and there:
        advice += (
            f"\n  {', '.join(sorted(absent))} left out, the rest is measured by"
            f" --frameworks {','.join(sorted(there))}"
        )
    return ExecutionError(
        f"failed ({first.reason}){more}: {first.message.strip()}",
        where=first.trial,
        advice=advice,
    )


def _framework(attempt: Attempt) -> str:
    return attempt.trial.split("/")[2]
