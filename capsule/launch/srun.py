"""Ranks on the nodes of a Slurm allocation: one step of it starts all of them.

Which MPI: ranks that meet by torch's rendezvous need none of Slurm (`--mpi=none`). Those of MPI are
joined by `--mpi=pmi2`, which libraries of MPICH's family understand; each rank of Open MPI, which
needs `pmix`, would go on alone then without a word.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from capsule import process
from capsule.errors import CannotRunError, CapsuleError, ExecutionError
from capsule.jsons import JsonObject
from capsule.launch import started, survey
from capsule.launch.families import MPICH
from capsule.launch.folder import LaunchFolder
from capsule.launch.rank import END, MPI
from capsule.launch.started import StartedRanks
from capsule.manifest.model import Resources
from capsule.runtimes import programs
from capsule.runtimes.base import Invocation, Prepared, Runtime
from capsule.runtimes.visible import LISTS

PROGRAM = "srun"
# which allocation it is; all else of Slurm's would change what a step is given
_KEPT = ("SLURM_CONF", "SLURM_JOB_ID", "SLURM_JOBID", "SLURM_CLUSTER_NAME", "SLURM_JWT")
_RANK, _SIZE = "SLURM_PROCID", "SLURM_NTASKS"
_ALONE, _JOINED = "none", "pmi2"
# a step that gets no CPUs waits for them without a word
_PATIENCE_SECONDS = 60
_END = END.name.removeprefix("SIG")
_LOOK_SECONDS = 0.1


class Srun:
    """Starts all ranks as one step of the allocation that capsule runs in.

    Ranks follow each other node by node, as many on each as the manifest says.

    Args:
        resources: What each start needs.
    """

    name = "srun"
    joins_all = False
    family = MPICH.name

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._inventories: tuple[JsonObject, ...] = ()

    def observations(self) -> Mapping[str, str]:
        """Return the version of Slurm, and its MPI support."""
        version = process.run([PROGRAM, "--version"]).stdout.decode(errors="replace").strip()
        return {"launcher": f"srun of {version}, --mpi={_ALONE}, {_JOINED} for ranks of MPI"}

    def start(
        self, runtime: Runtime, prepared: Prepared, invocations: Sequence[Invocation]
    ) -> StartedRanks:
        """Start them as one step, or none of them; MPI joins them where they ask for it.

        Raises:
            CannotRunError: The engine cannot be handed on, or there is no `srun` any more.
        """
        ranks, joins = len(invocations), invocations[0].joins
        far = self._count_nodes(ranks) > 1
        folder = started.lay_out(runtime, prepared, invocations, far=far, joins=joins)
        label, name = invocations[0].label, f"capsule-{secrets.token_hex(8)}"
        running = process.start(
            (
                *self._step(ranks, _JOINED if joins else _ALONE),
                f"--job-name={name}",
                *started.wrapper(folder, _RANK, _SIZE),
            ),
            env={**_variables(), process.RUN_MARK: label},
            cwd=folder.path,
            stdout=folder.stdout,
            stderr=folder.stderr,
        )
        sweep = partial(_sweep, name)
        return StartedRanks(running, folder, ranks, label, _terminate, sweep)

    def survey(self, *, salt: str, keep_hosts: bool, folder: Path) -> tuple[JsonObject, ...]:
        """Return the inventory of the node of each rank: taken once, by one rank of each node.

        Raises:
            CannotRunError: The step cannot be started, or its nodes are not those asked for.
        """
        if not self._inventories:
            survey.ask(folder, salt=salt, keep_hosts=keep_hosts)
            answer = process.run(
                (*self._step(self._resources.ranks), *survey.program(folder, _RANK)),
                env=_variables(),
                cwd=folder,
                timeout_seconds=survey.PATIENCE_SECONDS,
            )
            words = answer.stderr.decode(errors="replace")
            self._inventories = survey.read(folder, self._resources, words)
        return self._inventories

    def _count_nodes(self, ranks: int) -> int:
        """Return the number of nodes of the first ranks."""
        return -(-ranks // self._resources.ranks_per_node)

    def _step(self, ranks: int, mpi: str = _ALONE) -> tuple[str, ...]:
        """Return the beginning of a command that starts it once for each of the first ranks."""
        resources = self._resources
        cpus = resources.cpus_per_rank
        return (
            PROGRAM,
            f"--nodes={self._count_nodes(ranks)}",
            f"--ntasks={ranks}",
            f"--ntasks-per-node={min(ranks, resources.ranks_per_node)}",
            "--distribution=block",
            *((f"--cpus-per-task={cpus}",) if cpus else ()),
            f"--mpi={mpi}",
            "--overlap",
            f"--immediate={_PATIENCE_SECONDS}",
            "--input=none",
            "--kill-on-bad-exit=0",
            "--wait=0",
            "--quiet",
        )


def require_allocation(resources: Resources, *, where: str) -> None:
    """Stop outside of an allocation, or in one that is too small.

    Raises:
        CannotRunError: Says how to get one.
    """
    if not os.environ.get("SLURM_JOB_ID"):
        other_way = (
            f"run on one node: set nodes to 1 and ranks_per_node to {resources.ranks}"
            if resources.nodes > 1
            else 'set "launcher" in the site file: "mpirun" for ranks of MPI, else "local"'
        )
        raise CannotRunError(
            f"{resources.nodes} nodes requested outside a Slurm job"
            if resources.nodes > 1
            else "launcher srun requested outside a Slurm job",
            where=where,
            advice="submit a job with `capsule submit`, or get an allocation first:"
            f" salloc --nodes={resources.nodes} --ntasks={resources.ranks}"
            f" --ntasks-per-node={resources.ranks_per_node}; or {other_way}",
        )
    count = os.environ.get("SLURM_JOB_NUM_NODES", os.environ.get("SLURM_NNODES", ""))
    if count.isdigit() and int(count) < resources.nodes:
        raise CannotRunError(
            f"too few nodes in the Slurm job: {count}, expected at least {resources.nodes}",
            where=where,
            advice=f"get a larger job: salloc --nodes={resources.nodes} --ntasks={resources.ranks}",
        )


def _variables() -> dict[str, str]:
    """Return the caller's environment without variables that change the step or belong to MPI.

    Lists of GPUs are left out too: Slurm gives each task the list of its own node.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in _KEPT
        or not (name in LISTS or name.startswith(("SLURM", "SBATCH_", "SALLOC_", *MPI)))
    }
    # the step begins in another folder
    return {**kept, "PATH": programs.search_path()}


