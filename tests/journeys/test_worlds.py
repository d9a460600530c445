"""Several ranks of a program: whether they are one world, and what anybody says of it."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.journeys.test_resume import attempts_in
from tests.support import launched
from tests.support.command import User
from tests.support.engines import engine_cache
from tests.support.launched import JOINED, NOT_SEEN, OTHER, RIGHT, WRONG, Launch
from tests.support.slurm import in_job

TABLES = {"wrong": WRONG, "right": RIGHT, "other": OTHER}
# one of each kind
PINNED = {
    *(("wrong", name) for name in ("no library", "half a world")),
    *(("right", name) for name in ("torch", "C on two nodes")),
    *(("other", name) for name in ("independent", "sockets", "-S")),
}


def rows() -> list[Any]:
    """The table; all but an example of each kind takes minutes."""
    found = []
    for table, launches in TABLES.items():
        for name, launch in launches.items():
            marks: list[Any] = []
            if (table, name) not in PINNED:
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


@pytest.mark.engines
def test_a_program_of_mpi_that_was_refused_goes_on_under_a_launcher(author: User) -> None:
    launch = WRONG["C"]
    variables, options = launched.write(author.folder, launch), tuple(launched.words(launch))
    ended = author.run("run", "m.json", "--output", "a.zip", *options, **variables)
    said = " ".join(ended.stderr.split())
    assert ended.returncode == 6, said
    assert "pi needs libmpi.so.12" in said
    assert "launcher local does not join the 2 ranks" in said
    (work,) = author.folder.glob("*.run")
    assert f"resume the run folder {work}" in said
    (author.folder / "site.json").write_text('{"launcher": "mpirun"}')
    ended = author.run("run", "--resume", work, "--output", "a.zip", **variables)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    # what was refused was no attempt
    assert [one["world"] for one in attempts_in(author.folder / "a.zip")] == [JOINED]
    means = [one["means"] for one in author.json("show", author.folder / "a.zip")["worlds"]]
    assert "mpi" in means[-1]


SAME = 'import os\nprint("loss:", 1.25)\nprint("rate:", os.environ["CAPSULE_RANK"])\n'


@pytest.mark.usefixtures("bare_python")
def test_the_same_value_of_a_second_rank_is_noted_where_no_world_was_seen(author: User) -> None:
    launched.write(author.folder, launched.python(SAME, "-I"))
    document = json.loads((author.folder / "m.json").read_text())
    document["benchmarks"][0]["metrics"] |= {
        "rate": {"from": {"pattern": "rate: ([0-9]+)"}},
        "each": {"per": "rank", "from": {"pattern": "loss: ([0-9.]+)"}},
    }
    (author.folder / "m.json").write_text(json.dumps(document))
    tried = author.json("run", "--try", "m.json", "--runtime", "host")
    assert (tried["outcome"], tried["world"], tried["ranks"]) == ("completed", NOT_SEEN, 2)
    ended = author.run("run", "m.json", "--runtime", "host", "--output", "a.zip")
    assert ended.returncode == 0, ended.stderr
    (attempt,) = attempts_in(author.folder / "a.zip")
    # not of what each rank has, and not of a value of its own
    (note,) = attempt["message"].splitlines()
    assert note.startswith("loss: rank 1 has the same value as rank 0, 1.25")
    assert "note: loss: rank 1 has the same value" in ended.stdout
