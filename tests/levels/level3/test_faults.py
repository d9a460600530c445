"""Faults of ranks that train together, and that each is noticed."""

from collections.abc import Sequence

import pytest

from tests.support import ranks_faults, ranks_plants, splits_plants
from tests.support.documented import ROOT
from tests.support.jobs import needs_torch
from tests.support.ranks_faults import FAULTS, Fault

NOTICED_BY = {
    "one rank's optimizer state stale": "rank_difference",
    "one slow rank": "straggler",
    "a two-way exchange counted once": "bytes_received",
    "bytes of the whole node counted by each rank": "bytes_sent",
    "a shard read twice": "order_fingerprint",
    "rest of an uneven batch dropped": "order_fingerprint",
    "staleness beyond its bound": "staleness",
    "equal noise on every rank": "reference_error_ratio",
    "one rank's part stale": "reference_error_ratio",
    "boundaries of parts shifted": "reference_error_ratio",
    "parameters gathered once for all": "rank_difference",
    "halo of the other side": "reference_error_ratio",
    "halo of zeros": "reference_error_ratio",
    "gradient of the halo dropped": "reference_error_ratio",
    "dense gradient counted by every rank": "reference_error_ratio",
    "one rank's slab left out of the sum": "reference_error_ratio",
    "other samples on one rank": "order_fingerprint",
    **dict.fromkeys(
        (
            "a micro-batch dropped",
            "micro-batches added up and not averaged",
            "no gradients handed back",
            "the micro-batch before handed over",
            "one rank's stage stale",
            "gradients of tied weights apart",
        ),
        "reference_error_ratio",
    ),
    "error feedback left out": "reference_error_ratio",
    "neighbours average gradients, not parameters": "reference_error_ratio",
}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Sequence[str]:
    return list(ranks_faults.tabulate(ranks_faults.run(tmp_path_factory.mktemp("faults"))))


def test_there_are_faults_of_every_scheme() -> None:
    assert {fault.name for fault in FAULTS} == {*ranks_plants.PLANTS, *splits_plants.PLANTS}
    assert len({fault.name for fault in FAULTS}) >= 15
    assert sum(fault.is_of_deep500 for fault in FAULTS) == 4


@needs_torch
@pytest.mark.parametrize("place", range(len(FAULTS)), ids=lambda place: FAULTS[place].name)
def test_a_fault_is_noticed(rows: Sequence[str], place: int) -> None:
    fault: Fault = FAULTS[place]
    noticed = rows[place].rpartition(" | ")[2]
    assert noticed != "nothing |"
    assert NOTICED_BY.get(fault.name, "") in noticed


@needs_torch
def test_the_page_is_what_they_are_noticed_by(rows: Sequence[str]) -> None:
    page = (ROOT / "docs" / "evidence" / "ranks-faults.md").read_text(encoding="utf-8")
    assert page == ranks_faults.write_page(rows)
