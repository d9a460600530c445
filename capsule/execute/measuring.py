"""A group that `levels`, the measuring code, runs inside the image."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

from capsule import leavings
from capsule.execute import journal, reports
from capsule.execute.log import cannot_write
from capsule.execute.reports import Journal, Text
from capsule.execute.workload import (
    Setting,
    data_mounts,
    data_variables,
    inputs_mount,
    levels_mount,
    out_mount,
    rank_environment,
    shared_mounts,
)
from capsule.execute.workspace import RankFiles, Start, Workspace
from capsule.jsons import Json, JsonObject
from capsule.levels.data import checkpoints, predictions, samplers
from capsule.manifest import (
    Collective,
    Command,
    Network,
    Operator,
    Reading,
    Recipe,
    collectives,
    readings,
    recipes,
)
from capsule.manifest.sources import OUT
from capsule.plan import Group, Trial
from capsule.runtimes.base import Invocation, Mount, Scratch

FORMAT = "capsule-job/1"
_LOOK_BYTES = 4 * 2**20


class LevelsWorkload:
    """All trials of a group in one program, told by a job file, which reports in a journal."""

    def write(self, workspace: Workspace, group: Group, start: Start, setting: Setting) -> None:
        """Write the job, in the form `capsule-job/1`: the slice of the plan that `levels` reads."""
        inputs = setting.runtime.inside(inputs_mount(workspace, setting))
        data = {
            name: setting.runtime.inside(mount)
            for name, mount in data_mounts(group, setting).items()
        }
        job: JsonObject = {
            "format": FORMAT,
            "framework": group.framework,
            "seed": group.seed,
            "determinism": setting.determinism,
            "device": setting.device,
            "threads": setting.threads,
            "ranks": group.ranks,
            "data": data,
            **_formats(data, setting),
            "trials": [_trial(trial, inputs, setting) for trial in group.trials],
        }
        try:
            start.job.write_text(json.dumps(job, indent=1))
            _hand_on(workspace, group, start)
        except OSError as error:
            raise cannot_write(start.job, error) from None

    def setup(
        self,
        workspace: Workspace,
        group: Group,
        start: Start,
        setting: Setting,
        rank: int,
    ) -> None:
        """Do nothing: the program prepares its own measurements."""

    def invocation(
        self, workspace: Workspace, group: Group, start: Start, setting: Setting, rank: int
    ) -> Invocation:
        """`levels run`, with the job and a journal of the rank's own."""
        files, inside = start.rank(rank), setting.runtime.inside
        out, levels = out_mount(files), levels_mount(workspace)
        job = Mount(source=start.job, target="/capsule/job.json")
        data = data_mounts(group, setting)
        mounts = (out, levels, job, *data.values(), *shared_mounts(start))
        if any(trial.benchmark.inputs for trial in group.trials):
            mounts += (inputs_mount(workspace, setting),)
        return Invocation(
            command=(
                setting.prepared.python,
                inside(levels),
                "run",
                inside(job),
                f"{inside(out)}/journal.jsonl",
            ),
            environment={
                **rank_environment(group, start, setting, rank),
                **data_variables(data, setting),
            },
            mounts=mounts,
            cwd=inside(out),
            gpus=setting.share_gpus(rank),
            network=any(trial.benchmark.online for trial in group.trials),
            label=setting.label,
            pids=setting.limits.pids,
            memory=setting.limits.memory,
            scratch=Scratch(start=start.number, rank=rank),
            stdout=files.stdout,
            stderr=files.stderr,
            telemetry=files.telemetry,
        )

    def follow(self, group: Group, files: RankFiles) -> Lines:
        """Return the lines that its journal gains."""
        return Lines(group, files)

    def read(
        self,
        workspace: Workspace,  # noqa: ARG002 - the protocol's
        group: Group,
        start: Start,
        *,
        ended_well: bool,  # noqa: ARG002
    ) -> Journal:
        """Return the journals of all ranks; a trial that ended has its outcome, whatever came
        later.
        """
        journals = [
            journal.read(files.journal, group.trials, rank=rank, ranks=group.ranks)
            for rank, files in enumerate(start.rank_files())
        ]
        merged = reports.merge(journals, group.trials)
        ended = {report.trial for report in merged.reports if report.outcome is not None}
        trained = [
            trial
            for trial in group.trials
            if trial.id in ended and isinstance(trial.benchmark.subject, Recipe)
        ]
        return replace(merged, texts=tuple(_find_files(start.rank(0), trained)))


