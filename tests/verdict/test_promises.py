"""What docs/explanation/statistics.md promises of any verdict, and says of its own tables."""

import json
import random
import re

import acceptance
import numpy as np
import populations
import product
import pytest
import statistics_docs
import verdicts
from hypothesis import given
from hypothesis import strategies as st

from capsule import report
from capsule.manifest import Margin
from capsule.stats import Region, Runs, decide, shift
from capsule.verdict.model import Judged
from tests.stats.sides import known
from tests.support.judging import NEAR, frozen, judge, judge_all, metric
from tests.support.properties import examples

PAGE = statistics_docs.read()


# what the page promises of any verdict

VALUES = st.lists(st.integers(-50, 50), min_size=2, max_size=7)


@examples(20)
@given(VALUES, VALUES, st.sampled_from([0.001, 0.01, 60.0, 1000.0, 1 / 3]), st.booleans())
def test_the_word_does_not_depend_on_the_unit(
    there: list[int], here: list[int], unit: float, counted: bool
) -> None:
    def word(factor: float, margin: Margin | None) -> str:
        step = factor if counted else 0.0
        a = metric([factor * value for value in there], resolution=step)
        b = metric([factor * value for value in here], first_seed=50, resolution=step)
        return judge(a, b, type="equivalence", margin=margin).word

    for margin, scaled in ((10.0, 10.0 * unit), (7.5, 7.5 * unit)):
        assert word(1.0, Margin(absolute=margin)) == word(unit, Margin(absolute=scaled))
    assert word(1.0, Margin(sd=2.0)) == word(unit, Margin(sd=2.0))


@pytest.mark.parametrize("size", [50, 100, 400, 1000])
def test_a_fraction_and_its_percentage_have_one_margin(size: int) -> None:
    for right in range(1, size, 3):
        part, step = right / size, 1 / size
        fraction = frozen(metric([part] * 3, test_set=size, resolution=step), type="equivalence")
        percent = frozen(
            metric([100 * part] * 3, test_set=size, resolution=100 * step, unit="%"),
            type="equivalence",
        )
        assert fraction.upper is not None
        assert percent.upper == pytest.approx(100 * fraction.upper)


@examples(40)
@given(st.integers(2, 7), st.randoms(use_true_random=False))
def test_the_word_does_not_depend_on_which_side_is_the_original(
    n: int, chance: random.Random
) -> None:
    sides = [[chance.gauss(place, 1) for _ in range(n)] for place in (0, chance.uniform(0, 4))]
    words = [
        judge(
            metric(a), metric(b, first_seed=50), type="equivalence", margin=Margin(absolute=2)
        ).word
        for a, b in (sides, sides[::-1])
    ]
    assert words[0] == words[1]


@examples(40)
@given(VALUES, VALUES, st.floats(1.0, 3.0))
def test_a_wider_margin_never_undoes_reproduced(
    there: list[int], here: list[int], wider: float
) -> None:
    def judged(margin: float) -> Judged:
        sides = metric(there), metric(here, first_seed=50)
        return judge(*sides, type="equivalence", margin=Margin(absolute=margin))

    if judged(20.0).word == "REPRODUCED":
        assert judged(20.0 * wider).word == "REPRODUCED"


def test_the_report_has_no_random_number_in_it() -> None:
    def document(seed: int) -> str:
        random.seed(seed)
        np.random.seed(seed)
        from capsule.diff import Pair

        a, b = metric(NEAR), metric([1.1, 1.3, 0.9], first_seed=50)
        pair = Pair(
            metric=a.metric,
            claim=frozen(a, type="equivalence"),
            seeds="all",
            original=a,
            rerun=b,
        )
        return json.dumps(report.verdict_to_json(judge_all(pair)))

    assert document(1) == document(2)


def test_without_any_spread_a_difference_of_the_margin_is_inside() -> None:
    a, b = Runs.of({1: 1.0, 2: 1.0}), Runs.of({3: 3.0, 4: 3.0})
    interval = known(shift(a, b, alpha=0.05))
    assert (interval.method, interval.lower, interval.upper) == ("exact", 2.0, 2.0)
    assert decide(interval, Region(lower=-2, upper=2)).word == "REPRODUCED"
    assert decide(interval, Region(lower=-1.9, upper=1.9)).word == "DIFFERENT"


# what the text says of the page's own tables


