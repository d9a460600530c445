"""A run that Slurm starts: its folder, its job script, and one job at a time.

    submission.json     what was asked for, and which jobs were handed in
    job.sh              the script of the last one, as sbatch takes it
    job-ID.log          what `capsule run` and Slurm said in a job
    job-ID.json, .exit  what came of it, and its exit code
    run/                the run folder of `capsule run`, gone once it is sealed

`submission.json` names a job before sbatch is called and has its id only afterwards: whoever finds
it without one looks for a job of that name, and so hands in no second one.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from capsule import places
from capsule.digest import of_bytes
from capsule.errors import CannotRunError, ExecutionError, UntrustedError, UsageError
from capsule.launch import slurm
from capsule.launch import wish as wishes
from capsule.launch.script import Script
from capsule.launch.wish import State, Wish
from capsule.manifest.model import Resources

_SCRIPT = "job.sh"
_LOOK_SECONDS = 0.1
# the first wait between two questions to Slurm, and the longest: many ask it
_FIRST_SECONDS, _LONGEST_SECONDS = 0.3, 10.0
# that long a network file system may show what was there before
_LAG_SECONDS = 30.0
_INTERRUPTED = (130, 143)


@dataclass(frozen=True, kw_only=True)
class Ended:
    """End of a job.

    Attributes:
        job: Its id.
        code: Exit code of its `capsule run`, None where that could not end by itself.
        state: Slurm's last word on it.
        capsule: What it sealed.
    """

    job: str
    code: int | None
    state: str
    capsule: Path | None = None

    @property
    def is_cut_off(self) -> bool:
        """Return whether another job resumes this one."""
        return self.code is None or self.code in _INTERRUPTED or self.code > 128


class Submission:
    """A folder of a submission; made by `begin` or `reopen`."""

    def __init__(self, folder: Path, state: State) -> None:
        self.folder = folder
        self._state = state

    @property
    def wish(self) -> Wish:
        """Return the manifest or run folder that the job runs."""
        return self._state.wish

    def settle(
        self, resources: Resources, options: Mapping[str, str], tell: Callable[[str], None]
    ) -> str:
        """The job to follow: the one under way, else a new one where there is something to do.

        Args:
            resources: What the manifest asks for.
            options: The site's own, of each job.
            tell: Hears what is decided, in sentences.

        Raises:
            CannotRunError: Slurm has no such nodes, takes no such job, or is not here.
            ExecutionError: It does not answer, and whether a job is under way is not known.
        """
        with self._lock() as lock:
            self._state = wishes.read(self.folder)
            job = self._recover(tell)
            if job is not None and not self._wants_another(job, tell):
                return job
            return self._hand_in(resources, options, lock, tell)

    def follow(self, job: str, tell: Callable[[str], None]) -> Ended:
        """Wait for the end of a job, and report its state and its output.

        Raises:
            KeyboardInterrupt: The user interrupted; the job keeps running.
        """
        log = _Tail(self.folder / f"job-{job}.log")
        word, pause = "", _FIRST_SECONDS
        while True:
            try:
                status = slurm.look(job)
                now = "" if status is None else _describe(job, status)
            except ExecutionError as error:
                status, now = _UNKNOWN, f"{error.what}; still asking"
            log.pass_on(tell)
            if status is None or status.has_ended:
                break
            if now != word:
                tell(now)
                word, pause = now, _FIRST_SECONDS
            self._wait(job, pause, log, tell)
            pause = min(1.5 * pause, _LONGEST_SECONDS)
        ended = self._conclude(job, status)
        log.pass_on(tell)
        return ended

    def acknowledge(self, ended: Ended) -> None:
        """Record that the user was told how a job ended: the next `submit` starts another job."""
        with self._lock():
            self._write(replace(wishes.read(self.folder), reported_job=ended.job))

    def _recover(self, tell: Callable[[str], None]) -> str | None:
        """The last job, also where this process' predecessor was killed while it handed one in."""
        jobs = self._state.jobs
        if not jobs or jobs[-1] is not None:
            return jobs[-1] if jobs else None
        known = {job for job in jobs if job is not None}
        started = {path.stem.removeprefix("job-") for path in self.folder.glob("job-*.log")}
        lost = [job for job in (*started, *slurm.find(self._state.name)) if job not in known]
        if not lost:
            self._write(replace(self._state, jobs=jobs[:-1]))
            return self._recover(tell)
        job = max(lost, key=int)
        self._write(replace(self._state, jobs=(*jobs[:-1], job)))
        tell(f"found job {job}, which an interrupted `submit` had submitted")
        return job

    def _wants_another(self, job: str, tell: Callable[[str], None]) -> bool:
        status = slurm.look(job)
        if status is not None and not status.has_ended:
            tell(f"following job {job}, which was submitted before")
            return False
        ended = self._conclude(job, status)
        if ended.capsule is not None:
            tell(f"job {job} has ended")
            return False
        if ended.is_cut_off:
            tell(f"job {job} was interrupted")
            return True
        return self._state.reported_job == job

    def _hand_in(
        self,
        resources: Resources,
        options: Mapping[str, str],
        lock: int,
        tell: Callable[[str], None],
    ) -> str:
        state = self._state
        goes_on = (self.folder / "run" / "run.json").exists()
        if not goes_on and of_bytes(state.wish.manifest.read_bytes()) != state.wish.digest:
            raise UsageError(
                "the manifest has changed since its submission",
                where=str(state.wish.manifest),
                advice="name another folder with --work",
            )
        path = self.folder / _SCRIPT
        script = Script(
            name=state.name,
            folder=state.folder,
            work=self.folder,
            manifest=state.wish.manifest,
            digest=state.wish.digest,
            begin=state.wish.begin,
            resume=state.wish.resume,
            resources=resources,
            walltime=state.wish.walltime or resources.walltime_seconds,
            options=options,
        )
        self._write(replace(state, jobs=(*state.jobs, None)))
        job = slurm.submit(path, script, lock=lock)
        self._write(replace(state, jobs=(*state.jobs, job)))
        status = slurm.look(job)
        if status is not None and status.is_impossible:
            slurm.cancel(job)
            self._write(state)
            raise CannotRunError(
                f"the job can never start: {status.explain()}",
                where=str(path),
                advice=slurm.ADVICE,
            )
        tell(f"submitted job {job} ({'resumes' if goes_on else 'runs'} {state.name}): {path}")
        return job

    def _wait(self, job: str, seconds: float, log: _Tail, tell: Callable[[str], None]) -> None:
        deadline = time.monotonic() + seconds
        ending = self.folder / f"job-{job}.exit"
        while time.monotonic() < deadline and not ending.exists():
            time.sleep(_LOOK_SECONDS)
            log.pass_on(tell)
        if ending.exists():
            time.sleep(_LOOK_SECONDS)

    def _conclude(self, job: str, status: slurm.Job | None) -> Ended:
        code = _read_code(self.folder / f"job-{job}.exit")
        if code is None and status is not None:
            code = status.exit_code
        state = "no longer known" if status is None else status.state
        result = self.folder / f"job-{job}.json"
        deadline = time.monotonic() + _LAG_SECONDS
        while code == 0 and not _has_text(result) and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)
        capsule = None
        if code in (0, 5) and _has_text(result):
            with suppress(ValueError, KeyError, TypeError):
                capsule = self._state.folder / json.loads(result.read_bytes())["capsule"]
        if code == 0 and capsule is None:
            raise ExecutionError(
                f"job {job} ended with exit code 0, but its result cannot be read on this machine",
                where=str(result),
                advice="check that this machine sees the folder of the job, and read the log in the"
                " folder",
            )
        return Ended(job=job, code=code, state=state, capsule=capsule)

    def _write(self, state: State) -> None:
        wishes.write(self.folder, state)
        self._state = state

    @contextmanager
    def _lock(self) -> Iterator[int]:
        """One submission at a time decides; a descriptor that lasts as long as `sbatch` does."""
        try:
            lock, _ = places.wait_to_hold(self.folder)
        except places.NoLocksError as error:
            raise places.locks_error(
                error, self.folder, "name a folder on another file system with --work"
            ) from None
        with lock:
            yield lock.fileno()


