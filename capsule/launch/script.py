"""The job script of a run: readable, complete, and as sbatch takes it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from capsule.digest import Digest
from capsule.manifest.model import Resources

_BODY = """
# Written by `capsule submit`; each submission writes this file again.
folder={folder}
record=$folder/job-$SLURM_JOB_ID
rm -f "$record.exit"

# Slurm sends TERM before the time limit: capsule run keeps the finished runs, and exits.
signaled=
trap 'signaled=1; kill -TERM "$run"' TERM

capsule() {{
    # -P: Python imports no module from the current folder
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

# a signal ends `wait`, but not the run: wait again
while signaled=; wait "$run"; code=$?; [ -n "$signaled" ]; do :; done
echo "$code" >"$record.exit"
exit "$code"
"""


@dataclass(frozen=True, kw_only=True)
class Script:
    """Contents of a job script.

    Attributes:
        name: Name of the job.
        folder: Where it runs.
        work: The submission's folder.
        manifest: What it runs, by its absolute path.
        digest: Digest of the manifest, which may be changed while the job waits.
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


def write(path: Path, script: Script, *, head: str) -> None:
    """Write it.

    Args:
        path: Where.
        script: What it says.
        head: Its first lines, after the one that names what reads it.
    """
    body = _BODY.format(
        folder=shlex.quote(str(script.work)),
        python=shlex.quote(sys.executable),
        begin=script.begin,
        resume=script.resume,
        manifest=shlex.quote(str(script.manifest)),
        digest=script.digest.hex,
        changed=shlex.quote(
            f"error: {script.manifest}: the manifest was changed after `capsule submit`\n"
            "  name another folder with --work"
        ),
    )
    path.write_text("#!/bin/bash\n" + head + body)
    path.chmod(0o755)
