"""A group that is one trial of the author's own command."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from capsule.execute import reports, results, seeding, sightings, texts
from capsule.execute.log import cannot_write
from capsule.execute.payload import OWN_LEVELS
from capsule.execute.reports import Journal
from capsule.execute.workload import (
    Setting,
    copied_mounts,
    data_mounts,
    data_variables,
    hook_mount,
    inputs_mount,
    library_mounts,
    out_mount,
    place_below,
    python_path,
    rank_environment,
    seeding_mount,
    shared_mounts,
)
from capsule.execute.workspace import RankFiles, Start, Workspace
from capsule.jsons import JsonObject
from capsule.launch.base import RENDEZVOUS
from capsule.localpaths import LocalPaths
from capsule.manifest import Command, commands, templates
from capsule.plan import Group, Trial
from capsule.runtimes.base import Invocation, Mount, Scratch

_HOOK = "sitecustomize.py"


class CommandWorkload:
    """The command's words are started without a shell; each rank reports into a file of its own."""

    def write(
        self,
        workspace: Workspace,  # noqa: ARG002 - the protocol's
        group: Group,
        start: Start,
        setting: Setting,  # noqa: ARG002
    ) -> None:
        """Write nothing: variables tell a command everything; its setup has logs of its own."""
        (trial,) = group.trials
        if group.ranks > 1:
            _copy_hook(start.hook)
        for files in start.rank_files() if _subject(trial).setup else ():
            try:
                files.setup.folder.mkdir()
            except OSError as error:
                raise cannot_write(files.setup.folder, error) from None

    def setup(
        self, workspace: Workspace, group: Group, start: Start, setting: Setting, rank: int
    ) -> Invocation | None:
        """Return the setup command, which shares the command's output folder."""
        (trial,) = group.trials
        subject = _subject(trial)
        if not subject.setup:
            return None
        surroundings = _surroundings(workspace, group, start, setting, rank)
        # what one meeting leaves there would mislead the next
        variables = {**surroundings.environment}
        variables.pop(RENDEZVOUS, None)
        surroundings = replace(surroundings, environment=variables)
        invocation = _invocation(subject.setup, surroundings, start.rank(rank).setup)
        # the command finds what its setup has left in HOME and TMPDIR
        return replace(invocation, scratch=Scratch(start=start.number, rank=rank, is_last=False))

    def invocation(
        self, workspace: Workspace, group: Group, start: Start, setting: Setting, rank: int
    ) -> Invocation:
        """Return the words of the command, with placeholders filled and inputs replaced."""
        (trial,) = group.trials
        subject = _subject(trial)
        files = start.rank(rank)
        surroundings = _surroundings(workspace, group, start, setting, rank)
        invocation = replace(
            _invocation(subject.words, surroundings, files),
            telemetry=files.telemetry,
            stdin=None if subject.stdin is None else workspace.inputs / subject.stdin,
            scratch=Scratch(start=start.number, rank=rank, is_first=not subject.setup),
        )
        mounts: list[Mount] = []
        variables: dict[str, str] = {}
        if subject.injects_seed:
            mounts.append(seeding_mount(workspace))
            variables |= _seeding(files, setting)
        if group.ranks > 1:
            mounts.append(hook_mount(start))
            (shared,) = shared_mounts(start)
            place = f"{setting.runtime.inside(shared)}/{start.sighting(rank).name}"
            variables["CAPSULE_WORLD"] = place
        path = python_path(mounts, library_mounts(workspace), setting)
        return replace(
            invocation,
            environment={**invocation.environment, "PYTHONPATH": path, **variables},
            mounts=(*invocation.mounts, *mounts),
        )

    def follow(self, group: Group, files: RankFiles) -> AtOnce:  # noqa: ARG002 - the protocol's
        """Report the trial as begun together with its process."""
        return AtOnce(group.trials[0].id)

    def read(
        self, workspace: Workspace, group: Group, start: Start, *, ended_well: bool
    ) -> Journal:
        """Return the results files of all ranks, and the texts that metrics are read from."""
        (trial,) = group.trials
        paths = LocalPaths(workspace.folder)
        journals = [
            _read_rank(files, trial, paths, ended_well=ended_well, rank=rank)
            for rank, files in enumerate(start.rank_files())
        ]
        merged = reports.merge(journals, group.trials)
        if group.ranks == 1:
            return merged
        seen = tuple(sightings.read(start.sighting(rank)) for rank in range(group.ranks))
        echoes: tuple[str, ...] = ()
        if ended_well and not sightings.find_whole(seen):
            series = journals[0].reports[0].series
            echoes = tuple(texts.find_echoes(start.rank_files(), trial, paths, series))
        return replace(merged, sightings=seen, echoes=echoes)


@dataclass(frozen=True, kw_only=True)
class _Surroundings:
    """Environment of one rank's command and setup.

    Attributes:
        values: Values of the placeholders.
        inputs: Where the inputs lie for it.
    """

    workspace: Workspace
    trial: Trial
    setting: Setting
    rank: int
    values: Mapping[str, str]
    environment: Mapping[str, str]
    mounts: tuple[Mount, ...]
    cwd: str
    inputs: str


