"""What ranks say of their world, and what that proves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsule.execute import sightings
from capsule.execute.sightings import Finding, Made, Sighting
from capsule.manifest import Command
from capsule.starts import DECLARED, INDEPENDENT, JOINED, NOT_SEEN

PLAIN = Command(words=("python3", "x.py"))
SEPARATE = Command(words=("python3", "x.py"), ranks_independent=True)
BY_WORD = Command(words=("python3", "x.py"), declares_world=True)
NOTHING, PYTHON = Sighting(), Sighting(has_python=True)


def by(library: str, ranks: int, *own: int, token: str = "") -> Sighting:
    """One rank whose processes have these numbers in a world."""
    made = tuple(Made(by=library, rank=one, ranks=ranks, token=token) for one in own)
    return Sighting(has_python=True, made=made)


def world(library: str, ranks: int, token: str = "") -> list[Sighting]:
    return [by(library, ranks, rank, token=token) for rank in range(ranks)]


def judge(seen: list[Sighting], command: Command = PLAIN, *, joined: bool = False) -> Finding:
    return sightings.judge(seen, command, joined=joined)


@pytest.mark.parametrize("library", ["torch", "mpi4py", "jax", "tensorflow"])
@pytest.mark.parametrize("ranks", [2, 3, 64])
def test_one_world_of_all_ranks_is_seen(library: str, ranks: int) -> None:
    assert judge(world(library, ranks)) == Finding(world=f"seen by {library}")
    assert judge(world(library, ranks)[::-1], BY_WORD) == Finding(world=f"seen by {library}")
    assert judge(world(library, ranks), SEPARATE).world == f"seen by {library}"


def test_a_world_that_is_made_again_is_one_each_time() -> None:
    again = [
        Sighting(has_python=True, made=(*by("torch", 2, n, token="a").made, *one.made))
        for n, one in enumerate(world("torch", 2, token="b"))
    ]
    assert judge(again) == Finding(world="seen by torch")


def test_two_libraries_may_show_it() -> None:
    both = [
        Sighting(has_python=True, made=one.made + other.made)
        for one, other in zip(world("torch", 2), world("mpi4py", 2), strict=True)
    ]
    assert judge(both).world == "seen by torch, mpi4py"


WRONG = {
    "each alone": (
        [by("torch", 1, 0)] * 2,
        "rank 0 is in a world of 1 rank by torch, expected 2 ranks",
    ),
    "half a world": (
        [*world("torch", 2), PYTHON, PYTHON],
        "rank 0 is in a world of 2 ranks by torch",
    ),
    "two worlds of two": (world("mpi4py", 2) * 2, "rank 0 is in a world of 2 ranks"),
    "more than were started": ([by("torch", 4, 0, 1), by("torch", 4, 2, 3)], "a world of 4 ranks"),
    "a world in each rank": ([by("torch", 2, 0, 1)] * 2, "ranks 0 and 1 both have number 0"),
    "by other stores": (
        [by("torch", 2, 0, token="a"), by("torch", 2, 1, token="b")],
        "are in two separate worlds of 2",
    ),
    "all in one rank": ([by("jax", 2, 0, 1), PYTHON], "rank 1 formed no world"),
    "one left out": ([*world("torch", 3)[:2], PYTHON], "rank 2 formed no world"),
    "none at all": ([PYTHON] * 3, "none of the 3 ranks formed a world"),
    "alone by torch in a world of MPI": (
        [
            Sighting(has_python=True, made=one.made + by("torch", 1, 0).made)
            for one in world("mpi4py", 2)
        ],
        "rank 0 is in a world of 1 rank by torch",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_another_world_than_was_planned_is_a_fault(case: str) -> None:
    seen, words = WRONG[case]
    assert words in judge(seen).fault
    # what is separate on purpose may be so; no world is claimed for it
    assert judge(seen, SEPARATE) in (
        Finding(world=INDEPENDENT),
        Finding(world="seen by mpi4py"),
    )


def test_a_declared_world_is_not_missed_and_a_wrong_one_is_still_wrong() -> None:
    assert judge([PYTHON] * 2, BY_WORD) == Finding(world=DECLARED)
    assert judge([NOTHING] * 2, BY_WORD) == Finding(world=DECLARED)
    assert judge([by("torch", 1, 0)] * 2, BY_WORD).fault


def test_where_nobody_could_look_nothing_is_said() -> None:
    assert judge([NOTHING] * 2) == Finding(world=NOT_SEEN)
    assert judge([PYTHON, NOTHING]) == Finding(world=NOT_SEEN)
    # one without the hook may be the other half of it, and may not
    assert judge([by("torch", 2, 0), NOTHING]) == Finding(world=NOT_SEEN)


def test_a_launcher_that_joined_is_less_than_a_world_that_was_seen() -> None:
    assert judge([NOTHING] * 2, joined=True) == Finding(world=JOINED)
    # a program of MPI that has Python in it, or calls some
    assert judge([PYTHON] * 2, joined=True) == Finding(world=JOINED)
    assert judge(world("mpi4py", 2), joined=True).world == "seen by mpi4py"
    assert judge([by("mpi4py", 1, 0)] * 2, joined=True).fault


def test_mpi_that_an_import_alone_began_is_no_other_world() -> None:
    seen = [
        Sighting(has_python=True, made=by("mpi4py", 1, 0).made + one.made)
        for one in world("torch", 2)
    ]
    assert judge(seen) == Finding(world="seen by torch")


def test_lines_that_are_none_of_ours_say_nothing(tmp_path: Path) -> None:
    path = tmp_path / "world"
    assert sightings.read(path) == NOTHING
    path.symlink_to("/etc/passwd")
    assert sightings.read(path) == NOTHING
    path.unlink()
    lines = [
        '{"python": "3.9.2"}',
        '{"world": "torch", "rank": 0, "ranks": 2, "token": "a"}',
        '{"world": "torch", "rank": true, "ranks": 2}',
        '{"world": "other", "rank": 0, "ranks": 2}',
        "[" * 100_000,
        "no json",
        '{"world": "torch", "rank": 1, "ran',
    ]
    path.write_text("\n".join(lines))
    assert sightings.read(path) == by("torch", 2, 0, token="a")


@given(st.lists(st.binary() | st.dictionaries(st.text(), st.integers() | st.text()), max_size=9))
def test_anything_may_stand_there(entries: list[object]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "world")
        path.write_bytes(
            b"\n".join(
                one if isinstance(one, bytes) else json.dumps(one).encode() for one in entries
            )
        )
        seen = sightings.read(path)
    assert judge([seen, seen]).world == NOT_SEEN
