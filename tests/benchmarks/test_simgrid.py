"""`benchmarks/harness/simgrid.py`: the model of `show scaling` is near what SimGrid replays."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from capsule.extrapolation.costs import reckon

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "harness" / "simgrid.py"

pytestmark = pytest.mark.engines


@pytest.fixture(scope="module")
def simgrid() -> ModuleType:
    specification = importlib.util.spec_from_file_location("simgrid", PROGRAM)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["simgrid"] = module
    specification.loader.exec_module(module)
    return module


def test_what_few_ranks_took_tells_what_more_take(simgrid: ModuleType) -> None:
    for one in simgrid.COLLECTIVES:
        fitted = simgrid.fit(one)
        rows = list(simgrid.judge(one, fitted, "flat", (8, 64)))
        assert len(rows) == 2 * len(simgrid.SIZES)
        assert max(abs(row.deviation) for row in rows) < simgrid.WITHIN
        # and another algorithm is told from it
        if (one.operation, one.algorithm) == ("all-reduce", "ring"):
            for row in rows[-len(simgrid.SIZES) :]:
                other = fitted.give(reckon("all-reduce", "recursive-doubling", 64, row.size))
                assert abs(other / row.replayed - 1) > simgrid.WITHIN
