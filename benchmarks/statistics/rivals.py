"""The rules that others use to call two sets of runs the same, on the cells of our own rule.

Each knows two words only: what it doesn't call the same is different. All of them are written out
here from their definitions, for many pairs of samples at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import populations
import product
import scipy.stats
from cells import Figures, at

from capsule.manifest import Margin

OURS = "capsule"
MARGIN = 2.0
RUNS = (3, 5, 10, 30)
# with a mean of 40 it is 2 sd: the same question as ours
_FIVE_PERCENT = 0.05

Values = np.ndarray  # (repetitions, runs)
Same = Callable[[Values, Values, Values], np.ndarray]
Pick = Callable[[Iterable[float]], float]


def within_five_percent(a: Values, b: Values, _reference: Values) -> np.ndarray:
    """Means not farther apart than 5 % of the original's."""
    return np.abs(b.mean(1) - a.mean(1)) <= _FIVE_PERCENT * np.abs(a.mean(1))


def intervals_overlap(a: Values, b: Values, _reference: Values) -> np.ndarray:
    """The 95 % confidence intervals of both means overlap."""
    (low_a, high_a), (low_b, high_b) = _mean_interval(a), _mean_interval(b)
    return (low_a <= high_b) & (low_b <= high_a)


def t_test(a: Values, b: Values, _reference: Values) -> np.ndarray:
    """Welch's t-test finds nothing: p > 0.05."""
    return scipy.stats.ttest_ind(a, b, axis=1, equal_var=False).pvalue > 0.05


def mann_whitney(a: Values, b: Values, _reference: Values) -> np.ndarray:
    """The exact Mann-Whitney test finds nothing: p > 0.05."""
    return scipy.stats.mannwhitneyu(a, b, axis=1, method="exact").pvalue > 0.05


def rcp(_a: Values, b: Values, reference: Values) -> np.ndarray:
    """MLPerf's reference convergence points: not faster than twice as many reference runs.

    With m the mean of N reference runs without the best and the worst, s the population standard
    deviation of all N, n1 = N - 2 and n2 = n - 2, the mean of B's runs without the best and the
    worst must reach m - t(0.95, n1 + n2 - 2) * s * sqrt(1/n1 + 1/n2).
    """
    n1, n2 = reference.shape[1] - 2, b.shape[1] - 2
    allowed = scipy.stats.t.ppf(0.95, n1 + n2 - 2) * np.sqrt(1 / n1 + 1 / n2)
    least = _olympic(reference) - allowed * reference.std(1)
    return _olympic(b) >= least


def original_in_interval(a: Values, b: Values, _reference: Values) -> np.ndarray:
    """The original's mean lies in the re-execution's 95 % confidence interval."""
    low, high = _mean_interval(b)
    return (low <= a.mean(1)) & (a.mean(1) <= high)


def in_prediction_interval(a: Values, b: Values, _reference: Values) -> np.ndarray:
    """The re-execution's mean lies in the 95 % prediction interval of the original's runs."""
    n_a, n_b = a.shape[1], b.shape[1]
    reach = scipy.stats.t.ppf(0.975, n_a - 1) * a.std(1, ddof=1) * np.sqrt(1 / n_a + 1 / n_b)
    return np.abs(b.mean(1) - a.mean(1)) <= reach


def one_run_in_bounds(a: Values, b: Values, _reference: Values) -> np.ndarray:
    """A single run lies within 5 % of the original's mean."""
    return _in_bounds(a, b)[:, 0]


def all_runs_in_bounds(a: Values, b: Values, _reference: Values) -> np.ndarray:
    """Every run lies within 5 % of the original's mean."""
    return _in_bounds(a, b).all(1)


def _in_bounds(a: Values, b: Values) -> np.ndarray:
    mean = a.mean(1, keepdims=True)
    return np.abs(b - mean) <= _FIVE_PERCENT * np.abs(mean)


def _mean_interval(x: Values) -> tuple[np.ndarray, np.ndarray]:
    n = x.shape[1]
    reach = scipy.stats.t.ppf(0.975, n - 1) * x.std(1, ddof=1) / np.sqrt(n)
    return x.mean(1) - reach, x.mean(1) + reach


def _olympic(x: Values) -> np.ndarray:
    return np.sort(x, axis=1)[:, 1:-1].mean(1)


