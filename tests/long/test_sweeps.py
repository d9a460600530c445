"""The whole catalogue, run and verified in its images, as the README shows it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command import User
from tests.support.engines import engine_cache, tensorflow_image, torch_image
from tests.support.long_run import COUNT, COVERS, ROOT
from tests.support.properties import scaled

pytestmark = [pytest.mark.long, pytest.mark.engines]

IMAGES = {"torch,numpy": torch_image, "tensorflow,onnxruntime": tensorflow_image}


@pytest.mark.parametrize(
    ("level", "frameworks"),
    [(level, frameworks) for level in ("level0", "level1") for frameworks in IMAGES],
)
def test_the_whole_catalogue_reproduces_itself(
    author: User,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
    level: str,
    frameworks: str,
) -> None:
    monkeypatch.setenv("CAPSULE_CACHE", str(engine_cache()))
    manifest = scaled_down(ROOT / "manifests" / f"{level}.json", author.folder)
    chosen = ("--frameworks", frameworks, "--image", IMAGES[frameworks](), "--runtime", "docker")
    ended = author.run("run", manifest, *chosen, "--output", "a.capsule.zip")
    assert ended.returncode == 0, ended.stderr
    verdict = author.json("verify", "a.capsule.zip", "--runtime", "docker")
    assert verdict["verdict"] == "REPRODUCED"
    record_property(COVERS, f"claims about all of {level}, run and verified: {frameworks}")
    record_property(COUNT, len(verdict["claims"]))


def scaled_down(path: Path, folder: Path) -> Path:
    """The manifest in a folder of its own; with fewer seeds where the long run is only tried."""
    document = json.loads(path.read_text())
    document["seeds"] = document["seeds"][: max(3, scaled(len(document["seeds"])))]
    target = folder / path.name
    target.write_text(json.dumps(document))
    return target
