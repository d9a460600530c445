"""The job scripts of docs/how-to/slurm.md, under stand-ins for the programs that take them."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.journeys.test_slurm_page import WAITING
from tests.support import schedulers
from tests.support.command import User, write_manifest, write_script
from tests.support.documented import ROOT
from tests.support.patience import PATIENCE_SECONDS, until

PAGE = (ROOT / "docs" / "how-to" / "slurm.md").read_text()
SCRIPTS = [text for text in re.findall(r"```bash\n(.*?)```", PAGE, re.S) if "# hand it in" in text]
LINES = [line for text in SCRIPTS for line in re.findall(r"^# hand it in: (.*)$", text, re.M)]


def write_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def jobs(author: User) -> Path:
    """The folder of a site's jobs; the user has the stand-ins, and capsule where a script says."""
    folder = author.home / "jobs"
    folder.mkdir()
    for program in schedulers.READERS:
        words = shlex.join([sys.executable, schedulers.__file__, str(folder), program])
        write_program(author.home / "bin" / program, f'exec {words} "$@"')
    capsule = author.home / "capsule" / "bin"
    write_program(capsule / "capsule", f'exec {shlex.join(author.argv())} "$@"')
    # whose process the test ends as the time's end would
    words = f'echo $$ >"{folder}/timeout"; exec /usr/bin/timeout "$@"'
    write_program(capsule / "timeout", words)
    return folder


@pytest.mark.parametrize(
    ("script", "line"), list(zip(SCRIPTS, LINES, strict=True)), ids=["pbs", "lsf", "flux"]
)
def test_a_job_that_runs_out_of_time_hands_in_the_next_which_seals(
    author: User, jobs: Path, script: str, line: str
) -> None:
    flag = author.home / "flag"
    flag.touch()
    write_script(author.folder, WAITING.format(flag=flag))
    write_manifest(author.folder, seeds=[1, 2, 3]).rename(author.folder / "manifest.json")
    assert script.count(" --runtime apptainer") == 1
    (author.folder / line.rsplit(maxsplit=1)[-1]).write_text(
        script.replace(" --runtime apptainer", "")
    )
    environment = author.environment()
    environment["PATH"] = f"{author.home}/bin:{environment['PATH']}"
    subprocess.run(
        line, shell=True, cwd=author.folder, env=environment, check=True, timeout=PATIENCE_SECONDS
    )
    until(lambda: has_come(author.home / "waits", jobs, 1), "the second trial")
    os.kill(int((jobs / "timeout").read_text()), signal.SIGTERM)
    until((jobs / "2.json").exists, "the next job")
    flag.unlink()
    until(lambda: has_come(jobs / "2.exit", jobs, 2), "its end")
    assert (jobs / "2.exit").read_text() == "0\n", (jobs / "2.log").read_text()
    assert (jobs / "1.exit").read_text() == "143\n"
    (sealed,) = author.folder.glob("*.capsule.zip")
    runs = author.json("show", sealed)["metrics"]["tiny/default/command/loss"]["runs"]
    assert [run["status"] for run in runs] == ["ok"] * 3
    assert not (author.folder / "manifest.run").exists()
    assert len(list(author.home.glob("went-*"))) == 3
    wanted = {"hours": "4", "nodes": "1", "cpus": "16", "ranks": "2", "gpus": "2"}
    assert [json.loads((jobs / f"{n}.json").read_text()) for n in (1, 2)] == [wanted, wanted]
    assert not (jobs / "3.json").exists()


def has_come(path: Path, jobs: Path, number: int) -> bool:
    """Whether a file is there, which it never will be once the job has ended without."""
    ended = (jobs / f"{number}.exit").exists()
    assert path.exists() or not ended, (jobs / f"{number}.log").read_text()
    return path.exists()
