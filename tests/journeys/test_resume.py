"""A run killed at any instant: nothing finished is lost, nothing is left running."""

import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from capsule import process
from capsule.execute.workspace import Workspace
from tests.support.command import NOISY, REPORT, Document, User, write_manifest, write_script
from tests.support.engines import engine_cache, small_image
from tests.support.patience import PATIENCE_SECONDS, until

# the copies in the run's folder, which containers see, and the host's workloads know of here
RELEASED = """
import os
def released():
    inputs = os.environ["CAPSULE_INPUTS"]
    return any(os.path.exists(f"{inputs}{way}/go") for way in ("", "/../../inputs"))
"""
# the third seed tells that it is under way, and ends only once somebody says so
HELD = NOISY.replace(
    'report("loss"',
    RELEASED
    + """
import pathlib, time
if seed == 3:
    pathlib.Path(os.environ["CAPSULE_OUT"], "under-way").write_text("")
    while not released():
        time.sleep(0.02)
report("loss\"""",
    1,
)
LOSS = "tiny/default/command/loss"


@pytest.fixture(
    params=[
        "host",
        pytest.param("apptainer", marks=pytest.mark.engines),
        pytest.param("docker", marks=pytest.mark.engines),
        pytest.param("podman", marks=pytest.mark.engines),
    ]
)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name: str = request.param
    if name != "host":
        monkeypatch.setenv("CAPSULE_CACHE", str(engine_cache()))
    return name


def manifest_for(author: User, engine: str) -> Path:
    image = {"reference": small_image()} if engine != "host" else None
    write_script(author.folder, HELD)
    return write_manifest(author.folder, image=image)


def descendants(pid: int) -> list[int]:
    pids: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            pids += [child, *descendants(child)]
    return pids


def kill_tree(leader: subprocess.Popen[str]) -> None:
    """What a node failure or an impatient scheduler does: no warning, and everybody at once."""
    for pid in [leader.pid, *descendants(leader.pid)]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    leader.wait()


def wait_for_workload(author: User, running: subprocess.Popen[str]) -> Path:
    """Wait until the held seed is under way; returns the run folder."""

    def there() -> bool:
        assert running.poll() is None, author.talk.read_text()
        return bool(list(author.folder.glob("*.run/starts/*/out/under-way")))

    until(there, "the held seed")
    (folder,) = author.folder.glob("*.run")
    return folder


def attempts_in(capsule: Path) -> list[Document]:
    with zipfile.ZipFile(capsule) as opened:
        lines = opened.read("data/results/attempts.jsonl").splitlines()
    return [json.loads(line) for line in lines]


def label_of(folder: Path) -> str:
    return Workspace.open(folder).label


def find_leftovers(label: str, engine: str) -> list[int | bytes]:
    """Processes of a run, and its containers."""
    containers: list[bytes] = []
    if engine in ("docker", "podman"):
        ask = [engine, "ps", "--all", "--quiet", "--filter", f"label=org.capsule.run={label}"]
        containers = subprocess.run(ask, capture_output=True, check=True).stdout.split()
    return [*process.find_marked(label), *containers]


def test_what_finished_before_kill_9_is_not_run_again(
    author: User, stranger: User, engine: str
) -> None:
    manifest = manifest_for(author, engine)
    running = author.start("run", manifest, "--runtime", engine)
    folder = wait_for_workload(author, running)
    label = label_of(folder)
    kill_tree(running)
    assert not list(author.folder.glob("*.zip"))
    assert author.run("check", folder).returncode == 4

    (folder / "inputs" / "go").write_text("")
    ended = author.run("run", "--resume", folder)
    assert ended.returncode == 0, ended.stderr
    assert find_leftovers(label, engine) == []
    assert not folder.exists()

    (capsule,) = author.folder.glob("*.capsule.zip")
    outcomes = [(one["trial"][-1], one["outcome"]) for one in attempts_in(capsule)]
    assert outcomes == [
        ("1", "completed"),
        ("2", "completed"),
        ("3", "interrupted"),
        ("3", "completed"),
        ("4", "completed"),
        ("5", "completed"),
    ]
    shown = author.json("show", capsule)
    assert shown["metrics"][LOSS]["n"] == 5
    assert shown["metrics"][LOSS]["missing"] == 0
    ended = author.run("verify", capsule, "--runtime", engine, "--runs", "3")
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("torn_bytes", [0, 9], ids=["not logged", "half logged"])
def test_a_start_that_was_killed_before_it_was_logged_is_made_again(
    author: User, torn_bytes: int
) -> None:
    running = author.start("run", manifest_for(author, "host"))
    folder = wait_for_workload(author, running)
    kill_tree(running)
    log = folder / "attempts.jsonl"
    begun = [line for line in log.read_bytes().splitlines(True) if b'"start"' in line]
    with log.open("ab") as stream:
        stream.write(begun[0][:torn_bytes])
    (folder / "starts" / "0004" / "out").mkdir(parents=True)
    (folder / "inputs" / "go").write_text("")
    ended = author.run("run", "--resume", folder)
    assert ended.returncode == 0, ended.stderr
    assert len(attempts_in(*author.folder.glob("*.capsule.zip"))) == 6


