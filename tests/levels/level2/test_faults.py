"""Faults of trainings, and that each is noticed by a check or a verdict."""

from collections import Counter
from pathlib import Path

import pytest

from capsule.levels import frameworks
from tests.support import training_faults
from tests.support.documented import ROOT
from tests.support.jobs import needs_torch
from tests.support.training_faults import FAULTS, RESNET, Fault
from tests.support.trainings import measure

NOTICED_BY = {
    "labels shuffled": "final_accuracy",
    "last batch dropped": "order_fingerprint",
    "shuffling left out": "order_fingerprint",
    "statistics frozen": "exact_trajectory_error",
    "evaluation in training mode": "evaluation_error",
    "evaluation on training data": "test_fingerprint",
    "Adam without bias correction": "node_error_ratio",
    "trust ratio left out": "trajectory_error",
    "history of the wrong sign": "trajectory_error",
    "micro-batches added up": "trajectory_error",
    "schedule an epoch early": "learning_rate",
    "relu leaks 0.00001": "node_error_ratio",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return training_faults.write(tmp_path_factory.mktemp("data"))


def test_there_are_faults_of_every_kind() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 20
    kinds = Counter(fault.kind for fault in FAULTS)
    assert set(kinds) == {"optimizer", "schedule", "data", "evaluation", "operator"}
    assert min(kinds.values()) >= 2
    assert {fault.name for fault in FAULTS} >= set(NOTICED_BY)


def test_the_page_has_them_all() -> None:
    lines = (
        (ROOT / "docs" / "evidence" / "training-faults.md").read_text(encoding="utf-8").splitlines()
    )
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")][2:]
    assert [row[0] for row in rows] == [fault.name for fault in FAULTS]
    for name, _, _, noticed in rows:
        assert NOTICED_BY.get(name, "_") in noticed, name


@needs_torch
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_noticed(folder: Path, fault: Fault) -> None:
    noticed = training_faults.notice(fault, folder)
    assert noticed
    assert NOTICED_BY.get(fault.name, noticed[0]) in noticed


@needs_torch
def test_statistics_of_batches_go_the_same_way_too(folder: Path) -> None:
    torch, reference = (
        measure(frameworks.load(framework, "cpu", 1, "default"), folder / "colored", **RESNET)
        for framework in ("torch", "numpy")
    )
    for values in (torch, reference):
        # a relu whose input rounding has moved across 0 is seen in a whole channel
        assert max(values["trajectory_error"]) < 0.05
        assert values["trajectory_error"][0] < 1e-4
        assert max(values["exact_trajectory_error"]) < 1e-9
        assert values["evaluation_error"][0] < 1e-9
    assert torch["train_loss"] == pytest.approx(reference["train_loss"], rel=0.02)
    # in float32 an epoch on: of sums in numpy alone their order moves it by a seventh
    assert torch["loss"] == pytest.approx(reference["loss"], rel=0.3)
