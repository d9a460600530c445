"""Trainings that ranks share: killed, and verified on machines of other shapes."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.journeys.test_resume import attempts_in, descendants
from tests.support.command import User
from tests.support.jobs import NEEDS_TORCH
from tests.support.patience import until

pytestmark = NEEDS_TORCH

EPOCHS = 20
MANIFEST: dict[str, Any] = {
    "name": "shapes",
    "title": "A small training by four ranks",
    "authors": [{"name": "Ada Author"}],
    "license": "CC0-1.0",
    "resources": {"ranks_per_node": 4, "cpus_per_rank": 1},
    "seeds": [1, 2],
    "datasets": {
        "glyphs": {
            "generator": "glyphs",
            "samples": 32,
            "test_samples": 24,
            "side": 16,
            "classes": 3,
            "channels": 3,
        }
    },
    "benchmarks": [
        {
            "id": "shared",
            "level": 3,
            "network": "resnet9",
            "datasets": ["glyphs"],
            "frameworks": ["torch"],
            "batch": 16,
            "batch_norm_group": 4,
            "epochs": EPOCHS,
            "optimizer": {"name": "sgd", "lr": 0.1},
            "cases": [{"name": "default", "side": 16, "width": 2, "classes": 3, "dropout": 20}],
            "scheme": {"name": "allreduce"},
            "checkpoint_epochs": 1,
        }
    ],
    "claims": [
        {
            "metric": "shared/*/*/final_accuracy",
            "type": "equivalence",
            # that it is judged is of interest here, and two fresh seeds may scatter
            "margin": {"absolute": 5},
        },
        {"metric": "shared/*/*/reference_error_ratio", "type": "bound", "at_most": 1},
        {"metric": "shared/*/*/bytes_sent", "type": "exact"},
        {"metric": "shared/*/*/step_time", "type": "ratio"},
    ],
    "mutable": ["resources"],
}


@pytest.fixture(scope="module")
def author(tmp_path_factory: pytest.TempPathFactory) -> User:
    """Who has sealed it, though a rank was killed meanwhile."""
    user = User.make(tmp_path_factory.mktemp("shapes"))
    (user.folder / "shapes.json").write_text(json.dumps(MANIFEST))
    running = user.start("run", "shapes.json", "--runtime", "host", "--output", "a.capsule.zip")

    def written() -> bool:
        assert running.poll() is None, user.talk.read_text()
        names = "*.run/starts/*/rank-*/out/checkpoints/shared/default.npz"
        return len(list(user.folder.glob(names))) == 4

    until(written, "a checkpoint of each rank")
    os.kill(descendants(running.pid)[-1], signal.SIGKILL)
    assert running.wait() == 0, user.talk.read_text()
    return user


@pytest.fixture
def sealed(author: User) -> Path:
    return author.folder / "a.capsule.zip"


def test_ranks_of_which_one_was_killed_go_on(sealed: Path) -> None:
    (struck,) = [one for one in attempts_in(sealed) if one["outcome"] == "interrupted"]
    (resumed,) = [one for one in attempts_in(sealed) if one.get("resumed_after")]
    assert resumed["trial"] == struck["trial"]
    assert resumed["outcome"] == "completed"


@pytest.mark.parametrize("ranks", [2, 1])
def test_another_shape_keeps_claims_on_quality(author: User, sealed: Path, ranks: int) -> None:
    words = ("--runtime", "host", "--set", f"/resources/ranks_per_node={ranks}", "--runs", "2")
    verdict = author.json("verify", sealed, *words)
    assert verdict["verdict"] == "REPRODUCED"


def test_a_shape_that_cannot_share_the_groups_is_refused(author: User, sealed: Path) -> None:
    ended = author.run(
        "verify", sealed, "--runtime", "host", "--set", "/resources/ranks_per_node=3"
    )
    assert ended.returncode == 2, ended.stdout + ended.stderr
    assert "4 groups of 4 samples, which 3 ranks cannot share" in " ".join(ended.stderr.split())