RULES: Mapping[str, Same] = {
    "within 5 % of the mean": within_five_percent,
    "95 % intervals overlap": intervals_overlap,
    "t-test (Welch), p > 0.05": t_test,
    "Mann-Whitney, p > 0.05 (benchstat)": mann_whitney,
    "MLPerf RCP, reference of 2n runs": rcp,
    "A's mean in B's 95 % interval": original_in_interval,
    "B's mean in A's 95 % prediction interval": in_prediction_interval,
    "one run within 5 % (ReFrame)": one_run_in_bounds,
    "all runs within 5 %": all_runs_in_bounds,
}
# it asks one question only, so its two directions have nothing to do with each other
_ONE_DIRECTION = "MLPerf RCP, reference of 2n runs"


@dataclass(frozen=True)
class Cell:
    """All rules on the same n + n runs of one shape with B shifted by `truth` sd."""

    n: int
    shape: str
    truth: float

    def __str__(self) -> str:
        return f"{self.n}+{self.n} {self.shape}, {at(self.truth)}"

    def measure(self, repetitions: int) -> Figures:
        """For each rule the percentages of `RULE same` and `RULE different`."""
        random = populations.random(self)
        # the RCP rule asks for twice as many reference runs; the others see the first half
        reference = populations.runs(random, self.shape, (repetitions, 2 * self.n))
        a, b = (
            reference[:, : self.n],
            populations.runs(random, self.shape, (repetitions, self.n), at=self.truth),
        )
        claim = product.freeze_one(product.metric(a[0]), Margin(absolute=MARGIN))
        words = Counter(product.decision(x, y, claim).word for x, y in zip(a, b, strict=True))
        figures = {
            f"{OURS} same": 100 * words["REPRODUCED"] / repetitions,
            f"{OURS} different": 100 * words["DIFFERENT"] / repetitions,
        }
        for name, rule in RULES.items():
            same = 100 * float(rule(a, b, reference).mean())
            figures |= {f"{name} same": same, f"{name} different": 100 - same}
        return figures


def cells(runs: Sequence[int] = RUNS) -> list[Cell]:
    """Everything that the table needs."""
    shapes = list(populations.SHAPES)
    cells = [Cell(n, shape, truth) for n in runs for shape in shapes for truth in (-2.0, 0.0, 2.0)]
    return cells + [Cell(n, "normal", truth) for n in runs for truth in (-4.0, 4.0)]


@dataclass(frozen=True)
class Line:
    """One rule's line: for each number of runs a percentage, four columns of them."""

    rule: str
    columns: tuple[tuple[float, ...], ...]


COLUMNS = (
    "called the same, truth on the margin",
    "called different, no shift",
    "called the same, no shift (normal)",
    "called different, truth at 2 margins (normal)",
)


def table(figures: Mapping[Cell, Figures], runs: Sequence[int] = RUNS) -> list[Line]:
    """Our rule first, then each rival; worst over shapes and signs where something goes wrong."""
    lines = []
    for rule in (OURS, *RULES):
        if rule == _ONE_DIRECTION:
            lines += [
                _line(f"{rule}, B faster", rule, figures, runs, signs=(-1,)),
                _line(f"{rule}, B slower", rule, figures, runs, signs=(1,)),
            ]
        else:
            lines.append(_line(rule, rule, figures, runs, signs=(-1, 1)))
    return lines


def _line(
    name: str, rule: str, figures: Mapping[Cell, Figures], runs: Sequence[int], signs: Sequence[int]
) -> Line:
    def worst(n: int, word: str, truth: float, shapes: Sequence[str], pick: Pick = max) -> float:
        truths = {sign * truth for sign in signs}
        picked = (figures[Cell(n, shape, t)][f"{rule} {word}"] for shape in shapes for t in truths)
        return pick(picked)

    shapes, normal = list(populations.SHAPES), ["normal"]
    return Line(
        rule=name,
        columns=(
            tuple(worst(n, "same", MARGIN, shapes) for n in runs),
            tuple(worst(n, "different", 0.0, shapes) for n in runs),
            tuple(worst(n, "same", 0.0, normal) for n in runs),
            tuple(worst(n, "different", 2 * MARGIN, normal, min) for n in runs),
        ),
    )
