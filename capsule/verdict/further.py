"""Further seeds for claims that a verification left open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from capsule.diff import words
from capsule.notes import Note
from capsule.verdict.model import Judged, Verdict

# runs of a changed experiment do not add up with those of the capsule's own
_OTHER_PLAN = frozenset({"changed-manifest", "another-manifest"})


@dataclass(frozen=True, kw_only=True)
class Further:
    """Seeds and earlier runs with which a verification can continue.

    Attributes:
        runs: Number of fresh seeds in all.
        add: Whether the runs that are there count. They do not where a metric of the machine is
            open: of it every verification has its own.
        image: Reference that took the place of the original's image, None where none did.
        own_levels: Whether the program of this version of capsule measured in place of its own.
        nonce: The word that the seeds follow from besides the id, None for none.
        quick: Whether what decides nothing is left out, as it was.
        device: Device of the re-run if it is not the original's, else None.
    """

    runs: int
    add: bool
    image: str | None
    own_levels: bool
    nonce: str | None
    quick: bool
    device: str | None


def advise_further(verdict: Verdict) -> Further | None:
    """Return the runs that would decide the open claims; None if no number of runs is known.

    Args:
        verdict: Of a capsule by a verification of it.
    """
    differences = verdict.differences
    original, rerun = differences.original, differences.rerun
    codes = {change.code for change in differences.changes}
    if original.id is None or rerun.verifies != original.id or codes & _OTHER_PLAN:
        return None
    open_claims = [one for one in verdict.claims if one.decisive and one.word == "INCONCLUSIVE"]
    numbers = [(one, number) for one in open_claims if (number := _runs(one)) is not None]
    if verdict.word != "INCONCLUSIVE" or not numbers:
        return None
    return Further(
        runs=max(number for _, number in numbers),
        add=all(one.kind == "portable" for one, _ in numbers),
        image=rerun.image_override,
        own_levels="another-program" in codes,
        nonce=rerun.nonce,
        quick=rerun.quick,
        device=_find_device(differences.changes),
    )


def _find_device(changes: Sequence[Note]) -> str | None:
    """Return the device of the re-run where it is not the original's."""
    facts = (dict(one.facts or ()) for one in changes if one.code == words.ANOTHER_DEVICE)
    return next((str(one["here"]) for one in facts), None)


def _runs(judged: Judged) -> int | None:
    """The look that is advised, for a shift as seen or, where none decides that, for no shift."""
    advice = judged.advice
    if advice is None:
        return None
    number = advice.as_seen[0] or advice.if_equal[0]
    if number is None or judged.look is None:
        return number
    return next((runs for runs in judged.look.coming if runs >= number), number)
