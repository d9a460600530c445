"""Run one trial under a fresh seed and report its values without sealing."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from capsule import places, reduction
from capsule import plan as planning
from capsule import session as sessions
from capsule.archive import texts
from capsule.errors import CannotRunError, CapsuleError, ExecutionError
from capsule.execute.loop import hint_at
from capsule.execute.workspace import Workspace
from capsule.manifest import Manifest, Metric
from capsule.notes import Note
from capsule.options import RunOptions
from capsule.plan import Plan
from capsule.record import Attempt, Execution, Samples
from capsule.resolve import Request, resolve
from capsule.runtimes import scratch
from capsule.runtimes.base import KeepsScratch, Runtime, Scratch
from capsule.session import Session, Terms
from capsule.watch import Watch

_FOLDER = "run"


@dataclass(frozen=True, kw_only=True)
class Reported:
    """Values of one declared metric in a tried-out trial.

    Attributes:
        metric: Metric as the manifest declares it.
        count: Number of values that all ranks reported together.
        value: Value of the run in the metric's unit; None if no finite value was reported.
        samples: All values, one entry for each rank that reported the metric.
        lines: Number of matching lines, of which the last one gave the value; None if the metric is
            not read from text.
    """

    metric: Metric
    count: int
    value: float | None
    samples: tuple[Samples, ...] = ()
    lines: int | None = None


@dataclass(frozen=True, kw_only=True)
class Tryout:
    """Result of one trial that was run and then deleted.

    Attributes:
        attempt: Outcome of the trial.
        reported: Values of every metric that the trial declares, in the manifest's order.
        trials: Number of trials of the whole plan.
        alike: True if all trials differ only in the seed, and so take about the same time.
        notes: Facts about the run that the reader of the values must know.
        remains: Paths of files that the trial left in /dev/shm.
        hints: Likely remedies of a failure, one sentence each.
    """

    attempt: Attempt
    reported: tuple[Reported, ...]
    trials: int
    alike: bool
    notes: tuple[Note, ...] = ()
    remains: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()


def try_out(manifest: Manifest, options: RunOptions, watch: Watch) -> Tryout:
    """Run the first case of the first benchmark once, under a fresh seed.

    Args:
        manifest: Manifest to try.
        options: Engine, image and limits; `output` and `work` are ignored.
        watch: Receiver of progress.

    Raises:
        UsageError: The manifest or an option is wrong.
        CannotRunError: This machine lacks an engine, the image, a dataset or a device.
        DamagedError: An image, a dataset or an input has other bytes than its digest requires.
        ExecutionError: The trial was interrupted three times, or by a limit; or the folder cannot
            be written.
    """
    whole = planning.make(manifest)
    plan = _first(whole)
    request = Request.of(
        manifest, options.runtime, options.image, keep_keyring=options.keep_keyring
    )
    resolved = resolve(request, watch)
    end_leftovers(resolved.runtime, watch)
    terms = Terms(image=resolved.override, keep_hosts=options.keep_hosts)
    setup = sessions.set_up(plan, resolved, terms)
    # where a run would lie, and gone in any case: what a kill leaves, the next start here removes
    with places.scratch(Path()) as top:
        folder = top / _FOLDER
        sessions.lay_out(folder, plan, setup, resolved, terms, place=None)
        session = sessions.limit(sessions.enter(folder, plan, setup, resolved), options)
        try:
            execution = sessions.perform(session, _Shown(watch, session))
        except (CannotRunError, ExecutionError) as error:
            end = "the files of the trial were deleted; correct the cause, and try again"
            advice = "\n  ".join((*_hints(session), end))
            what = _show_paths(error.what, session)
            raise type(error)(what, where=error.where, advice=advice) from None
        hints = _hints(session)
        tryout = _tell(execution, plan, whole)
    message = _show_paths(tryout.attempt.message, session)
    left = session.workspace.log.left.values()
    return replace(
        tryout,
        attempt=replace(tryout.attempt, message=message),
        hints=hints,
        remains=tuple(path for one in left for path in one.segments),
    )


class _Shown(Watch):
    """A watch that passes on a trial's output, with paths that stay valid after its deletion."""

    def __init__(self, watch: Watch, session: Session) -> None:
        self._watch = watch
        self._session = session
        self.hears_output = watch.hears_output

    def trial(self, trial: str) -> None:
        self._watch.trial(trial)

    def output(self, line: str) -> None:
        self._watch.output(_show_paths(line, self._session))

    def attempt(self, attempt: Attempt) -> None:
        self._watch.attempt(attempt)

    def remains(self, sentence: str) -> None:
        self._watch.remains(sentence)


