"""Every case ends as it must, and no two have one name."""

from __future__ import annotations

from collections import Counter

import pytest
from _pytest.mark import ParameterSet

from tests.hostile.areas import CASES
from tests.hostile.case import Case, observe


def _marked(case: Case) -> ParameterSet:
    marks = [pytest.mark.engines] * (case.engine is not None) + [pytest.mark.long] * case.long
    return pytest.param(case, id=case.name, marks=marks)


@pytest.mark.parametrize("case", [*map(_marked, CASES)])
def test_ends_as_it_must(case: Case) -> None:
    seen = observe(case)
    assert seen.fault(case) is None, seen.output[-2000:]


def test_no_two_cases_have_one_name() -> None:
    assert [name for name, count in Counter(case.name for case in CASES).items() if count > 1] == []
