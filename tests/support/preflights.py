"""Pre-flight of ranks without a container, whose program a line of shell may stand before."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from capsule import process
from capsule.errors import ExecutionError
from capsule.execute.payload import OWN_LEVELS
from capsule.launch import preflight
from capsule.launch.base import Launcher
from capsule.launch.preflight import Request
from capsule.runtimes.base import Invocation, Prepared
from capsule.runtimes.host import Host

PREPARED = Prepared(handle="")
# without packages: ranks meet by sockets
BARE = Path(sys.base_prefix, "bin", "python3")


def request(
    folder: Path,
    ranks: int = 2,
    *,
    start: str = "",
    nodes: tuple[int, ...] = (),
    place: str | None = None,
    how: str = "meet",
    python: Path = BARE,
) -> Request:
    """Ranks whose program is started by a shell's line, in which python and "$@" start it."""
    python3 = folder / "python3"
    python3.write_text(f'#!/bin/sh\npython={python}\n{start}\nexec $python "$@"\n')
    python3.chmod(0o755)
    meeting = place or f"file://{folder}/meeting"
    reports = tuple(folder / f"{rank}.jsonl" for rank in range(ranks))
    nodes = nodes or (0,) * ranks
    program = str(OWN_LEVELS / "preflight.py")
    return Request(
        invocations=tuple(
            Invocation(
                command=(str(python3), program, str(report), "60", how),
                environment=variables(rank, nodes, meeting),
                mounts=(),
                cwd=str(folder),
                label=f"test-{folder}",
                stdout=folder / f"{rank}.out",
                stderr=folder / f"{rank}.err",
            )
            for rank, report in enumerate(reports)
        ),
        reports=reports,
        nodes=nodes,
    )


def variables(rank: int, nodes: tuple[int, ...], meeting: str) -> Mapping[str, str]:
    return {
        "CAPSULE_RANK": str(rank),
        "CAPSULE_RANKS": str(len(nodes)),
        "CAPSULE_LOCAL_RANK": str(nodes[:rank].count(nodes[rank])),
        "CAPSULE_RENDEZVOUS": meeting,
    }


def given(of: Request, variables: Mapping[str, str]) -> Request:
    """The same, each rank with more variables."""
    return replace(
        of,
        invocations=tuple(
            replace(one, environment={**one.environment, **variables}) for one in of.invocations
        ),
    )


def refused(of: Request, launcher: Launcher, patience_seconds: float) -> str:
    """What is said of a world that is none, on one line; nothing of it is left."""
    with pytest.raises(ExecutionError) as caught:
        preflight.check(launcher, Host(), PREPARED, of, patience_seconds)
    assert caught.value.exit_code == 5
    assert caught.value.where == "pre-flight"
    assert not process.find_marked(of.invocations[0].label)
    return str(caught.value)
