"""The formula of each scheme's bytes, beside what real ranks and ranks of a large world exchange.

`test_ranks` and `test_splits` hold it to two and four real ranks.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from capsule.levels.catalog import schemes
from tests.support import ranks, ranks_faults
from tests.support.documented import ROOT
from tests.support.jobs import NEEDS_TORCH
from tests.support.ranks import Scenario, trial
from tests.support.ranks_faults import (
    ALLREDUCE,
    ASYNCHRONOUS,
    BUCKETED,
    LARGEST,
    LOCAL,
    MODELS,
    NEIGHBOURS,
    PIPELINED,
    QUANTIZED,
    SERVER,
    SHARDED,
    SPATIAL,
    STALE,
    WORDS,
)

pytestmark = NEEDS_TORCH

TABLE: list[dict[str, Any]] = json.loads((ROOT / "tests/data/traffic.json").read_text())
# of layers and rows that eight ranks can share
DEEP: dict[str, Any] = {**WORDS, "parameters": {**WORDS["parameters"], "layers": 8}}
LETTERS: dict[str, Any] = {"datasets": ["letters"], "parameters": {"side": 28, "classes": 3}}
TRIALS = (
    *(trial(one, epochs=1) for one in (ALLREDUCE, BUCKETED, SHARDED, LARGEST, QUANTIZED, SERVER)),
    *(trial(one, epochs=1) for one in (ASYNCHRONOUS, STALE, MODELS, LOCAL, NEIGHBOURS)),
    trial(SPATIAL, epochs=1, **LETTERS),
    trial(PIPELINED, epochs=1, **DEEP),
)
LONG = [pytest.param(count, marks=pytest.mark.long) for count in (5, 8)]


@pytest.mark.parametrize("count", [3, *LONG])
def test_real_ranks_exchange_what_the_formula_says(tmp_path: Path, count: int) -> None:
    assert {one["recipe"]["scheme"]["name"] for one in TRIALS} == {
        name for name, one in schemes.SCHEMES.items() if not one.independent
    }
    (tmp_path / "data").mkdir()
    scenario = Scenario("ranks", count, TRIALS)
    outcomes = ranks.run(tmp_path, ranks_faults.write(tmp_path / "data"), [scenario])["ranks"]
    for identity, outcome in outcomes.items():
        assert all(sum(values["messages"]) > 0 for values in outcome.values), identity
        assert ranks_faults.notice(scenario, outcome) == [], identity


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row['scheme']}-{row['rank']}")
def test_ranks_of_a_large_world_exchange_what_the_formula_says(row: dict[str, Any]) -> None:
    columns = zip(*(row[name] for name in schemes.TRAFFIC), strict=True)
    place = row["rank"], row["ranks"], row["elements"], row["item"]
    due = [
        schemes.traffic(row["scheme"], row["numbers"], *place, step)
        for step in range(1, len(row["messages"]) + 1)
    ]
    assert list(columns) == due


@pytest.mark.long
def test_the_table_is_what_its_program_prints() -> None:
    from tests.support import counting

    advice = "python -m tests.support.counting > tests/data/traffic.json"
    assert (ROOT / "tests/data/traffic.json").read_text() == counting.make_table(), advice
