"""`capsule run` from the outside, on the host: what a newcomer and a careless author see."""

import json
import shutil
import zipfile
from pathlib import Path

import pytest

from tests.support.command import NOISY, REPORT, User, write_manifest, write_script

ROOT = Path(__file__).parents[2]
LOSS = "tiny/default/command/loss"


def capsules(user: User) -> list[Path]:
    return sorted(user.folder.glob("*.capsule.zip"))


def run_folders(user: User) -> list[Path]:
    return sorted(user.folder.glob("*.run"))


def test_a_run_leaves_one_capsule_and_nothing_else(author: User) -> None:
    write_script(author.folder)
    ended = author.run("run", write_manifest(author.folder))
    assert ended.returncode == 0, ended.stderr
    (capsule,) = capsules(author)
    assert not run_folders(author)
    shown = author.json("show", capsule)
    assert shown["id"] in ended.stdout
    assert shown["contained"] is False
    assert shown["metrics"][LOSS]["n"] == 5
    assert "ran on the host, not in a container" in ended.stdout
    assert author.run("check", capsule).returncode == 0


def test_the_capsule_holds_the_script_its_logs_and_the_measuring_program(author: User) -> None:
    write_script(author.folder, NOISY + 'print("seed", seed)\n')
    author.run("run", write_manifest(author.folder))
    with zipfile.ZipFile(capsules(author)[0]) as capsule:
        names = set(capsule.namelist())
        assert capsule.read("data/logs/0001-stdout.txt") == b"seed 1\n"
    assert {"data/inputs/tiny.py", "data/levels/probe.py", "data/results/samples.jsonl"} <= names
    # what measures operators and networks is of no use to a command
    assert not any("/levels/operators/" in name for name in names)


CURVE = """import json, os, random
seed = int(os.environ["CAPSULE_SEED"])
noise = random.Random(seed)
with open(os.environ["CAPSULE_RESULTS"], "a") as results:
    offset = noise.gauss(0, 0.01)
    for epoch in range(1, 6):
        line = {"metric": "loss", "value": 1 / epoch + offset, "step": epoch}
        results.write(json.dumps(line) + "\\n")
"""


def test_a_curve_is_kept_with_its_steps_and_judged_as_one(author: User) -> None:
    write_script(author.folder, CURVE)
    claims = [
        {"metric": LOSS, "type": "curve", "margin": {"absolute": 0.1}},
        {"metric": LOSS, "type": "equivalence", "margin": {"absolute": 0.01}, "paired": True},
    ]
    author.run("run", write_manifest(author.folder, claims=claims))
    with zipfile.ZipFile(capsules(author)[0]) as capsule:
        line = json.loads(capsule.read("data/results/samples.jsonl").splitlines()[0])
    assert line["steps"] == [1, 2, 3, 4, 5]
    judged = author.json("verify", capsules(author)[0])
    curve, paired = judged["claims"]
    assert (curve["method"], curve["seeds"], judged["verdict"]) == ("curve", "fresh", "REPRODUCED")
    # the script depends on its seed alone: the author's seeds give the author's values again
    assert (paired["method"], paired["rerun"]["seeds"]) == ("exact", [1, 2, 3, 4, 5])


def test_exact_claims_alone_draw_no_fresh_seeds_and_are_sealed_all_the_same(author: User) -> None:
    write_script(author.folder)
    manifest = write_manifest(author.folder, claims=[{"metric": LOSS, "type": "exact"}])
    author.run("run", manifest, "--output", "a.zip")
    assert author.json("verify", "a.zip", "--output", "b.zip")["verdict"] == "REPRODUCED"
    assert author.run("check", "b.zip").returncode == 0
    added = author.run("verify", "a.zip", "--add", "b.zip")
    assert added.returncode == 2
    assert "no fresh seeds" in added.stderr


def test_two_manifests_differ_in_nothing_but_their_seeds_when_verified(author: User) -> None:
    write_script(author.folder)
    author.run("run", write_manifest(author.folder))
    verdict = author.json("verify", capsules(author)[0])
    assert verdict["verdict"] == "REPRODUCED"
    (second,) = author.folder.glob("*.verification.zip")
    shown = author.json("show", second)
    assert shown["verifies"] == verdict["sides"]["original"]["id"]
    seeds = {run["seed"] for run in shown["metrics"][LOSS]["runs"]}
    assert len(seeds) == 5
    assert not seeds & {1, 2, 3, 4, 5}