def cells_of(name: str) -> list[list[str]]:
    lines = statistics_docs.part(PAGE, name).splitlines()
    return [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")][2:]


def test_limits_of_the_table_are_those_of_the_text() -> None:
    share = {
        row.name: row.limit
        for row in acceptance.rows()
        if row.limit is not None and row.unit == " %" and not row.at_least
    }
    wider = {name for name, limit in share.items() if limit > 5.5}
    # pairs have a rate of their own for sides that vary unlike each other
    pairs = {name for name in wider if name.startswith("paired, sides of unlike shape or spread")}
    assert {share[name] for name in pairs} == {13.5}
    wider -= pairs
    assert {share[name] for name in wider} == {7.5}
    assert {limit for limit in share.values() if limit > 1} == {5.5, 7.5, 13.5}
    assert all(re.match(r"(spread|normal against|.*sd 1:3, symmetric)", name) for name in wider)
    outside = [row for row in acceptance.rows() if row.name.startswith("outside the promise")]
    assert outside
    assert all(row.limit is None for row in outside)


def test_other_rules_do_what_the_text_says_of_them() -> None:
    shares = {
        line[0]: [[float(one) for one in column.split(" / ")] for column in line[1:]]
        for line in cells_of("rivals")
    }
    ours = shares.pop("capsule")
    assert max(ours[0]) < 9
    assert all(max(columns[0]) > 20 for columns in shares.values())
    assert ours[2][0] < 40  # INCONCLUSIVE at three runs
    for rule in ("within 5 % of the mean", "one run within 5 % (ReFrame)"):
        assert all(40 < one < 70 for one in shares[rule][0])
    every = shares["all runs within 5 %"]
    assert every[1] == sorted(every[1])
    for rule in ("t-test (Welch), p > 0.05", "Mann-Whitney, p > 0.05 (benchstat)"):
        assert shares[rule][0][0] > 50
    assert min(shares["MLPerf RCP, reference of 2n runs, B slower"][0]) == 100


def test_the_lucky_author_fares_as_the_text_says() -> None:
    rows = [line for line in cells_of("selection") if line[0].startswith("default")]
    for _, fresh, lucky, honest in rows:
        different, _, reproduced = map(float, lucky.split(" / "))
        assert 18 < different < 50
        assert reproduced < 3
        wrongly, _, rightly = map(float, honest.split(" / "))
        assert wrongly < 4
        assert int(fresh) < 10 or 40 < rightly < 62
    first = [line for line in cells_of("routes") if line[0] == "verify"]
    assert all(float(line[3].split(" / ")[2]) < 5 for line in first)
    for line in cells_of("routes"):
        assert float(line[2].split(" / ")[2]) < 7
    vague = [line for line in cells_of("selection") if line[0].startswith("author's: 2 sd")]
    assert float(vague[-1][2].split(" / ")[2]) > 20


@pytest.mark.parametrize("line", cells_of("unconditional"), ids=lambda line: str(line[0]))
def test_errors_against_the_true_spread_are_those_of_the_table(line: list[str]) -> None:
    repetitions, random = 150, populations.random(*line)
    a, b = (
        populations.runs(random, "lognormal", (repetitions, int(n))) for n in line[0].split(" + ")
    )
    words = {
        truth: [
            one.word
            for x, y in zip(a, b, strict=True)
            if (one := product.decision(x, y + truth, product.freeze_one(product.metric(x), None)))
        ]
        for truth in (-2.0, 2.0)
    }
    lognormal = line[1 + list(populations.SHAPES).index("lognormal")]
    for word, quoted in zip(("REPRODUCED", "DIFFERENT"), lognormal.split(" / "), strict=True):
        counts = [sum(one == word for one in of_truth) for of_truth in words.values()]
        measured = 100 * max(counts) / repetitions
        error = verdicts.standard_error(max(5.0, float(quoted)), repetitions)
        assert measured == pytest.approx(float(quoted), abs=4 * error)


def test_the_shapes_of_the_page_are_those_that_are_simulated() -> None:
    assert list(populations.SHAPES) == ["normal", "lognormal", "t3", "bimodal"]
    assert 0.05 * populations.MEAN == 2
    modes = populations.runs(populations.random("modes"), "bimodal", (40_000,)) - populations.MEAN
    assert np.mean(modes > 1) == pytest.approx(0.2, abs=0.03)
    assert (modes.mean(), modes.std()) == pytest.approx((0, 1), abs=0.03)
