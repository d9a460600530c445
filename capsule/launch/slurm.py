"""Commands to Slurm and their answers: `sbatch`, `scontrol show job`, `squeue`, `scancel`.

Jobs are read from `scontrol`'s text of one line, `KEY=VALUE ...`: its JSON is missing from some
builds and its form differs from one version to the next (a state is a word in one, a list in
another).
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from capsule import process
from capsule.errors import CannotRunError, ExecutionError, UsageError
from capsule.launch.script import Script, write

_PATIENCE_SECONDS = 120.0
ADVICE = (
    "compare the #SBATCH lines of the script with the output of sinfo, and change the manifest's"
    " resources, --walltime, or account and partition (`batch` of the site file)"
)
"""Remedy for a job script that this cluster has no nodes for."""
_LATER = "try again later; if the error returns, ask the operators of the cluster"
# a run that is cut off ends what runs, keeps what finished, and does so in seconds; Slurm may send
# the signal a minute early
_NOTICE_SECONDS = 120
_SHORTEST_NOTICE = 10
_ID = re.compile(r"[0-9]+")
# nodes that come free change nothing about these; where nodes are down Slurm has other words
_IMPOSSIBLE = ("BadConstraints", "PartitionConfig", "PartitionNodeLimit", "PartitionTimeLimit")
_ENDED = frozenset(
    [
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "REVOKED",
        "TIMEOUT",
    ]
)
_REASONS = {
    "None": "Slurm has just received the job",
    "Priority": "other jobs go first",
    "Resources": "its nodes are busy",
    "ReqNodeNotAvail": "nodes that the job needs are down or reserved",
    "BeginTime": "the job's start time is in the future; Slurm sets this time some minutes ahead"
    " when a node of the job fails",
    "JobHeldUser": "a user holds the job; start the job with scontrol release",
    "JobHeldAdmin": "an administrator of the cluster holds the job",
    "BadConstraints": "no node of the cluster meets the constraints of the job",
    "PartitionConfig": "no node of its partition has the requested resources",
    "PartitionNodeLimit": "the job requests more nodes than its partition allows",
    "PartitionTimeLimit": "the job requests more time than its partition allows",
}


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job as Slurm has it now.

    Attributes:
        state: Slurm's word, such as PENDING.
        reason: Why it waits, where it waits.
        nodes: Where it runs, as Slurm writes it: `n[1-2]`.
        exit_code: Exit code of its script; None unless it ended by itself.
    """

    state: str
    reason: str
    nodes: str
    exit_code: int | None

    @property
    def has_ended(self) -> bool:
        """Return whether nothing of it runs any more, nor will."""
        return self.state in _ENDED

    @property
    def is_impossible(self) -> bool:
        """Return whether it waits for what no job's end brings, and for ever unless the site
        changes.
        """
        return self.state == "PENDING" and self.reason in _IMPOSSIBLE

    def explain(self) -> str:
        """Return why it waits, as a clause."""
        text = _REASONS.get(self.reason.partition(",")[0])
        return f"{text} ({self.reason})" if text else self.reason


def require() -> None:
    """Stop where nothing can be submitted.

    Raises:
        CannotRunError: Slurm's programs are not here.
    """
    for program in ("sbatch", "scontrol", "squeue"):
        if shutil.which(program) is None:
            raise CannotRunError(
                f"no Slurm on this machine: {program} is not on the PATH",
                advice="submit on a login node of a cluster, or use `capsule run` on this machine",
            )


def submit(path: Path, script: Script, *, lock: int) -> str:
    """Write a job script and hand it in; returns the job's id.

    Args:
        path: Where to write it.
        script: What it is to say.
        lock: Descriptor of a lock that lasts as long as `sbatch` does, even without this process.

    Raises:
        UsageError: Slurm cannot be told one of its paths.
        CannotRunError: Slurm takes no such job, or does not answer.
    """
    if "%" in str(script.work):
        raise UsageError(
            "the run folder's path contains %, which Slurm would expand",
            where=str(script.work),
            advice="name another folder with --work",
        )
    write(path, script, head=_write_directives(_options(script)))
    ended = _call("sbatch", "--parsable", str(path), lock=lock)
    number = _ID.match(ended.stdout.decode(errors="replace"))
    if ended.exit_code != 0 or number is None:
        raise CannotRunError(
            f"sbatch refused the job: {_errors(ended)}",
            where=str(path),
            advice=ADVICE,
        )
    return number[0]


