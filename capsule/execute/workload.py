"""Mounts, environment and command of each rank of a process start."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from capsule.errors import CannotRunError
from capsule.execute.reports import Journal
from capsule.execute.workspace import RankFiles, Start, Workspace
from capsule.image import Image, documents
from capsule.launch.base import RENDEZVOUS, Launcher
from capsule.launch.families import MpiProgram
from capsule.levels.catalog import determinism
from capsule.manifest import Command, Manifest
from capsule.manifest.commands import data_variable
from capsule.manifest.model import Scalar
from capsule.options import Limits
from capsule.plan import Group
from capsule.runtimes import hostmpi
from capsule.runtimes.base import GpuShare, Invocation, Mount, Prepared, Runtime

INPUTS = "/capsule/inputs"
_RENDEZVOUS = "rendezvous"
_UNBUFFERED = "PYTHONUNBUFFERED"
# from here on gloo connects ranks as they need it: all to all takes minutes, and nodes run out of
# ports
_LAZY_RANKS = 256
# git looks for a repository in no folder above this one: without a container the folder of a run
# often lies in its author's, which nobody else has
_NO_REPOSITORY = "GIT_CEILING_DIRECTORIES"
_LAZY = "TORCH_GLOO_LAZY_INIT"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Settings with which the workloads of a run are started.

    Attributes:
        runtime: The engine.
        prepared: The image, ready to start.
        launcher: What starts the ranks.
        data: Where each dataset lies on the host.
        formats: What the files of a dataset are, where the manifest says it.
        generators: What makes a dataset, with its parameters, where it is made.
        threads: Threads that each rank may use.
        device: `cpu` or `cuda`.
        gpus_per_rank: Devices of each rank.
        ranks_per_node: Ranks of each node.
        determinism: `default` or `strict`.
        image: What `prepared` was made of, None without a container.
        label: Marks every process and container of this run.
        nodes: Index in the record of the node that each rank runs on.
        deadline: Monotonic time in seconds at which the walltime is used up, None without one.
        deadline_from: Where that was said.
        limits: What each process start may take.
        writable: Input folders that workloads may write in, `.` for all inputs.
        joined: What the ranks of pre-flight's own program reached each other by since this process
            began to work here, by how many they were and which MPI they tried besides: none,
            `mpi` for the image's own, or a library.
        programs: Programs of MPI in the image, by the words that name one; None for no such one.
    """

    runtime: Runtime
    prepared: Prepared
    launcher: Launcher
    data: Mapping[str, Path]
    formats: Mapping[str, str]
    generators: Mapping[str, tuple[str, Mapping[str, Scalar]]]
    threads: int
    device: str
    gpus_per_rank: int
    ranks_per_node: int
    determinism: str
    image: Image | None
    label: str
    nodes: tuple[int, ...]
    deadline: float | None
    deadline_from: str = "/resources/walltime"
    limits: Limits = Limits()
    writable: tuple[str, ...] = ()
    joined: dict[tuple[int, str], tuple[str, ...]] = field(default_factory=dict)
    programs: dict[tuple[str, ...], MpiProgram | None] = field(default_factory=dict)

    def share_gpus(self, rank: int) -> GpuShare:
        """Return the share of a rank in the GPUs of its node."""
        return GpuShare(
            count=self.gpus_per_rank,
            local_rank=rank % self.ranks_per_node,
            local_ranks=self.ranks_per_node,
            threads=self.threads,
        )


class Workload(Protocol):
    """A kind of program that measures: `levels`, or the author's own command."""

    def write(self, workspace: Workspace, group: Group, start: Start, setting: Setting) -> None:
        """Put what the program is asked to do into the start's folder."""

    def setup(
        self, workspace: Workspace, group: Group, start: Start, setting: Setting, rank: int
    ) -> Invocation | None:
        """Return the command that runs before one rank starts, or None."""

    def invocation(
        self, workspace: Workspace, group: Group, start: Start, setting: Setting, rank: int
    ) -> Invocation:
        """Return the start of one rank."""

    def follow(self, group: Group, files: RankFiles) -> Begins:
        """Return a follower that reports begun trials while a rank runs."""

    def read(
        self, workspace: Workspace, group: Group, start: Start, *, ended_well: bool
    ) -> Journal:
        """Read and judge the reports of all ranks together.

        Args:
            workspace: The run folder, whose own path is sealed nowhere.
            group: Its trials are those that the start was given.
            start: Where the ranks wrote.
            ended_well: True if every rank ended with exit code 0.
        """


class Begins(Protocol):
    """Follows one rank of a running process start."""

    def new(self) -> Sequence[str]:
        """Return ids of the trials that it began since the last call."""


def environment(setting: Setting) -> dict[str, str]:
    """Return the variables that every workload of the run gets; nothing of the caller's own leaks
    in.

    The engine adds the mark by which its processes are found again, which no copy of a run shares.
    What Python prints comes at once, so that a run can be followed, but where the image decides it.
    """
    return {
        **({} if _UNBUFFERED in _image_variables(setting) else {_UNBUFFERED: "1"}),
        **dict.fromkeys(determinism.THREADS, str(setting.threads)),
        **({_LAZY: "1"} if len(setting.nodes) >= _LAZY_RANKS else {}),
        **hostmpi.variables(setting.prepared.libraries, _image_variables(setting)),
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
        **(determinism.set_variables() if setting.determinism == "strict" else {}),
    }


def rank_environment(group: Group, start: Start, setting: Setting, rank: int) -> dict[str, str]:
    """`environment`, and what is one rank's own."""
    return {
        **environment(setting),
        "PYTHONHASHSEED": str(group.seed),
        "HOME": setting.runtime.inside(out_mount(start.rank(rank))),
        **({} if setting.runtime.contained else {_NO_REPOSITORY: str(start.folder.parents[1])}),
        "CAPSULE_RANK": str(rank),
        "CAPSULE_RANKS": str(group.ranks),
        **(_meeting(start, setting, rank) if group.ranks > 1 else {}),
    }


