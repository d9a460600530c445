"""What a person is shown of a search."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from capsule import report
from capsule.winners import Outcome

OUTCOME = Outcome(
    benchmark="train",
    framework="command",
    metric="loss",
    unit="1",
    direction="lower",
    method="random",
    trials=12,
    failed=0,
    scores={1: 0.25, 2: 0.5},
    studies=[0.25, 0.5, 0.75],
    budget=[(1, 0.75), (12, 0.25)],
    winner="point-3",
    parameters={"lr": 0.1},
    value=0.25,
)


@pytest.mark.parametrize(
    ("seeds", "failed", "words"),
    [
        (2, 0, "24: 12 points by random in 3 studies, each under 2 seeds"),
        (2, 14, "24 (14 failed): 12 points by random in 3 studies, each under 2 seeds"),
        (1, 1, "12 (1 failed): 12 points by random in 3 studies, each under 1 seed"),
    ],
)
def test_trials_are_counted_over_all_seeds(seeds: int, failed: int, words: str) -> None:
    scores = dict(list(OUTCOME.scores.items())[:seeds])
    outcome = replace(OUTCOME, scores=scores, failed=failed)
    stream = io.StringIO()
    Console(file=stream, width=120).print(*report.draw_searches([outcome]), sep="\n")
    (line,) = (line for line in stream.getvalue().splitlines() if line.startswith("trials"))
    assert line.removeprefix("trials").strip() == words
