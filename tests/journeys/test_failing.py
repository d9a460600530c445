"""An honest author's runs fail where somebody verifies them: who or what is at fault is told."""

import json
import zipfile
from pathlib import Path

import pytest

from tests.support.command import REPORT, Document, User, write_manifest, write_script
from tests.support.patience import until

LOSS = "tiny/default/command/loss"
CONTROL = "tiny/default/command/1"
VALUE = 'report("loss", 1 + random.Random(seed).uniform(-0.01, 0.01))\n'
# as numpy.random.seed(10**5 * seed): a fresh seed passes once in fifty thousand
NARROW = f'{REPORT}assert seed * 10**5 < 2**32, f"{{seed * 10**5}} is no 32-bit seed"\n{VALUE}'
# a file that the author has, and nobody else
ABSENT = f'{REPORT}open("WEIGHTS").read()\n{VALUE}'


def published(author: User, script: str, **changes: object) -> Path:
    write_script(author.folder, script)
    manifest = write_manifest(author.folder, **changes)
    ended = author.run("run", manifest, "--output", "a.capsule.zip")
    assert ended.returncode == 0, ended.stderr
    return author.folder / "a.capsule.zip"


def verify(user: User, capsule: Path, *words: str) -> tuple[Document, str, list[Document]]:
    """What --json prints, what a person reads first, and the attempts of the re-execution."""
    ended = user.run("verify", capsule, *words, "--output", "b.capsule.zip")
    assert ended.returncode == 3, ended.stdout + ended.stderr
    rerun = user.folder / "b.capsule.zip"
    assert user.run("check", rerun).returncode == 0
    verdict = user.json("diff", capsule, rerun, code=3)
    return verdict, " ".join(ended.stdout.split()), attempts_of(rerun)


def attempts_of(capsule: Path) -> list[Document]:
    with zipfile.ZipFile(capsule) as opened:
        lines = opened.read("data/results/attempts.jsonl").splitlines()
    return [json.loads(line) for line in lines]


def controls_of(attempts: list[Document]) -> list[tuple[str, str]]:
    return [(one["trial"], one["outcome"]) for one in attempts if one["seed_source"] == "control"]


def test_seeds_that_a_script_cannot_take_are_named_and_nobody_is_called_different(
    author: User,
) -> None:
    verdict, report, attempts = verify(author, published(author, NARROW))
    seeds = sorted(one["seed"] for one in attempts if one["seed_source"] == "fresh")
    (claim,) = verdict["claims"]
    assert (claim["verdict"], claim["fault"]) == ("INCONCLUSIVE", "seeds")
    assert claim["failure"] == f"AssertionError: {seeds[0] * 10**5} is no 32-bit seed"
    # the first line tells what happened, in the report as in the document
    assert claim["failure"] in report.partition("title")[0]
    assert claim["failure"] in verdict["sentence"]
    assert "the cause is the fresh seeds" in verdict["sentence"]
    named = "fresh seeds {}, {}, {} and 2 more".format(*seeds)
    assert named in claim["sentence"]
    assert named in report
    assert "under seed 1 of the original did not fail on this machine" in claim["sentence"]
    assert claim["advice"]["answer"] == "mend"
    assert claim["advice"]["sentence"].startswith("more re-runs cannot settle this")
    assert "seed_range" in claim["advice"]["sentence"]
    assert controls_of(attempts) == [(CONTROL, "completed")]
    # the control run is in the capsule, and counts nowhere
    assert (claim["rerun"]["values"], claim["rerun"]["failed"]) == (0, 5)
    assert claim["rerun"]["seeds"] == seeds
    shown = " ".join(author.run("show", "b.capsule.zip").stdout.split())
    fresh = dict.fromkeys(str(one["seed"]) for one in attempts if one["seed_source"] == "fresh")
    assert f"fresh seeds {', '.join(fresh)}, control seed 1, " in shown


def test_the_range_that_the_advice_names_mends_it(author: User) -> None:
    capsule = published(author, NARROW, seed_range=[0, 40000])
    assert author.run("verify", capsule).returncode == 0


@pytest.mark.parametrize("words", [(), ("--until-decided",)], ids=["one look", "all looks"])
def test_a_machine_on_which_nothing_runs_is_at_fault_itself(
    author: User, words: tuple[str, ...]
) -> None:
    weights = author.folder / "weights"
    weights.write_text("1")
    capsule = published(author, ABSENT.replace("WEIGHTS", str(weights)))
    weights.unlink()
    verdict, report, attempts = verify(author, capsule, *words)
    (claim,) = verdict["claims"]
    assert (claim["verdict"], claim["fault"]) == ("INCONCLUSIVE", "machine")
    assert "FileNotFoundError" in report.partition("title")[0]
    assert "FileNotFoundError" in verdict["sentence"]
    assert "the cause is this machine or its software" in verdict["sentence"]
    assert "under seed 1 of the original failed on this machine too" in claim["sentence"]
    assert claim["advice"]["sentence"].startswith("install the software that the failed runs lack")
    with zipfile.ZipFile(author.folder / "b.capsule.zip") as opened:
        logs = [opened.read(one) for one in opened.namelist() if one.startswith("data/logs/")]
    assert any(b"FileNotFoundError" in log for log in logs)
    assert controls_of(attempts) == [(CONTROL, "failed")]
    # no further look helps
    assert len(attempts) == 6


