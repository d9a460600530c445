"""`capsule submit` by PSI/J: to its processes of this machine, in the place of a queue."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from tests.launch.test_submit import WAITING
from tests.support.command import NOISY, User, write_manifest, write_script
from tests.support.patience import PATIENCE_SECONDS, until

pytestmark = pytest.mark.usefixtures("bare_python")
WORDS = ("--runtime", "host", "--walltime", "00:05:00")


@pytest.fixture
def user(author: User) -> User:
    """Whose site has PSI/J submit to its own machine."""
    site = author.home / ".config/capsule/site.json"
    site.parent.mkdir(parents=True)
    site.write_text(json.dumps({"scheduler": "local"}))
    return author


def heard(user: User, text: str, process: subprocess.Popen[str]) -> None:
    def said() -> bool:
        talk = user.talk.read_text()
        assert text in talk or process.poll() is None, talk
        return text in talk

    until(said, text)


def test_a_job_outlives_its_submission_and_one_job_is_all_there_is(user: User) -> None:
    write_script(user.folder, WAITING.replace("FOLDER", repr(str(user.folder))) + NOISY)
    path = write_manifest(user.folder, seeds=[1, 2])
    first = user.start("submit", path, *WORDS)
    heard(user, "running tiny/default/command/1", first)
    first.send_signal(signal.SIGKILL)
    first.wait(PATIENCE_SECONDS)
    second = user.start("submit", path, *WORDS)
    heard(user, "job 1 was submitted before, and is followed", second)
    (user.folder / "go").touch()
    assert second.wait(PATIENCE_SECONDS) == 0, user.talk.read_text()
    (capsule,) = user.folder.glob("tiny-*.capsule.zip")
    assert f"sealed {capsule.name}" in user.talk.read_text()
    (folder,) = user.folder.glob("*.job")
    assert [one.name for one in folder.glob("job-*.native")] == ["job-1.native"]
    # by its folder: nothing new is handed in
    assert (user.folder / user.json("submit", folder)["capsule"]).samefile(capsule)


def test_a_job_that_fails_is_told_and_tried_once_more(user: User) -> None:
    write_script(user.folder, "raise SystemExit('no luck')\n")
    path = write_manifest(user.folder, seeds=[1])
    for number in (1, 2):
        ended = user.run("submit", path, *WORDS)
        assert ended.returncode == 5, ended.stderr
        assert f"job {number} ended with exit code 5" in ended.stderr
        assert "no luck" in ended.stderr


def test_what_it_cannot_hand_in_is_refused(user: User, tmp_path: Path) -> None:
    write_script(user.folder, NOISY)
    path = write_manifest(user.folder, seeds=[1], resources={"nodes": 2})
    ended = user.run("submit", path, *WORDS)
    assert ended.returncode == 6
    assert "jobs of one node without GPUs" in ended.stderr
    path = write_manifest(user.folder, seeds=[1])
    ended = user.run("submit", path, "--runtime", "host")
    assert ended.returncode == 2
    assert "would give the job ten minutes" in ended.stderr
    (tmp_path / "psij.py").write_text("raise ImportError('no psij')\n")
    ended = user.run("submit", path, *WORDS, PYTHONPATH=str(tmp_path))
    assert ended.returncode == 6
    assert "pip install 'capsule-hpc[psij]'" in ended.stderr
