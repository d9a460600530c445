"""Whether runs are enough for a margin that the original's own spread makes."""

import json
import math

import numpy as np
import pytest
from spreads import COMMAND, LEVELS, RUNS, TABLE, narrowest_spreads, row, runs_for_spreads

from capsule import stats
from capsule.lint import spreads
from tests.support.properties import pin_first

REPETITIONS = 800


def confirmed(n_a: int, n_b: int, margin: float) -> float:
    """How often the rule itself confirms so many sd of the original's runs, nothing changed."""
    random = np.random.default_rng([5, n_a, n_b])
    hits = 0
    for _ in range(REPETITIONS):
        a, b = (stats.Runs.of(dict(enumerate(random.standard_normal(n)))) for n in (n_a, n_b))
        allowed = margin * a.sd / stats.c4(n_a)
        interval = stats.shift(a, b, alpha=0.05)
        assert interval is not None
        region = stats.Region(lower=-allowed, upper=allowed)
        hits += stats.decide(interval, region).word == "REPRODUCED"
    return hits / REPETITIONS


@pytest.mark.parametrize(
    ("n_a", "n_b", "power"),
    pin_first([(5, 8, 0.8), (4, 4, 0.8), (5, 5, 0.9), (6, 6, 0.5), (8, 4, 0.8)]),
)
def test_the_simulated_share_is_what_the_rule_reaches(n_a: int, n_b: int, power: float) -> None:
    margin = narrowest_spreads(n_a, n_b, alpha=0.05, power=power)
    # four standard errors of so many repetitions
    assert confirmed(n_a, n_b, margin) == pytest.approx(power, abs=0.072)


def test_the_table_is_what_its_command_writes() -> None:
    document = json.loads(TABLE.read_text())
    assert document["command"] == COMMAND
    assert document["runs"] == list(RUNS)
    assert [one["alpha"] for one in document["rows"]] == list(LEVELS)
    for place in (0, LEVELS.index(stats.default_alpha(0.05)), -1):
        kept = document["rows"][place]
        for n in (2, 5, 8):
            for name, power in (("usually", 0.8), ("seldom", 0.5)):
                now = narrowest_spreads(n, n, alpha=kept["alpha"], power=power)
                assert kept[name][n - 2] == pytest.approx(now, rel=1e-3)


@pytest.mark.long
@pytest.mark.parametrize("alpha", LEVELS)
def test_so_is_every_row(alpha: float) -> None:
    rows = {one["alpha"]: one for one in json.loads(TABLE.read_text())["rows"]}
    assert rows[alpha] == pytest.approx(row(alpha), rel=1e-3)


def test_an_estimated_margin_takes_more_than_a_known_one() -> None:
    known = stats.narrowest_margin(5, 5, alpha=0.05, power=0.9)
    assert (round(known, 2), round(narrowest_spreads(5, 5, alpha=0.05, power=0.9), 2)) == (
        2.39,
        2.97,
    )
    for k in (1, 1.5, 2, 2.8):
        of_known = stats.runs_for_margin(k, alpha=0.05, power=0.8)
        of_estimated = spreads.needed(k, alpha=0.05)
        assert of_known is not None
        assert of_estimated == runs_for_spreads(k, alpha=0.05, power=0.8)
        assert of_estimated is not None
        assert of_estimated >= of_known


@pytest.mark.parametrize(("n_a", "n_b"), [(1, 5), (1, 1), (5, 0)])
def test_an_original_of_one_run_has_no_spread(n_a: int, n_b: int) -> None:
    assert math.isinf(narrowest_spreads(n_a, n_b, alpha=0.05, power=0.8))


def test_one_re_run_confirms_a_wide_margin_only() -> None:
    one = narrowest_spreads(9, 1, alpha=0.025, power=0.8)
    assert 1.5 * narrowest_spreads(9, 9, alpha=0.025, power=0.8) < one < math.inf


@pytest.mark.parametrize("alpha", [0.05, stats.default_alpha(0.05), 0.02, 0.01])
def test_no_word_says_more_than_a_simulation_of_these_very_runs(alpha: float) -> None:
    """Whatever the two numbers and the level, which the table need not have."""
    for n_a, n_b in ((5, 5), (5, 10), (9, 4), (3, 30), (60, 5), (70, 70), (9, 1)):
        usually = narrowest_spreads(n_a, n_b, alpha=alpha, power=0.8)
        half = narrowest_spreads(n_a, n_b, alpha=alpha, power=0.5)
        for margin in (0.3, 0.7, 1, 1.5, 2, 2.8, 4, 9):
            word = spreads.word(margin, n_a, n_b, alpha=alpha)
            assert word != "usually" or margin > 0.99 * usually, (n_a, n_b, margin)
            assert word != "seldom" or margin < 1.01 * half, (n_a, n_b, margin)


def test_a_level_beyond_the_table_has_no_usual_number() -> None:
    assert spreads.needed(9, alpha=0.001) is None
    assert spreads.word(9, 40, 40, alpha=0.001) == "sometimes"
    assert spreads.word(0.1, 40, 40, alpha=0.4) == "sometimes"
    assert spreads.word(0.1, 40, 40, alpha=0.001) == "seldom"
