"""The models image is built, and one model of each library is sealed and verified in it."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.command import User
from tests.support.engines import docker, engine_cache, registry_host, torch_image
from tests.support.long_run import COUNT, COVERS, ROOT
from tests.support.patience import PATIENCE_SECONDS

pytestmark = [pytest.mark.long, pytest.mark.engines]

MODELS = sorted((ROOT / "manifests" / "models").glob("*.json"))
SEEDS, RERUNS = 2, 2
BOUNDS = ("l2_error_ratio", "grad_l2_error_ratio", "gradient_check", "node_error_ratio")
_LONGER = 12  # than any command of other tests
_BY_WHEELS = re.compile(
    r"^ {4}(python3\.11 -m pip download .+|docker build .+ --network none .+)$", re.M
)


@pytest.fixture(scope="session")
def models_image(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Reference of the image that the lines of its README build of wheels alone, by digest."""
    context = tmp_path_factory.mktemp("models") / "context"
    shutil.copytree(ROOT / "images" / "models", context)
    name = f"{registry_host()}/capsule-test/models:latest"
    here = {
        "images/models": str(context),
        "python3.11": sys.executable,
        "BASE=torch:cpu": f"BASE={torch_image().removeprefix('docker://')}",
        "-t models:cpu": f"--rm --force-rm -t {name}",
    }
    pip, build = _BY_WHEELS.findall((context / "README.md").read_text())
    for line in (pip, build):
        for shown, used in here.items():
            line = line.replace(shown, used)  # noqa: PLW2901 - one place after the other
        subprocess.run(shlex.split(line), check=True, stdout=subprocess.DEVNULL)
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
