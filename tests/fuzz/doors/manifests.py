"""Manifests: the text of a file, changed in its values or in its bytes."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from capsule import lint, plan
from capsule import manifest as reader
from tests.fuzz import mutate
from tests.fuzz.campaign import ROOT, Door
from tests.support.records import manifest_document

_CLAIMS: tuple[dict[str, Any], ...] = (
    {"metric": "train/*/*/final_loss", "type": "exact"},
    {"metric": "train/*/*/final_loss", "type": "noninferiority", "margin": {"sd": 1.5}},
    {"metric": "train/*/*/final_loss", "type": "threshold", "at_most": 1, "mean": "geometric"},
    {"metric": "train/*/*/final_loss", "type": "bound", "at_least": 0.1},
    {
        "metric": "train/*/*/final_loss",
        "type": "prediction",
        "published": {"mean": 1.0, "sd": 0.1, "n": 5},
        "margin": {"relative": 0.05},
    },
    {"metric": "train/*/*/step_time", "type": "equivalence", "margin": {"ratio": 2}},
    {"metric": "train/*/*/step_time", "type": "ratio"},
    {"metric": "train/*/*/step_time", "type": "distribution", "margin": {"distance": 0.2}},
    {"metric": "train/*/*/final_loss", "type": "equivalence", "looks": [3, 6, 12]},
    {"metric": "train/*/*/step_time", "type": "equivalence", "paired": True, "alpha": 0.01},
    {"metric": "train/*/*/final_loss", "type": "curve", "margin": {"preset": "strict"}},
)


@cache
def bases() -> tuple[dict[str, Any], ...]:
    """Valid ones: each kind of claim, each level, and those that come with the project."""
    own = [manifest_document(asked=_CLAIMS), manifest_document(image=False)]
    shipped = [
        json.loads((ROOT / "manifests" / f"{name}.json").read_bytes())
        for name in (
            *("quickstart", "level1", "level2", "operators", "own-operator", "training", "io"),
            *("search", "full/resnet44", "minis/cosmogan"),
        )
    ]
    return (*own, *shipped)


def change(random: Random) -> dict[str, Any]:
    """One of them with a few parts changed."""
    changed: dict[str, Any] = mutate.document(
        random.choice(bases()), random, random.choice((1, 1, 2, 4))
    )
    return changed


def make(random: Random) -> bytes:
    """The text of one."""
    data = json.dumps(change(random), ensure_ascii=random.random() < 0.5)
    encoded = data.encode("utf-8", "surrogatepass")
    return mutate.text(encoded, random) if random.random() < 0.3 else encoded


def send(data: bytes, folder: Path) -> None:
    """Read it as a file and as a capsule's, plan it both ways, say what it is good for."""
    path = folder / "manifest.json"
    path.write_bytes(data)
    for where in (None, folder):
        manifest = reader.read(data, where="manifest.json", folder=where)
        plan.make(manifest)
        plan.make(manifest, verifies="0" * 64)
        lint.warnings(manifest)
        lint.outlook(manifest)
    reader.load(path)


MANIFEST = Door(name="manifest", make=make, send=send, inputs=100)
