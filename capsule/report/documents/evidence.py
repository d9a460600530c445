"""Sources of a capsule's numbers, as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence

from capsule.archive.texts import Quotation
from capsule.jsons import Json

FORMAT = "capsule-evidence/1"


def evidence_to_json(
    quotations: Sequence[tuple[Quotation, ...]], capsule_id: str
) -> dict[str, Json]:
    """Every number with the line that it was read from, as a JSON value."""
    return {
        "format": FORMAT,
        "id": capsule_id,
        "evidence": [_metric(numbers) for numbers in quotations],
    }


def _metric(numbers: Sequence[Quotation]) -> dict[str, Json]:
    first = numbers[0]
    return {
        "metric": first.metric,
        "trial": first.trial,
        "attempt": first.attempt,
        "rank": first.rank,
        "path": first.path,
        "values": [
            {
                # JSON has no word for a number that is not finite
                "value": one.value if math.isfinite(one.value) else str(one.value),
                "step": one.step,
                "line": one.line,
                "text": one.words,
            }
            for one in numbers
        ],
    }
