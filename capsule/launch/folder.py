"""The folder by which a launcher's ranks and whoever started them talk, on a shared file system.

    calls/RRRR.json     how one rank is started, written before any of them is
    begun/RRRR          it is there: its node's name, and the launcher's own name of the step
    ended/RRRR          how it ended
    stopped/RRRR        what it did when it was asked to end
    failed/RRRR         empty: it did not end well, so that one look tells it of all ranks
    meeting             where rank 0 waits for the others, HOST:PORT

Every file appears whole, by one rename.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from capsule.runtimes.base import Ended, GpuShare, Invocation, Mount, Prepared, Scratch

_LOOK_SECONDS = 0.02


@dataclass(frozen=True, kw_only=True)
class Call:
    """Start of one rank.

    Attributes:
        runtime: Name of the engine.
        ranks: World size.
        far: True if the ranks are on several nodes, and so meet at an address of rank 0's node.
    """

    runtime: str
    ranks: int
    prepared: Prepared
    invocation: Invocation
    far: bool = False


@dataclass(frozen=True, kw_only=True)
class Begin:
    """A rank that is there.

    Attributes:
        node: Its node, as the scheduler or else the machine calls it.
        step: What the scheduler calls all ranks together, empty without one.
    """

    node: str
    step: str


class LaunchFolder:
    """One start of all ranks."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path) -> LaunchFolder:
        """Make it, empty.

        Raises:
            OSError: It is there, or cannot be made.
        """
        for name in ("", "calls", "begun", "stopped", "ended", "failed"):
            (path / name).mkdir(mode=0o700)
        return cls(path)

    @property
    def stdout(self) -> Path:
        """Return the path of the launcher's stdout."""
        return self.path / "launcher.out"

    @property
    def stderr(self) -> Path:
        """Return the path of the launcher's stderr."""
        return self.path / "launcher.err"

    def write_call(self, rank: int, call: Call) -> None:
        """Keep how a rank is started."""
        invocation = asdict(call.invocation)
        prepared = {
            "handle": call.prepared.handle,
            "open_network": call.prepared.open_network,
            "binds": [asdict(one) for one in call.prepared.binds],
            "keyring": call.prepared.keyring,
        }
        self._write(
            self.path / "calls" / f"{rank:04}.json",
            {
                "runtime": call.runtime,
                "ranks": call.ranks,
                "prepared": prepared,
                "invocation": invocation,
                "far": call.far,
            },
        )

    def read_call(self, rank: int) -> Call:
        """Read the start of a rank."""
        facts = self._read(self.path / "calls" / f"{rank:04}.json")
        prepared = facts["prepared"]
        return Call(
            runtime=facts["runtime"],
            ranks=facts["ranks"],
            prepared=Prepared(
                handle=prepared["handle"],
                open_network=prepared["open_network"],
                binds=_mounts(prepared["binds"]),
                keyring=prepared["keyring"],
            ),
            invocation=_invocation(facts["invocation"]),
            far=facts["far"],
        )

    def note_begin(self, rank: int, begun: Begin) -> None:
        """Note that a rank has started."""
        self._write(self.path / "begun" / f"{rank:04}", asdict(begun))

    def note_end(self, rank: int, ended: Ended) -> None:
        """Note that a rank has ended."""
        self._write(self.path / "ended" / f"{rank:04}", asdict(ended))
        if is_failure(ended):
            (self.path / "failed" / f"{rank:04}").touch()

    def note_stop(self, rank: int, state: str) -> None:
        """Note that a rank was asked to end, and ends."""
        self._write(self.path / "stopped" / f"{rank:04}", {"state": state})

    def stops(self) -> Mapping[int, str]:
        """Return the exit statuses of ranks that were asked to stop."""
        return {rank: facts["state"] for rank, facts in self._read_all("stopped").items()}

    def find_failure(self) -> bool:
        """Return whether a rank has failed by now."""
        # opening a folder has a network file system look anew, which asking for one file has not
        return bool(os.listdir(self.path / "failed"))  # noqa: PTH208 - no Path is needed

    def count_ends(self) -> int:
        """Return the number of ranks that have finished."""
        names = os.listdir(self.path / "ended")  # noqa: PTH208 - as above
        return sum(name.isdigit() for name in names)

    def begins(self) -> Mapping[int, Begin]:
        """Return the ranks that are there by now."""
        return {rank: Begin(**facts) for rank, facts in self._read_all("begun").items()}

    def ends(self) -> Mapping[int, Ended]:
        """Return the exit statuses of the ranks that have finished."""
        return {rank: Ended(**facts) for rank, facts in self._read_all("ended").items()}

    def publish_meeting(self, address: str) -> None:
        """Say where rank 0 waits for the others."""
        self._write(self.path / "meeting", {"address": address})

    def await_meeting(self) -> str:
        """Wait until rank 0 has named the place at which it waits.

        One that never does has failed, and ends those that wait.
        """
        while "meeting" not in os.listdir(self.path):  # noqa: PTH208 - as above
            time.sleep(_LOOK_SECONDS)
        address: str = self._read(self.path / "meeting")["address"]
        return address

    def _read_all(self, name: str) -> Mapping[int, Any]:
        paths = sorted((self.path / name).glob("[0-9]*[0-9]"))
        return {int(path.name): self._read(path) for path in paths}

    def _write(self, path: Path, facts: Mapping[str, object]) -> None:
        partial = path.with_name(f".{path.name}.partial")
        partial.write_text(json.dumps(facts, default=str))
        partial.replace(path)

    def _read(self, path: Path) -> Any:
        return json.loads(path.read_text())


def is_failure(ended: Ended) -> bool:
    """Return whether a rank takes the others with it: they would wait for it in vain."""
    return ended.exit_code != 0 or ended.engine_fault is not None


def _invocation(facts: Mapping[str, Any]) -> Invocation:
    return Invocation(
        command=tuple(facts["command"]),
        environment=facts["environment"],
        mounts=_mounts(facts["mounts"]),
        cwd=facts["cwd"],
        gpus=GpuShare(**facts["gpus"]),
        network=facts["network"],
        label=facts["label"],
        pids=facts["pids"],
        memory=facts["memory"],
        stdin=None if facts["stdin"] is None else Path(facts["stdin"]),
        stdout=Path(facts["stdout"]),
        stderr=Path(facts["stderr"]),
        telemetry=None if facts["telemetry"] is None else Path(facts["telemetry"]),
        joins=facts["joins"],
        scratch=None if facts["scratch"] is None else Scratch(**facts["scratch"]),
    )


def _mounts(all_facts: list[Mapping[str, Any]]) -> tuple[Mount, ...]:
    return tuple(
        Mount(source=Path(one["source"]), target=one["target"], writable=one["writable"])
        for one in all_facts
    )
