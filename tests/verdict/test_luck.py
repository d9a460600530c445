"""An author trains with 20 seeds and publishes the luckiest 3: what re-runs make of them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import populations
import product
import pytest
import scipy.stats

from capsule import verdict
from capsule.diff import pair_rounds, pair_up
from capsule.manifest import Claim, Margin
from capsule.origin import Side
from capsule.summary import MetricRuns

pytestmark = pytest.mark.slow

TIME = f"{product.PATH.rpartition('/')[0]}/step_time"
SIDE = Side(pair="", side="a", order="aba", margin=1.1, metrics=("*/*/*/*",))
SAME_SEED_SD = 0.05
REPETITIONS = 25


@dataclass(frozen=True)
class Route:
    """What is run: so many fresh seeds in all at each look, and the published ones again or not."""

    fresh: tuple[int, ...]
    again: bool = False
    paired: bool = False


ROUTES = {
    "verify": Route(fresh=(3,)),
    "verify --until-decided": Route(fresh=(3, 6)),
    "verify --runs 20": Route(fresh=(20,)),
    "verify, then 9, 12, 18 and 30 runs while open": Route(fresh=(3, 6, 9, 12, 18, 30)),
    "verify of a paired claim": Route(fresh=(3,), again=True, paired=True),
    "verify --until-decided of a paired claim": Route(fresh=(3, 6), again=True, paired=True),
    "diff with a capsule of equal seeds": Route(fresh=(0,), again=True),
    "the same of a paired claim": Route(fresh=(0,), again=True, paired=True),
}


def publish(lucky: bool, repetitions: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three published accuracies of twenty, the same seeds again, and thirty fresh ones."""
    random = populations.random("luck")
    launched = populations.runs(random, "normal", (repetitions, 20))
    published = (-np.sort(-launched, axis=1) if lucky else launched)[:, :3]
    again = published + SAME_SEED_SD * random.standard_normal(published.shape)
    return published, again, populations.runs(random, "normal", (repetitions, 30))


def test_luck_is_confirmed_by_its_own_seeds_and_hardly_ever_by_fresh_ones() -> None:
    for lucky in (True, False):
        published, again, fresh = publish(lucky, 300)
        found = scipy.stats.ttest_ind(published, again, axis=1, equal_var=False).pvalue <= 0.05
        assert found.mean() < 0.01
        words = Counter(
            decision.word
            for a, b in zip(published, fresh[:, :10], strict=True)
            if (decision := product.decision(a, b, product.freeze_one(product.metric(a), None)))
        )
        if lucky:
            assert words["REPRODUCED"] < 9 < 45 < words["DIFFERENT"]
        else:
            assert words["DIFFERENT"] < 12 < 120 < words["REPRODUCED"]


@pytest.mark.parametrize("route", ROUTES)
# an author's margin of 2 sd is wider than the luck
@pytest.mark.parametrize("margin", [None, Margin(absolute=1.0)], ids=["default", "1 sd"])
def test_luck_is_confirmed_by_no_route(route: str, margin: Margin | None) -> None:
    claim = Claim(
        metric=product.PATH, type="equivalence", margin=margin, paired=ROUTES[route].paired
    )
    words = [
        judge(claim, ROUTES[route], product.metric(a), b, c)
        for a, b, c in zip(*publish(True, REPETITIONS), strict=True)
    ]
    assert words.count("REPRODUCED") <= 1


def judge(
    claim: Claim, route: Route, original: MetricRuns, again: Sequence[float], fresh: Sequence[float]
) -> str:
    """Judge a route's looks one after the other while the word is open."""
    frozen = verdict.freeze([claim], {product.PATH: original})
    word = "INCONCLUSIVE"
    for runs in route.fresh:
        drawn = product.metric(fresh[:runs], first_seed=product.FIRST_FRESH)
        repeated = product.metric(again).runs if route.again else ()
        rerun = replace(drawn, runs=(*repeated, *drawn.runs))
        sides = {product.PATH: original}, {product.PATH: rerun}
        word = product.judge_pairs(*pair_up(frozen, *sides)).word
        if word != "INCONCLUSIVE":
            break
    return word


def judge_sides(a: Sequence[float], b: Sequence[float]) -> Iterator[tuple[str, str]]:
    """Yield metric and word of all that a pair says of two sides that take equally long."""
    times = [1 + 0.01 * index for index in range(len(a))]
    sides = [
        {
            product.PATH: product.metric(values),
            TIME: replace(product.metric(times, path=TIME), unit="s", kind="machine"),
        }
        for values in (a, b)
    ]
    judged = product.judge_pairs(*pair_rounds(SIDE, *sides))
    yield from ((one.metric, one.word) for one in (*judged.claims, *judged.reported))


def test_a_pair_of_lucky_seeds_speaks_of_their_times_alone() -> None:
    assert dict(judge_sides([0.93, 0.94, 0.95], [0.93, 0.94, 0.95])) == {TIME: "REPRODUCED"}
    published, again, _ = publish(True, 10)
    for a, b in zip(published, again, strict=True):
        assert product.PATH not in dict(judge_sides(a, b))
