"""An author trains with 20 seeds and publishes the luckiest 3: how often does a re-run notice?

    python benchmarks/statistics/selection.py [--repetitions N] [--jobs N]

Fresh seeds judged by the product's own decision, for several numbers of them and several margins,
beside an honest author who publishes 3 seeds as they come; and the usual check, which trains the
published seeds again on the same kind of machine and finds nearly the same numbers.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import populations
import product
import rivals
from cells import Figures

from capsule.manifest import Margin

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


def _publish(random: np.random.Generator, author: str, repetitions: int) -> np.ndarray:
    launched = populations.runs(random, "normal", (repetitions, LAUNCHED))
    if author == AUTHORS[0]:
        launched = -np.sort(-launched, axis=1)  # the metric is an accuracy: the highest are kept
    return launched[:, :PUBLISHED]


def cells() -> list[Fresh | Again]:
    """Everything that the tables need."""
    fresh = [Fresh(a, margin, n) for a in AUTHORS for margin in MARGINS for n in FRESH]
    return [*fresh, *map(Again, AUTHORS)]


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
    print(f"\n{arguments.repetitions} repetitions a cell, seed {populations.SEED}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
