"""Parts that a judgement need not have: as values where it has them, else the test fails."""

from typing import NamedTuple

from capsule.verdict import Advice, Judged, Look


class Limits(NamedTuple):
    """An estimate and its interval, on the scale that a claim is judged on."""

    estimate: float
    lower: float
    upper: float


def limits(judgement: Judged) -> Limits:
    assert judgement.estimate is not None
    assert judgement.lower is not None
    assert judgement.upper is not None
    return Limits(judgement.estimate, judgement.lower, judgement.upper)


def advice(judgement: Judged) -> Advice:
    assert judgement.advice is not None
    return judgement.advice


def look(judgement: Judged) -> Look:
    assert judgement.look is not None
    return judgement.look


def both(numbers: tuple[int | None, int | None]) -> tuple[int, int]:
    """How many runs are advised: one number for either power."""
    fewer, more = numbers
    assert fewer is not None
    assert more is not None
    return fewer, more