def _surroundings(
    workspace: Workspace, group: Group, start: Start, setting: Setting, rank: int
) -> _Surroundings:
    (trial,) = group.trials
    subject = _subject(trial)
    files, inside = start.rank(rank), setting.runtime.inside
    out, inputs, data = (
        out_mount(files),
        inputs_mount(workspace, setting),
        data_mounts(group, setting),
    )
    library = library_mounts(workspace)
    values = {
        **commands.name_values(trial.case, trial=trial.id, seed=trial.seed, rank=rank),
        **{commands.DATA + name: inside(mount) for name, mount in data.items()},
        "out": inside(out),
        "inputs": inside(inputs),
        "threads": str(setting.threads),
        # whichever they are on the node, a process counts its own from 0
        "devices": ",".join(map(str, range(setting.gpus_per_rank))),
        "ranks": str(group.ranks),
    }
    return _Surroundings(
        workspace=workspace,
        trial=trial,
        setting=setting,
        rank=rank,
        values=values,
        environment={
            **{name: templates.fill(text, values) for name, text in subject.environment.items()},
            **rank_environment(group, start, setting, rank),
            "CAPSULE_TRIAL": trial.id,
            "CAPSULE_SEED": str(trial.seed),
            "CAPSULE_OUT": inside(out),
            "CAPSULE_RESULTS": f"{inside(out)}/results.jsonl",
            "CAPSULE_INPUTS": inside(inputs),
            "PYTHONPATH": python_path((), library, setting),
            **data_variables(data, setting),
        },
        mounts=(
            out,
            inputs,
            *copied_mounts(workspace, setting, subject),
            *library,
            *data.values(),
            *shared_mounts(start),
        ),
        cwd=inside(out) if subject.cwd is None else place_below(inside(inputs), subject.cwd),
        inputs=inside(inputs),
    )


def _invocation(words: Sequence[str], around: _Surroundings, files: RankFiles) -> Invocation:
    """Return the start of a program of the trial.

    Args:
        words: As the manifest has them.
        around: What it sees.
        files: Where what it prints goes.
    """
    trial, setting = around.trial, around.setting
    return Invocation(
        command=tuple(
            _place(templates.fill(word, around.values), trial, around.workspace, around.inputs)
            for word in words
        ),
        environment=around.environment,
        mounts=around.mounts,
        cwd=around.cwd,
        gpus=setting.share_gpus(around.rank),
        network=trial.benchmark.online,
        label=setting.label,
        pids=setting.limits.pids,
        memory=setting.limits.memory,
        stdout=files.stdout,
        stderr=files.stderr,
    )


class AtOnce:
    """A trial that has begun when its process has."""

    def __init__(self, trial: str) -> None:
        self._left = [trial]

    def new(self) -> Sequence[str]:
        """Return the trial, at the first call."""
        left, self._left = self._left, []
        return left


def _read_rank(
    files: RankFiles, trial: Trial, paths: LocalPaths, *, ended_well: bool, rank: int
) -> Journal:
    reported = results.read(files.results, trial, ended_well=ended_well, rank=rank)
    read = texts.read(files, trial, paths, ended_well=ended_well, rank=rank)
    failed = read if read.outcome == "failed" else reported
    report = replace(failed, series=(*reported.series, *read.series))
    if report.outcome == "completed":
        report = replace(report, message="\n".join(filter(None, (reported.message, read.message))))
    kept = tuple(texts.find(files, trial, rank, reported=bool(reported.message)))
    if not _subject(trial).injects_seed:
        return Journal(software={}, environment={}, reports=(report,), texts=kept)
    seeded = seeding.read(files.seeding)
    if seeded is None and report.outcome == "completed":
        message = (
            "no seed was injected: no Python program started that imports sitecustomize from"
            " PYTHONPATH (-I, -E and -S prevent the import)"
        )
        report = replace(report, outcome="failed", reason="no-result", message=message)
    environment: JsonObject = {}
    if seeded is not None and seeded.replaced:
        environment = {f"seeds replaced in {trial.benchmark.id}": seeded.replaced}
    return Journal(
        software={},
        environment=environment,
        reports=(report,),
        texts=kept,
        seedings=() if seeded is None else (seeded,),
    )


def _seeding(files: RankFiles, setting: Setting) -> dict[str, str]:
    folder = setting.runtime.inside(out_mount(files))
    return {"CAPSULE_SEEDING": f"{folder}/{files.seeding.name}"}


def _copy_hook(folder: Path) -> None:
    """Lay out what notes the world of ranks: of this release, whoever's program measures."""
    try:
        folder.mkdir()
        shutil.copyfile(OWN_LEVELS / "worlds" / _HOOK, folder / _HOOK)
    except OSError as error:
        raise cannot_write(folder, error) from None


def _subject(trial: Trial) -> Command:
    subject = trial.benchmark.subject
    assert isinstance(subject, Command)
    return subject


def _place(word: str, trial: Trial, workspace: Workspace, inputs: str) -> str:
    """Return a word; one that is the path of an input, or of something inside one, as where that
    lies.
    """
    names = trial.benchmark.inputs
    is_inside = (
        commands.is_below(word, names)
        and ".." not in word.split("/")
        and os.path.lexists(workspace.inputs / word)
    )
    return f"{inputs}/{word}" if word in names or is_inside else word
