"""`capsule submit` of a job of a thousand nodes, to a Slurm of as many daemons on this machine.

    eval "$(tests/engines env)"
    python benchmarks/harness/thousand_nodes.py [--nodes N]

Each node is a slurmd of its own, of about a megabyte. Another job has all of them first. A manifest
of that many nodes is submitted, whoever follows it is killed while it waits, and the same line
follows the same job, until it runs on all of them; then it is cancelled, as they are one machine,
on which a thousand ranks tell nothing. Prints how long each of that took; ends with 1 where
something was not as it should be, and with 6 where there is no Slurm. Root alone.

Slurm's emulator, Debian's slurm-wlm-emulator, is none of it: the controller of 22.05.8-4+deb12u3
ends without FrontEndName ("No front end nodes defined"), and its library refuses that line (as of a
Slurm built without --enable-front-end).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 600.0
FIRST_PORT = 20_000
CONFIGURATION = """ClusterName=wide
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser=root
AuthType=auth/munge
AuthInfo={munge}
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdSpoolDir={folder}/spool-%n
SlurmdPidFile={folder}/%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=0
KillWait=5
NodeName=e[1-{nodes}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs=1
PartitionName=main Nodes=e[1-{nodes}] Default=YES MaxTime=INFINITE State=UP
"""
MANIFEST = {
    "name": "wide",
    "title": "As many ranks as there are nodes",
    "authors": [{"name": "Ada Author"}],
    "license": "CC0-1.0",
    "seeds": [1],
    "benchmarks": [
        {
            "id": "wide",
            "command": ["python3", "-c", "print('loss: 1')"],
            "metrics": {"loss": {"from": {"pattern": "loss: (.*)"}}},
        }
    ],
}


class Missing(Exception):
    """This machine has no Slurm."""


def configure(folder: Path, nodes: int) -> Path:
    """Write the configuration, with the munge of the Slurm that the caller has."""
    own = Path(os.environ.get("SLURM_CONF", "/etc/slurm/slurm.conf"))
    munge = re.search(r"(?m)^AuthInfo=(\S+)", own.read_text()) if own.exists() else None
    if munge is None or shutil.which("slurmd") is None:
        raise Missing(f'{own} names no munge, or no slurmd is here: eval "$(tests/engines env)"')
    with socket.create_server(("", 0)) as held:
        controller = held.getsockname()[1]
    (folder / "state").mkdir()
    conf = folder / "slurm.conf"
    conf.write_text(
        CONFIGURATION.format(
            folder=folder,
            host=socket.gethostname().partition(".")[0],
            controller=controller,
            munge=munge[1],
            nodes=nodes,
            first=FIRST_PORT,
            last=FIRST_PORT + nodes - 1,
        )
    )
    return conf


def ask(*words: str) -> str:
    """What a command of Slurm's says."""
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    if ended.returncode:
        print(f"  {' '.join(words)}: {ended.stderr.strip()}", file=sys.stderr)
    return ended.stdout.strip()


def until(condition: Callable[[], bool], what: str) -> float:
    """Wait for something; the seconds that it took."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > PATIENCE_SECONDS:
            raise SystemExit(f"waited {PATIENCE_SECONDS:.0f} s in vain for {what}")
        time.sleep(0.05)
    return time.monotonic() - began


@contextmanager
def started(folder: Path, nodes: int) -> Iterator[None]:
    """The cluster, until the block is over."""
    conf = configure(folder, nodes)
    os.environ["SLURM_CONF"] = str(conf)
    running: list[subprocess.Popen[bytes]] = []
    names = [f"e{number}" for number in range(1, nodes + 1)]
    commands = [["slurmctld"], *(["slurmd", "-N", name] for name in names)]
    began = time.monotonic()
    try:
        with (folder / "daemons.log").open("wb") as log:
            for words in commands:
                command = [*words, "-D", "-f", str(conf)]
                running.append(
                    subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
                )
        count = ("sinfo", "--noheader", "--states=idle", "--format=%D")
        until(lambda: ask(*count) == f"{nodes}", f"{nodes} nodes")
        print(f"{nodes} nodes are idle after {time.monotonic() - began:.1f} s")
        yield
    finally:
        for job in ask("squeue", "--noheader", "--format=%A").split():
            ask("scancel", job)
        for process in reversed(running):
            process.kill()
            process.wait()


class Submission:
    """`capsule submit` of one manifest, as often as it is asked for."""

    def __init__(self, folder: Path, nodes: int) -> None:
        self._folder = folder
        shape = {"nodes": nodes, "ranks_per_node": 1, "cpus_per_rank": 1}
        (folder / "wide.json").write_text(json.dumps({**MANIFEST, "resources": shape}))
        self._talk = folder / "talk.txt"

    def start(self) -> subprocess.Popen[bytes]:
        """Begin to submit, or to follow."""
        with self._talk.open("wb") as talk:
            return subprocess.Popen(
                [sys.executable, "-m", "capsule", "submit", "wide.json", "--runtime", "host"],
                cwd=self._folder,
                env={**os.environ, "HOME": str(self._folder), "PYTHONPATH": str(ROOT)},
                stdout=talk,
                stderr=talk,
                stdin=subprocess.DEVNULL,
            )

    def await_words(self, words: str) -> float:
        """Seconds until it says something."""
        return until(lambda: words in self.talk(), f"{words!r} of\n{self.talk()}")

    def talk(self) -> str:
        """All that it said since it was started."""
        return self._talk.read_text()

    def jobs(self) -> list[str]:
        """All that it handed in."""
        (state,) = self._folder.glob("*.job/submission.json")
        jobs: list[str] = json.loads(state.read_bytes())["jobs"]
        return jobs


def follow(folder: Path, nodes: int) -> None:
    """Submit, be killed, follow again, and see the job run and end."""
    blocker = ask(
        *("sbatch", "--parsable", f"--nodes={nodes}", "--output=/dev/null", "--wrap=sleep 3600")
    )
    until(lambda: f"{nodes}" == ask("squeue", "--noheader", "--states=R", "--format=%D"), "a job")
    submission = Submission(folder, nodes)
    first = submission.start()
    seconds = submission.await_words("waits: ")
    print(f"submitted, and told why it waits, after {seconds:.1f} s:")
    print("  " + submission.talk().strip().replace("\n", "\n  "))
    first.send_signal(signal.SIGKILL)
    first.wait()
    second = submission.start()
    seconds = submission.await_words("was submitted before, and is followed")
    print(f"killed, and followed again after {seconds:.1f} s")
    ask("scancel", blocker)
    seconds = submission.await_words("runs on e[1-")
    print(f"told that it runs {seconds:.1f} s after the nodes were free")
    (job,) = submission.jobs()
    ask("scancel", job)
    began = time.monotonic()
    code = second.wait(PATIENCE_SECONDS)
    print(f"cancelled, and told {time.monotonic() - began:.1f} s later; exit code {code}:")
    print("  " + submission.talk().strip().replace("\n", "\n  "))
    if code != 143 or submission.jobs() != [job]:
        raise SystemExit("one job, cut off, was to be all there is")


def main() -> int:
    """Set the cluster up, and print what was seen."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--nodes", type=int, default=1000)
    nodes = parser.parse_args().nodes
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "work").mkdir()
        try:
            with started(folder, nodes):
                follow(folder / "work", nodes)
        except Missing as error:
            print(f"error: {error}", file=sys.stderr)
            return 6
    return 0


if __name__ == "__main__":
    sys.exit(main())
