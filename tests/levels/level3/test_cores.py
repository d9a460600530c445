"""Which ranks share cores, by what each may run on."""

import os

import pytest

from tests.support.jobs import NEEDS_TORCH

pytestmark = NEEDS_TORCH


@pytest.mark.parametrize(
    ("places", "threads", "shares"),
    [
        ([{0}, {1}], [1, 1], [1, 1]),
        ([{0, 1}, {0, 1}], [1, 1], [1, 1]),
        ([{0}, {0}], [1, 1], [2, 2]),
        ([{0, 1}], [4], [2]),
        # the second may run beside either, so that all three have two cores
        ([{0}, {0, 1}, {1}], [1, 1, 1], [1.5] * 3),
        ([{0, 1}, {2}, {2}], [1, 1, 1], [0.5, 2, 2]),
        ([{("n1", 0)}, {("n2", 0)}], [1, 1], [1, 1]),
    ],
)
def test_threads_are_held_against_cores(
    places: list[set[object]], threads: list[int], shares: list[float]
) -> None:
    from capsule.levels.level3 import cores

    assert [cores.share(rank, places, threads) for rank in range(len(places))] == shares


def test_a_process_has_no_more_cores_than_processors() -> None:
    from capsule.levels.level3 import cores

    assert 1 <= len(cores.find_own()) <= len(os.sched_getaffinity(0))
