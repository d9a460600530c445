"""Ranks of this node that `mpirun` starts: MPICH's or Open MPI's, whichever is first on the PATH.

On several nodes the scheduler's own launcher starts them: `mpirun` would have to ask it anyway.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property

from capsule import process
from capsule.errors import CannotRunError
from capsule.launch import started
from capsule.launch.families import MPICH, OPEN_MPI, Family
from capsule.launch.folder import LaunchFolder
from capsule.launch.rank import MPI
from capsule.launch.started import StartedRanks
from capsule.manifest.model import Resources
from capsule.runtimes import programs
from capsule.runtimes.base import Invocation, Prepared, Runtime

PROGRAM = "mpirun"


class Mpirun:
    """Starts all ranks on this node by one `mpirun`."""

    name = PROGRAM
    joins_all = True

    def observations(self) -> Mapping[str, str]:
        """Return the MPI family and version of mpirun."""
        family, version = self._program
        return {"launcher": f"mpirun of {family.name} {version}"}

    @property
    def family(self) -> str:
        """Return the name of the MPI family."""
        return self._program[0].name

    def start(
        self, runtime: Runtime, prepared: Prepared, invocations: Sequence[Invocation]
    ) -> StartedRanks:
        """Start them together, or none of them.

        Raises:
            CannotRunError: The engine cannot be handed on, or there is no `mpirun` any more.
        """
        family, _ = self._program
        folder = started.lay_out(runtime, prepared, invocations, far=False, joins=True)
        label = invocations[0].label
        # Open MPI's refuses root, who has nobody else to be in a container or a test
        as_root = ("--allow-run-as-root",) if family is OPEN_MPI and os.geteuid() == 0 else ()
        running = process.start(
            (
                *(PROGRAM, "-n", str(len(invocations)), *as_root, *family.options),
                *started.wrapper(folder, family.rank, family.size),
            ),
            env={**_variables(), process.RUN_MARK: label},
            cwd=folder.path,
            stdout=folder.stdout,
            stderr=folder.stderr,
        )
        return StartedRanks(running, folder, len(invocations), label, _terminate)

    @cached_property
    def _program(self) -> tuple[Family, str]:
        """Return the MPI family of the `mpirun`, and its version.

        Raises:
            CannotRunError: There is none, or one of another family.
        """
        advice = "load the module of MPICH or Open MPI, or remove the launcher from the site file"
        try:
            answer = process.run([PROGRAM, "--version"]).stdout.decode(errors="replace")
        except CannotRunError:
            raise CannotRunError("no mpirun on the PATH", advice=advice) from None
        for family in (MPICH, OPEN_MPI):
            if family.sign in answer:
                return family, _find_version(answer)
        raise CannotRunError(
            f"expected mpirun of MPICH or Open MPI, found {answer.strip()[:200]}", advice=advice
        )


def require_one_node(resources: Resources, *, where: str) -> None:
    """Stop where ranks are to run on several.

    Raises:
        CannotRunError: Says how.
    """
    if resources.nodes > 1:
        raise CannotRunError(
            f"{resources.nodes} nodes requested; mpirun starts ranks on one node only",
            where=where,
            advice='set "launcher": "srun" in the site file, and run in a Slurm job',
        )


def _find_version(answer: str) -> str:
    """Return the first word that begins with a digit."""
    return next((word for word in answer.split() if word[0].isdigit()), "of unknown version")


def _variables() -> dict[str, str]:
    """Return the caller's, but for what would have it ask a scheduler, or look like a rank's
    own.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SLURM", "PBS_", "LSB_", *MPI))
    }
    return {**kept, "PATH": programs.search_path()}


def _terminate(_folder: LaunchFolder) -> bool:
    """End the ranks on this machine; there are none elsewhere."""
    return False