def _show_paths(text: str, session: Session) -> str:
    """Replace paths of deleted folders by the author's names of inputs and by variables."""
    folder, setting = session.workspace.folder, session.setting
    for inputs in (f"{folder}/work/inputs/", f"{folder}/inputs/"):
        text = text.replace(inputs, "")
    text = re.sub(rf"{re.escape(str(folder))}/starts/\d+(/rank-\d+)?/out", "$CAPSULE_OUT", text)
    if isinstance(setting.runtime, KeepsScratch) and "/.c" in text:
        for begun in session.workspace.log.starts:
            for rank in range(begun.ranks):
                own = Scratch(start=begun.number, rank=rank)
                for folders in scratch.choose(setting.label, own):
                    text = text.replace(str(folders.home), "$HOME")
                    text = text.replace(str(folders.temporary), "$TMPDIR")
    return text


def _hints(session: Session) -> tuple[str, ...]:
    """Return likely remedies of the last attempt; none if it completed."""
    log, groups = session.workspace.log, session.plan.groups
    last = log.attempts[-1][1] if log.attempts else None
    if last is None or last.outcome == "completed":
        return ()
    return tuple(hint_at(session.workspace, last, groups, session.setting))


def end_leftovers(runtime: Runtime, watch: Watch) -> None:
    """End processes of a killed trial, before its folder is removed."""
    processes = 0
    for path in places.find_leftovers(Path()):
        # half made, it is no run folder, and has started nothing
        with suppress(CapsuleError):
            workspace = Workspace.open(path / _FOLDER)
            if workspace.header.setup.runtime == runtime.name:
                processes += runtime.reap(workspace.label)
    if processes:
        watch.leftovers(processes)


def _first(whole: Plan) -> Plan:
    """Return the plan of the first case of the first benchmark, in its first framework."""
    manifest = whole.manifest
    benchmark = manifest.benchmarks[0]
    name = f"{benchmark.id}/{benchmark.cases[0].name}/{benchmark.frameworks[0]}"
    group, trial = next(
        (group, trial)
        for group in whole.groups
        for trial in group.trials
        if trial.id.rpartition("/")[0] == name
    )
    (seed,) = planning.fresh_seeds(
        secrets.token_hex(32), manifest.seeds, count=1, within=manifest.seed_range
    )
    trial = replace(trial, id=f"{name}/{seed}", seed=seed, seed_source="fresh")
    start = replace(group, id=f"0001-{group.framework}-{seed}", seed=seed, trials=(trial,))
    return replace(whole, groups=(start,))


def _tell(execution: Execution, plan: Plan, whole: Plan) -> Tryout:
    (trial,) = plan.groups[0].trials
    by_metric: dict[str, list[Samples]] = {}
    for samples in execution.samples:
        by_metric.setdefault(samples.metric.rpartition("/")[2], []).append(samples)
    sources = {file.path: file.source for file in execution.logs}
    lines = texts.count_lines(
        plan.manifest, execution.attempts[-1:], lambda name: (_load(sources[name]),)
    )
    subject = trial.id.rpartition("/")[0]
    trials = [one.id.rpartition("/")[0] for group in whole.groups for one in group.trials]
    return Tryout(
        attempt=execution.attempts[-1],
        reported=tuple(
            _report(metric, by_metric.get(metric.name, ()), lines.get(f"{subject}/{metric.name}"))
            for metric in trial.benchmark.due(trial.framework)
        ),
        trials=len(trials),
        alike=len(set(trials)) == 1,
        notes=execution.notes,
    )


def _load(source: object) -> bytes:
    return source if isinstance(source, bytes) else Path(str(source)).read_bytes()


def _report(metric: Metric, samples: Sequence[Samples], lines: tuple[int, int] | None) -> Reported:
    return Reported(
        metric=metric,
        count=sum(len(one.values) for one in samples),
        value=reduction.run_value(samples, aggregate=metric.aggregate),
        samples=tuple(samples),
        lines=lines and lines[1],
    )