def _terminate(folder: LaunchFolder) -> bool:
    """Ask the ranks of a step to end, each of which ends what it started.

    Slurm sends a signal to all that runs in a step: what the ranks themselves die of would leave
    nobody who still has their shared memory mapped. One that is not there yet cannot be asked: its
    step ends with srun, at once.
    """
    steps = {begun.step for begun in folder.begins().values()}
    try:
        return any(
            process.run(("scancel", f"--signal={_END}", one)).exit_code == 0 for one in steps
        )
    except CapsuleError:
        return False


def _sweep(name: str, seconds: float) -> None:
    """End a step that outlived its srun, which may be killed before the step is its own to end.

    Raises:
        ExecutionError: It does not end.
    """
    deadline = time.monotonic() + seconds
    try:
        while steps := _find_steps(name):
            process.run(("scancel", *steps))
            if time.monotonic() > deadline:
                raise ExecutionError(
                    f"Slurm's step {steps[0]} still runs {seconds:g} s after scancel",
                    advice=f"end the step: scancel {steps[0]}",
                )
            time.sleep(_LOOK_SECONDS)
    except CannotRunError:
        # nothing of Slurm's is here any more, and with the job all of it ends
        return


def _find_steps(name: str) -> list[str]:
    """Return the running steps of this job that have a name."""
    job = os.environ.get("SLURM_JOB_ID", "")
    words = ("squeue", "--steps", "--noheader", f"--jobs={job}", "--format=%i %j")
    lines = process.run(words).stdout.decode(errors="replace").splitlines()
    pairs = (line.split() for line in lines)
    return [pair[0] for pair in pairs if pair[1:] == [name]]
