"""Ranks on two nodes of which one hangs, dies, or loses its daemon: nothing finished is lost."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from capsule import process
from tests.journeys.test_resume import attempts_in, label_of
from tests.support.command import User, write_manifest, write_script
from tests.support.patience import PATIENCE_SECONDS, until
from tests.support.slurm import Slurm, in_job, started
from tests.support.worlds import is_alive

pytestmark = [pytest.mark.engines, pytest.mark.usefixtures("bare_python")]

# ranks in step with each other, at the second seed for as long as there is no file `go`
IN_STEP = """
import json, os, pathlib, socket, time, urllib.parse
rank, seed = int(os.environ["CAPSULE_RANK"]), int(os.environ["CAPSULE_SEED"])
place = urllib.parse.urlparse(os.environ["CAPSULE_RENDEZVOUS"])
if rank == 0:
    with socket.create_server((place.hostname, place.port)) as server:
        peer = server.accept()[0]
else:
    peer = None
while peer is None:
    try:
        peer = socket.create_connection((place.hostname, place.port))
    except ConnectionRefusedError:
        time.sleep(0.01)
steps = 0
while steps < 3 or seed == 2 and not os.path.exists(FOLDER + "/go"):
    peer.sendall(b"x")
    assert peer.recv(1) == b"x"
    steps += 1
    if steps == 3 and seed == 2:
        pathlib.Path(FOLDER, f"{rank}.part").write_text(str(os.getpid()))
        pathlib.Path(FOLDER, f"{rank}.part").rename(FOLDER + f"/{rank}")
    time.sleep(0.01)
with open(os.environ["CAPSULE_RESULTS"], "a") as results:
    results.write(json.dumps({"metric": "loss", "value": seed / 100}) + "\\n")
"""
RESOURCES = {"nodes": 2, "ranks_per_node": 1, "cpus_per_rank": 1}


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    with started(tmp_path_factory.mktemp("slurm")) as own:
        yield own


@pytest.fixture
def user(author: User, slurm: Slurm, monkeypatch: pytest.MonkeyPatch) -> User:
    """Whose jobs are those of the module's own Slurm, with a manifest of two seeds."""
    monkeypatch.setenv("SLURM_CONF", str(slurm.conf))
    write_script(author.folder, IN_STEP.replace("FOLDER", repr(str(author.folder))))
    metrics = {"loss": {"per": "rank"}}
    command = {"command": ["python3", "tiny.py"], "inputs": ["tiny.py"], "world": "declared"}
    benchmark = {"id": "tiny", **command}
    benchmarks = [{**benchmark, "metrics": metrics}]
    write_manifest(author.folder, benchmarks=benchmarks, seeds=[1, 2], resources=RESOURCES)
    return author


def ranks_of_the_second_trial(user: User, running: subprocess.Popen[str]) -> list[int]:
    """Ids of their processes, once they are in step."""
    marks = [user.folder / str(rank) for rank in (0, 1)]

    def there() -> bool:
        assert running.poll() is None, user.talk.read_text()
        return all(mark.exists() for mark in marks)

    until(there, "ranks of the second trial")
    return [int(mark.read_text()) for mark in marks]


def assert_gone(user: User, pids: list[int]) -> None:
    assert not [pid for pid in pids if is_alive(str(pid))]
    for folder in user.folder.glob("*.run"):
        assert not process.find_marked(label_of(folder))


def outcomes(capsule: Path) -> list[tuple[int, str]]:
    return [(one["seed"], one["outcome"]) for one in attempts_in(capsule)]


def sealed(user: User) -> Path:
    (capsule,) = user.folder.glob("*.capsule.zip")
    return capsule


def test_a_rank_that_hangs_is_ended_with_the_others_and_the_run_goes_on(user: User) -> None:
    running = in_job(user).start("run", "tiny.json", "--runtime", "host")
    pids = ranks_of_the_second_trial(user, running)
    os.kill(pids[1], signal.SIGSTOP)
    # as Slurm does before the time is up: nobody else can tell one that hangs from one that works
    (capsule,) = subprocess.run(
        ["pgrep", "--parent", str(running.pid)], capture_output=True, text=True, check=True
    ).stdout.split()
    os.kill(int(capsule), signal.SIGTERM)
    assert running.wait(PATIENCE_SECONDS) == 143
    assert "tiny/default/command/2 interrupted" in user.talk.read_text()
    assert_gone(user, pids)
    assert not list(user.folder.glob("*.capsule.zip"))
    (user.folder / "go").touch()
    (work,) = user.folder.glob("*.run")
    ended = in_job(user).run("run", "--resume", work)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert outcomes(sealed(user)) == [
        (1, "completed"),
        (2, "interrupted"),
        (2, "completed"),
    ]


def test_a_node_that_is_lost_is_no_failure_of_what_ran_there(user: User, slurm: Slurm) -> None:
    running = in_job(user).start("run", "tiny.json", "--runtime", "host")
    pids = ranks_of_the_second_trial(user, running)
    slurm.lose("n2")
    assert running.wait(PATIENCE_SECONDS) == 6
    talk = user.talk.read_text()
    assert "has expired" in talk
    assert "finished trials are kept; to resume: capsule run --resume" in talk
    assert_gone(user, pids)
    assert not list(user.folder.glob("*.capsule.zip"))
    slurm.start()
    (user.folder / "go").touch()
    (work,) = user.folder.glob("*.run")
    ended = in_job(user).run("run", "--resume", work)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    ways = outcomes(sealed(user))
    assert {outcome for _, outcome in ways} == {"completed", "interrupted"}
    assert [seed for seed, outcome in ways if outcome == "completed"] == [1, 2]
