"""Schedulers other than Slurm, by PSI/J: an extra of its own, imported where a site asks for it.

    job-N.native    what the scheduler calls the N-th job of a submission

PSI/J says whether a job is queued, runs or is gone, asked every other second; not why it waits, nor
by what name it was handed in. Ranks on several nodes, and GPUs, are left to Slurm.
"""

from __future__ import annotations

import logging
import shlex
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from capsule.errors import CannotRunError, ExecutionError, UsageError
from capsule.launch.script import Script, write
from capsule.launch.slurm import Job

_POLL_SECONDS = 2
# PSI/J has no word for a job that no node can ever take
_QUEUE_SECONDS = 7 * 86400.0
_QUEUES = ("--queue", "--partition")
_WAITS = "PSI/J does not tell why"
_HEAD = """
exec >>{log} 2>&1
cd {folder}
"""


class Psij:
    """Jobs of one submission, by an executor of PSI/J's.

    Args:
        name: Of the executor, such as `pbs`.
        folder: The submission's.
        where: What of the site file names it.
        queue_seconds: How long a job may wait for its turn while it is followed.
    """

    def __init__(
        self, name: str, folder: Path, *, where: str, queue_seconds: float = _QUEUE_SECONDS
    ) -> None:
        self._name = name
        self._folder = folder
        self._where = where
        self._queue_seconds = queue_seconds
        self._executor: Any = None
        self._jobs: dict[str, Any] = {}
        self._since: dict[str, float] = {}

    def require(self) -> None:
        """Stop where nothing can be submitted.

        Raises:
            CannotRunError: PSI/J is not installed, or has no such executor.
        """
        # it logs what is no fault of anybody's, such as executors that lack their own libraries
        logging.getLogger("psij").setLevel(logging.CRITICAL)
        try:
            from psij import JobExecutor
            from psij.executors.batch.batch_scheduler_executor import BatchSchedulerExecutorConfig
        except ImportError as error:
            raise CannotRunError(
                f"jobs of {self._name} are submitted by PSI/J, which is not here: {error}",
                where=self._where,
                advice="pip install 'capsule-hpc[psij]'",
            ) from None
        config = BatchSchedulerExecutorConfig(
            work_directory=self._folder.absolute() / "psij",
            queue_polling_interval=_POLL_SECONDS,
        )
        try:
            self._executor = JobExecutor.get_instance(self._name, config=config)
        except Exception as error:
            # whatever the library of a scheduler raises that is not here
            raise CannotRunError(
                f"PSI/J cannot use {self._name} here: {error}",
                where=self._where,
                advice="load the module of that scheduler, or name another one",
            ) from error

    def submit(self, path: Path, script: Script, *, lock: int) -> str:  # noqa: ARG002
        """Write a job script and hand it in; returns the job's number in this submission.

        Args:
            path: Where to write it.
            script: What it is to say.
            lock: PSI/J has none of it: killed right then, this process may leave a job that nobody
                has the scheduler's name of.

        Raises:
            UsageError: PSI/J needs to be told how long the job may take.
            CannotRunError: The job needs several nodes or GPUs, or the scheduler does not take it.
        """
        from psij import Job as Native
        from psij import JobSpec, ResourceSpecV1

        resources = script.resources
        if resources.nodes > 1 or resources.gpus_per_rank:
            raise CannotRunError(
                "PSI/J hands in jobs of one node without GPUs here",
                where="/resources",
                advice="ranks on several nodes are started inside a job of Slurm's alone",
            )
        if script.walltime is None:
            raise UsageError(
                "PSI/J would give the job ten minutes where nobody says how long it may take",
                where="/resources/walltime",
                advice="say it there, or with --walltime",
            )
        number = str(1 + max((int(one) for one in self.find(script.name)), default=0))
        log = shlex.quote(f"{script.work}/job-{number}.log")
        head = _HEAD.format(log=log, folder=shlex.quote(str(script.folder)))
        write(path, script, head=head, job=number)
        native = Native(
            JobSpec(
                name=script.name,
                executable=str(path),
                launcher="single",
                # one process is started, with all CPUs of the node's ranks
                resources=ResourceSpecV1(
                    node_count=1,
                    processes_per_node=resources.ranks_per_node * (resources.cpus_per_rank or 1),
                ),
                attributes=self._attributes(script),
            )
        )
        # which no other job takes, whatever becomes of this one
        self._native(number).touch()
        try:
            self._executor.submit(native)
        except Exception as error:
            raise CannotRunError(
                f"{self._name} takes no such job: {error}",
                where=str(path),
                advice="change the manifest's resources, the time, or `batch` of the site file",
            ) from error
        self._jobs[number] = native
        partial = self._native(number).with_suffix(".partial")
        partial.write_text(f"{native.native_id}\n")
        partial.rename(self._native(number))
        return number

    def look(self, job: str) -> Job | None:
        """The job, as PSI/J last heard of it; None where nobody knows its scheduler's name for it.

        Raises:
            CannotRunError: It has waited for its turn for too long.
        """
        native = self._jobs.get(job) or self._attach(job)
        if native is None:
            return None
        state = str(native.status.state.name)
        if state in ("NEW", "QUEUED"):
            self._require_turn(job)
            return Job(state="PENDING", reason=_WAITS, nodes="", exit_code=None)
        if state == "ACTIVE":
            return Job(state="RUNNING", reason="", nodes="", exit_code=None)
        # its exit code is that of whoever started the script, and none of one that was attached to
        state = {"FAILED": "COMPLETED", "CANCELED": "CANCELLED"}.get(state, state)
        return Job(state=state, reason="", nodes="", exit_code=None)

    def find(self, name: str) -> list[str]:  # noqa: ARG002 - this folder's are all that is known
        """Numbers of the jobs that were handed in."""
        return sorted((one.stem[4:] for one in self._folder.glob("job-*.native")), key=int)

    def cancel(self, job: str) -> None:
        """End a job, or have it never begin.

        Raises:
            ExecutionError: The scheduler does not do it.
        """
        native = self._jobs.get(job) or self._attach(job)
        try:
            if native is not None:
                native.cancel()
        except Exception as error:
            raise ExecutionError(f"{self._name} does not end job {job}: {error}") from error

    def tell_end(self, job: str) -> str:
        """What ends a job."""
        return f"{self._name}'s own command for job {self._native(job).read_text().strip()}"

    def _attach(self, job: str) -> Any:
        """PSI/J's job for one that an earlier process handed in; None where it never did."""
        from psij import Job as Native
        from psutil import NoSuchProcess

        name = self._native(job).read_text().strip()
        if not name:
            return None
        native = Native()
        try:
            self._executor.attach(native, name)
        except NoSuchProcess:  # a job of `local` that is over
            return None
        self._jobs[job] = native
        return native

    def _require_turn(self, job: str) -> None:
        since = self._since.setdefault(job, time.monotonic())
        if time.monotonic() - since > self._queue_seconds:
            raise CannotRunError(
                f"job {job} has waited for its turn for {self._queue_seconds:.0f} s, and {_WAITS}",
                where=str(self._native(job)),
                advice=f"see what {self._name} says of it, end it there, and ask for what its"
                " nodes have; the same line follows it again",
            )

    def _native(self, job: str) -> Path:
        return self._folder / f"job-{job}.native"

    def _attributes(self, script: Script) -> Any:
        from psij import JobAttributes

        options = dict(script.options)
        queue = [options.pop(name) for name in _QUEUES if name in options]
        assert script.walltime is not None
        return JobAttributes(
            duration=timedelta(seconds=script.walltime),
            account=options.pop("--account", None),
            queue_name=queue[0] if queue else None,
            custom_attributes={
                f"{self._name}.{name.removeprefix('--')}": value for name, value in options.items()
            },
        )