def test_a_run_that_was_killed_once_it_was_sealed_keeps_the_one_capsule(author: User) -> None:
    running = author.start("run", manifest_for(author, "host"))
    folder = wait_for_workload(author, running)
    kill_tree(running)
    (folder / "inputs" / "go").write_text("")
    # as if the kill had come before the folder's removal
    kept = shutil.copytree(folder, author.folder / "kept")
    assert author.run("run", "--resume", folder).returncode == 0
    (capsule,) = author.folder.glob("*.capsule.zip")
    sealed = capsule.read_bytes()
    kept.rename(folder)
    ended = author.run("run", "--resume", folder)
    assert ended.returncode == 0, ended.stderr
    assert f"sealed {capsule.name}" in ended.stdout + ended.stderr
    assert capsule.read_bytes() == sealed
    assert not folder.exists()


def test_a_resumed_run_writes_over_nothing(author: User) -> None:
    running = author.start("run", manifest_for(author, "host"))
    folder = wait_for_workload(author, running)
    kill_tree(running)
    (folder / "inputs" / "go").write_text("")
    another = author.folder / "another.capsule.zip"
    another.write_text("mine")
    refused = author.run("run", "--resume", folder, "--output", another)
    assert refused.returncode == 2
    assert "already exists" in refused.stderr
    assert another.read_text() == "mine"
    refused = author.run("run", "--resume", folder, "--output", folder / "lost.capsule.zip")
    assert refused.returncode == 2
    assert "the capsule's path is in the run folder" in refused.stderr
    assert author.run("run", "--resume", folder).returncode == 0


def test_a_narrowed_run_goes_on_as_narrowed(author: User) -> None:
    write_script(author.folder, HELD)
    gemm = {
        "id": "gemm",
        "level": 0,
        "operator": "gemm",
        "cases": [{"m": 1, "n": 1, "k": 1}],
        "frameworks": ["numpy"],
    }
    manifest = write_manifest(author.folder)
    tiny = json.loads(manifest.read_text())["benchmarks"]
    manifest = write_manifest(author.folder, benchmarks=[*tiny, gemm])
    running = author.start("run", manifest, "--runtime", "host", "--frameworks", "command")
    folder = wait_for_workload(author, running)
    kill_tree(running)
    (folder / "inputs" / "go").write_text("")
    refused = author.run("run", "--resume", folder, "--frameworks", "numpy")
    assert refused.returncode == 2
    assert "exclude each other" in refused.stderr
    ended = author.run("run", "--resume", folder)
    assert ended.returncode == 0, ended.stderr
    (capsule,) = author.folder.glob("*.capsule.zip")
    shown = author.json("show", capsule)
    assert list(shown["metrics"]) == [LOSS]
    assert any("measured with command only" in note["sentence"] for note in shown["notes"])


_SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 143}
# how an engine ends a workload is the same for both
_SEEN = [(signal.SIGINT, "apptainer"), (signal.SIGTERM, "docker"), (signal.SIGTERM, "podman")]


