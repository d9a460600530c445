"""Scripts of other people, which know nothing of us, run and verified without a change."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

import pytest

from tests.support.command import User
from tests.support.engines import engine_cache, small_image

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "inputs-and-folders.md").read_text()
MAIN = """
import argparse, os, sys
parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int)
parser.add_argument("--lr", type=float)
parser.add_argument("--out")
options = parser.parse_args()
from helper import noise
value = options.lr + noise(options.seed)
with open(options.out, "w") as log:
    print("loss:", value, file=log)
print("argv", sys.argv[1:], "workers", os.environ["DATA_WORKERS"])
"""
HELPER = "import random\ndef noise(seed): return random.Random(seed).uniform(-0.001, 0.001)\n"


def write(folder: Path, **changes: object) -> Path:
    """Write the benchmark of a page for a script that is not edited, and the script."""
    shown = re.search(r"^    \{\n      \"id\": \"sweep\".*?^    \}\n", PAGE, re.S | re.M)
    assert shown is not None
    (folder / "repo").mkdir()
    (folder / "repo" / "main.py").write_text(MAIN)
    (folder / "repo" / "helper.py").write_text(HELPER)
    document = {
        "name": "sweep",
        "title": "Sweep",
        "authors": [{"name": "Ada"}],
        "license": "CC-BY-4.0",
        "seeds": [1, 2, 3, 4, 5],
        "benchmarks": [{**json.loads(shown.group()), **changes}],
        "claims": [{"metric": "*/*/*/loss", "type": "equivalence", "margin": {"absolute": 0.01}}],
    }
    path = folder / "sweep.json"
    path.write_text(json.dumps(document))
    return path


def test_a_script_that_takes_arguments_is_run_and_verified_unchanged(author: User) -> None:
    ended = author.run("run", write(author.folder), "--output", "a.zip")
    assert ended.returncode == 0, ended.stderr
    metrics = author.json("show", "a.zip")["metrics"]
    assert set(metrics) == {"sweep/lr0.1/command/loss", "sweep/lr0.01/command/loss"}
    assert metrics["sweep/lr0.1/command/loss"]["mean"] == pytest.approx(0.1, abs=0.001)
    with zipfile.ZipFile(author.folder / "a.zip") as capsule:
        log = capsule.read("data/logs/0001-stdout.txt").decode()
        assert capsule.read("data/inputs/repo/main.py").decode() == MAIN
    assert re.search(r"argv \['--seed', '1', '--lr', '0.0?1', '--out', '\$RUN/", log)
    assert log.endswith("workers 0\n")
    verified = author.run("verify", "a.zip", "--output", "b.zip")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "both primary claims hold" in verified.stdout


PRINTED = {"loss": {"from": {"pattern": "loss: ([0-9.]+)"}}}
FIXED = """
import random
random.seed(42)
print("loss:", random.uniform(0.999, 1.001))
"""


def write_fixed(folder: Path, *options: str) -> Path:
    """A benchmark of a script that fixes its own seed."""
    words = ["python3", *options, "repo/main.py"]
    path = write(folder, command=words, metrics=PRINTED, seeding="inject", cases={"a": [1]})
    (folder / "repo" / "main.py").write_text(FIXED)
    return path


def test_a_script_that_fixes_its_seed_is_seeded_from_outside(author: User) -> None:
    ended = author.run("run", write_fixed(author.folder), "--output", "a.zip")
    assert ended.returncode == 0, ended.stderr
    runs = author.json("show", "a.zip")["metrics"]["sweep/a1/command/loss"]["runs"]
    assert len({run["value"] for run in runs}) == 5
    with zipfile.ZipFile(author.folder / "a.zip") as capsule:
        environment = json.loads(capsule.read("data/records/environment.json"))["environment"]
    assert environment["effective"]["command"] == {"seeds replaced in sweep": {"random.seed": "42"}}
    verified = author.run("verify", "a.zip", "--output", "b.zip")
    assert verified.returncode == 0, verified.stdout + verified.stderr


KEEPS = """
import random
random.seed(42)
state = random.getstate()
random.setstate((3, (*range(1, 625), 624), None))
first = random.random()
random.setstate(state)
print("loss:", 1 + DRAW / 1000)
"""
NOTED = {
    "random.random()": {"seeds-kept"},
    "first": {"seeds-kept", "injection-unused"},
}


@pytest.mark.parametrize("draw", NOTED)
def test_a_seed_that_reaches_no_generator_is_told_at_sealing_in_the_record_and_by_lint(
    author: User, draw: str
) -> None:
    path = write_fixed(author.folder)
    (author.folder / "repo" / "main.py").write_text(KEEPS.replace("DRAW", draw))
    tried = author.run("run", "--try", path)
    assert tried.returncode == 0, tried.stderr
    assert "seeds-kept" not in tried.stdout
    ended = author.run("run", path, "--output", "a.zip")
    assert ended.returncode == 0, ended.stderr
    record = {note["code"]: note for note in author.json("show", "a.zip")["notes"]}
    linted = {one["code"]: one for one in author.json("lint", "a.zip")["warnings"]}
    for code in NOTED[draw]:
        assert record[code]["sentence"].startswith("sweep: ")
        assert record[code]["sentence"] in " ".join(ended.stdout.split())
    assert set(linted) & {"seeds-kept", "injection-unused"} == NOTED[draw]
    assert " in repo/main.py:5" in record["seeds-kept"]["sentence"]
    assert "in repo/main.py:5" in linted["seeds-kept"]["sentence"]


def test_a_program_that_cannot_be_seeded_from_outside_has_failed(author: User) -> None:
    ended = author.run("run", write_fixed(author.folder, "-I"), "--output", "a.zip")
    assert ended.returncode == 5
    assert "no seed was injected: no Python program started" in " ".join(ended.stderr.split())


@pytest.mark.engines
@pytest.mark.parametrize("engine", ["docker", "apptainer", "podman"])
def test_words_mean_what_the_image_sees(
    author: User, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAPSULE_CACHE", str(engine_cache()))
    words = ["python3", "main.py", "--seed={seed}", "--lr", "{lr}", "--out", "{out}/log.txt"]
    manifest = write(
        author.folder,
        command=words,
        cwd="repo",
        environment={"DATA_WORKERS": "{threads}"},
        seeding="inject",
        cases={"lr": [0.1]},
    )
    ended = author.run(
        "run", manifest, "--image", small_image(), "--runtime", engine, "--output", "a.zip"
    )
    assert ended.returncode == 0, ended.stderr
    with zipfile.ZipFile(author.folder / "a.zip") as capsule:
        log = capsule.read("data/logs/0001-stdout.txt").decode()
        environment = json.loads(capsule.read("data/records/environment.json"))["environment"]
    assert re.search(r"'--out', '/out/log.txt'\] workers [1-9]", log)
    # a generator that is made for the seed is one that the script sets
    assert environment["effective"]["command"] == {
        "seeds replaced in sweep": {"random.Random.seed": "1"}
    }


def test_a_stranger_sees_the_words_variables_and_folder_before_he_trusts(
    author: User, stranger: User
) -> None:
    manifest = write(author.folder, cwd="repo")
    assert author.run("run", manifest, "--output", stranger.folder / "a.zip").returncode == 0
    refused = stranger.run("verify", "a.zip")
    assert refused.returncode == 4
    line = " ".join(refused.stderr.split())
    assert "--seed {seed} --lr {lr} --out {out}/log.txt (in repo; " in line
    assert "DATA_WORKERS='0'; 2 cases)" in line


def test_a_script_finds_its_data_by_variable_and_by_placeholder(author: User) -> None:
    script = """
import os, sys
names = [name for name in os.environ if name.startswith("CAPSULE_DATA")]
assert names == ["CAPSULE_DATA_CIFAR_10_V1"], names
assert sys.argv[1] == os.environ[names[0]] + "/x.txt"
print("loss:", open(sys.argv[1]).read())
"""
    manifest = write(
        author.folder,
        command=["python3", "repo/main.py", "{data:cifar-10.v1}/x.txt"],
        datasets=["cifar-10.v1"],
        cases=[{"name": "a", "lr": 1}],
        environment={},
        metrics=PRINTED,
    )
    (author.folder / "repo" / "main.py").write_text(script)
    document = json.loads(manifest.read_text())
    for name in ("cifar-10.v1", "other"):
        (author.folder / name).mkdir()
        (author.folder / name / "x.txt").write_text("0.5")
    document["datasets"] = {name: {"path": name} for name in ("cifar-10.v1", "other")}
    manifest.write_text(json.dumps(document))
    ended = author.run("run", manifest, "--runtime", "host", "--output", "a.zip")
    assert ended.returncode == 0, ended.stderr
    assert author.json("show", "a.zip")["metrics"]["sweep/a/command/loss"]["mean"] == 0.5
