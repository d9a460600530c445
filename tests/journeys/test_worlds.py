"""Several ranks of a program: whether they are one world, and what anybody says of it."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.support import launched
from tests.support.command import User
from tests.support.engines import engine_cache
from tests.support.launched import JOINED, NOT_SEEN, OTHER, RIGHT, WRONG, Launch
from tests.support.slurm import in_job

TABLES = {"wrong": WRONG, "right": RIGHT, "other": OTHER}
# of each kind, without an engine and torch
SHORT = {("wrong", "no library"), ("other", "independent"), ("other", "-S"), ("other", "sockets")}
SHORT |= {("other", "C without MPI")}
# with them
PINNED = {
    *(("wrong", name) for name in ("C", "half a world", "C in containers")),
    *(("right", name) for name in ("torch", "C of Open MPI", "C on two nodes")),
}


def rows() -> list[Any]:
    """The table; all but an example of each kind takes minutes."""
    found = []
    for table, launches in TABLES.items():
        for name, launch in launches.items():
            marks: list[Any] = []
            if (table, name) not in SHORT | PINNED:
                marks.append(pytest.mark.long)
            if launch.where != "host" or launch.path or launch.launcher:
                marks.append(pytest.mark.engines)
            elif "torch" in str(launch.files) or "torch" in str(launch.command):
                marks += [pytest.mark.torch]
            found.append(pytest.param(launch, id=f"{table}: {name}", marks=marks))
    return found


def worlds(capsule: Path) -> set[str]:
    """What the record says of every attempt."""
    with zipfile.ZipFile(capsule) as opened:
        lines = opened.read("data/results/attempts.jsonl").splitlines()
    return {json.loads(line)["world"] for line in lines}


@pytest.mark.parametrize("launch", rows())
def test_ranks_are_one_world_or_nobody_says_so(
    author: User, monkeypatch: pytest.MonkeyPatch, launch: Launch
) -> None:
    monkeypatch.setenv("CAPSULE_CACHE", str(engine_cache()))
    variables, options = launched.write(author.folder, launch), tuple(launched.words(launch))
    user = in_job(author) if launch.where.startswith("slurm") else author
    ended = user.run("run", "m.json", "--output", "a.zip", *options, **variables)
    said = " ".join((ended.stdout + ended.stderr).split())
    sealed = author.folder / "a.zip"
    if launch.world is None:
        assert (ended.returncode, sealed.exists()) == (launch.code, False), said
        assert " met " not in said
        return
    assert ended.returncode == 0, said
    assert worlds(sealed) == {launch.world}
    assert launch.world in said
    if launch.world == JOINED and launch.where == "host":
        # whoever verifies has to have a launcher that joins them
        alone = {**variables, "CAPSULE_SITE": str(author.folder / "none.json")}
        (author.folder / "none.json").write_text("{}")
        verified = user.run("verify", sealed, "--runs", "1", *options, **alone)
        assert verified.returncode == 6, verified.stdout + verified.stderr
    if launch.world == NOT_SEEN:
        verified = user.run("verify", sealed, "--runs", "1", *options, **variables)
        lines = verified.stdout.splitlines()
        assert verified.returncode == 0, verified.stdout + verified.stderr
        assert lines[0].startswith("REPRODUCED")
        assert any(NOT_SEEN in line for line in lines[:6])
