"""What `benchmarks/statistics/gains.py` takes for the rule before today's."""

import gains
import pytest


@pytest.mark.parametrize("claim", ["threshold", "paired"])
def test_one_set_of_values_had_the_whole_level(claim: str) -> None:
    figures = gains.OneSet(claim, 5, "lognormal").measure(2000)
    # Student's t at 5 % and at a sixth of it, see tests/verdict/test_promised_figures.py
    assert figures["error rule 1"] == pytest.approx(14, abs=3.2)
    assert figures["error rule 2"] == pytest.approx(5, abs=2)
    assert figures["power rule 1"] > figures["power rule 2"]


def test_ranks_guarded_every_number_of_runs() -> None:
    figures = gains.Shift(4, 4, "normal").measure(400)
    assert figures["power rule 1"] == pytest.approx(39, abs=10)
    assert figures["power rule 2"] == pytest.approx(52, abs=10)
    assert figures["gained"] == figures["power rule 2"] - figures["power rule 1"] > 3


def test_an_interval_that_ended_on_the_margin_was_inside_it() -> None:
    figures = gains.Steps(4, 4, "rounded normal").measure(300)
    assert figures["power rule 1"] > figures["power rule 2"] + 5
    assert figures["error rule 1"] > figures["error rule 2"]


def test_several_claims_corrected_welchs_p_alone() -> None:
    figures = gains.Corrected(5, 30, "lognormal").measure(150)
    # any DIFFERENT of claims that all lie on their margins
    assert figures["error rule 1"] > 25
    assert figures["error rule 2"] < 5 + 4 * 1.8
    # one claim 6 sd off differs by either rule
    assert min(figures["power rule 1"], figures["power rule 2"]) > 80