@pytest.mark.parametrize(
    ("engine", "number", "code"),
    [
        *(("host", number, code) for number, code in _SIGNALS.items()),
        *(
            pytest.param(
                *(name, number, code),
                marks=[pytest.mark.engines]
                if (number, name) in _SEEN
                else [pytest.mark.engines, pytest.mark.long],
            )
            for name in ("apptainer", "docker", "podman")
            for number, code in _SIGNALS.items()
        ),
    ],
    indirect=["engine"],
)
def test_an_interrupt_ends_the_workload_and_names_the_folder(
    author: User, engine: str, number: signal.Signals, code: int
) -> None:
    running = author.start("run", manifest_for(author, engine), "--runtime", engine)
    folder = wait_for_workload(author, running)
    label = label_of(folder)
    running.send_signal(number)
    assert running.wait(PATIENCE_SECONDS) == code
    assert folder.name in author.talk.read_text()
    assert find_leftovers(label, engine) == []
    (folder / "inputs" / "go").write_text("")
    assert author.run("run", "--resume", folder).returncode == 0


def test_in_the_background_of_a_script_sigint_is_ignored_and_sigterm_is_not(
    author: User, tmp_path: Path
) -> None:
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\ntrap "" INT HUP\nexec "{sys.executable}" "$@"\n')
    script.chmod(0o755)
    background = replace(author, python=str(script))
    running = background.start("run", manifest_for(author, "host"))
    folder = wait_for_workload(author, running)
    (workload,) = (pid for pid in descendants(running.pid) if _runs_python(pid))
    running.send_signal(signal.SIGINT)
    # the workload ignores nothing, and is tried again
    os.kill(workload, signal.SIGINT)
    again = folder / "starts" / "0004" / "out" / "under-way"
    until(again.exists, "the second attempt")
    running.send_signal(signal.SIGTERM)
    assert running.wait(PATIENCE_SECONDS) == 143
    assert find_leftovers(label_of(folder), "host") == []


def test_a_folder_with_the_name_of_a_run_under_way_ends_nothing_of_it(author: User) -> None:
    running = author.start("run", manifest_for(author, "host"))
    folder = wait_for_workload(author, running)
    foreign = author.folder / "foreign"
    shutil.copytree(folder, foreign)
    (foreign / "lock").unlink()
    (foreign / "inputs" / "go").write_text("")
    ended = author.run(
        "run", "--resume", foreign, "--trust", "--allow-host", "--output", "foreign.zip"
    )
    assert ended.returncode == 0, ended.stderr
    (folder / "inputs" / "go").write_text("")
    assert running.wait(PATIENCE_SECONDS) == 0, author.talk.read_text()
    (capsule,) = author.folder.glob("*.capsule.zip")
    assert [one["outcome"] for one in attempts_in(capsule)] == ["completed"] * 5


def test_a_run_under_way_cannot_be_taken_up_by_a_second_process(author: User) -> None:
    running = author.start("run", manifest_for(author, "host"))
    folder = wait_for_workload(author, running)
    ended = author.run("run", "--resume", folder)
    assert ended.returncode == 6
    assert "another process" in ended.stderr
    assert running.poll() is None
    (folder / "inputs" / "go").write_text("")
    assert running.wait(PATIENCE_SECONDS) == 0
    # nor was its workload ended and tried again
    (capsule,) = author.folder.glob("*.capsule.zip")
    assert {one["outcome"] for one in attempts_in(capsule)} == {"completed"}


def test_a_killed_verification_goes_on_and_reaches_its_verdict(author: User) -> None:
    manifest = write_manifest(author.folder)
    script = NOISY.replace(
        'report("loss"',
        RELEASED
        + """
import pathlib, time
if seed > 5 and not released():
    pathlib.Path(os.environ["CAPSULE_OUT"], "under-way").write_text("")
    time.sleep(600)
report("loss\"""",
        1,
    )
    write_script(author.folder, script)
    assert author.run("run", manifest, "--output", "a.capsule.zip").returncode == 0
    running = author.start("verify", "a.capsule.zip")
    folder = wait_for_workload(author, running)
    kill_tree(running)
    wrong = author.run("run", "--resume", folder)
    assert wrong.returncode == 2
    assert "capsule verify" in wrong.stderr
    (folder / "inputs" / "go").write_text("")
    ended = author.run("verify", "a.capsule.zip", "--resume", folder)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_a_workload_killed_from_outside_is_tried_again_with_the_same_seed(author: User) -> None:
    running = author.start("run", manifest_for(author, "host"))
    folder = wait_for_workload(author, running)
    victims = [pid for pid in descendants(running.pid) if _runs_python(pid)]
    (folder / "inputs" / "go").write_text("")
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    assert running.wait(PATIENCE_SECONDS) == 0
    (capsule,) = author.folder.glob("*.capsule.zip")
    third = [one for one in attempts_in(capsule) if one["trial"].endswith("/3")]
    reasons = [(one["outcome"], one["reason"]) for one in third]
    assert reasons in ([("interrupted", "killed"), ("completed", None)], [("completed", None)])
    assert {one["seed"] for one in third} == {3}


