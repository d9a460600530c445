"""Number of fresh seeds of a verification, chosen before it starts."""

from __future__ import annotations

from capsule.record import Record


def advise_runs(record: Record, there: int = 0) -> int | None:
    """The next planned look; the original's number of seeds where no claim is looked at twice.

    Args:
        record: Of the original.
        there: How many earlier verifications ran.

    Returns:
        None where every planned look was taken.
    """
    planned = next((claim.looks for claim in record.claims if claim.looks), None)
    looks = planned or (len(record.manifest.seeds),)
    return next((runs for runs in looks if runs > there), None)
