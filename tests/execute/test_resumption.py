"""What a training says of the checkpoint that it goes on from."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from capsule.execute import journal
from capsule.manifest import Recipe
from capsule.manifest.kinds import Settings
from tests.execute.test_journal import BENCHMARK, HELLO, ONE, begin, encode


@pytest.mark.parametrize("epochs", [-2, 0, 1, 3, 6, 8, 2**62, True, "2", None])
def test_a_training_goes_on_after_an_epoch_that_has_a_checkpoint_alone(
    tmp_path: Path, epochs: object
) -> None:
    settings = Settings(
        sizes={},
        batch=1,
        epochs=6,
        optimizer="sgd",
        numbers={"lr": 0.1},
        schedule="constant",
        schedule_numbers={},
        target=None,
        checkpoint_epochs=2,
    )
    subject = Recipe(name="lenet", dtype="float32", settings={"default": settings})
    of = replace(ONE, benchmark=replace(BENCHMARK, subject=subject))
    path = tmp_path / "journal.jsonl"
    event = {"event": "resume", "trial": of.id, "epochs": epochs}
    path.write_bytes(encode([HELLO, begin(of), event]))
    (report,) = (made := journal.read(path, (of,))).reports
    assert made.defect is not None
    assert re.search(rf"resumes {of.id} after .* epochs", made.defect)
    assert report.resumed_after is None
    path.write_bytes(encode([HELLO, begin(of), {**event, "epochs": 4}]))
    (report,) = (made := journal.read(path, (of,))).reports
    assert (made.defect, report.resumed_after) == (None, 4)
