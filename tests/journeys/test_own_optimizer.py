"""An optimizer of one's own, from the manifest beside it to a stranger's verdict."""

import json
import re
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import User
from tests.support.documented import ROOT
from tests.support.engines import engine_cache, torch_image
from tests.support.jobs import needs_torch

EXAMPLE = ROOT / "manifests" / "own-optimizer"


def place(author: User, framework: str, seeds: Sequence[int] = (17, 18, 19)) -> Path:
    """The shipped example beside its author, made small."""
    shutil.copytree(EXAMPLE, author.folder / EXAMPLE.name)
    document: dict[str, Any] = json.loads(EXAMPLE.with_suffix(".json").read_text())
    (entry,) = document["benchmarks"]
    del document["$schema"], entry["target"]
    sizes = {"samples": 120, "test_samples": 60, "side": 12, "classes": 3}
    document["datasets"] = {"glyphs": {"generator": "glyphs", **sizes}}
    case = {"name": "default", "side": 12, "classes": 3}
    entry |= {"epochs": 2, "frameworks": [framework], "cases": [case]}
    document["seeds"] = list(seeds)
    # so few seeds and epochs confirm no narrower one
    document["claims"][0]["margin"] = {"absolute": 0.8}
    document["claims"] = document["claims"][:-1]
    path = author.folder / "own-optimizer.json"
    path.write_text(json.dumps(document))
    return path


def change(author: User, old: str, new: str) -> None:
    file = author.folder / EXAMPLE.name / "adabelief.py"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_it_is_sealed_checked_and_verified_by_the_sealed_file(author: User, stranger: User) -> None:
    ended = author.run(
        "run", place(author, "numpy"), "--runtime", "host", "--output", "own.capsule.zip"
    )
    assert ended.returncode == 0, ended.stderr
    shutil.rmtree(author.folder / EXAMPLE.name)
    capsule = author.folder / "own.capsule.zip"
    with zipfile.ZipFile(capsule) as opened:
        sealed = opened.read("data/inputs/own-optimizer/adabelief.py")
        plan = json.loads(opened.read("data/records/plan.json"))
    assert sealed == (EXAMPLE / "adabelief.py").read_bytes()
    (subject,) = plan["subjects"]
    assert subject["optimizer"]["formula"] is True
    assert subject["recipes"]["default"]["optimizer"]["file"] == "own-optimizer/adabelief.py"
    checked = author.run("check", capsule)
    assert checked.returncode == 0, checked.stderr
    assert "learning rate 3" in checked.stdout
    refused = stranger.run("verify", capsule)
    assert refused.returncode == 4
    whose = "training of the network lenet by the author's optimizer own-optimizer/adabelief.py"
    assert whose in " ".join(refused.stderr.split())
    verdict = stranger.json("verify", capsule, "--trust", "--allow-host")
    words = {claim["verdict"] for claim in verdict["claims"]}
    assert words == {"REPRODUCED"}


LINE = "    mean = one * state[0]"


@pytest.mark.parametrize(
    ("before", "code", "message"),
    [
        ("if step.number == 3: raise RuntimeError('no third step')", 5, "no third step"),
        ("if step.number == 3: raise SystemExit(0)", 5, "but no result"),
    ],
)
def test_what_goes_wrong_in_it_is_told_and_seals_nothing(
    author: User, before: str, code: int, message: str
) -> None:
    path = place(author, "numpy", [17])
    change(author, LINE, f"    {before}\n{LINE}")
    ended = author.run("run", path, "--runtime", "host", "--output", "own.capsule.zip")
    assert ended.returncode == code, ended.stderr
    assert message in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (author.folder / "own.capsule.zip").exists()


def test_one_that_writes_in_its_own_file_is_sealed_as_it_was(author: User) -> None:
    path = place(author, "numpy", [17, 18])
    change(author, LINE, f"    open(__file__, 'a').write('#')\n{LINE}")
    capsule = author.folder / "own.capsule.zip"
    ended = author.run("run", path, "--runtime", "host", "--output", capsule)
    assert ended.returncode == 0, ended.stderr
    assert "wrote to its inputs: own-optimizer/adabelief.py" in " ".join(ended.stdout.split())
    with zipfile.ZipFile(capsule) as opened:
        sealed = opened.read("data/inputs/own-optimizer/adabelief.py")
    assert sealed == (author.folder / "own-optimizer" / "adabelief.py").read_bytes()


@needs_torch
@pytest.mark.long
def test_a_step_that_is_not_its_formulas_breaks_the_bound(author: User) -> None:
    path = place(author, "torch", [17])
    change(author, 'rate = group["lr"] / (1 - one ** kept["step"])', 'rate = group["lr"]')
    ended = author.run("run", path, "--runtime", "host", "--output", "own.capsule.zip")
    assert ended.returncode == 0, ended.stderr
    beyond = r"exact_trajectory_error: one of your runs, 0\.8\d*, already breaks the claim"
    assert re.search(beyond, " ".join(ended.stdout.split()))


@pytest.mark.engines
def test_it_is_reproduced_in_containers(
    author: User, stranger: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAPSULE_CACHE", str(engine_cache()))
    ended = author.run(
        *("run", place(author, "torch"), "--image", torch_image()),
        *("--runtime", "apptainer"),
        *("--output", "own.capsule.zip"),
    )
    assert ended.returncode == 0, ended.stderr
    verified = stranger.run(
        "verify", author.folder / "own.capsule.zip", "--runtime", "docker", "--trust"
    )
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert verified.stdout.startswith("REPRODUCED")