_UNKNOWN = slurm.Job(state="", reason="", nodes="", exit_code=None)


class _Tail:
    """The whole lines of a file that grows, each once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._place = 0

    def pass_on(self, tell: Callable[[str], None]) -> None:
        with suppress(FileNotFoundError), self._path.open("rb") as stream:
            stream.seek(self._place)
            whole, end, _ = stream.read().rpartition(b"\n")
            self._place += len(whole) + len(end)
            for line in whole.decode(errors="replace").splitlines():
                tell(line)


def begin(folder: Path, wish: Wish, *, name: str) -> Submission:
    """The folder of a submission, made where it is missing.

    Args:
        folder: Where.
        wish: What is to run; how it is resumed, and for how long, may differ from what is there.
        name: Name of the manifest.

    Raises:
        UsageError: Something else lies there.
    """
    folder = folder.absolute()
    if not folder.exists():
        state = State(name=f"capsule-{name}-{uuid.uuid4().hex[:8]}", folder=Path.cwd(), wish=wish)
        try:
            with places.new_folder(folder) as partial:
                wishes.write(partial, state)
            return Submission(folder, state)
        except ExecutionError:
            # the same submission, at the same time
            if not (folder / wishes.NAME).exists():
                raise
    submission = reopen(folder)
    there = submission.wish
    if (there.manifest, there.digest) != (wish.manifest, wish.digest):
        raise UsageError(
            f"another manifest was submitted from this folder: {there.manifest}, {there.digest}",
            where=str(folder),
            advice="name another folder with --work",
        )
    with submission._lock():
        submission._write(replace(wishes.read(folder), wish=wish))
    return submission


def reopen(folder: Path) -> Submission:
    """The folder of a submission that was made before.

    Args:
        folder: Where.

    Raises:
        UsageError: It is none.
        UntrustedError: It is somebody else's, whose commands would run.
    """
    folder = folder.absolute()
    if not (folder / wishes.NAME).is_file():
        raise UsageError(
            f"expected the folder of a submission: {wishes.NAME} is missing",
            where=str(folder),
            advice="name a manifest, or the folder that `capsule submit` made for one",
        )
    owner = (folder / wishes.NAME).stat().st_uid
    if owner != os.geteuid():
        raise UntrustedError(
            f"another user (uid {owner}) submitted this job; the job's commands would run as you",
            where=str(folder),
            advice="submit the manifest yourself",
        )
    return Submission(folder, wishes.read(folder))


def _describe(job: str, status: slurm.Job) -> str:
    if status.state == "PENDING":
        return f"job {job} is waiting: {status.explain()}"
    if status.state == "RUNNING":
        return f"job {job} runs on {status.nodes}" if status.nodes else f"job {job} runs"
    return f"job {job}: {status.state}"


def _has_text(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _read_code(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (FileNotFoundError, ValueError):
        return None
