"""How many fresh seeds a re-execution begins with, before anything of it is known."""

from __future__ import annotations

from capsule.record import Record


def advise_runs(record: Record) -> int:
    """The first planned look; the original's number of seeds where no claim is looked at twice."""
    first = (claim.looks[0] for claim in record.claims if claim.looks)
    return next(first, len(record.manifest.seeds))
