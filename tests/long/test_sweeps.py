"""The whole catalogue, run and verified in its images, as the README shows it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.command import User
from tests.support.engines import engine_cache, tensorflow_image, torch_image
from tests.support.long_run import COUNT, COVERS, ROOT
from tests.support.patience import PATIENCE_SECONDS
from tests.support.properties import scaled

pytestmark = [pytest.mark.long, pytest.mark.engines]

SEEDS = 4
_LONGER = 6  # than any command of other tests
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
    manifest = shorten(ROOT / "manifests" / f"{level}.json", frameworks, author.folder)
    author = replace(author, patience_seconds=PATIENCE_SECONDS * _LONGER)
    chosen = ("--frameworks", frameworks, "--image", IMAGES[frameworks](), "--runtime", "docker")
    ended = author.run("run", manifest, *chosen, "--output", "a.capsule.zip")
    assert ended.returncode == 0, ended.stderr
    verified = author.run("verify", "a.capsule.zip", "--runtime", "docker", "--json")
    assert verified.returncode == 0, verified.stderr
    words = [claim["verdict"] for claim in json.loads(verified.stdout)["claims"]]
    judged = [word for word in words if word != "REPORTED"]
    assert set(judged) == {"REPRODUCED"}
    record_property(COVERS, f"claims about {level} that a verification judges: {frameworks}")
    record_property(COUNT, len(judged))


def shorten(path: Path, frameworks: str, folder: Path) -> Path:
    """The manifest with fewer seeds; where the long run is only tried, with fewer benchmarks."""
    document = json.loads(path.read_text())
    chosen = set(frameworks.split(","))
    ours = [entry for entry in document["benchmarks"] if chosen & set(entry["frameworks"])]
    kept = scaled(len(ours))
    # from all over the catalogue
    benchmarks = ours[:: len(ours) // kept][:kept]
    ids = {"*", *(entry["id"] for entry in benchmarks)}
    changes = {
        "seeds": document["seeds"][:SEEDS],
        "benchmarks": benchmarks,
        "claims": [claim for claim in document["claims"] if claim["metric"].split("/")[0] in ids],
    }
    target = folder / path.name
    target.write_text(json.dumps({**document, **changes}))
    return target
