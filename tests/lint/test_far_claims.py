"""What lint says of claims that no number of runs or samples confirms."""

from __future__ import annotations

import pytest

from capsule import stats
from tests.manifest.test_claims import outlook


@pytest.mark.parametrize("distance", [1e-7, 1e-160, 5e-324])
def test_more_samples_than_anybody_takes_are_not_counted(distance: float) -> None:
    one = outlook(type="distribution", margin={"distance": distance})
    assert one.runs == (None, None)
    assert f"need more than {stats.MOST_SAMPLES} independent samples each" in one.sentence
