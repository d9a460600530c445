"""What engines answer about images, whose variables and labels are a stranger's, and containers."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

from capsule.digest import of_bytes
from capsule.runtimes import answers
from tests.fuzz import mutate
from tests.fuzz.campaign import Door

_IMAGE: list[dict[str, Any]] = [
    {
        "Id": of_bytes(b"image").hex,
        "RepoDigests": [f"localhost/made@{of_bytes(b'manifest')}"],
        "RootFS": {"Type": "layers", "Layers": [str(of_bytes(b"layer"))]},
        "Config": {"Env": ["PATH=/bin"], "Labels": {"a": "b"}},
    }
]
_CONTAINER: list[dict[str, Any]] = [
    {
        "State": {
            "Running": False,
            "OOMKilled": False,
            "Pid": 0,
            "ExitCode": 137,
            "StartedAt": "2026-11-22T18:25:19.996770869Z",
        },
        "Config": {"Env": ["PATH=/bin", "HOME=/tmp"]},
    }
]


def make(random: Random) -> bytes:
    """One of the two, changed in a place or two, or in its text."""
    document = random.choice((_IMAGE, _CONTAINER))
    data = json.dumps(mutate.document(document, random, random.choice((1, 2)))).encode()
    return mutate.text(data, random) if random.random() < 0.1 else data


def send(data: bytes, folder: Path) -> None:
    """Read it as either."""
    if b'"State"' in data:
        facts = answers.read_container(data)
        assert facts.status == int(facts.status)
    else:
        image = answers.read_image(data)
        assert len(image.identity.hex) == 64


ENGINE = Door(name="engine", make=make, send=send, inputs=2000)
