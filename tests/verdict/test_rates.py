"""The acceptance table with fewer repetitions, and what docs/explanation/statistics.md quotes.

The limits are those of `benchmarks/statistics/verdicts.py`. With so few repetitions the worst of
many cells lies above its true rate by chance, so three binomial standard errors are allowed on top.
"""

import doctest
import math
import random
import re
from collections.abc import Sequence
from typing import Protocol

import acceptance
import populations
import pytest
import scipy.stats
import statistics_docs
import verdicts
from cells import Capsules, Counted, Curves, Equivalence, Family, Figures, Looks
from designs import Design, Uncovered
from exactness import CHECKS, Check
from guards import Distribution, FailureMargin, Failures, FromPaper, RatioFromPaper

from tests.support.properties import pin_first

pytestmark = pytest.mark.slow

REPETITIONS = 300
# these cost the most
FEW = {
    **dict.fromkeys((Counted, Distribution, Family, FromPaper, Looks, RatioFromPaper), 100),
    **dict.fromkeys((Capsules, FailureMargin, Failures), 60),
    Curves: 40,
    **dict.fromkeys((Design, Uncovered), 20),
}
PAGE = statistics_docs.read()
ROWS = {row.name: row for row in acceptance.rows()}


class Cell(Protocol):
    """What the rows of the table measure, whatever it simulates."""

    def measure(self, repetitions: int, /) -> Figures: ...


Measured = dict[Cell, Figures]
"""What has been measured so far."""


def repetitions_of(cell: Cell) -> int:
    return FEW.get(type(cell), REPETITIONS)


def limit_of(row: acceptance.Row) -> float:
    assert row.limit is not None
    return row.limit


def allowance(row: acceptance.Row, cell: Cell) -> float:
    """Three standard errors of a share at the limit, in percentage points."""
    share = min(99.0, max(1.0, limit_of(row) if row.unit == " %" else 80.0))
    return 3 * math.sqrt(share * (100 - share) / repetitions_of(cell))


@pytest.fixture(scope="module")
def measured() -> Measured:
    """Every cell once, whichever rows ask for it."""
    return {}


def measure(cell: Cell, measured: Measured) -> Figures:
    if cell not in measured:
        measured[cell] = cell.measure(repetitions_of(cell))
    return measured[cell]


def thin_out(row: acceptance.Row, most: int) -> Sequence[Cell]:
    """A few cells of a row, the same every time; the table of the page has them all.

    Drawn, as steps through sizes by shapes would leave out the same shapes of all sizes.
    """
    return random.Random(len(row.cells)).sample(row.cells, min(most, len(row.cells)))


COUNTED = [
    row
    for row in (*ROWS.values(), *acceptance.design_rows())
    if row.limit is not None and row.unit and not row.of_all
]


@pytest.mark.parametrize("most", pin_first([1, 6]))
@pytest.mark.parametrize("row", COUNTED, ids=lambda row: row.name)
def test_rates_and_power_keep_their_limits(
    row: acceptance.Row, measured: Measured, most: int
) -> None:
    for cell in thin_out(row, most):
        figures = measure(cell, measured)
        for word in row.words:
            beyond = allowance(row, cell)
            assert row.passes(figures[word], beyond), (str(cell), word, figures[word], beyond)


def test_a_rule_without_a_margin_for_error_would_be_caught(measured: Measured) -> None:
    """The table can fail: a test that finds nothing is taken for a match more often than not."""
    cell = Equivalence(3, 3, "normal", 2.0)
    row, figures = next(iter(ROWS.values())), measure(cell, measured)
    assert row.passes(figures["REPRODUCED"], allowance(row, cell))
    random = populations.random("a rival")
    a, b = (populations.runs(random, "normal", (REPETITIONS, 3), at=at) for at in (0.0, 2.0))
    found = scipy.stats.ttest_ind(a, b, axis=1, equal_var=False).pvalue <= 0.05
    assert not row.passes(100 - 100 * found.mean(), allowance(row, cell))


@pytest.mark.parametrize("name", [name for name in CHECKS if name != "milliseconds"])
def test_what_must_hold_always_does(name: str) -> None:
    (row,) = (
        row
        for row in ROWS.values()
        if any(isinstance(cell, Check) and cell.name == name for cell in row.cells)
    )
    assert row.limit is not None
    assert row.passes(Check(name, 50).measure(0)["figure"])


def test_a_cell_has_the_same_figures_wherever_it_is_measured() -> None:
    cells = [Equivalence(3, 3, "normal", 2.0), Looks(5, "normal", 2.0), Curves(3, "bump", 1.0)]
    alone = verdicts.measure(cells, 20, 1)
    assert verdicts.measure(reversed(cells), 20, 2) == alone


# the page


@pytest.mark.parametrize("name", statistics_docs.COMPUTED)
def test_the_page_quotes_what_the_product_says(name: str) -> None:
    text = statistics_docs.COMPUTED[name]()
    assert statistics_docs.part(PAGE, name) == text, f"run {statistics_docs.COMMAND} --computed"


def test_plots_show_the_tables_of_the_page() -> None:
    for name, text in statistics_docs.figures(PAGE).items():
        assert (statistics_docs.FIGURES / name).read_text() == text, name


def test_python_examples_of_the_page_run() -> None:
    failed, tried = doctest.testfile(str(statistics_docs.EXAMPLES), module_relative=False)
    assert tried > 0
    assert failed == 0


def test_the_acceptance_table_of_the_page_is_whole_and_kept() -> None:
    lines = re.findall(r"^\| (.+?) \| .+? \| (.+?) \| (.+?) \| (.+?) \|$",
                       statistics_docs.part(PAGE, "acceptance"), re.MULTILINE)[2:]  # fmt: skip
    printed = {name: (limit, figures) for name, limit, *figures in lines}
    repetitions = printed_repetitions("acceptance")
    assert list(printed) == [name for name in ROWS if not name.startswith("time of")]
    for name, (limit, figures) in printed.items():
        assert limit == (ROWS[name].bound or "shown only")
        for figure, times in zip(
            figures, (repetitions, verdicts.in_second(repetitions)), strict=True
        ):
            number = re.match(r"-?[0-9.e-]+", figure)
            assert number, figure
            kept = ROWS[name].keeps(float(number[0]), times)
            assert kept, f"{name}: {figure} against {limit}"


def printed_repetitions(name: str) -> int:
    """In each cell of a simulated table, as the page says below it."""
    stamp = statistics_docs.part(PAGE, name).splitlines()[-1]
    named = re.match(r"(\d+) simulations a cell \(.*\), seed \d+\.$", stamp)
    assert named, stamp
    return int(named[1])


@pytest.mark.parametrize("name", ["acceptance", "power", "power-different"])
def test_simulated_tables_name_their_repetitions_and_seed(name: str) -> None:
    assert printed_repetitions(name) >= 50


def test_every_image_of_the_page_is_there() -> None:
    images = re.findall(r"!\[[^]]+\]\((\S+\.svg)\)", PAGE)
    assert {statistics_docs.FOLDER / image for image in images} == set(
        statistics_docs.FIGURES.iterdir()
    )