def _meeting(start: Start, setting: Setting, rank: int) -> dict[str, str]:
    """Return the settings by which a rank finds the others.

    Raises:
        CannotRunError: The run lies where no address of a file can lead, as torch reads it.
    """
    (shared,) = shared_mounts(start)
    address = f"file://{setting.runtime.inside(shared)}/{_RENDEZVOUS}"
    if set(address) & set("?#;"):
        raise CannotRunError(
            "the path contains ?, # or ;, so ranks cannot use this folder to form a world",
            where=str(start.folder),
            advice="use another run folder (--work), or a container",
        )
    return {
        "CAPSULE_LOCAL_RANK": str(setting.nodes[:rank].count(setting.nodes[rank])),
        RENDEZVOUS: address,
    }


def shared_mounts(start: Start) -> tuple[Mount, ...]:
    """Return the folder that several ranks may all write; none for one that is alone."""
    shared = Mount(source=start.meeting_folder, target="/capsule/shared", writable=True)
    return (shared,) if start.ranks > 1 else ()


def data_mounts(group: Group, setting: Setting) -> dict[str, Mount]:
    """Return every dataset that a trial of the group uses, read-only, by its name."""
    names = dict.fromkeys(name for trial in group.trials for name in trial.benchmark.datasets)
    return {
        name: Mount(source=setting.data[name], target=f"/capsule/data/{name}") for name in names
    }


def data_variables(mounts: Mapping[str, Mount], setting: Setting) -> dict[str, str]:
    """Return the variables that hold the paths of datasets."""
    return {data_variable(name): setting.runtime.inside(mount) for name, mount in mounts.items()}


def out_mount(files: RankFiles) -> Mount:
    """Return the one folder that a rank may write."""
    return Mount(source=files.out, target="/out", writable=True)


def inputs_mount(workspace: Workspace, setting: Setting) -> Mount:
    """Return the manifest's input files, of which what may be written is a copy."""
    if setting.runtime.contained:
        return Mount(source=workspace.inputs, target=INPUTS)
    return Mount(source=workspace.work / "inputs", target=INPUTS, writable=True)


def copied_mounts(workspace: Workspace, setting: Setting, command: Command) -> tuple[Mount, ...]:
    """Return the copy of its working folder that a command may write in, in that folder's place."""
    if command.cwd is None or not command.copies_cwd or not setting.runtime.contained:
        # without a container it may write among all of its inputs
        return ()
    source, target = workspace.work / "inputs" / command.cwd, place_below(INPUTS, command.cwd)
    return (Mount(source=source, target=target, writable=True),)


def place_below(folder: str, path: str) -> str:
    """Return the path of an input as the workload sees it; `.` is the folder of inputs."""
    return folder if path == "." else f"{folder}/{path}"


def find_writable(manifest: Manifest, *, contained: bool) -> tuple[str, ...]:
    """Return the input folders that workloads of a manifest may write in, `.` for all inputs."""
    if not contained:
        return (".",)
    subjects = [benchmark.subject for benchmark in manifest.benchmarks]
    copied = {one.cwd for one in subjects if isinstance(one, Command) and one.copies_cwd}
    return tuple(sorted(filter(None, copied)))


def levels_mount(workspace: Workspace) -> Mount:
    """Return the measuring code."""
    return Mount(source=workspace.levels, target="/capsule/levels")


def seeding_mount(workspace: Workspace) -> Mount:
    """Return the mount of the module that seeds Python programs."""
    return Mount(source=workspace.levels / "seeding", target="/capsule/seeding")


def hook_mount(start: Start) -> Mount:
    """Return the mount of the module that records the world of ranks."""
    return Mount(source=start.hook, target="/capsule/hook")


def library_mounts(workspace: Workspace) -> tuple[Mount, ...]:
    """Return the part of the measuring code that a script may import, where it has one."""
    library = Mount(source=workspace.levels / "library", target="/capsule/library")
    # a folder that is not made yet will hold this version's program
    is_there = library.source.is_dir() or not workspace.levels.exists()
    return (library,) if is_there else ()


def python_path(before: Sequence[Mount], after: Sequence[Mount], setting: Setting) -> str:
    """Return Python's search path, with the image's own entries in between."""
    inside, own = setting.runtime.inside, _image_variables(setting)
    places = (*map(inside, before), own.get("PYTHONPATH"), *map(inside, after))
    return os.pathsep.join(filter(None, places))


def _image_variables(setting: Setting) -> Mapping[str, str]:
    """Return the variables that the image's configuration sets; empty without an image."""
    config = setting.image.config if setting.image else None
    return {} if config is None else documents.variables(config, where="image configuration")


def probe(workspace: Workspace, files: RankFiles, setting: Setting, python: str) -> Invocation:
    """Return the start of a probe for the image's software, if no `levels` group reports it.

    Args:
        workspace: Has the program that asks.
        files: Where it answers.
        setting: How to start it.
        python: What starts it: the Python that the author's command begins with, where it does.
    """
    out, levels = out_mount(files), levels_mount(workspace)
    inside = setting.runtime.inside
    return Invocation(
        command=(python, inside(levels), "probe"),
        environment={**environment(setting), "HOME": inside(out)},
        mounts=(out, levels),
        cwd=inside(out),
        gpus=setting.share_gpus(0),
        label=setting.label,
        pids=setting.limits.pids,
        memory=setting.limits.memory,
        stdout=files.stdout,
        stderr=files.stderr,
    )
