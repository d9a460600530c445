"""The Slurm script of docs/how-to/slurm.md, executed by the shell, with Slurm's signal."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from pathlib import Path

from tests.support.command import User, write_manifest, write_script
from tests.support.documented import ROOT
from tests.support.patience import PATIENCE_SECONDS

# the second of its process starts waits for somebody to end it, once
WAITING = """
import json, os, pathlib, random, time
flag = pathlib.Path("{flag}")
if flag.exists() and len(list(flag.parent.glob("went-*"))) == 1:
    flag.with_name("waits").touch()
    while flag.exists():
        time.sleep(0.05)
flag.with_name("went-" + os.environ["CAPSULE_SEED"]).touch()
with open(os.environ["CAPSULE_RESULTS"], "a") as results:
    results.write(json.dumps({{"metric": "loss", "value": 1.0}}) + "\\n")
"""


def job(author: User) -> list[str]:
    """The script of the page, but that it verifies on the host and asks for nothing."""
    page = (ROOT / "docs" / "how-to" / "slurm.md").read_text()
    (script,) = (text for text in re.findall(r"```bash\n(.*?)```", page, re.S) if "#SBATCH" in text)
    assert script.count("exec capsule verify") == 2
    script = script.replace(" --runtime apptainer", "")
    path = author.folder / "job.sh"
    path.write_text(script)
    capsule = author.home / "bin" / "capsule"
    capsule.parent.mkdir()
    capsule.write_text(f'#!/bin/sh\nexec {" ".join(author.argv())} "$@"\n')
    capsule.chmod(0o755)
    return ["bash", str(path), "a.capsule.zip"]


def start(author: User, command: list[str]) -> subprocess.Popen[str]:
    environment = author.environment()
    return subprocess.Popen(
        command,
        cwd=author.folder,
        env={**environment, "PATH": f"{author.home}/bin:{environment['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_a_job_that_runs_out_of_time_goes_on_when_it_is_submitted_again(author: User) -> None:
    flag = author.home / "flag"
    write_script(author.folder, WAITING.format(flag=flag))
    manifest = write_manifest(author.folder, seeds=[1, 2, 3])
    assert author.run("run", manifest, "-o", "a.capsule.zip").returncode == 0
    for path in author.home.glob("went-*"):
        path.unlink()
    flag.touch()
    command = job(author)
    first = start(author, command)
    _wait_for(author.home / "waits", first)
    # as Slurm does with --signal=B:TERM: to the batch shell alone, whose place capsule took
    first.send_signal(signal.SIGTERM)
    output, _ = first.communicate(timeout=PATIENCE_SECONDS)
    assert first.returncode == 143, output
    assert "--resume a.capsule.run" in output
    assert "--offline" in output
    flag.unlink()
    second = start(author, command)
    output, _ = second.communicate(timeout=PATIENCE_SECONDS)
    assert second.returncode in (0, 3), output
    assert (author.folder / "a.capsule.run.zip").is_file()
    assert not (author.folder / "a.capsule.run").exists()
    assert len(list(author.home.glob("went-*"))) == 6


def _wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not path.exists():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.05)
