"""What the README promises is there."""

import json
import re
import shutil
import textwrap
from pathlib import Path

from capsule import manifest
from tests.support import documented
from tests.support.command import User

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def find(pattern: str, flags: re.RegexFlag = re.NOFLAG) -> re.Match[str]:
    """Where the README has it."""
    match = re.search(pattern, README, flags)
    assert match is not None, pattern
    return match


def test_every_link_leads_somewhere() -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", README)
    assert len(targets) >= 4
    for target in targets:
        assert (ROOT / target).exists(), target


def test_the_manifest_shown_is_valid(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    shown = find(r"    \{\n      \"name\".*?\n    \}\n", re.S).group()
    read = manifest.read(shown.encode(), where="README.md", folder=tmp_path)
    subject = read.benchmarks[0].subject
    assert isinstance(subject, manifest.Command)
    assert subject.words == ("python3", "train.py")
    assert json.loads(shown)["claims"][0]["margin"] == {"relative": 0.2}


def test_the_claim_of_the_quickstart_fails_where_the_script_learns_slower(author: User) -> None:
    shutil.copytree(ROOT / "manifests" / "quickstart", author.folder / "quickstart")
    whole = json.loads((ROOT / "manifests" / "quickstart.json").read_text())
    (benchmark,) = whole["benchmarks"]
    slower = {**benchmark, "command": [*benchmark["command"], "--lr", "0.002"]}
    for name, changes in {
        "published": {},
        "slower": {"benchmarks": [slower], "seeds": list(range(10))},
    }.items():
        path = author.folder / f"{name}.json"
        path.write_text(json.dumps({**whole, **changes}))
        ended = author.run("run", path, "--output", f"{name}.zip")
        assert ended.returncode == 0, ended.stderr
    ended = author.run("diff", "published.zip", "slower.zip")
    assert ended.returncode == 1
    said = find(r"^    (DIFFERENT .*)$", re.M).group(1)
    assert ended.stdout.startswith(said)


def test_the_three_lines_stand_in_the_example_script() -> None:
    script = (ROOT / "manifests" / "training" / "train.py").read_text()
    assert 'seed = int(os.environ["CAPSULE_SEED"])' in script
    assert 'json.dumps({"metric": "final_loss", "value": final_loss})' in script


def test_the_verbs_named_are_the_verbs_there_are() -> None:
    named = find(r"\| `([a-z ]+)`, each with an example").group(1).split()
    assert set(named) == {words[0] for words in documented.verbs()}


def test_the_operators_and_networks_shown_are_valid(tmp_path: Path) -> None:
    shown = re.findall(r"^    (\{\"id\":.*?\})$", README, re.M | re.S)
    assert len(shown) == 12
    network = find(r"^    parameters = .*?^\n(?=A model of)", re.M | re.S).group()
    (tmp_path / "net.py").write_text(textwrap.dedent(network))
    (tmp_path / "net.onnx").write_bytes(b"")
    module = find(r"^    from torch import nn .*?^\n(?=Its loss)", re.M | re.S).group()
    (tmp_path / "own-network").mkdir()
    (tmp_path / "own-network" / "net.py").write_text(textwrap.dedent(module))
    for name in ("own-operator", "own-optimizer"):
        shutil.copytree(ROOT / "manifests" / name, tmp_path / name)
    whole = {
        "name": "shown",
        "title": "Shown",
        "authors": [{"name": "A. Author"}],
        "license": "MIT",
        "seeds": [1],
        "datasets": json.loads((ROOT / "manifests" / "level2.json").read_text())["datasets"],
        "benchmarks": list(map(json.loads, shown)),
    }
    read = manifest.read(json.dumps(whole).encode(), where="README.md", folder=tmp_path)
    subjects = [benchmark.subject for benchmark in read.benchmarks]
    without = (manifest.Command, manifest.Reading, manifest.Collective)
    sources = [one.source for one in subjects if not isinstance(one, without)]
    assert sources == [
        None,
        None,
        None,
        None,
        None,
        "own-operator/cube.py",
        "net.py",
        "net.onnx",
        "own-network/net.py",
        "own-network/net.py",
        None,
    ]
    trained = subjects[-1]
    assert isinstance(trained, manifest.Recipe)
    assert trained.settings["default"].optimizer == "own-optimizer/adabelief.py"
