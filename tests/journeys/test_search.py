"""A search of hyper-parameters through the whole product, and its winner after it."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from capsule import api, manifest
from tests.journeys.test_format import follow
from tests.journeys.test_resume import descendants, kill_tree
from tests.support.command import Document, User
from tests.support.documented import ROOT
from tests.support.patience import until

SCRIPT = """
import json, math, os, random, sys
rate, seed = float(sys.argv[1]), int(os.environ["CAPSULE_SEED"])
if rate > 0.1:
    sys.exit("diverged")
loss = abs(math.log10(rate) + 2) + random.Random(seed + rate).gauss(0, 0.05)
print(json.dumps({"metric": "loss", "value": loss}), file=open(os.environ["CAPSULE_RESULTS"], "a"))
"""
SPACE = {"rate": {"from": 0.001, "to": 1, "scale": "log"}}
COMMAND: Document = {
    "id": "tiny",
    "command": ["python3", "tiny.py", "{rate}"],
    "inputs": ["tiny.py"],
    "metrics": {"loss": {"direction": "lower"}},
    "search": {"method": "random", "metric": "loss", "points": 3, "studies": 3, "space": SPACE},
}
TRAINING: Document = {
    "id": "lenet",
    "level": 2,
    "network": "lenet",
    "datasets": ["glyphs"],
    "frameworks": ["numpy"],
    "batch": 10,
    "epochs": 1,
    "optimizer": {"name": "sgd", "lr": 0.1},
    "search": {
        "method": "halton",
        "metric": "final_accuracy",
        "points": 12,
        "studies": 3,
        "space": {"lr": {"from": 0.01, "to": 0.3, "scale": "log"}, "side": [12]},
    },
}
GLYPHS: Document = {"generator": "glyphs", "samples": 20, "test_samples": 10, "side": 12}


def write(folder: Path, benchmark: Document, seeds: list[int], **fields: Any) -> Path:
    (folder / "tiny.py").write_text(SCRIPT)
    score = f"{benchmark['id']}/search/*/score"
    document = {
        "name": "sweep",
        "title": "A search",
        "authors": [{"name": "A. Author"}],
        "license": "CC0-1.0",
        "seeds": seeds,
        "benchmarks": [benchmark],
        "claims": [{"metric": score, "type": "equivalence", "margin": {"absolute": 0.5}}],
        **fields,
    }
    path = folder / "sweep.json"
    path.write_text(json.dumps(document))
    return path


@pytest.fixture
def searched(author: User) -> Path:
    """A sealed search of a command, some of whose trials fail."""
    path = write(author.folder, COMMAND, [1, 2, 3, 4, 5])
    ended = author.run("run", path, "--keep-going", "--output", "a.capsule.zip")
    assert ended.returncode == 5, ended.stderr
    assert "diverged" in ended.stderr
    return author.folder / "a.capsule.zip"


def test_a_search_is_sealed_and_judged_by_its_score(
    author: User, stranger: User, searched: Path
) -> None:
    with api.open(searched) as sealed:
        written = json.loads(sealed.open("manifest.json"))["benchmarks"][0]
        assert written["search"] == COMMAND["search"]
        points = {case["name"]: case["rate"] for case in written["cases"]}
        value = {
            (one.trial.split("/")[1], one.seed): sum(one.values) for one in sealed.record.samples
        }
    assert len(points) == 9
    assert any(rate > 0.1 for rate in points.values())
    (shown,) = author.json("sweep", "show", searched)["searches"]
    for seed in (1, 2, 3, 4, 5):
        best = sorted(
            min(value[f"s{study}-p{n}", seed] for n in (1, 2, 3) if points[f"s{study}-p{n}"] <= 0.1)
            for study in (1, 2, 3)
        )
        assert shown["scores"][str(seed)] == best[1]
    assert shown["failed"] == 5 * sum(rate > 0.1 for rate in points.values())
    assert [count for count, _ in shown["budget"]] == [1, 2, 5, 9]
    qualities = [quality for _, quality in shown["budget"]]
    assert qualities == sorted(qualities, reverse=True)
    assert author.run("check", searched).returncode == 0
    by_hand = follow(searched)
    assert by_hand.returncode == 0, by_hand.stderr
    assert "tiny/search/command/score" in by_hand.stdout
    verified = stranger.run("verify", searched, "--trust", "--allow-host", "--runs", "5")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "the claim holds" in verified.stdout


def test_a_search_that_cannot_be_made_here_is_no_evidence_against_it(
    author: User, stranger: User, searched: Path
) -> None:
    verified = stranger.run(
        *("verify", searched, "--trust", "--allow-host", "--runs", "3"),
        PATH=f"{fake_python(stranger.home)}:{os.environ['PATH']}",
    )
    assert verified.returncode == 3, verified.stdout + verified.stderr
    assert "no random here" in verified.stdout


def test_a_winner_runs_under_seeds_that_nobody_chose(author: User, searched: Path) -> None:
    ended = author.run("sweep", "winner", searched, "--seeds", "6", "-o", "winner.json")
    assert ended.returncode == 0, ended.stderr
    (shown,) = author.json("sweep", "show", searched)["searches"]
    winner = json.loads((author.folder / "winner.json").read_text())
    assert winner["benchmarks"][0]["cases"] == [{"name": shown["winner"], **shown["parameters"]}]
    assert winner["claims"] == [
        {"metric": f"tiny/{shown['winner']}/command/loss", "type": "equivalence"}
    ]
    assert len(winner["seeds"]) == 6
    assert not {1, 2, 3, 4, 5} & set(winner["seeds"])
    assert author.run("sweep", "winner", searched, "-o", "winner.json").returncode == 2
    ended = author.run("run", "winner.json", "--output", "winner.capsule.zip")
    assert ended.returncode == 0, ended.stderr
    assert author.run("check", "winner.capsule.zip").returncode == 0
    assert winner["winner_of"]["capsule"][:12] in author.run("show", "winner.capsule.zip").stdout
    ended = author.run(
        *("run", "--add-seeds", "2", "winner.capsule.zip", "--output", "more.capsule.zip")
    )
    assert ended.returncode == 0, ended.stderr
    assert author.run("check", "more.capsule.zip").returncode == 0
    winner["seeds"][0] = 11
    (author.folder / "winner.json").write_text(json.dumps(winner))
    for verb in ("run", "lint"):
        ended = author.run(verb, "winner.json")
        assert ended.returncode == 2
        assert "found seed 11, expected seed " in ended.stderr
        assert "which capsule derives from the search" in ended.stderr


def test_the_shipped_search_is_whole(author: User) -> None:
    ended = author.run("lint", ROOT / "manifests" / "search.json")
    assert ended.returncode == 0, ended.stderr
    assert "search-unclaimed" not in ended.stdout


def test_framework_by_framework_the_same_points_are_searched(author: User) -> None:
    both = {**TRAINING, "frameworks": ["torch", "numpy"]}
    path = write(author.folder, both, [1], datasets={"glyphs": GLYPHS})
    whole, part = manifest.load(path), manifest.load(path, ["numpy"])
    assert part.benchmarks[0].frameworks == ("numpy",)
    assert part.benchmarks[0].cases == whole.benchmarks[0].cases
    assert part.claims == whole.claims


def test_a_crash_costs_one_trial_and_a_kill_none(author: User) -> None:
    path = write(author.folder, TRAINING, [1], datasets={"glyphs": GLYPHS})
    running = author.start("run", path, "--runtime", "host", "--output", "a.capsule.zip")
    journal = wait_for_trials(running, author, start=1, trials=2)
    (program,) = [pid for pid in descendants(running.pid) if runs(pid, journal)]
    until(lambda: is_stopped_in_a_trial(program, journal), "a trial under way")
    os.kill(program, signal.SIGSEGV)
    os.kill(program, signal.SIGCONT)
    wait_for_trials(running, author, start=2, trials=2)
    kill_tree(running)
    ended = author.run("run", "--resume", journal.parents[3], "--output", "a.capsule.zip")
    assert ended.returncode == 5, ended.stderr
    assert "crashed with SIGSEGV" in ended.stderr
    with api.open(author.folder / "a.capsule.zip") as sealed:
        attempts = sealed.record.attempts
    by_outcome = {
        outcome: [one for one in attempts if one.outcome == outcome]
        for outcome in ("completed", "failed", "interrupted")
    }
    assert (len(by_outcome["completed"]), len(by_outcome["failed"])) == (35, 1)
    assert by_outcome["failed"][0].reason == "signal"
    assert len(by_outcome["interrupted"]) <= 1
    assert len({one.started for one in attempts}) <= 3
    assert author.run("check", "a.capsule.zip").returncode == 0
    (shown,) = author.json("sweep", "show", "a.capsule.zip")["searches"]
    assert (shown["trials"], shown["failed"], len(shown["scores"])) == (36, 1, 1)


def wait_for_trials(
    running: subprocess.Popen[str], author: User, *, start: int, trials: int
) -> Path:
    """Wait until a process start has ended so many trials; returns its journal."""

    def journals() -> list[Path]:
        assert running.poll() is None, author.talk.read_text()
        return [
            path
            for path in author.folder.glob(f"*.run/starts/{start:04}/out/journal.jsonl")
            if path.read_bytes().count(b'"event":"end"') >= trials
        ]

    until(lambda: bool(journals()), f"{trials} trials of start {start}")
    return journals()[0]


def runs(pid: int, journal: Path) -> bool:
    return bytes(journal) in Path(f"/proc/{pid}/cmdline").read_bytes()


def is_stopped_in_a_trial(pid: int, journal: Path) -> bool:
    """Stop a process; it goes on where it is between two trials."""
    os.kill(pid, signal.SIGSTOP)
    until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T", "it")
    events = journal.read_bytes()
    if events.count(b'"event":"begin"') > events.count(b'"event":"end"'):
        return True
    os.kill(pid, signal.SIGCONT)
    return False


def fake_python(folder: Path) -> Path:
    """A folder with a python3 that cannot do what others can."""
    binaries = folder / "bin"
    binaries.mkdir()
    program = binaries / "python3"
    program.write_text("#!/bin/sh\necho 'ImportError: no random here' >&2\nexit 1\n")
    program.chmod(0o755)
    return binaries
