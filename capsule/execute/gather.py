"""Read what the process starts of a run left behind, each of them once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from capsule import deviceseries, leavings, notes, plain, rankseries
from capsule.errors import CapsuleError, DamagedError
from capsule.execute import devices, meeting, placement, precision, seeding, workload
from capsule.execute.journal import MAX_SOFTWARE_BYTES, parse_foreign
from capsule.execute.kinds import workload_of
from capsule.execute.log import Begun, cannot_write
from capsule.execute.loop import part_of, tail
from capsule.execute.reports import MAX_MESSAGE, Journal, Text, TrialReport
from capsule.execute.workload import Setting
from capsule.execute.workspace import RankFiles, Workspace
from capsule.jsons import Json, JsonObject
from capsule.levels.data import predictions
from capsule.manifest import Manifest
from capsule.manifest.sources import OUT
from capsule.notes import Note
from capsule.plan import Group, Plan, Trial
from capsule.record import Attempt, DeviceSeries, Evidence, Execution, File, Samples
from capsule.runtimes import programs
from capsule.sizes import size

# importing a framework from a cold disk takes half a minute
_PROBE_SECONDS = 600


def probe(workspace: Workspace, setting: Setting, words: Sequence[str]) -> JsonObject:
    """Ask the image what software it holds.

    Args:
        workspace: The run folder.
        setting: How to start a program in the image.
        words: What commands begin with: the first Python among them is asked, else `python3`.

    Returns:
        What `levels probe` prints, or {"missing": reason} for an image without Python.

    Raises:
        ExecutionError: The run folder cannot be written.
    """
    python = next(filter(programs.is_python, words), "python3")
    files = RankFiles(folder=workspace.folder / "probe")
    try:
        if os.path.lexists(files.folder):
            leavings.remove(files.folder)
        files.out.mkdir(parents=True)
    except OSError as error:
        raise cannot_write(files.folder, error) from None
    invocation = workload.probe(workspace, files, setting, python)
    running = setting.runtime.start(setting.prepared, invocation)
    try:
        ended = running.wait(_PROBE_SECONDS)
    finally:
        running.stop()
    if ended is None:
        return {"missing": f"{python} did not answer within {_PROBE_SECONDS} seconds"}
    if ended.exit_code != 0:
        return {"missing": plain.last_lines(ended.engine_fault or tail(files.stderr), 500)}
    try:
        software = parse_foreign(_answer(files), where="levels probe")
    except CapsuleError as error:
        return {"missing": str(error)}
    return (
        software
        if isinstance(software, dict)
        else {"missing": f"the software probe printed {software!r:.40}, expected a JSON object"}
    )


def _answer(files: RankFiles) -> bytes:
    stream = leavings.open_file(files.stdout)
    if stream is None:
        return b""
    with stream:
        answer = stream.read(MAX_SOFTWARE_BYTES + 1)
    if len(answer) > MAX_SOFTWARE_BYTES:
        most = size(MAX_SOFTWARE_BYTES)
        raise DamagedError(f"the software probe printed more than {most}, the limit")
    return answer


class Gatherer:
    """The traces that starts of one run folder left; another look reads the new ones alone.

    Args:
        workspace: The run folder.
        kept: See `rankseries.fold`.
    """

    def __init__(self, workspace: Workspace, kept: Mapping[tuple[str, str], bool] = {}) -> None:
        self._workspace = workspace
        self._kept = kept
        self._journals: dict[int, Journal] = {}
        self._samples: dict[int, Sequence[Samples]] = {}
        self._devices: dict[int, Sequence[DeviceSeries]] = {}

    def collect(self, plan: Plan) -> Execution:
        """Return everything that the process starts of the plan's groups left behind."""
        log = self._workspace.log
        groups = {group.id: group for group in plan.groups}
        attempts: dict[int, dict[str, Attempt]] = {}
        for number, attempt in log.attempts:
            attempts.setdefault(number, {})[attempt.trial] = attempt
        software: dict[str, Json] = {}
        effective: dict[str, JsonObject] = {}
        samples: list[Samples] = []
        seen: list[DeviceSeries] = []
        logs: list[File] = []
        changed: dict[tuple[int, str], Attempt] = {}
        reported: list[tuple[Trial, TrialReport]] = []
        for begun in log.starts:
            if (group := groups.get(begun.group)) is None:
                continue  # ran for a later look than this one
            own = attempts.get(begun.number, {})
            journal = self._journal(begun, group, own)
            logs += [*self._logs(begun), *_files(begun, journal)]
            if journal.software:
                software.setdefault(group.framework, journal.software)
            if journal.environment:
                known = effective.setdefault(group.framework, {})
                effective[group.framework] = {**journal.environment, **known}
            if (gpus := self._gpus(begun, plan, effective.get(group.framework, {}))) is not None:
                effective[group.framework] = {**effective.get(group.framework, {}), "gpus": gpus}
            trials = {trial.id: trial for trial in group.trials}
            reported += [(trials[one.trial], one) for one in _without_series(journal).reports]
            own |= {one.trial: one for one in _find_changes(journal, own)}
            changed |= {
                (begun.number, trial): replace(one, evidence=_evidence(begun, journal, trial))
                for trial, one in own.items()
            }
            if begun.number not in self._samples:
                lines = rankseries.fold(_samples(journal, own, group), own, self._kept)
                self._samples[begun.number] = tuple(lines)
                self._devices[begun.number] = tuple(
                    self._find_devices(begun, group, journal, own, plan)
                )
                # of thousands of ranks they are gigabytes
                self._journals[begun.number] = _without_series(journal)
            samples += self._samples[begun.number]
            if len(seen) + len(self._devices[begun.number]) <= deviceseries.MAX_LINES:
                seen += self._devices[begun.number]
        settled = [
            changed.get((number, attempt.trial), attempt)
            for number, attempt in log.attempts
            if attempt.group in groups
        ]
        if plan.manifest.trains:
            settled = _hold_trainings(plan.manifest, settled, samples, logs)
        if plan.manifest.reads_data:
            settled = _hold_readings(plan.manifest, settled, samples)
        return Execution(
            attempts=tuple(settled),
            samples=tuple(samples),
            devices=tuple(seen),
            software=software,
            effective=precision.add_switches(effective, reported),
            logs=tuple(logs),
            worlds=meeting.read(self._workspace),
            notes=(*self._notes(groups), *precision.note_plain_products(reported)),
        )

    def _gpus(self, begun: Begun, plan: Plan, known: JsonObject) -> list[Json] | None:
        """Return the GPUs of each rank, if an earlier start did not say so already."""
        if not plan.manifest.resources.gpus_per_rank or "gpus" in known:
            return None
        return placement.read_gpus(self._workspace.start(begun.number, begun.ranks))

    def _find_devices(
        self,
        begun: Begun,
        group: Group,
        journal: Journal,
        attempts: Mapping[str, Attempt],
        plan: Plan,
    ) -> Iterator[DeviceSeries]:
        found = devices.find(
            journal,
            group,
            self._workspace.start(begun.number, begun.ranks),
            nodes=begun.nodes,
            attempts={trial: one.attempt for trial, one in attempts.items()},
            most_points=devices.count_points(plan),
        )
        # without a container a workload can write a trace of its own
        has_gpus = plan.manifest.resources.gpus_per_rank > 0
        return (one for one in found if has_gpus or one.source == "rapl")

    def _notes(self, groups: Mapping[str, Group]) -> Iterator[Note]:
        log = self._workspace.log
        left = [
            (begun, log.left[begun.number])
            for begun in log.starts
            if begun.group in groups and begun.number in log.left
        ]
        wrote = [(begun, one) for begun, one in left if one.inputs]
        if wrote:
            begun, first = wrote[0]
            yield notes.written_inputs(
                path=first.first[0],
                trial=begun.trials[0],
                files=first.inputs,
                starts=len(wrote),
            )
        seeded = [
            (trial, self._journals[begun.number].seedings)
            for begun in log.starts
            if begun.group in groups
            for trial in groups[begun.group].trials
        ]
        yield from seeding.compare([one for one in seeded if one[1]])

    def _journal(self, begun: Begun, group: Group, attempts: Mapping[str, Attempt]) -> Journal:
        if begun.number not in self._journals:
            start = self._workspace.start(begun.number, begun.ranks)
            ended_well = all(attempt.exit_code == 0 for attempt in attempts.values())
            self._journals[begun.number] = workload_of(group).read(
                self._workspace, part_of(group, begun), start, ended_well=ended_well
            )
        return self._journals[begun.number]

    def _logs(self, begun: Begun) -> list[File]:
        start = self._workspace.start(begun.number, begun.ranks)
        logs = []
        for rank, files in enumerate(start.rank_files()):
            for prefix, own in (("", files), ("setup-", files.setup)):
                for path in (own.stdout, own.stderr):
                    if _holds_text(path):
                        name = _log_path(begun, rank, prefix + path.name)
                        logs.append(File(path=name, source=path))
        return logs


