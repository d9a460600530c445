"""Checks that ranks form one world: before their first trial, and in each trial.

Pre-flight shows by a program of capsule's own that the ranks of a run can be one world; it is done
again whenever the run is taken up. Whether the benchmark's own ranks were one, they say themselves.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path, PurePosixPath

from capsule import leavings
from capsule.archive import strict
from capsule.errors import CannotRunError, CapsuleError, UsageError, add_advice
from capsule.execute import mpiprograms, sightings, workload
from capsule.execute.log import cannot_write
from capsule.execute.payload import OWN_LEVELS
from capsule.execute.reports import MAX_MESSAGE, Journal, TrialReport
from capsule.execute.sightings import Finding
from capsule.execute.workload import Setting
from capsule.execute.workspace import Start, Workspace, read_file, write_durably
from capsule.jsons import JsonObject
from capsule.launch import preflight
from capsule.launch.base import RENDEZVOUS, Joins
from capsule.launch.families import MpiProgram
from capsule.levels.catalog import collectives
from capsule.manifest import Collective, Command, Recipe, pitfalls
from capsule.plan import Group, Trial
from capsule.runtimes import programs
from capsule.runtimes.base import Invocation, Mount
from capsule.starts import SEEN, World

_PROGRAM = "preflight.py"
_TARGET = f"/capsule/preflight/{_PROGRAM}"
# where whoever started it is gone, a rank ends itself after so long
_WATCHDOG_SECONDS = 3600
_MPI = "mpi"


def require(workspace: Workspace, group: Group, setting: Setting) -> None:
    """See that the ranks of a group can be one world, once since this process began.

    What pre-flight's program reached the others by, and how long that took, is kept in the run
    folder. One rank that is alone costs nothing.

    Raises:
        CannotRunError: They could not be one, or none can be started.
        ExecutionError: They are another world than was planned; or the folder cannot be written.
    """
    if group.ranks == 1:
        return
    _refuse_lost_words(group, setting)
    by_mpi = _joins_all(setting) or _use_mpi(workspace, group, setting)
    enough = (_MPI,) if by_mpi else (_MPI, "")
    if not any((group.ranks, how) in setting.joined for how in enough):
        with _advising_to_resume(workspace):
            world = _meet(workspace, group, setting, by_mpi=by_mpi)
        _keep(workspace, world)
        setting.joined[group.ranks, _MPI if by_mpi else ""] = world.means


def join(
    workspace: Workspace,
    group: Group,
    start: Start,
    setting: Setting,
    invocations: Sequence[Invocation],
) -> tuple[list[Invocation], bool]:
    """Ask the launcher to join ranks by MPI where their program uses it.

    Args:
        workspace: The run folder.
        group: What they run.
        start: Its process start; what the setup makes is there.
        setting: How they are started.
        invocations: By rank.

    Returns:
        The invocations; and whether each rank starts a program of MPI that the launcher joins, as
        pre-flight saw it join as many.

    Raises:
        CannotRunError: The launcher does not join ranks of that program.
        ExecutionError: It did not join those of pre-flight.
    """
    if group.ranks == 1:
        return list(invocations), False
    programs: tuple[MpiProgram | None, ...] = ()
    if (command := _command(group)) is not None and not command.ranks_independent:
        programs = mpiprograms.find(invocations, setting, start.folder)
    program = next(filter(None, programs), None)
    joins = isinstance(setting.launcher, Joins) and (
        program is not None or _use_mpi(workspace, group, setting)
    )
    invocations = [replace(one, joins=joins) for one in invocations]
    if program is None:
        return invocations, False
    with _advising_to_resume(workspace):
        _refuse_unjoined(program, group, setting)
        is_seen = _is_joined(workspace, group, setting, program)
    return invocations, is_seen and program.family is not None and all(programs)


def _is_joined(workspace: Workspace, group: Group, setting: Setting, program: MpiProgram) -> bool:
    """Return whether the launcher joined as many ranks in pre-flight, by any MPI it tried."""
    if _MPI in setting.joined.get((group.ranks, _MPI), ()):
        return True
    key = (group.ranks, program.library)
    if key not in setting.joined:
        world = _meet(workspace, group, setting, by_mpi=True, program=program)
        _keep(workspace, world)
        setting.joined[key] = world.means
    return _MPI in setting.joined[key]


def judge(journal: Journal, group: Group, *, joined: bool) -> Journal:
    """Say of a trial what is known of its world, and fail one that ran in another than was planned.

    Args:
        journal: What the ranks left.
        group: What they ran.
        joined: As `join` says.
    """
    command = _command(group)
    if group.ranks == 1 or command is None:
        return journal
    finding = sightings.judge(journal.sightings, command, joined=joined)
    return replace(
        journal, reports=tuple(_hold(one, finding, journal.echoes) for one in journal.reports)
    )


def _hold(report: TrialReport, finding: Finding, echoes: Sequence[str]) -> TrialReport:
    if report.outcome != "completed":
        return report
    words = [report.message] * bool(report.message)
    if not finding.world.startswith(SEEN):
        words += echoes
    message = "\n".join(words)
    if finding.fault:
        message = "\n".join((*words, finding.fault))
        return replace(report, outcome="failed", reason="bad-result", message=message)
    return replace(report, world=finding.world, message=message[:MAX_MESSAGE])


def _command(group: Group) -> Command | None:
    """Return the command of the group's only trial, if it is the author's own program."""
    subject = group.trials[0].benchmark.subject
    return subject if isinstance(subject, Command) else None


@contextmanager
def _advising_to_resume(workspace: Workspace) -> Iterator[None]:
    try:
        yield
    except CapsuleError as error:
        advice = (error.advice, f"then resume the run folder {workspace.to_resume}")
        advised = "\n  ".join(filter(None, advice))
        raise type(error)(error.what, where=error.where, advice=advised) from None


def _refuse_unjoined(program: MpiProgram, group: Group, setting: Setting) -> None:
    """Stop before ranks of MPI are each alone.

    Raises:
        CannotRunError: Names the program, its library and the launcher.
    """
    launcher, (trial, *_) = setting.launcher, group.trials
    named = f"{PurePosixPath(program.word).name} needs {program.library}"
    where = trial.benchmark.id
    if not isinstance(launcher, Joins):
        raise CannotRunError(
            f"{named}, an MPI library, but launcher {launcher.name} does not join the"
            f" {group.ranks} ranks: each rank would form a separate world",
            where=where,
            advice='write "launcher": "mpirun" in the site file to join ranks on one node, or'
            ' "srun" to join ranks in a Slurm job whose MPI is of MPICH\'s family; write'
            ' "ranks_independent": true beside "command" if the ranks work independently',
        )
    if program.family is not None and program.family.name != launcher.family:
        raise CannotRunError(
            f"two families of MPI: {named} ({program.family.name}), but {launcher.name} joins"
            f" ranks of {launcher.family}: each rank would form a separate world",
            where=where,
            advice=f"use a launcher of {program.family.name}: put its mpirun first on the PATH, or"
            " build the program with the launcher's MPI",
        )


def _joins_all(setting: Setting) -> bool:
    return isinstance(setting.launcher, Joins) and setting.launcher.joins_all


def _use_mpi(workspace: Workspace, group: Group, setting: Setting) -> bool:
    can_join = isinstance(setting.launcher, Joins)
    return any(_uses_mpi(trial, workspace.inputs, can_join=can_join) for trial in group.trials)


def _refuse_lost_words(group: Group, setting: Setting) -> None:
    """Stop where the words of a command tell its ranks to meet where they never do."""
    are_apart = len(set(setting.nodes[: group.ranks])) > 1
    for trial in group.trials:
        if lost := pitfalls.find_lost_meeting(trial.benchmark, are_apart=are_apart):
            raise CannotRunError(
                f"ranks cannot form one world with {lost}",
                where=trial.benchmark.id,
                advice=f"use {RENDEZVOUS}, which capsule sets to an address that all ranks reach",
            )


def _uses_mpi(trial: Trial, inputs: Path, *, can_join: bool) -> bool:
    """Return whether its ranks exchange anything over MPI, as far as its files tell.

    Where nothing can join them, a compiled program is looked at itself once it is there.
    """
    match trial.benchmark.subject:
        case Collective():
            return trial.framework == collectives.MPI
        case Recipe(settings=settings):
            scheme = settings[trial.case.name].scheme
            return scheme is not None and scheme.over == "mpi"
        case Command(ranks_independent=True):
            return False
    return pitfalls.uses_mpi(trial.benchmark, inputs, compiled=can_join)


@add_advice("the run folder was changed; start a new run")
def read(workspace: Workspace) -> tuple[World, ...]:
    """Return the worlds observed so far, in order.

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
                "the file was changed since capsule wrote it",
                where=str(path),
                advice="start a new run",
            ) from None
    return tuple(worlds)


