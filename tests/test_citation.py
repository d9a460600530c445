"""CITATION.cff states the version and the licence that the package states."""

import re
import tomllib
from pathlib import Path

import capsule

ROOT = Path(__file__).parents[1]


def test_the_citation_is_of_this_version() -> None:
    citation = dict(re.findall(r"^([a-z-]+): (.+)$", (ROOT / "CITATION.cff").read_text(), re.M))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert citation["version"] == capsule.__version__
    assert citation["license"] == project["license"]
    assert citation["cff-version"] == "1.2.0"
