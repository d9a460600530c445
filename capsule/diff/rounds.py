"""The two sides of a pair: which metrics of theirs are held against each other, by which margin."""

from __future__ import annotations

import math

from capsule.diff.names import Names
from capsule.manifest import Claim, Margin
from capsule.manifest.paths import match
from capsule.origin import Side
from capsule.record import FrozenClaim, Record


def pair_of(original: Record, rerun: Record) -> Side | None:
    """Return the origin of the first of two records of one pair, else None."""
    a, b = original.origin, rerun.origin
    if not isinstance(a, Side) or not isinstance(b, Side) or a.side == b.side:
        return None
    alike = (a.pair, a.order, a.margin, a.metrics) == (b.pair, b.order, b.margin, b.metrics)
    return a if alike else None


def names(side: Side) -> Names:
    """The sides of a pair by their letters, the one first whose origin this is."""
    return Names.of_variants("A", "B") if side.side == "a" else Names.of_variants("B", "A")


def claim(side: Side, metric: str) -> FrozenClaim | None:
    """Return the claim of a pair on a machine metric, or None."""
    pattern = next((pattern for pattern in side.metrics if match(pattern, metric)), None)
    if pattern is None:
        return None
    written = Claim(
        metric=pattern, type="equivalence", margin=Margin(ratio=side.margin), paired=True
    )
    return FrozenClaim(
        metric=metric,
        type="equivalence",
        scale="log",
        lower=-math.log(side.margin),
        upper=math.log(side.margin),
        margin_source="author",
        alpha=written.alpha,
        primary=True,
        pattern=written,
        paired=True,
    )
