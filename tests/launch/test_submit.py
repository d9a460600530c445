"""`capsule submit` on the tests' own Slurm, by an ordinary user."""

import json
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.command import NOISY, User, write_manifest, write_script
from tests.support.engines import user_python
from tests.support.patience import PATIENCE_SECONDS, until

pytestmark = pytest.mark.engines

# sbatch, and the death of whoever calls it
KILLED = """#!/bin/bash
sbatch=$(PATH=${PATH#*:} command -v sbatch)
%s
kill -KILL $PPID
"""
# of a run that stops at its second seed, for as long as there is no file `go`
WAITING = """
import os, pathlib, time
if os.environ["CAPSULE_SEED"] == "2":
    while not pathlib.Path(FOLDER, "go").exists():
        time.sleep(0.02)
"""


@pytest.fixture(scope="module")
def python() -> str:
    return user_python()


@pytest.fixture
def ordinary(python: str) -> Iterator[User]:
    """A user of a cluster, in a folder that all of its nodes see."""
    account = pwd.getpwnam(os.environ["CAPSULE_TEST_USER"])
    base = Path(tempfile.mkdtemp(dir=os.environ["CAPSULE_TEST_SHARED"]))
    base.chmod(0o755)
    user = User.make(base)
    for folder in (user.home, user.folder):
        os.chown(folder, account.pw_uid, account.pw_gid)
    user = replace(user, python=python, account=account.pw_name)
    yield user
    if left := jobs(user):
        slurm("scancel", *left)
        until(lambda: not slurm("squeue", "--noheader", f"--jobs={','.join(left)}"), "their end")
    shutil.rmtree(base)


def slurm(*words: str) -> str:
    ended = subprocess.run(
        words, capture_output=True, text=True, check=True, timeout=PATIENCE_SECONDS
    )
    return ended.stdout.strip()


def manifest(user: User, script: str = NOISY, **changes: object) -> Path:
    write_script(user.folder, script)
    return write_manifest(user.folder, **{"seeds": [1, 2], **changes})


def submission(user: User) -> Path:
    (folder,) = user.folder.glob("*.job")
    return folder


def jobs(user: User) -> list[str]:
    """Ids of all jobs that a submission handed in, by Slurm's own account."""
    return [
        job
        for state in user.folder.glob("*/submission.json")
        for job in slurm(
            *("squeue", "--states=all", "--noheader", "--format=%A"),
            f"--name={json.loads(state.read_bytes())['name']}",
        ).split()
    ]


def start(user: User, *words: str | Path) -> subprocess.Popen[str]:
    with user.talk.open("w") as talk:
        return subprocess.Popen(
            user.argv("submit", *words),
            cwd=user.folder,
            env=user.environment(),
            stdout=talk,
            stderr=talk,
            stdin=subprocess.DEVNULL,
            text=True,
            user=user.account,
            group=user.account,
            extra_groups=[],
        )


def heard(user: User, text: str) -> None:
    until(lambda: text in user.talk.read_text(), f"{text!r} of {user.talk}")


def test_a_job_seals_where_run_would_and_one_job_is_all_there_is(ordinary: User) -> None:
    site = ordinary.home / ".config/capsule/site.json"
    site.parent.mkdir(parents=True)
    site.write_text(json.dumps({"batch": {"--partition": "main", "--comment": "two words"}}))
    resources = {"ranks_per_node": 1, "cpus_per_rank": 2, "walltime": "01:00:00"}
    path = manifest(ordinary, resources=resources)
    ended = ordinary.run("submit", path, "--runtime", "host", "--walltime", "00:05:30")
    assert ended.returncode == 0, ended.stderr
    (capsule,) = ordinary.folder.glob("tiny-*.capsule.zip")
    assert ended.stdout.splitlines()[-1] == f"sealed {capsule.name}"
    assert "runs on n" in ended.stderr

    folder = submission(ordinary)
    script = (folder / "job.sh").read_text()
    (job,) = jobs(ordinary)
    asked = slurm("scontrol", "--oneliner", "show", "job", job)
    for text in ("TimeLimit=00:06:00", "CPUs/Task=2", "NumNodes=1", "Comment=two words"):
        assert text in asked
    assert '#SBATCH --comment="two words"' in script

    # the same again, and by the folder: nothing new is handed in
    for source in (path, folder):
        options = () if source == folder else ("--runtime", "host")
        shown = ordinary.json("submit", source, *options)
        assert (ordinary.folder / shown["capsule"]).samefile(capsule)
    assert jobs(ordinary) == [job]


@pytest.mark.parametrize("hands_in", ["", '"$sbatch" "$@"'], ids=["before", "after"])
def test_a_kill_around_sbatch_leaves_one_job(ordinary: User, hands_in: str) -> None:
    path = manifest(ordinary)
    programs = ordinary.home / "bin"
    programs.mkdir()
    (programs / "sbatch").write_text(KILLED % hands_in)
    (programs / "sbatch").chmod(0o755)
    paths = f"{programs}:{os.environ['PATH']}"
    ended = ordinary.run("submit", path, "--runtime", "host", PATH=paths)
    assert ended.returncode == -signal.SIGKILL
    assert json.loads((submission(ordinary) / "submission.json").read_bytes())["jobs"] == [None]
    assert len(jobs(ordinary)) == bool(hands_in)

    ended = ordinary.run("submit", path, "--runtime", "host")
    assert ended.returncode == 0, ended.stderr
    assert ("which an interrupted `submit` had submitted" in ended.stderr) == bool(hands_in)
    assert len(jobs(ordinary)) == 1


