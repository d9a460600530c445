"""The runs of several machines, ready for variances between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from capsule.stats.runs import Runs


@dataclass(frozen=True, kw_only=True)
class Machines:
    """The machines with a value, moved and scaled so that no square leaves the range of doubles.

    Attributes:
        sides: At least two, at least one of them with two runs.
        means: Mean of each side, as `(mean - centre) / scale`.
        within: The pooled variance between runs of one machine over `scale` squared, at least that
            of rounding to the resolution.
    """

    sides: tuple[Runs, ...]
    centre: float
    scale: float
    means: tuple[float, ...]
    within: float

    @classmethod
    def of(cls, sides: Sequence[Runs]) -> Machines | None:
        """Return the sides that have a value; None when they tell nothing of both kinds of
        spread.
        """
        used = tuple(side for side in sides if side.n)
        repeated = [side for side in used if side.n >= 2]
        if len(used) < 2 or not repeated:
            return None
        centre = sorted(side.mean for side in used)[len(used) // 2]
        step = max(side.resolution for side in used) / math.sqrt(12)
        sizes = [abs(side.mean - centre) for side in used] + [side.sd for side in repeated]
        scale = max(*sizes, step) or 1.0
        squares = math.fsum((side.n - 1) * (side.sd / scale) ** 2 for side in repeated)
        return cls(
            sides=used,
            centre=centre,
            scale=scale,
            means=tuple((side.mean - centre) / scale for side in used),
            within=max(squares / _df(used), (step / scale) ** 2),
        )

    @property
    def k(self) -> int:
        """Return the number of machines."""
        return len(self.sides)

    @cached_property
    def n(self) -> tuple[int, ...]:
        """Return the number of runs of each machine."""
        return tuple(side.n for side in self.sides)

    @cached_property
    def common(self) -> tuple[tuple[int, int, int], ...]:
        """(i, j, number of seeds that both used) of every two machines i < j with any."""
        seeds = [{seed for seed, _ in side.by_seed} for side in self.sides]
        return tuple(
            (i, j, len(seeds[i] & seeds[j]))
            for j in range(self.k)
            for i in range(j)
            if not seeds[i].isdisjoint(seeds[j])
        )

    @property
    def within_df(self) -> float:
        """Satterthwaite's, as if squares under common seeds were fully correlated."""
        independent = _df(self.sides)
        return independent**2 / (independent + 2 * sum(seeds - 1 for _, _, seeds in self.common))


def _df(sides: Sequence[Runs]) -> int:
    return sum(side.n - 1 for side in sides)
