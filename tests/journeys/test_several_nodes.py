"""An ordinary user submits to both nodes of a real Slurm, and verifies by mpirun on one machine."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from capsule import archive
from tests.journeys.test_independence import COUNT, PLACES
from tests.support.command import write_manifest, write_script
from tests.support.engines import as_user, small_image
from tests.support.mpi import programs
from tests.support.runtimes import fill_user_cache

pytestmark = pytest.mark.engines

# every rank tells rank 0 who it is, and hears from it who came
MEETS = """
import json, os, socket, time, urllib.parse
rank, ranks = int(os.environ["CAPSULE_RANK"]), int(os.environ["CAPSULE_RANKS"])
place = urllib.parse.urlparse(os.environ["CAPSULE_RENDEZVOUS"])
host, port = place.hostname or "127.0.0.1", place.port or 0

def port_of_rank_0():
    while port == 0 and not os.path.exists(place.path):
        time.sleep(0.01)
    return port or int(open(place.path).read())

if rank == 0:
    with socket.create_server((host, port)) as server:
        if port == 0:
            with open(place.path + ".part", "w") as file:
                file.write(str(server.getsockname()[1]))
            os.rename(file.name, place.path)
        peers = [server.accept()[0] for _ in range(1, ranks)]
    there = {rank, *(int(peer.recv(9)) for peer in peers)}
    for peer in peers:
        peer.sendall(b"%d" % len(there))
    world = len(there)
else:
    while True:
        try:
            peer = socket.create_connection((host, port_of_rank_0()))
            break
        except ConnectionRefusedError:
            time.sleep(0.01)
    peer.sendall(b"%d" % rank)
    world = int(peer.recv(9))
local = int(os.environ["CAPSULE_LOCAL_RANK"])
with open(os.environ["CAPSULE_RESULTS"], "a") as results:
    for name, value in (("world_size", world), ("local", local), ("pid", os.getpid())):
        results.write(json.dumps({"metric": name, "value": value}) + "\\n")
"""
# `capsule WORDS...` in a folder, with a site file and a PATH
RUN = """
import os, subprocess, sys
os.environ.update(CAPSULE_CACHE=sys.argv[2], CAPSULE_SITE=sys.argv[3], PATH=sys.argv[4])
words = [sys.executable, "-m", "capsule", *sys.argv[5:]]
ended = subprocess.run(words, cwd=sys.argv[1], capture_output=True, text=True)
print(ended.returncode, ended.stdout, ended.stderr, sep="\\n")
"""
LAY_OUT = """
import sys, tempfile
print(tempfile.mkdtemp(dir=sys.argv[1]), end="")
"""


@pytest.fixture(scope="module")
def folder() -> Path:
    """One of the ordinary user's, which both nodes see."""
    return Path(as_user(LAY_OUT, os.environ["CAPSULE_TEST_SHARED"]))


def capsule(folder: Path, path: str, launcher: str | None, *words: str) -> tuple[int, str]:
    site = folder / "site.json"
    site.write_text(json.dumps({"launcher": launcher}))
    variables = (str(fill_user_cache()), str(site), path)
    code, output = as_user(RUN, str(folder), *variables, *words).split("\n", 1)
    return int(code), output


def test_what_two_nodes_sealed_is_verified_by_mpirun_on_one(folder: Path) -> None:
    write_script(folder, MEETS)
    world = {"per": "rank"}
    command = {"command": ["python3", "tiny.py"], "inputs": ["tiny.py"], "world": "declared"}
    benchmark = {"id": "tiny", **command}
    metrics = {"world_size": world, "local": world, "pid": {**world, "kind": "machine"}}
    write_manifest(
        folder,
        benchmarks=[{**benchmark, "metrics": metrics}],
        seeds=[1],
        resources={"nodes": 2, "ranks_per_node": 2},
        claims=[{"metric": "tiny/default/command/world_size", "type": "exact"}],
        image={"reference": small_image()},
        mutable=["resources"],
    )
    words = ("submit", "tiny.json", "--runtime", "apptainer", "--output", "a.zip")
    code, output = capsule(folder, os.environ["PATH"], None, *words)
    assert code == 0, output
    record = archive.read(folder / "a.zip").record
    assert len(record.nodes) == 2
    assert [attempt.nodes for attempt in record.attempts] == [(0, 1)]
    assert "srun of slurm" in record.image_observations["launcher"]
    values = {(one.metric.rpartition("/")[2], one.rank): one.values[0] for one in record.samples}
    assert [values["world_size", rank] for rank in range(4)] == [4] * 4
    assert [values["local", rank] for rank in range(4)] == [0, 1, 0, 1]

    sets = ("--set", "/resources/nodes=1", "--set", "/resources/ranks_per_node=4")
    words = ("verify", "a.zip", "--runtime", "apptainer", "--output", "b.zip")
    code, output = capsule(folder, programs("MPICH"), "mpirun", *words, *sets)
    assert code == 0, output
    verified = archive.read(folder / "b.zip").record
    assert [attempt.nodes for attempt in verified.attempts] == [(0,)] * len(verified.attempts)
    assert verified.image_observations["launcher"].startswith("mpirun of MPICH 5.0")
    assert "REPRODUCED" in output


def test_ranks_of_two_nodes_find_nothing_of_an_earlier_trial(folder: Path) -> None:
    write_script(folder, COUNT)
    benchmark = {
        "id": "tiny",
        "command": ["python3", "tiny.py"],
        "inputs": ["tiny.py"],
        "ranks_independent": True,
        "metrics": {name: {"per": "rank", "direction": "lower"} for name in PLACES},
    }
    resources = {"nodes": 2, "ranks_per_node": 1}
    write_manifest(
        folder, benchmarks=[benchmark], seeds=[1, 2, 3], resources=resources, claims=None
    )
    words = ("submit", "tiny.json", "--runtime", "host", "--output", "count.zip")
    code, output = capsule(folder, os.environ["PATH"], None, *words)
    assert code == 0, output
    record = archive.read(folder / "count.zip").record
    assert {attempt.nodes for attempt in record.attempts} == {(0, 1)}
    values: dict[str, list[float]] = {}
    for one in record.samples:
        values.setdefault(one.metric.rpartition("/")[2], []).extend(one.values)
    assert {name: values[name] for name in ("cwd", "home", "tmp")} == {
        name: [1] * 6 for name in ("cwd", "home", "tmp")
    }
    # both ranks of a start write in one copy of the inputs, and no other start's
    assert {max(values[name]) for name in ("inputs", "above", "bytecode")} <= {1, 2}
