"""A newly sealed capsule on a terminal: facts, claims and warnings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from capsule import summary
from capsule.errors import ExecutionError
from capsule.levels.catalog import FRAMEWORKS
from capsule.record import Attempt, FrozenClaim, Record
from capsule.report.terminal import derivation
from capsule.report.terminal.agreement import mean
from capsule.report.terminal.contents import head
from capsule.report.terminal.remarks import list_remarks
from capsule.report.terminal.style import Path, draw_notes, table, text
from capsule.sentences import Sentence
from capsule.summary import MetricRuns
from capsule.verdict import sides, wording
from capsule.verdict.wording import number

if TYPE_CHECKING:
    import pathlib

    from rich.console import RenderableType

_ROWS = 20
_WARNINGS = 6
_VALUES: tuple[tuple[str, Mapping[str, object]], ...] = (
    ("mean", {"justify": "right", "no_wrap": True}),
    ("smallest to largest", {"justify": "right", "no_wrap": True}),
    ("runs", {"justify": "right", "no_wrap": True}),
)


def draw_sealed(
    record: Record,
    capsule_id: str,
    warnings: Sequence[Sentence],
    lines: Mapping[str, tuple[int, int]] | None = None,
) -> tuple[RenderableType, ...]:
    """Draw a newly sealed record in brief: primary claims first, or metrics where there are none.

    Args:
        record: The sealed record.
        capsule_id: Id of its capsule.
        warnings: The gravest first.
        lines: Number of matching lines of each metric's text, by its path.
    """
    rules = derivation.of_commands(record, summary.run_values(record), lines or {})
    drawn = [
        head(record, capsule_id),
        *(_draw_claims(record, rules) if record.claims else _draw_metrics(record, rules)),
    ]
    return (*drawn, *draw_notes(list_remarks(record)), *_draw_warnings(warnings))


def _draw_warnings(warnings: Sequence[Sentence]) -> Iterator[RenderableType]:
    yield from (text(f"warning: {one} [{one.code}]") for one in warnings[:_WARNINGS])
    if len(warnings) > _WARNINGS:
        left = wording.count(len(warnings) - _WARNINGS, "more warning")
        yield text(f"warning: {left}: see `capsule lint` with the capsule's name")


def _draw_claims(record: Record, rules: Mapping[str, str]) -> Iterator[RenderableType]:
    metrics = summary.run_values(record)
    rows = table(
        ("metric", {"overflow": "fold"}),
        *_VALUES,
        ("allowed", {"overflow": "fold"}),
        title="Claims",
    )
    claims = sorted(record.claims, key=lambda claim: not claim.primary)
    for claim in claims[:_ROWS]:
        runs = summary.values_for(claim.pattern, metrics[claim.metric])
        name = _name_claim(claim, rules.get(claim.metric))
        rows.add_row(name, *_values(runs), text(wording.region(claim, runs)))
    yield rows
    if len(claims) > _ROWS:
        yield text(f"and {len(claims) - _ROWS} more claims: capsule show", "dim")


def _name_claim(claim: FrozenClaim, rule: str | None) -> RenderableType:
    """The metric of a claim, and the value that is judged, or how each run's value is made."""
    from rich.console import Group

    words = claim.pattern.value or rule
    return Group(Path(claim.metric), text(words, "dim")) if words else Path(claim.metric)


def _draw_metrics(record: Record, rules: Mapping[str, str]) -> Iterator[RenderableType]:
    from rich.console import Group

    metrics = summary.run_values(record)
    right = {"justify": "right", "no_wrap": True}
    rows = table(("metric", {"overflow": "fold"}), *_VALUES, ("sd of runs", right))
    for path in sorted(metrics)[:_ROWS]:
        spread = sides.counts(metrics[path], all_count=False).sd
        shown = "" if spread is None else number(spread, 3)
        rule = rules.get(path)
        name = Group(Path(path), text(rule, "dim")) if rule else Path(path)
        rows.add_row(name, *_values(metrics[path]), shown)
    yield rows
    if len(metrics) > _ROWS:
        yield text(f"and {len(metrics) - _ROWS} more metrics: capsule show", "dim")
    yield text("no claims: a verification of this capsule can give no verdict")


def _values(runs: MetricRuns) -> tuple[str, str, str]:
    low, high = min(runs.values, default=None), max(runs.values, default=None)
    return (
        mean(sides.counts(runs, all_count=False)),
        f"{number(low, 3)} to {number(high, 3)}",
        f"{len(runs.values)} of {len(runs.runs)}",
    )


def failure(record: Record, target: pathlib.Path) -> ExecutionError:
    """Return the error of a sealed record that has failed attempts."""
    failed = [attempt for attempt in record.attempts if attempt.outcome == "failed"]
    first = failed[0]
    more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
    if any(attempt.outcome == "completed" for attempt in record.attempts):
        advice = f"failed trials are sealed as outcomes in {target}; see its logs/"
    else:
        advice = f"all trials failed; {target} has no results. See its logs/"
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
