"""What a capsule states of the world of a command's own ranks: no more than a run could have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from capsule import archive, summary
from capsule.errors import DamagedError
from capsule.starts import DECLARED, INDEPENDENT, JOINED, NOT_SEEN
from tests.support import launched
from tests.support.capsules import carry, forge
from tests.support.command import User
from tests.support.worlds import BARE


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of two ranks that are separate on purpose."""
    author = User.make(tmp_path_factory.mktemp("ranks"))
    launched.write(author.folder, launched.OTHER["independent"])
    words = ("run", "m.json", "--runtime", "host", "--output", "a.zip")
    ended = author.run(*words, PATH=f"{BARE}:/usr/bin:/bin")
    assert ended.returncode == 0, ended.stderr
    return author.folder / "a.zip"


def state(sealed: Path, target: Path, world: str) -> Path:
    """The same capsule, whose attempts state another world."""
    with archive.read(sealed) as capsule:
        attempts = [replace(one, world=world) for one in capsule.record.attempts]
        forge(replace(capsule.record, attempts=tuple(attempts)), carry(capsule), target)
    return target


WORLDS = {
    INDEPENDENT: None,
    NOT_SEEN: None,
    "seen by torch, mpi4py": None,
    JOINED: "the record lacks a test of",
    DECLARED: "its benchmark lacks",
    "seen by nobody": "expected the form",
    "seen by torch, torch, torch, torch, torch": "expected the form",
    "joined": "expected the form",
}


@pytest.mark.parametrize("world", WORLDS)
def test_a_world_is_stated_that_a_run_could_have_seen(
    sealed: Path, tmp_path: Path, world: str
) -> None:
    target, message = state(sealed, tmp_path / "b.capsule.zip", world), WORLDS[world]
    if message is None:
        with archive.read(target) as capsule:
            assert {one.world for one in capsule.record.attempts} == {world}
        return
    with pytest.raises(DamagedError, match=message), archive.read(target):
        pass


def test_of_a_capsule_that_says_nothing_nothing_is_known(sealed: Path, tmp_path: Path) -> None:
    with archive.read(state(sealed, tmp_path / "b.capsule.zip", "")) as capsule:
        assert summary.worlds(capsule.record) == {"b": NOT_SEEN}
