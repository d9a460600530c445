"""Pre-flight of a run whose ranks start together: done again whenever the run is taken up."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from capsule import leavings
from capsule.archive import strict
from capsule.errors import CannotRunError, CapsuleError, UsageError
from capsule.execute import workload
from capsule.execute.log import cannot_write
from capsule.execute.payload import OWN_LEVELS
from capsule.execute.workload import Setting
from capsule.execute.workspace import Start, Workspace, read_file, write_durably
from capsule.jsons import JsonObject
from capsule.launch import preflight
from capsule.launch.base import RENDEZVOUS, Joins
from capsule.levels.catalog import collectives
from capsule.manifest import Collective, Command, Recipe, pitfalls
from capsule.plan import Group, Trial
from capsule.runtimes import programs
from capsule.runtimes.base import Invocation, Mount
from capsule.starts import World

_PROGRAM = "preflight.py"
_TARGET = f"/capsule/preflight/{_PROGRAM}"
# where whoever started it is gone, a rank ends itself after so long
_WATCHDOG_SECONDS = 3600


def require(workspace: Workspace, group: Group, setting: Setting) -> None:
    """See that the ranks of a group are one world, unless that was seen since this process began.

    What they met by, and how long that took, is kept in the run folder. One rank that is alone
    costs nothing.

    Raises:
        CannotRunError: They could not be one, or none can be started.
        ExecutionError: They are another world than was planned; or the folder cannot be written.
    """
    if group.ranks == 1:
        return
    _refuse_lost_words(group, setting)
    by_mpi = _joins_all(setting) or _use_mpi(workspace, group)
    if (group.ranks, by_mpi) in setting.met:
        return
    try:
        world = _meet(workspace, group, setting, by_mpi=by_mpi)
    except CapsuleError as error:
        advice = (error.advice, f"then go on with the run folder {workspace.to_resume}")
        advised = "\n  ".join(filter(None, advice))
        raise type(error)(error.what, where=error.where, advice=advised) from None
    _keep(workspace, world)
    setting.met.update({(group.ranks, by_mpi), (group.ranks, False)})


def join(
    workspace: Workspace, group: Group, setting: Setting, invocations: Sequence[Invocation]
) -> list[Invocation]:
    """The same, asking the launcher to join them by MPI where their program uses it."""
    joins = isinstance(setting.launcher, Joins) and group.ranks > 1
    joins = joins and _use_mpi(workspace, group)
    return [replace(one, joins=joins) for one in invocations]


def _joins_all(setting: Setting) -> bool:
    return isinstance(setting.launcher, Joins) and setting.launcher.joins_all


def _use_mpi(workspace: Workspace, group: Group) -> bool:
    return any(_uses_mpi(trial, workspace.inputs) for trial in group.trials)


def _refuse_lost_words(group: Group, setting: Setting) -> None:
    """Stop where the words of a command tell its ranks to meet where they never do."""
    are_apart = len(set(setting.nodes[: group.ranks])) > 1
    for trial in group.trials:
        if lost := pitfalls.find_lost_meeting(trial.benchmark, are_apart=are_apart):
            raise CannotRunError(
                f"ranks would meet by {lost}",
                where=trial.benchmark.id,
                advice=f"each rank would wait in, or form, a world of its own: {RENDEZVOUS}, which"
                " capsule sets for each, names a place that all of them reach",
            )


def _uses_mpi(trial: Trial, inputs: Path) -> bool:
    """Whether its ranks exchange anything over MPI, as far as anybody can tell."""
    match trial.benchmark.subject:
        case Collective():
            return trial.framework == collectives.MPI
        case Recipe(settings=settings):
            scheme = settings[trial.case.name].scheme
            return scheme is not None and scheme.over == "mpi"
    return pitfalls.uses_mpi(trial.benchmark, inputs)


def read(workspace: Workspace) -> tuple[World, ...]:
    """What was seen of ranks so far, in order.

    Raises:
        UsageError: The run folder was changed.
    """
    worlds = []
    for path in _find_worlds(workspace):
        fields = strict.parse(read_file(path), where=str(path))
        try:
            worlds.append(
                World(
                    nodes=tuple(map(int, fields["nodes"])),
                    means=tuple(map(str, fields["means"])),
                    bytes=int(fields["bytes"]),
                    seconds=float(fields["seconds"]),
                )
            )
        except (KeyError, TypeError, ValueError):
            raise UsageError(
                "not what capsule wrote there", where=str(path), advice="start anew"
            ) from None
    return tuple(worlds)


def _meet(workspace: Workspace, group: Group, setting: Setting, *, by_mpi: bool) -> World:
    folder = workspace.folder / "preflight"
    image = (setting.runtime, setting.prepared)
    how = "probe-mpi" if by_mpi else "probe"
    alone = _lay_out(folder, replace(group, ranks=1), setting, how)
    alone = replace(alone, nodes=setting.nodes[: group.ranks])
    if preflight.probe(setting.launcher, *image, alone, _patience(setting)) is not None:
        # what it said comes with the first trial, should that not start either
        return World(nodes=setting.nodes[: group.ranks])
    request = _lay_out(folder, group, setting, "mpi" if by_mpi else "meet")
    joined = join(workspace, group, setting, request.invocations)
    request = replace(request, invocations=tuple(joined))
    met = preflight.check(setting.launcher, *image, request, _patience(setting))
    return World(nodes=request.nodes, means=met.means, bytes=met.bytes, seconds=met.seconds)


def _patience(setting: Setting) -> float:
    left = preflight.PATIENCE_SECONDS
    return left if setting.deadline is None else min(left, setting.deadline - time.monotonic())


def _lay_out(folder: Path, group: Group, setting: Setting, how: str) -> preflight.Request:
    """Make the folder anew: where ranks met once, others would be misled."""
    start = Start(number=0, folder=folder, ranks=group.ranks)
    program = folder / _PROGRAM
    try:
        if os.path.lexists(folder):
            leavings.remove(folder)
        for files in start.rank_files():
            files.out.mkdir(parents=True)
        if group.ranks > 1:
            start.meeting_folder.mkdir()
        # of this release, whichever measures: it judges nothing, and is sealed nowhere
        shutil.copyfile(OWN_LEVELS / _PROGRAM, program)
    except OSError as error:
        raise cannot_write(folder, error) from None
    ranks = range(group.ranks)
    return preflight.Request(
        invocations=tuple(_invocation(start, program, group, setting, rank, how) for rank in ranks),
        reports=tuple(start.rank(rank).out / "preflight.jsonl" for rank in ranks),
        nodes=setting.nodes[: group.ranks],
    )


def _invocation(
    start: Start, program: Path, group: Group, setting: Setting, rank: int, how: str
) -> Invocation:
    files, inside = start.rank(rank), setting.runtime.inside
    out, own = workload.out_mount(files), Mount(source=program, target=_TARGET)
    report = f"{inside(out)}/preflight.jsonl"
    # one that is asked alone says whether the image lets it stand
    place = {RENDEZVOUS: f"file://{inside(out)}/nobody"}
    return Invocation(
        command=(_python(group, setting), inside(own), report, str(_WATCHDOG_SECONDS), how),
        environment={**place, **workload.rank_environment(group, start, setting, rank)},
        mounts=(out, own, *workload.shared_mounts(start)),
        cwd=inside(out),
        devices=setting.devices[rank],
        network=any(trial.benchmark.online for trial in group.trials),
        label=setting.label,
        pids=setting.limits.pids,
        memory=setting.limits.memory,
        stdout=files.stdout,
        stderr=files.stderr,
    )


def _python(group: Group, setting: Setting) -> str:
    """What the ranks' own program is started by, where it is in Python."""
    if not isinstance(group.subject, Command):
        return setting.prepared.python
    return next(filter(programs.is_python, group.subject.words), "python3")


def _keep(workspace: Workspace, world: World) -> None:
    path = workspace.folder / "worlds" / f"{len(_find_worlds(workspace)):04}.json"
    fields: JsonObject = {**asdict(world), "nodes": list(world.nodes), "means": list(world.means)}
    try:
        path.parent.mkdir(exist_ok=True)
    except OSError as error:
        raise cannot_write(path, error) from None
    write_durably(path, json.dumps(fields).encode())


def _find_worlds(workspace: Workspace) -> list[Path]:
    return sorted((workspace.folder / "worlds").glob("*.json"))