def _without_series(journal: Journal) -> Journal:
    return replace(journal, reports=tuple(replace(one, series=()) for one in journal.reports))


def _log_path(begun: Begun, rank: int, name: str) -> str:
    prefix = f"{begun.number:04}-" + (f"rank{rank:04}-" if begun.ranks > 1 else "")
    return f"logs/{prefix}{name}"


def _evidence(begun: Begun, journal: Journal, trial: str) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(path=_evidence_path(begun, text), name=text.name, rank=text.rank)
        for text in journal.texts
        if text.trial in (None, trial)
    )


def _files(begun: Begun, journal: Journal) -> list[File]:
    """Evidence that is none of the logs, which are carried anyway."""
    return [
        File(path=_evidence_path(begun, text), source=text.path, binary=text.binary)
        for text in journal.texts
        if text.name.startswith(OUT)
    ]


def _evidence_path(begun: Begun, text: Text) -> str:
    if not text.name.startswith(OUT):
        return _log_path(begun, text.rank, text.path.name)
    rank = f"rank{text.rank:04}/" if begun.ranks > 1 else ""
    return f"evidence/{begun.number:04}/{rank}{text.name.removeprefix(OUT)}"


def _holds_text(path: Path) -> bool:
    stream = leavings.open_file(path)
    if stream is None:
        return False
    with stream:
        return bool(stream.read(1))


