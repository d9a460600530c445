"""The line on GPUs that a user reads before a run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from capsule.manifest.model import Resources
from capsule.trust import outlook
from tests.support.records import make_manifest


@pytest.mark.parametrize(
    ("ranks", "gpus", "chosen", "words"),
    [
        (1, 0, None, "none"),
        (1, 2, None, "2"),
        (3, 1, None, "1 for each of 3 ranks"),
        (1, 1, "cuda", "1 (--device cuda)"),
        (2, 0, "cpu", "none for each of 2 ranks (--device cpu)"),
    ],
)
def test_the_gpus_of_each_rank_are_named(
    ranks: int, gpus: int, chosen: str | None, words: str
) -> None:
    resources = Resources(ranks_per_node=ranks, gpus_per_rank=gpus)
    manifest = replace(make_manifest(), resources=resources, other_device=chosen)
    assert outlook.describe_devices(manifest) == words
