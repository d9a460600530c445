"""The page of the minis is the one that its program writes, and every verification counts."""

import ast

import minis_faults
import minis_page
import pytest

MEASURED = minis_page.read()


def test_the_page_is_what_is_made_of_the_kept_measurements() -> None:
    made = minis_page.text(MEASURED)
    assert minis_page.PAGE.read_text(encoding="utf-8") == made, "python tools/minis.py page"


def test_every_fault_is_one_wrong_line_of_a_program() -> None:
    for fault in minis_faults.FAULTS.values():
        ast.parse(minis_faults.plant(fault))
        assert fault.mini in minis_page.names()


def test_a_fault_whose_line_is_gone_is_named() -> None:
    fault = minis_faults.Fault(
        name="none", mini="transformer", file="run.py", right="no such line", wrong=""
    )
    with pytest.raises(ValueError, match=r"run\.py does not have 'no such line' once"):
        minis_faults.plant(fault)


@pytest.mark.parametrize("name", MEASURED["minis"])
def test_a_mini_reaches_its_target_with_every_seed(name: str) -> None:
    row = MEASURED["minis"][name]
    assert row["reached"] == [10, 10]
    assert len(set(row["qualities"].values())) > 1


def test_no_verification_differs_and_the_page_counts_them_all() -> None:
    verdicts = [word for row in MEASURED["minis"].values() for word in row["verdicts"]]
    assert "DIFFERENT" not in verdicts
    assert verdicts.count("REPRODUCED") >= 0.8 * len(verdicts)
    counted = f"Of {len(verdicts)} verifications {verdicts.count('REPRODUCED')} were REPRODUCED"
    assert counted in minis_page.PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", MEASURED["ranks"])
def test_ranks_reach_the_target_with_every_seed_in_every_shape(name: str) -> None:
    runs = MEASURED["ranks"][name]
    for run in runs:
        assert run["reached"] == [len(run["qualities"])] * 2
        # what has no verdict was sealed, and is what is verified
        assert "verdict" in run or (run["ranks"], run["launcher"]) == (4, "capsule")
    verified = [run for run in runs if "verdict" in run]
    assert all(run["verdict"] != "DIFFERENT" for run in verified)
    shapes = {run["ranks"] for run in verified if run["verdict"] == "REPRODUCED"}
    assert {1, 2} <= shapes


@pytest.mark.parametrize("key", MEASURED["faults"])
def test_every_fault_is_caught(key: str) -> None:
    outcome = MEASURED["faults"][key]
    assert outcome["check"] or outcome["claims"]


def test_a_fault_that_the_reference_has_too_is_told_by_the_network() -> None:
    assert "network_fingerprint" in MEASURED["faults"]["slope"]["claims"]