def _meet(
    workspace: Workspace,
    group: Group,
    setting: Setting,
    *,
    by_mpi: bool,
    program: MpiProgram | None = None,
) -> World:
    folder = workspace.folder / "preflight"
    image = (setting.runtime, setting.prepared)
    how = "probe-mpi" if by_mpi else "probe"
    alone = _lay_out(folder, replace(group, ranks=1), setting, how, program)
    alone = replace(alone, nodes=setting.nodes[: group.ranks])
    if preflight.probe(setting.launcher, *image, alone, _patience(setting)) is not None:
        # what it said comes with the first trial, should that not start either
        return World(nodes=setting.nodes[: group.ranks])
    request = _lay_out(folder, group, setting, "mpi" if by_mpi else "meet", program)
    joins = by_mpi and isinstance(setting.launcher, Joins)
    invocations = tuple(replace(one, joins=joins) for one in request.invocations)
    request = replace(request, invocations=invocations)
    reached = preflight.check(setting.launcher, *image, request, _patience(setting))
    return World(
        nodes=request.nodes,
        means=reached.means,
        bytes=reached.bytes,
        seconds=reached.seconds,
    )


def _patience(setting: Setting) -> float:
    left = preflight.PATIENCE_SECONDS
    return left if setting.deadline is None else min(left, setting.deadline - time.monotonic())


