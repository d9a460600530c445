"""A session of tests, however it ends, leaves nothing running, and ends nothing of anybody else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from capsule import process
from tests.support.engines import docker, small_image
from tests.support.patience import PATIENCE_SECONDS, read_lines, until

ROOT = Path(__file__).parents[2]
LEAVES = """
import os
from pathlib import Path
from capsule import process

def test_that_leaves_something(tmp_path):
    env = {"PATH": os.environ["PATH"], "CAPSULE_RUN": "left", "CAPSULE_OUT": str(tmp_path)}
    out = tmp_path / "out"
    left = process.start(["sleep", "600"], env=env, cwd=tmp_path, stdout=out, stderr=out)
    Path(os.environ["TELL"]).write_text(f"{left.pid}\\n")
"""
WAITS = LEAVES + "    left.wait(600)\n"
LEAVES_NOTHING = "def test_that_leaves_nothing(): pass\n"


class Inner:
    """Sessions inside this one, on a machine of their own as far as folders go."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self._tell = base / "tell"

    def start(self, test: str, *words: str) -> subprocess.Popen[str]:
        """Start a session of one test; it leads a process group."""
        path = self._base / "test_inner.py"
        path.write_text(test)
        changes = {"TMPDIR": str(self._base), "TELL": str(self._tell), "PYTHONPATH": str(ROOT)}
        return subprocess.Popen(
            [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-q", *words, str(path)],
            cwd=self._base,
            env={**os.environ, **changes},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, test: str, *words: str) -> tuple[int, str]:
        """Run it to its end; exit code and output."""
        running = self.start(test, *words)
        output, _ = running.communicate(timeout=PATIENCE_SECONDS)
        return running.returncode, output

    def left(self) -> int:
        """The process that the test started, once it has."""
        (pid,) = read_lines(self._tell)
        return int(pid)


@pytest.fixture
def inner(tmp_path: Path) -> Iterator[Inner]:
    yield Inner(tmp_path)


def alive(pid: int) -> bool:
    return pid in process.find_marked("left")


@pytest.mark.parametrize("words", [[], ["-n", "1"]], ids=["alone", "with workers"])
def test_what_a_test_left_is_ended_and_fails_the_session(inner: Inner, words: list[str]) -> None:
    code, output = inner.run(LEAVES, *words)
    assert code == pytest.ExitCode.TESTS_FAILED
    assert "1 passed" in output
    assert f"LEFT RUNNING by the tests, and ended now: process {inner.left()}: sleep 600" in output
    assert not alive(inner.left())


def test_a_session_that_leaves_nothing_leaves_no_folder(inner: Inner, tmp_path: Path) -> None:
    code, output = inner.run(LEAVES_NOTHING)
    assert (code, "LEFT" in output) == (0, False)
    assert not list(tmp_path.glob("capsule-tests-*"))


@pytest.mark.parametrize("words", [[], ["-n", "1"]], ids=["alone", "with workers"])
def test_sigterm_ends_a_session_with_all_that_it_started(inner: Inner, words: list[str]) -> None:
    running = inner.start(WAITS, *words)
    pid = inner.left()
    running.send_signal(signal.SIGTERM)
    output, _ = running.communicate(timeout=PATIENCE_SECONDS)
    assert running.returncode == pytest.ExitCode.INTERRUPTED, output
    assert not alive(pid)


def test_the_next_session_ends_what_a_killed_one_left_and_nothing_of_a_living_one(
    inner: Inner, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = Inner(tmp_path / "other")
    dead, living = inner.start(WAITS), other.start(WAITS)
    ours, theirs = inner.left(), other.left()
    # its folder stands where the next session looks for dead ones
    (folder,) = (tmp_path / "other").glob("capsule-tests-*")
    (tmp_path / folder.name).symlink_to(folder)
    os.killpg(dead.pid, signal.SIGKILL)
    dead.communicate(timeout=PATIENCE_SECONDS)
    assert alive(ours)
    code, output = inner.run(LEAVES_NOTHING)
    assert code == 0, output
    assert not alive(ours)
    assert alive(theirs)
    living.send_signal(signal.SIGTERM)
    living.communicate(timeout=PATIENCE_SECONDS)
    assert not alive(theirs)


def test_a_run_of_somebody_else_is_spared(inner: Inner, tmp_path: Path) -> None:
    out = tmp_path / "out"
    env = {"PATH": os.environ["PATH"], process.RUN_MARK: "foreign", "PWD": str(tmp_path)}
    foreign = process.start(["sleep", "600"], env=env, cwd=tmp_path, stdout=out, stderr=out)
    code, _ = inner.run(LEAVES)
    assert code == pytest.ExitCode.TESTS_FAILED
    assert foreign.wait(0) is None
    foreign.stop()


NEEDS_IMAGES = """
import os
import pytest

def test_of_none(): open("ran", "w")

@pytest.mark.engines
def test_of_engines(): assert os.environ["CAPSULE_TEST_IMAGE"] == "docker://here/a b"
"""


def test_tests_of_engines_wait_for_their_images(
    inner: Inner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "images").mkdir()
    monkeypatch.setenv("CAPSULE_TEST_IMAGES", str(tmp_path / "images"))
    running = inner.start(NEEDS_IMAGES)
    until((tmp_path / "ran").exists, "the test that needs none")
    (tmp_path / "images" / "env").write_text("export CAPSULE_TEST_IMAGE=docker://here/a\\ b\n")
    (tmp_path / "images" / "built").touch()
    output, _ = running.communicate(timeout=PATIENCE_SECONDS)
    assert "2 passed" in output


@pytest.mark.parametrize(("environment", "code"), [("", 0), ("1", 1)])
def test_images_that_could_not_be_built_fail_a_session_of_ci_alone(
    inner: Inner,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    environment: str,
    code: int,
) -> None:
    monkeypatch.setenv("CAPSULE_TEST_IMAGES", str(tmp_path))
    monkeypatch.setenv("CI", environment)
    (tmp_path / "failed").touch()
    (tmp_path / "log").write_text("no wheel of that hash\n")
    ended, output = inner.run(NEEDS_IMAGES, "-rs")
    assert (ended, "1 passed" in output) == (code, True)
    assert "no wheel of that hash" in output


@pytest.mark.engines
def test_containers_of_the_session_are_ended_and_others_are_not(
    inner: Inner, tmp_path: Path
) -> None:
    image = small_image().removeprefix("docker://")
    label = f"foreign-{os.getpid()}"
    sleep = ["run", "--detach", "--label", f"org.capsule.run={label}"]
    folder = tmp_path / "foreign"
    folder.mkdir()
    foreign = docker(*sleep, "--volume", f"{folder}:/out", image, "sleep", "600")
    try:
        test = (
            "import subprocess\n"
            "def test_that_leaves_a_container(tmp_path):\n"
            f"    start = {['docker', *sleep]!r} + ['--volume', f'{{tmp_path}}:/out']\n"
            f"    subprocess.run([*start, {image!r}, 'sleep', '600'], check=True)\n"
        )
        code, output = inner.run(test)
        assert code == pytest.ExitCode.TESTS_FAILED, output
        assert "LEFT RUNNING by the tests, and ended now: container /" in output
        listed = docker("ps", "--quiet", "--no-trunc", "--filter", f"label=org.capsule.run={label}")
        assert listed.split() == [foreign]
    finally:
        docker("rm", "--force", foreign)
