"""How often few re-runs confirm a margin: the table in docs/explanation/statistics.md."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from capsule import stats
from tests.support.long_run import COUNT, COVERS, ROOT

pytestmark = pytest.mark.long

LOOK = stats.nominal_alpha(0.05, 2)
SEEDS = (3, 5, 10)
REPETITIONS = 600


def row(words: str) -> dict[int, float]:
    """The shares of a row, by published seeds."""
    page = (ROOT / "docs" / "explanation" / "statistics.md").read_text()
    (line,) = [one for one in page.splitlines() if one.startswith("| ") and words in one]
    cells = re.findall(r"(\d+) %", line)
    return {seeds: int(cell) / 100 for seeds, cell in zip(SEEDS, cells, strict=False)}


def confirmed(
    seeds: int, looks: Sequence[int], *, margin: float | None = None, sd: float = 1.0
) -> float:
    """How often a margin is confirmed by the last of these looks, nothing changed.

    Args:
        seeds: Published runs.
        looks: Re-runs of each.
        margin: None for twice the standard deviation that the published runs show.
        sd: True one of the runs.
    """
    random = np.random.default_rng([10, seeds, *looks])
    hits = 0
    for _ in range(REPETITIONS):
        a = stats.Runs.of(dict(enumerate(sd * random.standard_normal(seeds))))
        fresh = sd * random.standard_normal(looks[-1])
        allowed = margin or 2 * a.sd / stats.c4(seeds)
        for runs in looks:
            interval = stats.shift(a, stats.Runs.of(dict(enumerate(fresh[:runs]))), alpha=LOOK)
            assert interval is not None
            word = stats.decide(interval, stats.Region(lower=-allowed, upper=allowed)).word
            if word != "INCONCLUSIVE":
                hits += word == "REPRODUCED"
                break
    return hits / REPETITIONS


@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize(
    ("words", "looks"),
    [
        ("default, confirmed in | 4, the first look", (4,)),
        ("default, confirmed in | 8, by the second look", (4, 8)),
    ],
)
def test_the_default_margin_is_confirmed_as_often_as_the_table_says(
    record_property: Callable[[str, object], None],
    seeds: int,
    words: str,
    looks: Sequence[int],
) -> None:
    # four standard errors
    assert confirmed(seeds, looks) == pytest.approx(row(words)[seeds], abs=0.08)
    record(record_property)


@pytest.mark.parametrize("seeds", SEEDS[:2])
@pytest.mark.parametrize(("words", "share"), [("by the last one", 1.0), ("by a mean of", 0.5)])
def test_half_the_variance_confirms_as_often_as_the_table_says(
    record_property: Callable[[str, object], None], seeds: int, words: str, share: float
) -> None:
    seen = confirmed(seeds, (seeds,), margin=2.0, sd=math.sqrt(share))
    assert seen == pytest.approx(row(words)[seeds], abs=0.08)
    record(record_property)


def record(record_property: Callable[[str, object], None]) -> None:
    record_property(COVERS, "simulated sides of the table of published seeds")
    record_property(COUNT, REPETITIONS)