def look(job: str) -> Job | None:
    """Return the job, None where Slurm has forgotten it, as it does minutes after a job's end.

    Raises:
        ExecutionError: Slurm does not answer.
    """
    ended = _call("scontrol", "--oneliner", "show", "job", job)
    text = ended.stdout.decode(errors="replace")
    state = _value("JobState", text)
    if ended.exit_code == 0 and state:
        code, _, number = _value("ExitCode", text).partition(":")
        by_itself = state in ("COMPLETED", "FAILED") and number == "0" and code.isdecimal()
        return Job(
            state=state,
            reason=_value("Reason", text),
            nodes=_value("NodeList", text),
            exit_code=int(code) if by_itself else None,
        )
    if "Invalid job id" in _errors(ended):
        return None
    raise ExecutionError(
        f"Slurm gives no information on job {job}: {_errors(ended)}",
        advice=f"try `scontrol show job {job}`; when Slurm answers, repeat the command",
    )


def find(name: str) -> list[str]:
    """Return ids of this user's jobs of a name that have not ended, the latest last.

    Slurm also knows those that `sbatch` refused, as ended.

    Raises:
        ExecutionError: Slurm does not answer.
    """
    own = f"--user={os.geteuid()}"
    ended = _call("squeue", own, f"--name={name}", "--noheader", "--format=%A")
    if ended.exit_code != 0:
        raise ExecutionError(
            f"Slurm gives no information on jobs named {name}: {_errors(ended)}",
            advice=f"try `squeue --name={name}`; when Slurm answers, repeat the command",
        )
    return sorted(_ID.findall(ended.stdout.decode(errors="replace")), key=int)


def cancel(job: str) -> None:
    """End a job, or have it never begin; one that has ended stays as it is.

    Raises:
        ExecutionError: Slurm does not do it.
    """
    ended = _call("scancel", job)
    if ended.exit_code != 0:
        raise ExecutionError(
            f"Slurm did not end job {job}: {_errors(ended)}",
            advice=f"end the job by hand: scancel {job}",
        )


def _options(script: Script) -> list[str]:
    resources = script.resources
    site = [f"{name}={value}" if value else name for name, value in script.options.items()]
    shape = [
        f"--nodes={resources.nodes}",
        f"--ntasks-per-node={resources.ranks_per_node}",
    ]
    if resources.cpus_per_rank is not None:
        shape.append(f"--cpus-per-task={resources.cpus_per_rank}")
    if resources.gpus_per_rank:
        # of a node, which every version of Slurm and every way to place tasks knows
        shape.append(f"--gpus-per-node={resources.gpus_per_rank * resources.ranks_per_node}")
    notice = _NOTICE_SECONDS
    if script.walltime is not None:
        seconds = -(-script.walltime // 60) * 60
        shape.append(f"--time={seconds // 3600:02}:{seconds // 60 % 60:02}:00")
        notice = max(_SHORTEST_NOTICE, min(notice, seconds // 5))
    return [
        *site,
        f"--job-name={script.name}",
        *shape,
        f"--signal=B:TERM@{notice}",
        f"--chdir={script.folder}",
        f"--output={script.work}/job-%j.log",
        "--open-mode=append",
    ]


def _write_directives(options: Sequence[str]) -> str:
    """Return lines of a job script that `sbatch` reads."""
    for option in options:
        # sbatch ends a word at a blank, unless quotes say otherwise, and comments at a #
        if not option.isprintable() or re.search(r"[\"'\\#]", option):
            raise UsageError(
                f"a job script cannot express {option!r}",
                advice="use a folder and names without quotes, backslashes, # and control"
                " characters",
            )
    return "".join(f"#SBATCH {_quote(option)}\n" for option in options)


def _quote(option: str) -> str:
    name, equals, value = option.partition("=")
    return f'{name}{equals}"{value}"' if " " in value else option


def _value(key: str, text: str) -> str:
    match = re.search(rf"(?:^|\s){key}=(\S*)", text)
    return match[1] if match else ""


def _call(*words: str, lock: int | None = None) -> process.Completed:
    kept = () if lock is None else (lock,)
    return process.run(words, timeout_seconds=_PATIENCE_SECONDS, kept=kept)


def _errors(ended: process.Completed) -> str:
    lines = ended.stderr.decode(errors="replace").splitlines()
    # a message for people may come before what failed, from the site's own plug-ins
    return "; ".join(line.partition("error: ")[2] or line for line in lines if line) or "no answer"