def _runs_python(pid: int) -> bool:
    return b"tiny.py" in Path(f"/proc/{pid}/cmdline").read_bytes()


def test_a_full_disk_is_one_clear_error_and_loses_nothing(author: User, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    if os.getuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a small file system needs root")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)], check=True)
    try:
        write_script(author.folder)
        manifest = write_manifest(author.folder)
        (small / "ballast").write_bytes(b"0" * 1_040_000)
        ended = author.run("run", manifest, "--output", small / "a.capsule.zip")
        assert ended.returncode == 5
        assert "free some space" in ended.stderr
        assert "--resume" in ended.stderr
        assert not (small / "a.capsule.zip").exists()
        (folder,) = author.folder.glob("*.run")
        (small / "ballast").unlink()
        ended = author.run("run", "--resume", folder, "--output", small / "a.capsule.zip")
        assert ended.returncode == 0, ended.stderr
        assert len(attempts_in(small / "a.capsule.zip")) == 5
    finally:
        subprocess.run(["umount", str(small)], check=True)


CURVE = (
    RELEASED
    + """
import pathlib, signal, time
def point(step, loss):
    with open(os.environ["CAPSULE_RESULTS"], "a") as results:
        results.write(json.dumps({"metric": "loss", "value": loss, "step": step}) + "\\n")
for step in (1, 2, 3):
    point(step, 1 / step)
if seed == 3 and not released():
    with open(os.environ["CAPSULE_RESULTS"], "a") as results:
        results.write('{"metric": "loss", "val')
    pathlib.Path(os.environ["CAPSULE_OUT"], "under-way").write_text("")
    time.sleep(600)
point(4, 0.25 + seed / 1000)
"""
)


def samples_in(capsule: Path) -> list[Document]:
    with zipfile.ZipFile(capsule) as opened:
        lines = opened.read("data/results/samples.jsonl").splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize(
    "engine",
    [
        "host",
        pytest.param("docker", marks=pytest.mark.engines),
        # a folder that a container wrote in is read as any other
        pytest.param("apptainer", marks=[pytest.mark.engines, pytest.mark.long]),
        pytest.param("podman", marks=[pytest.mark.engines, pytest.mark.long]),
    ],
    indirect=True,
)
def test_the_curve_of_a_killed_training_is_in_the_capsule_up_to_the_kill(
    author: User, engine: str
) -> None:
    manifest = manifest_for(author, engine)
    write_script(author.folder, REPORT + CURVE)
    running = author.start("run", manifest, "--runtime", engine)
    folder = wait_for_workload(author, running)
    kill_tree(running)
    (folder / "inputs" / "go").write_text("")
    ended = author.run("run", "--resume", folder)
    assert ended.returncode == 0, ended.stderr
    (capsule,) = author.folder.glob("*.capsule.zip")
    curves = {
        line["attempt"]: (line["steps"], line["values"])
        for line in samples_in(capsule)
        if line["seed"] == 3
    }
    assert curves == {
        1: ([1.0, 2.0, 3.0], [1.0, 0.5, 1 / 3]),
        2: ([1.0, 2.0, 3.0, 4.0], [1.0, 0.5, 1 / 3, 0.253]),
    }
    # the run's value is the last one of the attempt that completed
    runs = author.json("show", capsule)["metrics"][LOSS]["runs"]
    assert [run["value"] for run in runs if run["seed"] == 3] == [0.253]
