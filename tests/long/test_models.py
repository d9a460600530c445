"""The models image is built, and one model of each library is sealed and verified in it."""

from __future__ import annotations

import json
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

MODELS = {
    "torchvision/resnet18": [],
    # a model that is made for pictures of another size, changed as its author would
    "timm/vit_tiny_patch16_224": [
        ("(3, 224, 224)", "(3, 64, 64)"),
        ("num_classes=10", "num_classes=10, img_size=64"),
    ],
    "transformers/gpt2": [],
}
SEEDS, RERUNS = 2, 2
BOUNDS = ("l2_error_ratio", "grad_l2_error_ratio", "gradient_check", "node_error_ratio")
_LONGER = 12  # than any command of other tests


@pytest.fixture(scope="session")
def models_image(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Reference of the image, by digest."""
    context = tmp_path_factory.mktemp("models") / "context"
    shutil.copytree(ROOT / "images" / "models", context)
    words = ["--only-binary", ":all:", "--no-deps", "--require-hashes", "-r", "requirements.txt"]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", *words, "-d", "wheelhouse"]
    subprocess.run(pip, cwd=context, check=True)
    name = f"{registry_host()}/capsule-test/models:latest"
    base = torch_image().removeprefix("docker://")
    built = ("--build-arg", f"BASE={base}", "--tag", name, str(context))
    docker("build", "--quiet", "--rm", "--force-rm", "--network", "none", *built)
    digest = docker("push", name).rpartition("digest: ")[2].split()[0]
    return f"docker://{name.removesuffix(':latest')}@{digest}"


@pytest.mark.parametrize("model", MODELS)
def test_a_model_by_name_is_sealed_within_its_bounds_and_verified(
    author: User,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
    models_image: str,
    model: str,
) -> None:
    monkeypatch.setenv("CAPSULE_CACHE", str(engine_cache()))
    author = replace(author, patience_seconds=PATIENCE_SECONDS * _LONGER)
    write(author, model)
    chosen = ("--image", models_image, "--runtime", "docker")
    ended = author.run("run", "mine.json", *chosen, "--output", "a.capsule.zip")
    assert ended.returncode == 0, ended.stderr
    metrics = author.json("show", "a.capsule.zip")["metrics"]
    for bound in BOUNDS:
        metric = metrics[f"mine/batch4/torch/{bound}"]
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


def write(author: User, model: str) -> None:
    """As `capsule init` does, with fewer seeds and, for one model, smaller pictures."""
    assert author.run("init", "mine.json", "--model", model).returncode == 0
    manifest = author.folder / "mine.json"
    document = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**document, "seeds": document["seeds"][:SEEDS]}))
    module: Path = author.folder / "mine.py"
    for old, new in MODELS[model]:
        assert old in module.read_text()
        module.write_text(module.read_text().replace(old, new))