def _hand_on(workspace: Workspace, group: Group, start: Start) -> None:
    """Give trainings the checkpoint that their last attempt left, which nobody here reads.

    Raises:
        OSError: There is no room for it.
    """
    for trial in group.trials:
        if recipes.checkpoint_epochs(trial.benchmark, trial.case.name) is None:
            continue
        names = checkpoints.paths(trial.benchmark.id, trial.case.name)
        for name, (rank, files) in product(names, enumerate(start.rank_files())):
            target = files.out / name
            target.parent.mkdir(parents=True, exist_ok=True)
            for begun in reversed(workspace.log.starts):
                earlier = workspace.start(begun.number, begun.ranks)
                is_another = begun.number != start.number and trial.id in begun.trials
                if is_another and leavings.move_below(earlier.rank(rank).out, name, target):
                    break


class Lines:
    """Reader of journal lines that reports each trial as it begins."""

    def __init__(self, group: Group, files: RankFiles) -> None:
        self._path = files.journal
        self._trials = {trial.id for trial in group.trials}
        self._offset = 0
        self._inside = False  # of a line too long to be looked at

    def new(self) -> Sequence[str]:
        """Return the group's trials that began since the last call."""
        data = self._read()
        whole, newline, rest = data.rpartition(b"\n")
        if not newline:
            if len(data) == _LOOK_BYTES:
                self._offset, self._inside = self._offset + len(data), True
            return []
        self._offset += len(data) - len(rest)
        lines = whole.split(b"\n")[1 if self._inside else 0 :]
        self._inside = False
        return [trial for line in lines if (trial := _trial_of_begin(line)) in self._trials]

    def _read(self) -> bytes:
        stream = leavings.open_file(self._path)
        if stream is None:
            return b""
        with stream:
            stream.seek(self._offset)
            return stream.read(_LOOK_BYTES)


def _find_files(files: RankFiles, trials: Sequence[Trial]) -> Iterator[Text]:
    """Return the files of last evaluations and samplers that trainings left, for the reader."""
    for trial, path in product(trials, (predictions.path, samplers.path)):
        name = path(trial.benchmark.id, trial.case.name)
        stream = leavings.open_below(files.out, name)
        if stream is not None:
            with stream:
                size_bytes = stream.seek(0, os.SEEK_END)
            if size_bytes <= predictions.MOST_BYTES:
                place = files.out / name
                yield Text(name=f"{OUT}{name}", rank=0, path=place, trial=trial.id, binary=True)


def _trial_of_begin(line: bytes) -> str:
    # samples lines may be long, and only a whole read of the journal judges them
    if b'"begin"' not in line[:200]:
        return ""
    try:
        return str(json.loads(line).get("trial"))
    except (ValueError, AttributeError, RecursionError):
        return ""


def _formats(data: Mapping[str, str], setting: Setting) -> JsonObject:
    """Return the formats of the datasets' files; empty if left to the default."""
    formats: JsonObject = {name: form for name, form in setting.formats.items() if name in data}
    return {"formats": formats} if formats else {}


def _trial(trial: Trial, inputs: str, setting: Setting) -> dict[str, Json]:
    subject = trial.benchmark.subject
    assert not isinstance(subject, Command)
    entry: dict[str, Json] = {
        "id": trial.id,
        "benchmark": trial.benchmark.id,
        "level": subject.level,
        "case": trial.case.name,
        "datasets": list(trial.benchmark.datasets),
    }
    if isinstance(subject, Reading):
        generator, parameters = setting.generators[trial.benchmark.datasets[0]]
        made: JsonObject = {
            "generator": {"name": generator, "parameters": dict(parameters)},
            **readings.to_json(subject, trial.case),
        }
        return entry | {"dtype": "float32", "parameters": {}, "reading": made}
    calls: JsonObject = {}
    if not isinstance(subject, Recipe):
        calls = {"repetitions": subject.repetitions, "warmup": subject.warmup}
    if isinstance(subject, Collective):
        exchanged: JsonObject = dict(collectives.to_json(trial.case))
        return entry | {"dtype": "float32", "parameters": {}, "collective": exchanged, **calls}
    if isinstance(subject, (Operator, Network)):
        calls = {**calls, **dict.fromkeys(subject.conditions, True)}
    entry["dtype"] = subject.dtype
    if subject.source:
        entry["source"] = f"{inputs}/{subject.source}"
    match subject:
        case Recipe(name=name):
            recipe = recipes.to_json(subject.settings[trial.case.name])
            if own := subject.own_optimizer:
                recipe["optimizer"]["file"] = f"{inputs}/{own.path}"
            return entry | {"network": name, "parameters": recipe.pop("sizes"), "recipe": recipe}
        case Operator(name=name, roofline=roofline):
            entry |= {"operator": name, **({"roofline": True} if roofline else {})}
        case Network(name=name, trains=trains, serving=serving):
            entry |= {"network": name, "trains": trains}
            entry |= {"serving": serving.to_json()} if serving else {}
    return {
        **entry,
        "parameters": dict(trial.case.parameters),
        **calls,
    }
