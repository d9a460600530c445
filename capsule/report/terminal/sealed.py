"""A newly sealed capsule on a terminal: facts, metrics with their claims, and warnings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from capsule import summary
from capsule.errors import ExecutionError
from capsule.levels.catalog import FRAMEWORKS
from capsule.record import Attempt, Record
from capsule.report.terminal.contents import draw_rules, head
from capsule.report.terminal.metrics import list_metrics, order_paths
from capsule.report.terminal.naming import ShortNames
from capsule.report.terminal.remarks import list_remarks
from capsule.report.terminal.style import draw_notes, text
from capsule.sentences import Sentence
from capsule.verdict import wording

if TYPE_CHECKING:
    import pathlib

    from rich.console import RenderableType

_TABLE_LINES = 26
_WARNINGS = 6


def draw_sealed(
    record: Record,
    capsule_id: str,
    warnings: Sequence[Sentence],
    lines: Mapping[str, tuple[int, int]] | None = None,
) -> Iterator[RenderableType]:
    """Draw a newly sealed record in brief, claimed metrics first.

    Args:
        record: The sealed record.
        capsule_id: Id of its capsule.
        warnings: The gravest first.
        lines: Number of matching lines of each metric's text, by its path.
    """
    metrics = summary.run_values(record)
    names = ShortNames(order_paths(record, metrics))
    yield head(record, capsule_id)
    yield ""
    if metrics or record.claims:
        yield list_metrics(record, metrics, names, _TABLE_LINES)
        yield from draw_rules(record, metrics, names, lines or {})
        yield ""
    if not record.claims:
        yield text("no claims: a verification of this capsule can give no verdict")
    yield from draw_notes(list_remarks(record))
    yield from _draw_warnings(warnings)


def _draw_warnings(warnings: Sequence[Sentence]) -> Iterator[RenderableType]:
    yield from (text(f"warning: {one} [{one.code}]") for one in warnings[:_WARNINGS])
    if len(warnings) > _WARNINGS:
        left = wording.count(len(warnings) - _WARNINGS, "more warning")
        yield text(f"warning: {left}: `capsule lint` with the capsule's name lists all")


def failure(record: Record, target: pathlib.Path) -> ExecutionError:
    """Return the error of a sealed record that has failed attempts."""
    failed = [attempt for attempt in record.attempts if attempt.outcome == "failed"]
    first = failed[0]
    more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
    if any(attempt.outcome == "completed" for attempt in record.attempts):
        advice = f"failed trials are sealed as outcomes in {target}; read logs/ in the capsule"
    else:
        advice = f"all trials failed; {target} has no results: read logs/ in the capsule"
    absent = {_framework(attempt) for attempt in failed if not _was_there(attempt, record)}
    there = {_framework(attempt) for attempt in record.attempts} - absent
    if absent and there:
        advice += (
            f"\n  to run without {', '.join(sorted(absent))}:"
            f" --frameworks {','.join(sorted(there))}"
        )
    return ExecutionError(
        f"failed ({first.reason}){more}: {first.message.strip()}",
        where=first.trial,
        advice=advice,
    )


def _was_there(attempt: Attempt, record: Record) -> bool:
    """Return whether the image has the attempt's framework, by the software that it reports."""
    framework = _framework(attempt)
    if framework not in FRAMEWORKS or framework not in record.software:
        return True  # a command, or an image that was never asked
    # an image may answer anything
    frameworks = record.software[framework].get("frameworks")
    return not isinstance(frameworks, dict) or framework in frameworks


def _framework(attempt: Attempt) -> str:
    return attempt.trial.split("/")[2]
