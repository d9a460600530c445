"""What the README promises is there."""

import json
import re
import shutil
import textwrap
from pathlib import Path

from capsule import manifest
from tests.support import documented

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_every_link_leads_somewhere():
    targets = re.findall(r"\]\(([^)#]+)\)", README)
    assert len(targets) >= 4
    for target in targets:
        assert (ROOT / target).exists(), target


def test_the_manifest_shown_is_valid(tmp_path):
    (tmp_path / "train.py").write_text("")
    shown = re.search(r"    \{\n      \"name\".*?\n    \}\n", README, re.S).group()
    read = manifest.read(shown.encode(), where="README.md", folder=tmp_path)
    assert read.benchmarks[0].subject.words == ("python3", "train.py")
    assert json.loads(shown)["claims"][0]["margin"] == {"relative": 0.2}


def test_the_three_lines_stand_in_the_example_script():
    script = (ROOT / "manifests" / "training" / "train.py").read_text()
    assert 'seed = int(os.environ["CAPSULE_SEED"])' in script
    assert 'json.dumps({"metric": "final_loss", "value": final_loss})' in script


def test_the_verbs_named_are_the_verbs_there_are():
    named = re.search(r"\| `([a-z ]+)`, each with an example", README).group(1).split()
    assert set(named) == {words[0] for words in documented.verbs()}


def test_the_operators_and_networks_shown_are_valid(tmp_path):
    shown = re.findall(r"^    (\{\"id\":.*?\})$", README, re.M | re.S)
    assert len(shown) == 5
    network = re.search(r"^    parameters = .*?^\n(?=The)", README, re.M | re.S).group()
    (tmp_path / "net.py").write_text(textwrap.dedent(network))
    (tmp_path / "net.onnx").write_bytes(b"")
    shutil.copytree(ROOT / "manifests" / "own-operator", tmp_path / "own-operator")
    whole = {
        "name": "shown",
        "title": "Shown",
        "authors": [{"name": "A. Author"}],
        "license": "MIT",
        "seeds": [1],
        "benchmarks": list(map(json.loads, shown)),
    }
    read = manifest.read(json.dumps(whole).encode(), where="README.md", folder=tmp_path)
    assert [each.subject.source for each in read.benchmarks] == [
        None,
        None,
        "own-operator/cube.py",
        "net.py",
        "net.onnx",
    ]