def test_a_job_outlives_its_submission_and_its_time_limit_can_be_gone_on_from(
    ordinary: User,
) -> None:
    path = manifest(ordinary, WAITING.replace("FOLDER", repr(str(ordinary.folder))) + NOISY)
    first = start(ordinary, path, "--runtime", "host")
    heard(ordinary, "trial 1 of 2 (seed 1), ")
    first.send_signal(signal.SIGINT)
    assert first.wait(PATIENCE_SECONDS) == 130
    (job,) = jobs(ordinary)
    talk = ordinary.talk.read_text()
    assert f"job {job} keeps running; to cancel it: scancel {job}" in talk
    (way_on,) = [line for line in talk.splitlines() if line.startswith("to follow the job again: ")]

    words = way_on.removeprefix("to follow the job again: capsule submit ").split()
    second = start(ordinary, *words)
    heard(ordinary, f"following job {job}, which was submitted before")
    heard(ordinary, "trial 1 of 2 (seed 1), ")
    # what Slurm sends before the time is up, and whom
    slurm("scancel", "--signal=TERM", "--batch", job)
    assert second.wait(PATIENCE_SECONDS) == 143
    assert "was interrupted" in ordinary.talk.read_text()
    assert not list(ordinary.folder.glob("*.capsule.zip"))

    (ordinary.folder / "go").touch()
    sealed = ordinary.json("submit", path, "--runtime", "host")
    assert len(jobs(ordinary)) == 2
    shown = ordinary.json("show", sealed["capsule"])
    assert shown["attempts"]["completed"] == 2
    assert shown["attempts"]["interrupted"] == 1


def test_a_failing_job_is_told_once_and_then_tried_again(ordinary: User) -> None:
    path = manifest(ordinary, "raise SystemExit('no luck')\n")
    ended = ordinary.run("submit", path, "--runtime", "host")
    assert ended.returncode == 5
    assert "no luck" in ended.stderr
    (job,) = jobs(ordinary)
    assert f"job {job} ended with exit code 5" in ended.stderr
    ended = ordinary.run("submit", path, "--runtime", "host", "--keep-going")
    assert ended.returncode == 5
    assert len(jobs(ordinary)) == 2
    (capsule,) = ordinary.folder.glob("*.capsule.zip")
    assert f"sealed {capsule.name}" in ended.stdout


def test_a_job_that_waits_says_why_and_a_cancelled_one_that_it_is_gone(ordinary: User) -> None:
    site = ordinary.home / ".config/capsule/site.json"
    site.parent.mkdir(parents=True)
    site.write_text(json.dumps({"batch": {"--hold": ""}}))
    running = start(ordinary, manifest(ordinary), "--runtime", "host")
    heard(ordinary, "scontrol release (JobHeldUser)")
    (job,) = jobs(ordinary)
    slurm("scancel", job)
    assert running.wait(PATIENCE_SECONDS) == 143
    assert f"job {job} was interrupted (CANCELLED)" in ordinary.talk.read_text()


def test_submissions_at_the_same_time_hand_in_one_job(ordinary: User) -> None:
    path = manifest(ordinary)
    both = [start(ordinary, path, "--runtime", "host") for _ in range(2)]
    assert [one.wait(PATIENCE_SECONDS) for one in both] == [0, 0]
    assert len(jobs(ordinary)) == 1


def test_a_job_whose_name_alone_is_known_is_found_by_what_it_left(ordinary: User) -> None:
    path = manifest(ordinary)
    first = ordinary.json("submit", path, "--runtime", "host")
    state = submission(ordinary) / "submission.json"
    document = json.loads(state.read_bytes())
    # Slurm forgets a job minutes after its end
    state.write_text(json.dumps({**document, "name": "forgotten", "jobs": [None]}))
    assert ordinary.json("submit", path, "--runtime", "host") == first


def test_a_manifest_that_changes_while_its_job_waits_is_not_run(ordinary: User) -> None:
    site = ordinary.home / ".config/capsule/site.json"
    site.parent.mkdir(parents=True)
    site.write_text(json.dumps({"batch": {"--hold": ""}}))
    path = manifest(ordinary)
    running = start(ordinary, path, "--runtime", "host")
    heard(ordinary, "JobHeldUser")
    manifest(ordinary, seeds=[1, 2, 3])
    slurm("scontrol", "release", *jobs(ordinary))
    assert running.wait(PATIENCE_SECONDS) == 2
    assert "the manifest was changed after `capsule submit`" in ordinary.talk.read_text()


@pytest.mark.parametrize(
    ("resources", "says"),
    [
        # which this Slurm takes, and lets wait
        ({"nodes": 5}, "the job can never start: "),
        # which it does not take
        ({"cpus_per_rank": 9}, "sbatch refused the job: "),
    ],
    ids=["nodes", "cpus"],
)
def test_what_no_node_can_give_is_refused_at_once(
    ordinary: User, resources: dict[str, int], says: str
) -> None:
    path = manifest(ordinary, resources=resources)
    # and again, where Slurm has the record of a job that it refused
    for _ in range(2):
        ended = ordinary.run("submit", path, "--runtime", "host")
        assert ended.returncode == 6
        assert says in ended.stderr
        assert "compare the #SBATCH lines of the script with the output of sinfo" in ended.stderr
    name = json.loads((submission(ordinary) / "submission.json").read_bytes())["name"]
    assert not slurm("squeue", "--noheader", f"--name={name}")


def test_where_slurm_is_not_in_path_it_says_what_to_do(author: User) -> None:
    ended = author.run("submit", manifest(author), PATH="/nowhere")
    assert ended.returncode == 6
    assert "no Slurm on this machine: sbatch is not on the PATH" in ended.stderr
    assert "capsule run" in ended.stderr
