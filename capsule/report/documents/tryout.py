"""A trial that was tried out, as a JSON value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from capsule.jsons import Json, JsonObject
from capsule.sentences import Sentence

if TYPE_CHECKING:
    from capsule.trying import Tryout


def warnings_to_json(warnings: Sequence[Sentence]) -> list[Json]:
    """Return the warnings of lint in the form of every document."""
    return [{"code": one.code, "sentence": str(one)} for one in warnings]


def tryout_to_json(tryout: Tryout, warnings: Sequence[Sentence]) -> JsonObject:
    """Return the values of a tried trial, with the warnings on its manifest."""
    attempt = tryout.attempt
    return {
        "trial": attempt.trial,
        "seed": attempt.seed,
        "outcome": attempt.outcome,
        "reason": attempt.reason,
        "message": attempt.message,
        "hints": list(tryout.hints),
        "seconds": attempt.seconds,
        "ranks": attempt.ranks,
        "world": attempt.world or None,
        "metrics": {
            one.metric.name: {"value": one.value, "values": one.count, "unit": one.metric.unit}
            for one in tryout.reported
        },
        "notes": [note.sentence for note in tryout.notes],
        "remains": list(tryout.remains),
        "warnings": warnings_to_json(warnings),
    }