def test_a_command_that_is_not_there_is_the_machine_s_fault(author: User) -> None:
    tool = author.folder / "tool"
    tool.write_text(f"#!/usr/bin/env python3\n{REPORT}{VALUE}")
    tool.chmod(0o755)
    command = ["sh", "-c", f"{tool} --train"]
    benchmark = {"id": "tiny", "command": command, "metrics": {"loss": {"direction": "lower"}}}
    capsule = published(author, "", benchmarks=[benchmark])
    tool.unlink()
    verdict, _, _ = verify(author, capsule)
    assert verdict["claims"][0]["fault"] == "machine"
    assert "not found" in verdict["sentence"]


def test_re_runs_that_fail_each_in_its_own_way_are_different_and_have_no_control(
    author: User,
) -> None:
    ways = 'if seed > 8: raise type(f"Fault{seed}Error", (Exception,), {})("so")\n'
    capsule = published(author, f"{REPORT}{ways}{VALUE}", seeds=list(range(1, 9)))
    ended = author.run("verify", capsule, "--output", "b.capsule.zip")
    assert controls_of(attempts_of(author.folder / "b.capsule.zip")) == []
    assert ended.returncode == 1, ended.stdout
    # failed runs decide: the headline shows how they ended
    assert "Error: so" in " ".join(ended.stdout.split()).partition("title")[0]


def test_runs_under_the_author_s_seeds_are_control_enough(author: User) -> None:
    claims = [{"metric": LOSS, "type": "equivalence", "margin": {"absolute": 0.5}, "paired": True}]
    verdict, _, attempts = verify(author, published(author, NARROW, claims=claims))
    assert controls_of(attempts) == []
    paired, fresh = verdict["claims"]
    assert (paired["verdict"], paired["fault"]) == ("REPRODUCED", None)
    assert (fresh["verdict"], fresh["fault"]) == ("INCONCLUSIVE", "seeds")


def test_nothing_is_added_to_runs_that_all_failed_alike(author: User) -> None:
    capsule = published(author, NARROW)
    author.run("verify", capsule, "--output", "b.capsule.zip")
    added = author.run("verify", capsule, "--add", "b.capsule.zip")
    assert added.returncode == 2
    assert "failed in the same way" in added.stderr
    assert "verify the original again" in added.stderr


def test_a_verification_killed_in_its_control_run_makes_no_second_one(author: User) -> None:
    """The control run is under way when everything dies; taken up again, it is tried again."""
    held = (
        "import pathlib, time\n"
        'started, go = pathlib.Path("FOLDER/started"), pathlib.Path("FOLDER/go")\n'
        "if not go.exists() and seed < 6:\n"
        '    started.write_text("")\n'
        "    while not go.exists():\n"
        "        time.sleep(0.02)\n"
    ).replace("FOLDER", str(author.folder))
    go = author.folder / "go"
    go.write_text("")
    capsule = published(author, NARROW.replace("assert", f"{held}assert"))
    go.unlink()
    running = author.start("verify", capsule, "--output", "b.capsule.zip")
    until((author.folder / "started").exists, "the control run")
    running.kill()
    running.wait()
    go.write_text("")
    (folder,) = author.folder.glob("*.run")
    ended = author.run("verify", capsule, "--resume", folder, "--output", "b.capsule.zip")
    assert ended.returncode == 3, ended.stderr
    rerun = author.folder / "b.capsule.zip"
    assert author.run("check", rerun).returncode == 0
    attempts = attempts_of(rerun)
    assert controls_of(attempts) == [(CONTROL, "interrupted"), (CONTROL, "completed")]
    assert len({one["trial"] for one in attempts}) == 6
    (claim,) = author.json("diff", capsule, rerun, code=3)["claims"]
    assert claim["fault"] == "seeds"


def test_a_margin_for_failures_is_kept_to_and_lint_says_what_it_takes(author: User) -> None:
    claim = {"metric": LOSS, "type": "equivalence", "margin": {"absolute": 0.5}}
    wide, narrow = {**claim, "failure_margin": 0.6}, {**claim, "failure_margin": 0.1}
    capsule = published(author, f"{REPORT}{VALUE}", claims=[wide, narrow])
    linted = author.run("lint", "tiny.json")
    assert "5 seeds never confirm a failure margin of 0.1" in " ".join(linted.stdout.split())
    assert "failure margin of 0.6" not in linted.stdout
    verdict, _, _ = verify(author, capsule)
    reproduced, open_claim = verdict["claims"]
    assert (reproduced["verdict"], reproduced["claim"]["failure_margin"]) == ("REPRODUCED", 0.6)
    assert "0 of 5 re-runs: the rates differ by less than 0.6" in reproduced["sentence"]
    assert (open_claim["verdict"], open_claim["claim"]["failure_margin"]) == ("INCONCLUSIVE", 0.1)
    assert open_claim["advice"]["answer"] == "original-too-few"
