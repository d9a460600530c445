"""A `torch.nn.Module` of one's own, from the manifest beside it to a stranger's verdict."""

import json
import shutil
import zipfile
from importlib import util
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import User
from tests.support.documented import ROOT
from tests.support.engines import engine_cache, torch_image

EXAMPLE = ROOT / "manifests" / "own-network"

on_the_host = pytest.mark.skipif(
    util.find_spec("torch") is None, reason="torch is not installed here"
)


def place(author: User, **fields: Any) -> Path:
    """The shipped example beside its author, made small."""
    shutil.copytree(EXAMPLE, author.folder / EXAMPLE.name)
    document: dict[str, Any] = json.loads(EXAMPLE.with_suffix(".json").read_text())
    del document["$schema"], document["benchmarks"][0]["target"]
    document["benchmarks"][0] |= {"epochs": 2, **fields}
    document["seeds"] = [17, 18, 19]
    # so few seeds and epochs confirm no narrower one
    document["claims"][0]["margin"] = {"absolute": 0.8}
    path = author.folder / "own-network.json"
    path.write_text(json.dumps(document))
    return path


def read(capsule: Path, name: str) -> bytes:
    with zipfile.ZipFile(capsule) as opened:
        return opened.read(f"data/{name}")


@pytest.mark.torch
@on_the_host
def test_the_worked_example_is_sealed_checked_and_verified_on_the_host(
    author: User, stranger: User
) -> None:
    ended = author.run("run", place(author), "--runtime", "host", "--output", "own.capsule.zip")
    assert ended.returncode == 0, ended.stderr
    shutil.rmtree(author.folder / EXAMPLE.name)
    capsule = author.folder / "own.capsule.zip"
    assert read(capsule, "inputs/own-network/net.py") == (EXAMPLE / "net.py").read_bytes()
    plan = json.loads(read(capsule, "records/plan.json"))
    (subject,) = plan["subjects"]
    assert subject["module"] == {"quality": "accuracy", "choices": 1}
    assert plan["groups"][0]["trials"][0]["source"] == "own-network/net.py"
    checked = author.run("check", capsule)
    assert checked.returncode == 0, checked.stderr
    assert "last quality 3" in checked.stdout
    refused = stranger.run("verify", capsule)
    assert refused.returncode == 4
    assert "the author's training of the network own-network/net.py" in refused.stderr
    verdict = stranger.json("verify", capsule, "--trust", "--allow-host")
    words = {claim["verdict"] for claim in verdict["claims"] if claim["verdict"] != "REPORTED"}
    assert words == {"REPRODUCED"}


@pytest.mark.torch
@on_the_host
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("def network(): raise RuntimeError('no weights here')", "no weights here"),
        (
            "def network():\n    return nn.Linear(16, 5)",
            "net.py returned shape (20, 1, 16, 5), expected shape (20, 5)",
        ),
    ],
)
def test_a_module_that_fails_says_why(author: User, line: str, message: str) -> None:
    path = place(author)
    # each seed starts torch anew
    path.write_text(json.dumps({**json.loads(path.read_text()), "seeds": [17]}))
    file = author.folder / "own-network" / "net.py"
    file.write_text(f"{file.read_text()}\n\n{line}\n")
    ended = author.run("run", path, "--runtime", "host")
    assert ended.returncode == 5
    assert message in ended.stderr


@pytest.mark.engines
def test_it_is_reproduced_in_containers(
    author: User, stranger: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAPSULE_CACHE", str(engine_cache()))
    ended = author.run(
        *("run", place(author), "--image", torch_image(), "--runtime", "apptainer"),
        *("--output", "own.capsule.zip"),
    )
    assert ended.returncode == 0, ended.stderr
    verified = stranger.run(
        "verify", author.folder / "own.capsule.zip", "--runtime", "docker", "--trust"
    )
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert verified.stdout.startswith("REPRODUCED")


@pytest.mark.parametrize(
    ("change", "pointer", "message"),
    [
        ({"frameworks": ["numpy"]}, "/frameworks/0", "numpy cannot train a torch.nn.Module"),
        (
            {"inputs": ["own-network.json"]},
            "/network/module",
            "is outside this benchmark's inputs",
        ),
        ({"cases": {"side": [3]}}, "/cases/side", 'a case cannot vary "side"'),
        ({"network": {"module": "own-network/none.py"}}, "/network/module", "does not exist"),
        ({"rules": "mlperf-hpc-closed"}, "/rules", "no rules for own-network/net.py"),
        ({"network": {"file": "own-network/net.py"}}, "/network", "name of a network, or a module"),
        ({"network": {"module": "own-network/net.txt"}}, "/network/module", "net.txt"),
        (
            {"target": {"metric": "mean_iou", "at_least": 0.5}},
            "/target/metric",
            "expected accuracy, the quality of own-network/net.py",
        ),
    ],
)
def test_a_wrong_entry_is_refused(
    author: User, change: dict[str, Any], pointer: str, message: str
) -> None:
    ended = author.run("lint", place(author, **change))
    assert ended.returncode == 2
    assert message in ended.stderr
    assert pointer in ended.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("quality = 'accuracy'\ndef network(): ...\n", "line 1: the top level defines no inputs"),
        ("inputs = {}\n", "line 1: the top level defines no quality, network"),
        (
            "n = 5\ninputs = {'x': (n,)}\nquality = 'accuracy'\nnetwork = None\n",
            "line 2: inputs is not a literal",
        ),
        (
            "inputs = {'x': (3,)}\nquality = 'accuracy'\nnetwork = None\n",
            "line 1: inputs lacks label, which accuracy needs",
        ),
        (
            "inputs = {'x': (3,)}\nquality = 'beauty'\nnetwork = None\n",
            "line 2: quality is 'beauty'",
        ),
        ("import os; os.mkdir('made')\ninputs =\n", "line 2: not Python"),
    ],
)
def test_a_file_is_read_without_being_run(author: User, text: str, message: str) -> None:
    path = place(author)
    (author.folder / "own-network" / "net.py").write_text(text)
    ended = author.run("lint", path)
    assert ended.returncode == 2
    assert message in ended.stderr
    assert not (author.folder / "made").exists()