def test_a_script_that_was_changed_is_different(author: User) -> None:
    script = write_script(author.folder)
    manifest = write_manifest(author.folder)
    author.run("run", manifest, "--output", "a.capsule.zip")
    script.write_text(REPORT + 'report("loss", 3 + seed / 1e12)\n')
    other = write_manifest(author.folder, seeds=[6, 7, 8, 9, 10])
    author.run("run", other, "--output", "b.capsule.zip")
    ended = author.run("diff", "a.capsule.zip", "b.capsule.zip")
    assert ended.returncode == 1
    assert ended.stdout.startswith("DIFFERENT")


def test_too_few_runs_are_inconclusive(author: User) -> None:
    write_script(author.folder)
    manifest = write_manifest(author.folder, seeds=[1])
    author.run("run", manifest, "--output", "a.capsule.zip")
    ended = author.run("verify", "a.capsule.zip")
    assert ended.returncode == 3
    assert "authors" not in ended.stdout
    (second,) = author.folder.glob("*.verification.zip")
    assert f"sealed {second.name}\n" in ended.stdout
    full = author.run("diff", "a.capsule.zip", second, "--full").stdout
    assert "authors" in full


@pytest.mark.parametrize(
    ("script", "reason", "words"),
    [
        ("import sys; sys.exit('no data')", "exit", "no data"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "signal", "SIGSEGV"),
        ("pass", "no-result", "metric 'loss' is missing"),
        (REPORT + 'report("loss", float("nan"))', "non-finite", "loss is nan"),
        (
            REPORT + 'report("accuracy", 1.0)',
            "no-result",
            "metric 'loss' is missing; reported accuracy",
        ),
    ],
)
def test_a_failure_is_an_outcome_that_is_named_and_sealed(
    author: User, script: str, reason: str, words: str
) -> None:
    fault = script.replace(REPORT, "")
    honest = NOISY.removeprefix(REPORT)
    write_script(author.folder, f"{REPORT}if seed == 2:\n    {fault}\nelse:\n    {honest}")
    ended = author.run("run", write_manifest(author.folder))
    assert ended.returncode == 5, ended.stderr
    assert "tiny/default/command/2" in ended.stderr
    assert words in ended.stderr
    shown = author.json("show", capsules(author)[0])
    assert shown["metrics"][LOSS]["failed"] == 1
    assert shown["metrics"][LOSS]["n"] == 4
    with zipfile.ZipFile(capsules(author)[0]) as capsule:
        lines = capsule.read("data/results/attempts.jsonl").splitlines()
    attempts = map(json.loads, lines)
    assert [one["reason"] for one in attempts if one["outcome"] == "failed"] == [reason]


def test_a_trial_that_takes_too_long_has_failed(author: User) -> None:
    write_script(author.folder, NOISY + "import time\nif seed == 2: time.sleep(600)\n")
    benchmark = {
        "id": "tiny",
        "command": ["python3", "tiny.py"],
        "inputs": ["tiny.py"],
        "metrics": {"loss": {"direction": "lower"}},
        "timeout": "00:00:05",
    }
    ended = author.run("run", write_manifest(author.folder, benchmarks=[benchmark]))
    assert ended.returncode == 5
    assert "timeout" in ended.stderr
    assert author.json("show", capsules(author)[0])["metrics"][LOSS]["n"] == 4


def test_the_walltime_ends_a_run_that_can_be_taken_up_again(author: User) -> None:
    write_script(
        author.folder,
        NOISY + "import time, pathlib\n"
        "go = pathlib.Path(os.environ['CAPSULE_INPUTS'], '../../inputs/go')\n"
        "if seed == 3 and not go.exists():\n"
        "    time.sleep(600)\n",
    )
    manifest = write_manifest(author.folder, resources={"walltime": "00:00:04"})
    ended = author.run("run", manifest)
    assert ended.returncode == 5
    assert "walltime" in ended.stderr
    assert not capsules(author)
    (folder,) = run_folders(author)
    (folder / "inputs" / "go").write_text("")
    ended = author.run("run", "--resume", folder, "--walltime", "00:20:00")
    assert ended.returncode == 0, ended.stderr
    shown = author.json("show", capsules(author)[0])
    assert shown["metrics"][LOSS]["n"] == 5


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["run", "none.json"], 2, "none.json"),
        (["run"], 2, "name a manifest"),
        (["run", "tiny.json", "--resume", "x"], 2, "MANIFEST and --resume exclude each other"),
        (["run", "--resume", "nowhere.run"], 2, "the run folder does not exist"),
        (["check", "none.capsule.zip"], 2, "none.capsule.zip"),
        (["run", "tiny.json", "--runtime", "apptainer"], 2, "the manifest names no image"),
        (["rnu"], 2, "rnu"),
        (["init", "tiny.json"], 2, "already exists"),
    ],
)
def test_a_wrong_command_line_is_one_clear_error(
    author: User, arguments: list[str], code: int, words: str
) -> None:
    write_script(author.folder)
    write_manifest(author.folder)
    ended = author.run(*arguments)
    assert ended.returncode == code, ended.stderr
    assert words in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not run_folders(author)


