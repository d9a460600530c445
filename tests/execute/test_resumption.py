"""What a training says of the checkpoint that it goes on from."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from capsule.execute import journal
from capsule.execute.reports import Journal
from capsule.manifest import Recipe
from capsule.manifest.kinds import Settings
from capsule.plan import Trial
from tests.support.journal_events import BENCHMARK, HELLO, ONE, begin, encode, samples


def training(checkpoint_epochs: int) -> Trial:
    """A trial of six epochs."""
    settings = Settings(
        sizes={},
        batch=1,
        epochs=6,
        optimizer="sgd",
        numbers={"lr": 0.1},
        schedule="constant",
        schedule_numbers={},
        target=None,
        checkpoint_epochs=checkpoint_epochs,
    )
    subject = Recipe(name="lenet", dtype="float32", settings={"default": settings})
    return replace(ONE, benchmark=replace(BENCHMARK, subject=subject))


def read(folder: Path, of: Trial, *events: object) -> Journal:
    path = folder / "journal.jsonl"
    path.write_bytes(encode([HELLO, begin(of), *events]))
    return journal.read(path, (of,))


@pytest.mark.parametrize("epochs", [-2, 0, 1, 3, 6, 8, 2**62, True, "2", None])
def test_a_training_goes_on_after_an_epoch_that_has_a_checkpoint_alone(
    tmp_path: Path, epochs: object
) -> None:
    of = training(2)
    event = {"event": "resume", "trial": of.id, "epochs": epochs}
    (report,) = (made := read(tmp_path, of, event)).reports
    assert made.defect is not None
    assert re.search(rf"resumes {of.id} after .* epochs", made.defect)
    assert report.resumed_after is None
    (report,) = (made := read(tmp_path, of, {**event, "epochs": 4})).reports
    assert (made.defect, report.resumed_after) == (None, 4)


def test_a_training_goes_on_after_its_first_epoch(tmp_path: Path) -> None:
    event = {"event": "resume", "trial": ONE.id, "epochs": 1}
    (report,) = (made := read(tmp_path, training(1), event)).reports
    assert (made.defect, report.resumed_after) == (None, 1)


def test_a_training_goes_on_once_and_before_its_first_sample(tmp_path: Path) -> None:
    event = {"event": "resume", "trial": ONE.id, "epochs": 4}
    loss = samples(ONE, "loss", 1.0)
    for before, words in ((event, "a second time"), (loss, "after its first values")):
        made = read(tmp_path, training(2), before, event)
        assert made.defect == f"resumes {ONE.id} {words}"


def test_what_has_no_checkpoints_goes_on_from_none(tmp_path: Path) -> None:
    made = read(tmp_path, ONE, {"event": "resume", "trial": ONE.id, "epochs": 4})
    assert made.defect == f"resumes {ONE.id}, which has no checkpoints"
