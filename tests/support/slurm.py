"""A Slurm of one test module's own, whose daemons may be stopped without harm to anybody else's."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from capsule import processes
from tests.support.command import User
from tests.support.patience import until
from tests.support.session import end_processes

NODES = ("n1", "n2")
_LOST_SECONDS = 5
"""A node that is not heard of for so long is down."""


class Slurm:
    """As `tests/engines` has it, with its munge, in a folder of its own.

    Args:
        folder: A new one.
        own: The configuration of the engines' Slurm.
    """

    def __init__(self, folder: Path, own: Path) -> None:
        self._folder = folder
        self.conf = folder / "slurm.conf"
        munge = str(own.parent / "munge")
        with ExitStack() as held:
            ports = {
                old: held.enter_context(socket.create_server(("", 0))).getsockname()[1]
                for old in set(re.findall(r"[pP]ort=(\d+)", own.read_text()))
            }
        text = re.sub(r"([pP]ort=)(\d+)", lambda one: f"{one[1]}{ports[one[2]]}", own.read_text())
        text = text.replace(munge, "MUNGE").replace(str(own.parent), str(folder))
        text = re.sub(r"SlurmdTimeout=\d+", f"SlurmdTimeout={_LOST_SECONDS}", text)
        self.conf.write_text(text.replace("MUNGE", munge))
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start what does not run, go on with what was stopped, and wait for both nodes."""
        (self._folder / "state").mkdir(exist_ok=True)
        self._start("slurmctld", "slurmctld")
        for node in NODES:
            (self._folder / f"spool-{node}").mkdir(exist_ok=True)
            self._start(node, "slurmd", "-N", node)
        for daemon in self._daemons.values():
            daemon.send_signal(signal.SIGCONT)
        # one that a test left as down
        self._run("scontrol", "update", f"nodename={','.join(NODES)}", "state=resume")
        until(lambda: self._states() == ["idle", "idle"], "both nodes")

    def stop(self) -> None:
        """End all of it, whatever runs there: steps too, which outlive their daemon."""
        setting = f"SLURM_CONF={self.conf}".encode()
        end_processes(lambda pid: setting in processes.read_variables(pid))
        for daemon in self._daemons.values():
            daemon.wait()

    def lose(self, node: str) -> None:
        """A node whose daemon hangs is down, without the wait for Slurm to notice."""
        self._daemons[node].send_signal(signal.SIGSTOP)
        self.ask("scontrol", "update", f"nodename={node}", "state=down", "reason=lost")

    def ask(self, *words: str) -> str:
        """What a command of Slurm's says."""
        ended = self._run(*words)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words, capture_output=True, text=True, check=False, env=self._variables()
        )

    def _variables(self) -> dict[str, str]:
        return {**os.environ, "SLURM_CONF": str(self.conf)}

    def _start(self, name: str, *words: str) -> None:
        if name in self._daemons:
            return
        with (self._folder / f"{name}.log").open("ab") as log:
            command = [*words, "-D", "-f", str(self.conf)]
            self._daemons[name] = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=self._variables(),
            )

    def _states(self) -> list[str]:
        return self._run("sinfo", "--noheader", "--Node", "--format=%T").stdout.split()


def in_job(user: User) -> User:
    """Whose commands have both nodes."""
    salloc = user.home / "salloc"
    salloc.write_text(
        "#!/bin/sh\nexec salloc --quiet --nodes=2 --ntasks=2 --ntasks-per-node=1"
        f' {user.python} "$@"\n'
    )
    salloc.chmod(0o755)
    return replace(user, python=str(salloc))


@contextmanager
def started(folder: Path) -> Iterator[Slurm]:
    """One that runs until the block is over."""
    slurm = Slurm(folder, Path(os.environ["SLURM_CONF"]))
    try:
        slurm.start()
        yield slurm
    finally:
        slurm.stop()
