"""A tried-out trial on a terminal: the values that a run would record, and what is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from capsule.durations import duration
from capsule.errors import CannotRunError, CapsuleError, ExecutionError
from capsule.report.terminal import derivation
from capsule.report.terminal.style import draw_rest, table, text
from capsule.segments import removal
from capsule.sentences import Sentence
from capsule.starts import describe_world
from capsule.verdict.wording import count, number

if TYPE_CHECKING:
    from rich.console import RenderableType

    from capsule.record import Attempt
    from capsule.trying import Reported, Tryout

_ROWS = 40


def draw_tryout(tryout: Tryout, warnings: Sequence[Sentence]) -> Iterator[RenderableType]:
    """Draw the trial in brief, its metrics, and the warnings of lint."""
    attempt = tryout.attempt
    yield text(f"trial {attempt.outcome} (fresh seed {attempt.seed})")
    rows = table(
        ("metric", {"overflow": "fold"}),
        ("would be recorded", {"justify": "right", "no_wrap": True}),
        ("of", {"no_wrap": True}),
        ("unit", {"no_wrap": True}),
    )
    for one in tryout.reported[:_ROWS]:
        rows.add_row(text(one.metric.name), *_values(one), text(one.metric.unit))
    yield rows
    yield from draw_rest(len(tryout.reported) - _ROWS, "metrics")
    if attempt.outcome == "completed" and attempt.ranks > 1:
        yield text(f"ranks: {describe_world(attempt.world, attempt.ranks)}")
    if attempt.outcome == "completed" and attempt.message:
        yield text(f"warning: {attempt.message}")
    yield from (text(f"note: {note.sentence}") for note in tryout.notes)
    yield from (text(f"warning: {one} [{one.code}]") for one in warnings)
    if attempt.seconds is not None:
        yield text(f"{duration(attempt.seconds)}{_outlook(tryout, attempt.seconds)}")
    if tryout.remains:
        yield text(
            "trial deleted; nothing sealed. Files of the trial that are left in /dev/shm:"
            f" {', '.join(tryout.remains)}; to remove them: {removal(tryout.remains)}"
        )
    else:
        yield text("trial deleted; nothing sealed")


def _values(one: Reported) -> tuple[str, str]:
    if one.count == 0:
        return "missing", ""
    shown = "not finite" if one.value is None else number(one.value, 6)
    lines = None if one.lines is None else (one.lines, one.lines)
    rule = derivation.describe(one.metric, [one.samples], lines)
    return shown, rule or count(one.count, "value")


def _outlook(tryout: Tryout, seconds: float) -> str:
    if not tryout.alike or tryout.attempt.outcome != "completed":
        return ""
    whole = duration(seconds * tryout.trials)
    return f"; {count(tryout.trials, 'trial')} will take about {whole}"


def explain_tryout(tryout: Tryout) -> CapsuleError:
    """Return the error of a failed trial."""
    attempt = tryout.attempt
    kind = CannotRunError if attempt.reason == "not-started" else ExecutionError
    return kind(
        f"failed ({attempt.reason}): {_tell_end(attempt)}",
        where=attempt.trial,
        advice="\n  ".join((*tryout.hints, "read the trial's output above")),
    )


def _tell_end(attempt: Attempt) -> str:
    """Return how the trial ended, with the most telling line of its output."""
    first, _, rest = attempt.message.strip().partition("\n")
    if attempt.reason not in ("exit", "signal") or not rest.strip():
        return attempt.message.strip()
    return f"{first}: {attempt.last_line}"
