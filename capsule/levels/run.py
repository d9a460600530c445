"""Run a job: every trial in turn, in one process, with its samples in the journal."""

from __future__ import annotations

import gc
import os
import signal
import sys
import traceback
from collections.abc import Iterable
from functools import partial
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Callable

from . import frameworks, mpi, probe
from .catalog import determinism, failures
from .frameworks.settings import KeepsSwitches
from .instruments import ranges, timing
from .instruments.spans import SPANS
from .job import Context, Job, JobError, Trial, read
from .journal import Journal, JournalError
from .report import DivergedError, Report

Measure = Callable[[Trial, frameworks.Framework, Report], None]
"""Measures a trial, and reports whatever is due of it while it runs."""

LEFT = 3
"""Exit status of a process whose device is unusable after a trial's error."""


def load_level(level: int) -> Measure:
    """Import what measures the trials of a level, which a folder without that level need not have.

    Args:
        level: Level of Deep500, 0 to 3.
    """
    measure: Measure = import_module(f".level{level}", __package__).measure
    return measure


def main(job_path: Path, journal_path: Path) -> int:
    """Run the job file's trials and write the journal.

    A trial that fails costs that trial only. If its error leaves the device unusable, this process
    ends with the exit status `LEFT` before the next trial begins, and the host starts the others
    anew.

    Returns:
        The exit status: 0 once every trial had its turn, 1 for a journal that cannot be written, 2
        for a file that is no job or a process that is none of its ranks.

    Raises:
        OSError: The job cannot be read.
    """
    _end_on_terminate()
    try:
        job = read(job_path, os.environ)
        with Journal(journal_path) as journal:
            had_all_turns = _run(job, journal, journal_path.parent)
    except (JobError, JournalError) as error:
        sys.stderr.write(f"{error}\n")
        return 2 if isinstance(error, JobError) else 1
    if not had_all_turns:
        # destructors would call the device again, and hang or abort
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(LEFT)
    return 0


def _end_on_terminate() -> None:
    # as process 1 of a container a signal without a handler is ignored; elsewhere the default
    # action is better, for it does not wait for the call into the framework that is under way
    if os.getpid() == 1:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(128 + signal.SIGTERM))


def _run(job: Job, journal: Journal, folder: Path) -> bool:
    """Return whether every trial had its turn."""
    context = job.context
    # a framework's hundred thousands of objects stay, with a few thousand that nobody needs: no
    # collection looks at them, not while they come and not later
    gc.disable()
    software = probe.inventory({"numpy", context.framework})
    levels = {level: load_level(level) for level in sorted({trial.level for trial in job.trials})}
    hello = partial(journal.hello, context.rank, context.ranks, software)
    try:
        _require_strict(context, determinism.faults(os.environ, context.threads, context.seed))
        framework = frameworks.load(
            context.framework, context.device, context.threads, context.determinism
        )
        settings = framework.settings()
        _require_strict(context, determinism.switch_faults(settings, context.threads))
        if any(trial.goes_over_mpi for trial in job.trials):
            # all at once: a rank that fails sooner would leave the others waiting for it
            mpi.join(context.rank, context.ranks)
    except Exception as error:
        # once per trial, so that the host needs no other rule to learn it
        traceback.print_exc()
        hello(_environment(context))
        for trial in job.trials:
            journal.begin(trial.id)
            journal.end(trial.id, *_failure(error), seconds=0.0)
    else:
        gc.freeze()
        gc.enable()
        hello(
            {
                **_environment(context),
                "settings": settings,
                "empty_call_ns": timing.empty_call_ns(framework.synchronize),
                **_time_empty_range(framework),
            }
        )
        for trial in job.trials:
            if not _run_trial(trial, levels[trial.level], framework, journal, folder):
                return False
    journal.bye()
    return True


class DeterminismError(Exception):
    """Strict determinism was asked for, and is not to be had here; the message says why."""


def _require_strict(context: Context, faults: Iterable[str]) -> None:
    message = "; ".join(faults) if context.determinism == "strict" else ""
    if message:
        raise DeterminismError(message)


def _environment(context: Context) -> dict[str, object]:
    return {
        "framework": context.framework,
        "device": context.device,
        "determinism": context.determinism,
        "threads": context.threads,
        "affinity": sorted(os.sched_getaffinity(0)),
    }


def _time_empty_range(framework: frameworks.Framework) -> dict[str, object]:
    clock = framework.device_clock
    return {} if clock is None else {"empty_range_ns": ranges.empty_range_ns(clock)}


def _run_trial(
    trial: Trial,
    measure: Measure,
    framework: frameworks.Framework,
    journal: Journal,
    folder: Path,
) -> bool:
    """Return whether other trials can follow in this process: its device still works."""
    SPANS.take()
    journal.begin(trial.id)
    report = Report(
        partial(journal.samples, trial.id),
        folder=folder,
        resume=partial(journal.resume, trial.id),
    )
    if isinstance(framework, KeepsSwitches):
        framework.switches.clear()
    started = perf_counter()
    reason: str | None = None
    message, is_lost = "", False
    try:
        framework.seed(trial.context.seed)
        measure(trial, framework, report)
        # an error of a call that nothing waited for would be told of the next trial
        _wait(framework)
        message = report.remark
    except JournalError:
        # what the journal's file refuses is no outcome of the trial
        raise
    except Exception as error:
        traceback.print_exc()
        reason, message = _failure(error)
        is_lost = failures.is_sticky(error) or not _answers(framework)
    report.close()
    if reason is None and report.non_finite:
        reason, message = "non-finite", f"not finite: {', '.join(report.non_finite)}"
    seconds = perf_counter() - started
    facts = {"timed": SPANS.take(), **_list_findings(trial, framework, report)}
    if is_lost:
        facts["leaves"] = True
    journal.end(trial.id, reason, message, seconds, facts)
    if reason is not None:
        # over MPI the others would wait for what this rank does not send any more
        mpi.leave(1)
    return not is_lost


def _wait(framework: frameworks.Framework) -> None:
    if framework.synchronize is not None:
        framework.synchronize()


def _answers(framework: frameworks.Framework) -> bool:
    """Return whether the device still works."""
    try:
        _wait(framework)
    except Exception:
        traceback.print_exc()
        return False
    return True


def _list_findings(
    trial: Trial, framework: frameworks.Framework, report: Report
) -> dict[str, object]:
    """Return what is known of a trial's arithmetic, as fields of its end."""
    findings: dict[str, object] = {}
    if isinstance(framework, KeepsSwitches):
        # a training in mixed types is in the scope of float32
        held = framework.switches.get(trial.dtype, framework.switches.get("float32"))
        if held:
            findings["switches"] = held
    if report.off_tensor_cores:
        findings["off_tensor_cores"] = report.off_tensor_cores
    return findings


def _failure(error: Exception) -> tuple[str, str]:
    """Return the reason and message for an exception of a trial."""
    if isinstance(error, DivergedError):
        return "diverged", str(error)
    reason = "out-of-memory" if failures.is_out_of_memory(error) else "error"
    return reason, failures.describe(error)
