"""Site files: the text of one, changed in its values or in its bytes."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

from capsule import site
from capsule.image import mirrors, reference
from tests.fuzz import mutate
from tests.fuzz.campaign import Door

_SITE: dict[str, Any] = {
    "$schema": "site-1.schema.json",
    "runtime": "apptainer",
    "python": "/apps/bin/python3",
    "cache": "/scratch/me",
    "data": {"sha256:" + "0" * 64: "/data/universe", "sha256:" + "1" * 64: "/data/corpus"},
    "mirrors": {"docker.io": "registry.site:5000/hub/all", "127.0.0.1:5000": "localhost"},
    "binds": {"/opt/cray": "/opt/cray-2.1"},
    "mpi": ["/opt/cray/lib/libmpi.so.12", "/opt/cray/lib/libfabric.so.1"],
}


def make(random: Random) -> bytes:
    """One with a few parts changed."""
    data = json.dumps(mutate.document(_SITE, random, random.choice((1, 1, 2, 4))))
    encoded = data.encode("utf-8", "surrogatepass")
    return mutate.text(encoded, random) if random.random() < 0.3 else encoded


def send(data: bytes, folder: Path) -> None:
    """Read it as the site's file; what it says of a mirror names an image there."""
    path = folder / "site.json"
    path.write_bytes(data)
    path.chmod(0o644)
    environ = {"HOME": str(folder), "CAPSULE_SITE": str(path)}
    settings = site.load(environ=environ)
    assert site.describe(settings, environ=environ)
    for host in settings.mirrors:
        name = reference.parse(f"docker://{host}/made:1")
        mirror = mirrors.find(name, settings.mirrors)
        assert mirror is not None
        assert mirror.tag_or_digest == "1"


SITE = Door(name="site", make=make, send=send, inputs=300)
