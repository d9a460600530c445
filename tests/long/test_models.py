"""The models image is built, and one model of each library is sealed and verified in it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import image_readmes
from tests.support.command import User
from tests.support.engines import docker, engine_cache, registry_host, torch_image
from tests.support.long_run import COUNT, COVERS, ROOT
from tests.support.patience import PATIENCE_SECONDS

pytestmark = [pytest.mark.long, pytest.mark.engines]

MODELS = sorted((ROOT / "manifests" / "models").glob("*.json"))
SEEDS, RERUNS = 2, 2
BOUNDS = ("l2_error_ratio", "grad_l2_error_ratio", "gradient_check", "node_error_ratio")
_LONGER = 12  # than any command of other tests


@pytest.fixture(scope="session")
def models_image(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Reference of the image that the lines of its README build of wheels alone, by digest."""
    name = f"{registry_host()}/capsule-test/models:latest"
    base = torch_image().removeprefix("docker://")
    image_readmes.build("models", tmp_path_factory.mktemp("models") / "copy", base=base, name=name)
    digest = docker("push", name).rpartition("digest: ")[2].split()[0]
    return f"docker://{name.removesuffix(':latest')}@{digest}"


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_a_model_by_name_is_sealed_within_its_bounds_and_verified(
    author: User,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
    models_image: str,
    path: Path,
) -> None:
    monkeypatch.setenv("CAPSULE_CACHE", str(engine_cache()))
    author = replace(author, patience_seconds=PATIENCE_SECONDS * _LONGER)
    manifest = copy(author, path)
    chosen = ("--image", models_image, "--runtime", "docker")
    ended = author.run("run", manifest, *chosen, "--output", "a.capsule.zip")
    assert ended.returncode == 0, ended.stderr
    metrics = author.json("show", "a.capsule.zip")["metrics"]
    for bound in BOUNDS:
        metric = metrics[f"{path.stem}/batch4/torch/{bound}"]
        assert 0 < metric["max"] < 1, (bound, metric)
    verified = author.run(
        *("verify", "a.capsule.zip", "--runtime", "docker", "--runs", str(RERUNS), "--json")
    )
    assert verified.returncode == 0, verified.stderr
    words = [claim["verdict"] for claim in json.loads(verified.stdout)["claims"]]
    judged = [word for word in words if word != "REPORTED"]
    assert set(judged) == {"REPRODUCED"}
    record_property(COVERS, "claims about models by name that a verification judges")
    record_property(COUNT, len(judged))


def copy(author: User, path: Path) -> Path:
    """The manifest with fewer seeds, and its module."""
    shutil.copy(path.with_suffix(".py"), author.folder)
    document = json.loads(path.read_text())
    manifest = author.folder / path.name
    manifest.write_text(json.dumps({**document, "seeds": document["seeds"][:SEEDS]}))
    return manifest