def test_a_missing_engine_is_named_with_what_would_do(author: User, tmp_path: Path) -> None:
    write_script(author.folder)
    reference = f"docker://127.0.0.1:1/none@sha256:{'0' * 64}"
    manifest = write_manifest(author.folder, image={"reference": reference})
    nothing = {"PATH": str(tmp_path), "DOCKER_HOST": f"unix://{tmp_path}/none.sock"}
    ended = author.run("run", manifest, **nothing)
    assert ended.returncode == 6
    assert "apptainer" in ended.stderr.lower()
    assert "--runtime host" in ended.stderr


def test_a_changed_dataset_stops_the_run_with_both_digests(author: User) -> None:
    write_script(author.folder)
    data = author.folder / "data.bin"
    data.write_bytes(b"right")
    digest = author.json("data", "hash", data)["digest"]
    benchmark = {
        "id": "tiny",
        "command": ["python3", "tiny.py"],
        "inputs": ["tiny.py"],
        "datasets": ["corpus"],
        "metrics": {"loss": {"direction": "lower"}},
    }
    manifest = write_manifest(
        author.folder,
        datasets={"corpus": {"path": "data.bin", "digest": digest}},
        benchmarks=[benchmark],
    )
    assert author.run("run", manifest).returncode == 0
    data.write_bytes(b"wrong")
    ended = author.run("run", manifest)
    assert ended.returncode == 4
    assert digest in ended.stderr
    assert len(capsules(author)) == 1


def test_init_lint_and_a_dry_run_execute_nothing(author: User) -> None:
    assert author.run("init", "mine.json").returncode == 0
    assert author.run("lint", "mine.json").returncode == 0
    plan = author.json("run", "mine.json", "--dry-run")
    again = author.json("run", "mine.json", "--dry-run")
    assert plan == again
    assert plan["groups"]
    assert not run_folders(author)


@pytest.mark.torch
@pytest.mark.parametrize(
    # fewer seeds confirm no narrower margin
    ("seeds", "margin"),
    [(3, 0.8), pytest.param(5, 0.2, marks=pytest.mark.long)],
)
def test_a_plain_training_loop_reproduces_its_final_loss_with_fresh_seeds(
    author: User, seeds: int, margin: float
) -> None:
    document = json.loads((ROOT / "manifests" / "training.json").read_text())
    del document["$schema"]
    document["claims"][0]["margin"] = {"relative": margin}
    manifest = author.folder / "training.json"
    manifest.write_text(json.dumps({**document, "seeds": document["seeds"][:seeds]}))
    shutil.copytree(ROOT / "manifests" / "training", author.folder / "training")
    ended = author.run("run", manifest, "--output", "a.capsule.zip")
    assert ended.returncode == 0, ended.stderr
    verdict = author.json("verify", "a.capsule.zip")
    assert verdict["verdict"] == "REPRODUCED"


def test_a_value_too_large_to_be_judged_is_told_with_the_limit(author: User) -> None:
    write_script(author.folder, f"{REPORT}report('loss', 1e301 * seed)\n")
    ended = author.run("run", write_manifest(author.folder), "--output", "a.zip")
    assert ended.returncode == 0, ended.stderr
    assert "beyond 1e300" in author.run("show", "a.zip").stdout
    manifest = write_manifest(author.folder, seeds=[6, 7, 8])
    assert author.run("run", manifest, "--output", "b.zip").returncode == 0
    ended = author.run("diff", "a.zip", "b.zip")
    report = " ".join(ended.stdout.split())
    assert "is beyond 1e300, the largest that can be judged: report the metric" in report
    assert "count as failed: a value is beyond 1e300, the largest that can be judged" in report
