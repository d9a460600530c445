"""`capsule run --try`: one trial as a verifier will run it, and nothing of it stays."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.command import NOISY, REPORT, User, write_manifest, write_script
from tests.support.patience import PATIENCE_SECONDS, until

# says that it is there, and never ends by itself
WAITS = """
import os, pathlib, time
pathlib.Path(GO + "~").write_text(str(os.getpid()))
os.rename(GO + "~", GO)
while True:
    time.sleep(0.05)
"""


def left(author: User) -> list[str]:
    """All that lies in the author's folder but for what the tests put there."""
    own = {"tiny.py", "tiny.json", "go", "talk.txt"}
    return sorted(path.name for path in author.folder.iterdir() if path.name not in own)


def test_a_trial_is_shown_as_it_would_be_recorded_and_nothing_stays(author: User) -> None:
    write_script(author.folder, NOISY + 'print("epoch 1 of 1")\n')
    ended = author.run("run", "--try", write_manifest(author.folder))
    assert ended.returncode == 0, ended.stderr
    assert "| epoch 1 of 1\n" in ended.stderr
    assert "--resume" not in ended.stderr
    assert "trial completed (fresh seed " in ended.stdout
    assert "1 value" in ended.stdout
    assert "5 trials will take about" in ended.stdout
    assert "trial deleted; nothing sealed" in ended.stdout
    assert left(author) == []
    assert not (author.home / ".local").exists()


def test_its_seed_is_none_of_the_authors_and_within_the_range(author: User) -> None:
    write_script(author.folder)
    manifest = write_manifest(author.folder, seeds=[100, 101], seed_range=[100, 10100])
    seeds = {author.json("run", "--try", manifest)["seed"] for _ in range(3)}
    assert seeds <= set(range(102, 10101))


def test_metrics_are_in_the_document_with_what_lint_warns_of(author: User) -> None:
    write_script(author.folder)
    tried = author.json("run", "--try", write_manifest(author.folder, claims=[]))
    loss = tried["metrics"]["loss"]
    assert (loss["values"], loss["unit"]) == (1, "1")
    assert 0.99 <= loss["value"] <= 1.01
    assert tried["seconds"] > 0
    assert "no-claims" in [warning["code"] for warning in tried["warnings"]]


@pytest.mark.parametrize(
    ("script", "words", "shown"),
    [
        ("raise SystemExit('no data here')\n", "failed (exit): exit code 1", "missing"),
        (f"{REPORT}report('acc', 1.0)\n", "metric 'loss' is missing; reported acc", "missing"),
        (f"{REPORT}report('loss', float('nan'))\n", "loss is nan", "not finite"),
    ],
)
def test_a_trial_that_fails_is_told_with_what_is_missing(
    author: User, script: str, words: str, shown: str
) -> None:
    write_script(author.folder, script)
    ended = author.run("run", "--try", write_manifest(author.folder))
    assert ended.returncode == 5
    assert words in ended.stderr
    assert shown in ended.stdout
    assert "would take" not in ended.stdout
    assert left(author) == []


# common first mistakes, each with what both commands say of it
LACKING = {
    "no such module": ("import no_such_module\n", ["has no module no_such_module"]),
    "a module beside it": ("import beside\n", ['add "beside.py" to "inputs"']),
    "a question": ("input('Continue? ')\n", ["stdin is closed", '"stdin"']),
    "a variable": ("import os\nos.environ['USER']\n", ['"environment": {"USER"']),
    "a repository": (
        "import subprocess, sys\nsys.exit(subprocess.call(['git', 'rev-parse', 'HEAD']))\n",
        [".git is not in a capsule"],
    ),
    "a repository, quietly": (
        "import subprocess\nsubprocess.run(['git', 'log'], check=True, capture_output=True)\n",
        [".git is not in a capsule"],
    ),
    "a file": ("open('data.csv')\n", ['add it to "inputs"']),
    "a file beside it": (
        "from pathlib import Path\n(Path(__file__).parent / 'data.csv').read_text()\n",
        ['"data.csv" is beside the manifest'],
    ),
    "a file of the home": (
        "import os\nopen(os.path.expanduser('~/weights.bin'))\n",
        ["~/weights.bin is in your home"],
    ),
}


@pytest.mark.parametrize("kind", LACKING)
def test_it_says_of_a_failure_what_a_run_says(author: User, kind: str) -> None:
    script, words = LACKING[kind]
    # the folder of a run lies in the author's clone
    subprocess.run(["git", "init", "-q", "."], cwd=author.folder, check=True)
    (author.folder / "beside.py").touch()
    (author.folder / "data.csv").touch()
    (author.home / "weights.bin").touch()
    write_script(author.folder, script)
    manifest = write_manifest(author.folder)
    tried, run = author.run("run", "--try", manifest), author.run("run", manifest)
    assert (tried.returncode, run.returncode) == (5, 5)
    for word in words:
        assert word in tried.stderr
        assert word in run.stderr
    # each path that a trial prints is one that its author knows
    assert "capsule-partial" not in tried.stdout + tried.stderr
    assert "/tmp/.c" not in tried.stdout + tried.stderr
    assert tried.stderr.count("Traceback") <= 1


def test_what_is_kept_nowhere_has_no_place_to_name(author: User) -> None:
    write_script(author.folder)
    manifest = write_manifest(author.folder)
    for words in (["-o", "a.zip"], ["--work", "a.run"], ["--dry-run"], ["--keep-going"]):
        ended = author.run("run", "--try", manifest, *words)
        assert ended.returncode == 2, ended.stderr
        assert "--try and --" in ended.stderr
    assert author.run("run", "--try", "--resume", "a.run").returncode == 2


def wait(author: User) -> Path:
    """A manifest of such a script; the file by which it says that it is there."""
    go = author.folder / "go"
    write_script(author.folder, WAITS.replace("GO", repr(str(go))))
    write_manifest(author.folder)
    return go


def test_an_interrupt_leaves_nothing(author: User) -> None:
    go = wait(author)
    running = author.start("run", "--try", "tiny.json")
    until(go.exists, "the script")
    running.send_signal(signal.SIGINT)
    assert running.wait(PATIENCE_SECONDS) == 130
    assert left(author) == []
    assert author.talk.read_text().endswith("interrupted\n")


@pytest.mark.parametrize(
    ("words", "sealed"),
    [(["--try", "tiny.json"], []), (["tiny.json", "-o", "a.zip"], ["a.zip"])],
)
def test_what_a_killed_one_leaves_the_next_start_ends_and_removes(
    author: User, words: list[str], sealed: list[str]
) -> None:
    go = wait(author)
    running = author.start("run", "--try", "tiny.json")
    until(go.exists, "the script")
    running.kill()
    running.wait(PATIENCE_SECONDS)
    (partial,) = left(author)
    assert partial.endswith(".capsule-partial")
    write_script(author.folder)
    ended = author.run("run", *words)
    assert ended.returncode == 0, ended.stderr
    assert "ended 1 process that" in ended.stderr
    assert left(author) == sealed
