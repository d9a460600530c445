"""An author trains with 20 seeds and publishes the luckiest 3: how often does a re-run notice?

    python benchmarks/statistics/selection.py [--repetitions N] [--jobs N]

Fresh seeds judged by the product's own decision, for several numbers of them and several margins,
beside an honest author who publishes 3 seeds as they come; the usual check, which trains the
published seeds again on the same kind of machine and finds nearly the same numbers; and what the
product says on each route that a re-run can take, pairs and seeds that are used twice included.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import populations
import product
import rivals
from cells import Figures

from capsule import verdict
from capsule.diff import pair_rounds, pair_up
from capsule.manifest import Claim, Margin
from capsule.origin import Side
from capsule.summary import MetricRuns

LAUNCHED = 20
PUBLISHED = 3
FRESH = (3, 5, 10, 20, 30)
# what the same seed gives again: reordered sums, in between-run standard deviations
_SAME_SEED_SD = 0.05
MARGINS: Mapping[str, float | None] = {
    "default: 2 sd of the published runs": None,
    "author's: 1 sd between runs": 1.0,
    "author's: 2 sd between runs": 2.0,
}
AUTHORS = ("luckiest 3 of 20", "3 as they come")
RULE_T = "t-test (Welch), p > 0.05"
OURS_AGAIN = "capsule's rule, if it took repeated seeds for evidence"
WORDS = ("DIFFERENT", "INCONCLUSIVE", "REPRODUCED")


@dataclass(frozen=True)
class Design:
    """What a route runs.

    Attributes:
        fresh: How many fresh seeds in all at each look, one after the other while the word is open.
        again: Whether the published seeds run again.
        paired: Whether the author claims pairs.
        sides: Whether both run as the sides of one pair, which is asked to judge every metric.
    """

    fresh: tuple[int, ...]
    again: bool = False
    paired: bool = False
    sides: bool = False


ROUTES: Mapping[str, Design] = {
    "verify": Design(fresh=(3,)),
    "verify --until-decided": Design(fresh=(3, 6)),
    "verify --runs 20": Design(fresh=(20,)),
    "verify, then 9, 12, 18 and 30 runs while open": Design(fresh=(3, 6, 9, 12, 18, 30)),
    "verify of a paired claim": Design(fresh=(3,), again=True, paired=True),
    "verify --until-decided of a paired claim": Design(fresh=(3, 6), again=True, paired=True),
    "diff with a capsule of equal seeds": Design(fresh=(), again=True),
    "the same of a paired claim": Design(fresh=(), again=True, paired=True),
    "pair of the author's own seeds": Design(fresh=(), again=True, sides=True),
}
TIME = f"{product.PATH.rpartition('/')[0]}/step_time"
_SIDE = Side(pair="", side="a", order="aba", margin=1.1, metrics=("*/*/*/*",))
# an author's margin of 2 sd is wider than the luck
ROUTED = tuple(MARGINS)[:2]


@dataclass(frozen=True)
class Fresh:
    """The published runs against `n_b` fresh seeds of the same population."""

    author: str
    margin: str
    n_b: int

    def measure(self, repetitions: int) -> Figures:
        """Percentage of each word."""
        random = populations.random(self)
        counts: Counter[str] = Counter()
        published = _publish(random, self.author, repetitions)
        fresh = populations.runs(random, "normal", (repetitions, self.n_b))
        for a, b in zip(published, fresh, strict=True):
            size = MARGINS[self.margin]
            margin = None if size is None else Margin(absolute=size)
            decision = product.decision(a, b, product.freeze_one(product.metric(a), margin))
            counts[decision.word if decision else "INCONCLUSIVE"] += 1
        return {word: 100 * counts[word] / repetitions for word in WORDS}


@dataclass(frozen=True)
class Again:
    """The published runs against the same seeds trained again."""

    author: str

    def measure(self, repetitions: int) -> Figures:
        """Percentage that each rule calls the same; ours through the default margin."""
        random = populations.random(self)
        a = _publish(random, self.author, repetitions)
        b = a + _SAME_SEED_SD * random.standard_normal(a.shape)
        words = Counter(
            product.decision(x, y, product.freeze_one(product.metric(x), None)).word
            for x, y in zip(a, b, strict=True)
        )
        shares = {
            name: 100 * float(rivals.RULES[name](a, b, a).mean())
            for name in ("within 5 % of the mean", "95 % intervals overlap", RULE_T)
        }
        return {**shares, OURS_AGAIN: 100 * words["REPRODUCED"] / repetitions}


@dataclass(frozen=True)
class Route:
    """The published runs against what a route of the product draws, judged as it judges a capsule.

    Whoever adds runs looks again, at the level of so many runs, until the word is no longer open.
    """

    author: str
    margin: str
    route: str

    def measure(self, repetitions: int) -> Figures:
        """Percentage of each word of the whole capsule, of a fourth of the repetitions."""
        repetitions = fewer(repetitions)
        random = populations.random(self)
        design = ROUTES[self.route]
        if design.sides:
            return self._measure_sides(random, repetitions)
        published = _publish(random, self.author, repetitions)
        again = published + _SAME_SEED_SD * random.standard_normal(published.shape)
        fresh = populations.runs(random, "normal", (repetitions, max(design.fresh, default=0)))
        size = MARGINS[self.margin]
        claim = Claim(
            metric=product.PATH,
            type="equivalence",
            margin=None if size is None else Margin(absolute=size),
            paired=design.paired,
        )
        counts: Counter[str] = Counter()
        for a, b, c in zip(published, again, fresh, strict=True):
            counts[self._judge(claim, product.metric(a), b if design.again else (), c)] += 1
        return {word: 100 * counts[word] / repetitions for word in WORDS}

    def _measure_sides(self, random: np.random.Generator, repetitions: int) -> Figures:
        """The same of what a pair says of the metric: nothing is no decision."""
        published = _publish(random, self.author, repetitions)
        again = published + _SAME_SEED_SD * random.standard_normal(published.shape)
        counts: Counter[str] = Counter()
        for a, b in zip(published, again, strict=True):
            words = dict(judge_sides(a, b))
            counts[words.get(product.PATH, "INCONCLUSIVE")] += 1
        return {word: 100 * counts[word] / repetitions for word in WORDS}

    def _judge(
        self, claim: Claim, original: MetricRuns, again: Sequence[float], fresh: Sequence[float]
    ) -> str:
        frozen = verdict.freeze([claim], {product.PATH: original})
        word = "INCONCLUSIVE"
        for runs in ROUTES[self.route].fresh or (0,):
            drawn = product.metric(fresh[:runs], first_seed=product.FIRST_FRESH)
            rerun = replace(drawn, runs=(*product.metric(again).runs, *drawn.runs))
            sides = {product.PATH: original}, {product.PATH: rerun}
            word = product.judge_pairs(*pair_up(frozen, *sides)).word
            if word != "INCONCLUSIVE":
                break
        return word


def judge_sides(a: Sequence[float], b: Sequence[float]) -> Iterator[tuple[str, str]]:
    """Metric and word of everything that a pair says of two sides that take equally long."""
    times = [1 + 0.01 * index for index in range(len(a))]
    sides = [
        {
            product.PATH: product.metric(values),
            TIME: replace(product.metric(times, path=TIME), unit="s", kind="machine"),
        }
        for values in (a, b)
    ]
    verdict = product.judge_pairs(*pair_rounds(_SIDE, *sides))
    for judged in (*verdict.claims, *verdict.reported):
        yield judged.metric, judged.word


def _publish(random: np.random.Generator, author: str, repetitions: int) -> np.ndarray:
    launched = populations.runs(random, "normal", (repetitions, LAUNCHED))
    if author == AUTHORS[0]:
        launched = -np.sort(-launched, axis=1)  # the metric is an accuracy: the highest are kept
    return launched[:, :PUBLISHED]


def cells() -> list[Fresh | Again | Route]:
    """Everything that the tables need."""
    fresh = [Fresh(a, margin, n) for a in AUTHORS for margin in MARGINS for n in FRESH]
    routes = [Route(a, margin, route) for a in AUTHORS for margin in ROUTED for route in ROUTES]
    return [*fresh, *map(Again, AUTHORS), *routes]


def fresh_table(figures: Mapping[object, Figures]) -> list[tuple[str, ...]]:
    """Lines of margin, fresh seeds, and for each author the three shares in percent."""
    lines = []
    for margin in MARGINS:
        for n_b in FRESH:
            shares = [figures[Fresh(author, margin, n_b)] for author in AUTHORS]
            words = (" / ".join(f"{share[word]:.1f}" for word in WORDS) for share in shares)
            lines.append((margin, str(n_b), *words))
    return lines


def again_table(figures: Mapping[object, Figures]) -> list[tuple[str, ...]]:
    """Lines of rule and for each author the share in percent that the rule confirms."""
    rules: Sequence[str] = list(figures[Again(AUTHORS[0])])
    return [
        (rule, *(f"{figures[Again(author)][rule]:.1f}" for author in AUTHORS)) for rule in rules
    ]


def fewer(repetitions: int) -> int:
    """How often a route is walked: whole verdicts take thirty times as long as decisions."""
    return max(1, repetitions // 4)


def route_table(figures: Mapping[object, Figures]) -> list[tuple[str, ...]]:
    """Lines of route, margin, and for each author the three shares in percent."""
    lines = []
    for route in ROUTES:
        for margin in ROUTED:
            shares = [figures[Route(author, margin, route)] for author in AUTHORS]
            words = (" / ".join(f"{share[word]:.1f}" for word in WORDS) for share in shares)
            lines.append((route, margin, *words))
    return lines


def main() -> int:
    import verdicts

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=verdicts.REPETITIONS)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    figures = verdicts.measure(cells(), arguments.repetitions, arguments.jobs)
    print(f"fresh seeds, {' / '.join(WORDS)} in percent")
    print(f"{'margin':38} {'seeds':>5}  {AUTHORS[0]:>20}  {AUTHORS[1]:>20}")
    for margin, n_b, *words in fresh_table(figures):
        print(f"{margin:38} {n_b:>5}  {words[0]:>20}  {words[1]:>20}")
    print(f"\nthe published seeds trained again, noise {_SAME_SEED_SD} sd: confirmed, in percent")
    for rule, *shares in again_table(figures):
        print(f"{rule:54} {shares[0]:>10} {shares[1]:>10}")
    walks = fewer(arguments.repetitions)
    print(f"\nevery route, {' / '.join(WORDS)} in percent of {walks} repetitions")
    for route, margin, *words in route_table(figures):
        print(f"{route:48} {margin:36} {words[0]:>20}  {words[1]:>20}")
    print(f"\n{arguments.repetitions} repetitions a cell, seed {populations.SEED}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