def _find_changes(journal: Journal, attempts: Mapping[str, Attempt]) -> list[Attempt]:
    """Return the attempts that completed and of which that can no longer be read, as failed ones.

    Without a container a workload can reach what an earlier one had reported.
    """
    complete = {report.trial for report in journal.reports if report.outcome == "completed"}
    return [
        replace(
            attempt,
            outcome="failed",
            reason="bad-result",
            message="the reported values were changed after the trial ended",
        )
        for attempt in attempts.values()
        if attempt.outcome == "completed" and attempt.trial not in complete
    ]


def _hold_trainings(
    manifest: Manifest,
    attempts: Sequence[Attempt],
    samples: Sequence[Samples],
    files: Sequence[File],
) -> list[Attempt]:
    """Return the same attempts, as failed ones where readers would find what they told to be no
    outcome.

    The measuring code may be untrusted.
    """
    from capsule.archive import trainings

    sources = {file.path: file.source for file in files}
    reported = trainings.read(manifest, attempts, samples)
    faults: dict[tuple[str, int], str] = {}
    for training, fault in trainings.judge(reported, lambda path: [_read(sources[path])]):
        faults.setdefault((training.trial, training.attempt), fault)
    return _fail(attempts, faults)


def _hold_readings(
    manifest: Manifest, attempts: Sequence[Attempt], samples: Sequence[Samples]
) -> list[Attempt]:
    """Check readings of datasets, as `_hold_trainings` checks trainings."""
    from capsule.archive import readings

    faults: dict[tuple[str, int], str] = {}
    for one, fault in readings.judge(readings.read(manifest, attempts, samples)):
        faults.setdefault((one.trial, one.attempt), fault)
    return _fail(attempts, faults)


def _fail(attempts: Sequence[Attempt], faults: Mapping[tuple[str, int], str]) -> list[Attempt]:
    return [
        replace(
            one,
            outcome="failed",
            reason="bad-result",
            message=faults[one.trial, one.attempt][:MAX_MESSAGE],
        )
        if (one.trial, one.attempt) in faults
        else one
        for one in attempts
    ]


def _read(path: Path) -> bytes:
    """Return a file that was small enough to be kept; nothing where it is gone."""
    stream = leavings.open_file(path)
    if stream is None:
        return b""
    with stream:
        return stream.read(predictions.MOST_BYTES + 1)


def _samples(journal: Journal, attempts: Mapping[str, Attempt], group: Group) -> Iterator[Samples]:
    trials = {trial.id: trial for trial in group.trials}
    for report in journal.reports:
        attempt = attempts.get(report.trial)
        if attempt is None:
            continue
        trial = trials[report.trial]
        metrics = {metric.name: metric for metric in trial.benchmark.metrics}
        for series in report.series:
            metric = metrics[series.metric]
            yield Samples(
                metric=f"{trial.benchmark.id}/{trial.case.name}/{trial.framework}/{metric.name}",
                trial=trial.id,
                attempt=attempt.attempt,
                seed=trial.seed,
                unit=metric.unit,
                direction=metric.direction,
                kind=metric.kind,
                resolution=metric.resolution,
                per=metric.per,
                rank=series.rank,
                warmup=series.warmup,
                values=series.values,
                steps=series.steps,
                wall=series.wall,
                active=series.active,
            )
