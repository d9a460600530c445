"""Two ranks that talk to each other, and what can stand between them and their world."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.support.command import User, write_manifest, write_script

RANKS = {"ranks_per_node": 2, "cpus_per_rank": 1}
BARE = Path(sys.base_prefix, "bin")
"""Of a Python without packages: ranks of the host meet by sockets then, with no torch to import."""

MEETING = """
import json, os, socket, time, urllib.parse
rank, ranks = int(os.environ["CAPSULE_RANK"]), int(os.environ["CAPSULE_RANKS"])
assert os.environ["CAPSULE_LOCAL_RANK"] == str(rank)
place = urllib.parse.urlparse(os.environ["CAPSULE_RENDEZVOUS"])
assert place.scheme == "file" and (rank or not os.path.exists(place.path))
if rank == 0:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with open(place.path + ".part", "w") as file:
            file.write(str(server.getsockname()[1]))
        os.rename(file.name, place.path)
        said = server.accept()[0].recv(100)
else:
    while not os.path.exists(place.path):
        time.sleep(0.01)
    with socket.create_connection(("127.0.0.1", int(open(place.path).read()))) as peer:
        peer.sendall(os.environ["CAPSULE_SEED"].encode())
    said = os.environ["CAPSULE_SEED"].encode()
with open(os.environ["CAPSULE_RESULTS"], "a") as results:
    for name, value in (("loss", float(said)), ("world_size", WORLD)):
        results.write(json.dumps({"metric": name, "value": value}) + "\\n")
"""


def meeting(user: User, world: str = "ranks") -> Path:
    """A manifest of one run whose ranks talk to each other by sockets, which nobody sees."""
    write_script(user.folder, MEETING.replace("WORLD", world))
    metrics = {"loss": {"per": "rank"}, "world_size": {"per": "rank"}}
    command = {"command": ["python3", "tiny.py"], "inputs": ["tiny.py"], "world": "declared"}
    benchmark = {"id": "tiny", **command}
    return write_manifest(
        user.folder, benchmarks=[{**benchmark, "metrics": metrics}], seeds=[1], resources=RANKS
    )


def wrap_python(user: User, line: str) -> dict[str, str]:
    """Put a script in the place of python3, and return the variables that find it first."""
    folder = user.folder / "bin"
    folder.mkdir(exist_ok=True)
    python = folder / "python3"
    python.write_text(f'#!/bin/sh\n{line}\nexec {BARE}/python3 "$@"\n')
    python.chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def is_alive(pid: str) -> bool:
    """Whether a process runs: one that ended and that nobody waited for has no command line."""
    try:
        return bool(Path("/proc", pid, "cmdline").read_bytes())
    except OSError:
        return False
