"""The job script of a run: readable, complete, and as `sbatch` takes it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from capsule.digest import Digest
from capsule.errors import UsageError
from capsule.launch import slurm
from capsule.manifest.model import Resources

# a run that is cut off ends what runs, keeps what finished, and does so in seconds; Slurm may send
# the signal a minute early
_NOTICE_SECONDS = 120
_SHORTEST_NOTICE = 10

_BODY = """
# Written by `capsule submit`, and once more by each submission.
folder={folder}
record=$folder/job-$SLURM_JOB_ID
rm -f "$record.exit"

# Slurm's notice before the time is up, and scancel: capsule run keeps what has finished, and ends.
signaled=
trap 'signaled=1; kill -TERM "$run"' TERM

capsule() {{
    # -P: nothing that lies in the current folder takes the place of a module
    exec {python} -P -m capsule "$@"
}}

if [ -e "$folder/run/run.json" ]; then
    {resume} >"$record.json" &
elif [ "$(sha256sum <{manifest})" = '{digest}  -' ]; then
    {begin} >"$record.json" &
else
    echo {changed} >&2
    exit 2 &
fi
run=$!

# a signal ends `wait`, and not what is waited for
while signaled=; wait "$run"; code=$?; [ -n "$signaled" ]; do :; done
echo "$code" >"$record.exit"
exit "$code"
"""


@dataclass(frozen=True, kw_only=True)
class Script:
    """What a job script says.

    Attributes:
        name: Of the job.
        folder: Where it runs.
        work: The submission's folder.
        manifest: What it runs, by its absolute path.
        digest: Of the manifest, which may be changed while the job waits.
        begin: Command line that begins the run.
        resume: Command line that goes on with it.
        resources: What one start of the run gets, on all nodes.
        walltime: Seconds, None for as long as the partition allows.
        options: The site's own.
    """

    name: str
    folder: Path
    work: Path
    manifest: Path
    digest: Digest
    begin: str
    resume: str
    resources: Resources
    walltime: int | None
    options: Mapping[str, str]


def write(path: Path, script: Script) -> None:
    """Write it.

    Raises:
        UsageError: Slurm cannot be told one of its paths.
    """
    if "%" in str(script.work):
        raise UsageError(
            "a job's files cannot lie below a name with %, of which Slurm would make its own",
            where=str(script.work),
            advice="name another folder with --work",
        )
    body = _BODY.format(
        folder=shlex.quote(str(script.work)),
        python=shlex.quote(sys.executable),
        begin=script.begin,
        resume=script.resume,
        manifest=shlex.quote(str(script.manifest)),
        digest=script.digest.hex,
        changed=shlex.quote(f"error: {script.manifest}: it was changed after it was submitted"),
    )
    path.write_text("#!/bin/bash\n" + slurm.write_directives(_options(script)) + body)
    path.chmod(0o755)


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