def _lay_out(
    folder: Path, group: Group, setting: Setting, how: str, program: MpiProgram | None
) -> preflight.Request:
    """Make the folder anew: where ranks met once, others would be misled."""
    start = Start(number=0, folder=folder, ranks=group.ranks)
    script = folder / _PROGRAM
    libraries = (os.pathsep.join(program.candidates),) if program else ()
    try:
        if os.path.lexists(folder):
            leavings.remove(folder)
        for files in start.rank_files():
            files.out.mkdir(parents=True)
        if group.ranks > 1:
            start.meeting_folder.mkdir()
        # of this release, whichever measures: it judges nothing, and is sealed nowhere
        shutil.copyfile(OWN_LEVELS / _PROGRAM, script)
    except OSError as error:
        raise cannot_write(folder, error) from None
    ranks = range(group.ranks)
    return preflight.Request(
        invocations=tuple(
            _invocation(start, script, group, setting, rank, (how, *libraries)) for rank in ranks
        ),
        reports=tuple(start.rank(rank).out / "preflight.jsonl" for rank in ranks),
        nodes=setting.nodes[: group.ranks],
    )


def _invocation(
    start: Start,
    script: Path,
    group: Group,
    setting: Setting,
    rank: int,
    how: tuple[str, ...],
) -> Invocation:
    files, inside = start.rank(rank), setting.runtime.inside
    out, own = workload.out_mount(files), Mount(source=script, target=_TARGET)
    report = f"{inside(out)}/preflight.jsonl"
    # one that is asked alone says whether the image lets it stand
    place = {RENDEZVOUS: f"file://{inside(out)}/nobody"}
    return Invocation(
        command=(_python(group, setting), inside(own), report, str(_WATCHDOG_SECONDS), *how),
        environment={**place, **workload.rank_environment(group, start, setting, rank)},
        mounts=(out, own, *workload.shared_mounts(start)),
        cwd=inside(out),
        gpus=setting.share_gpus(rank),
        network=any(trial.benchmark.online for trial in group.trials),
        label=setting.label,
        pids=setting.limits.pids,
        memory=setting.limits.memory,
        stdout=files.stdout,
        stderr=files.stderr,
    )


def _python(group: Group, setting: Setting) -> str:
    """Return the interpreter of the ranks' own Python program."""
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
