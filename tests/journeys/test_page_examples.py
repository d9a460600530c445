"""The benchmarks and claims that how-to pages show are read as parts of a manifest."""

from __future__ import annotations

import json
import re
import shutil
import textwrap
from pathlib import Path

import pytest

from capsule import manifest
from tests.support.documented import ROOT

PAGES = ROOT / "docs" / "how-to"
_BENCHMARK = re.compile(r"^ {4}(\{\s*\"id\":.*?\})\n(?! {4})", re.M | re.S)
_CLAIM = re.compile(r"^ {4}(\{\"metric\":.*?\})$", re.M)
_SOURCES = {
    "own-network/net.py": r"^ {4}from torch import nn .*?(?=^\S)",
    "net.py": r"^ {4}parameters = .*?(?=^\S)",
}


def fill(folder: Path) -> None:
    """Write the files that the benchmarks name."""
    text = (PAGES / "own-network.md").read_text()
    for name in ("own-operator", "own-optimizer", "own-network"):
        shutil.copytree(ROOT / "manifests" / name, folder / name)
    for name, pattern in _SOURCES.items():
        shown = re.search(pattern, text, re.M | re.S)
        assert shown is not None, name
        (folder / name).write_text(textwrap.dedent(shown.group()))
    (folder / "net.onnx").write_bytes(b"")
    (folder / "repo").mkdir()
    (folder / "repo" / "main.py").write_text("")


@pytest.mark.parametrize(
    ("page", "subjects"),
    [
        ("inputs-and-folders", [manifest.Command]),
        ("own-operator", [manifest.Operator]),
        ("own-network", [manifest.Network] * 3),
        ("own-optimizer", [manifest.Recipe]),
    ],
)
def test_the_benchmarks_of_a_page_are_valid(
    page: str, subjects: list[type[object]], tmp_path: Path
) -> None:
    fill(tmp_path)
    text = (PAGES / f"{page}.md").read_text()
    whole = {
        "name": "shown",
        "title": "Shown",
        "authors": [{"name": "A. Author"}],
        "license": "MIT",
        "seeds": [1],
        "datasets": json.loads((ROOT / "manifests" / "level2.json").read_text())["datasets"],
        "benchmarks": [json.loads(shown) for shown in _BENCHMARK.findall(text)],
        "claims": [json.loads(shown) for shown in _CLAIM.findall(text)],
    }
    read = manifest.read(json.dumps(whole).encode(), where=page, folder=tmp_path)
    assert [type(benchmark.subject) for benchmark in read.benchmarks] == subjects
