"""The example whose script times its regions, from the manifest to a verdict."""

import json
import shutil
import zipfile
from pathlib import Path

import pytest

from tests.support.command import User, write_manifest, write_script
from tests.support.engines import engine_cache, small_image

ROOT = Path(__file__).parents[2]
PREFIX = "line/default/command/"
METRICS = {f"{PREFIX}{name}" for name in ("loss", "epoch_time", "forward_time", "backward_time")}


def values(capsule: Path, metric: str) -> list[float]:
    with zipfile.ZipFile(capsule) as zipped:
        rows = map(json.loads, zipped.read("data/results/samples.jsonl").splitlines())
        return next(row["values"] for row in rows if row["metric"] == f"{PREFIX}{metric}")


def run_example(author: User, manifest: Path, *words: str) -> Path:
    capsule = author.folder / "a.capsule.zip"
    ended = author.run("run", manifest, "--output", capsule, *words)
    assert ended.returncode == 0, ended.stderr
    assert set(author.json("show", capsule)["metrics"]) == METRICS
    assert len(values(capsule, "loss")) == len(values(capsule, "epoch_time")) == 8
    assert len(values(capsule, "backward_time")) == 80
    return capsule


def test_the_example_is_run_and_verified_on_the_host(author: User) -> None:
    capsule = run_example(author, ROOT / "manifests" / "regions.json")
    with zipfile.ZipFile(capsule) as zipped:
        # what is imported in ten years is what was imported now
        carried = zipped.read("data/levels/library/capsule_regions.py")
    assert carried == (ROOT / "capsule/levels/library/capsule_regions.py").read_bytes()
    assert author.json("verify", capsule)["verdict"] == "REPRODUCED"


@pytest.mark.engines
@pytest.mark.parametrize("runtime", ["docker", "apptainer", "podman"])
def test_the_example_is_run_and_verified_in_an_image(
    author: User, runtime: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAPSULE_CACHE", str(engine_cache()))
    # under an engine it is the same with the seeds that just confirm a wide margin
    document = json.loads((ROOT / "manifests" / "regions.json").read_text())
    del document["$schema"]
    document["claims"][0]["margin"] = {"relative": 0.9}
    manifest = author.folder / "regions.json"
    manifest.write_text(json.dumps({**document, "seeds": document["seeds"][:3]}))
    shutil.copytree(ROOT / "manifests" / "regions", author.folder / "regions")
    capsule = run_example(author, manifest, "--image", small_image(), "--runtime", runtime)
    ended = author.json("verify", capsule, "--trust", "--runtime", runtime)
    assert ended["verdict"] == "REPRODUCED"


def test_a_copy_beside_the_script_comes_first(author: User) -> None:
    write_script(author.folder, "from capsule_regions import report\nreport('loss', 1)\n")
    (author.folder / "capsule_regions.py").write_text(
        "import os\n"
        "def report(metric, value):\n"
        "    with open(os.environ['CAPSULE_RESULTS'], 'a') as results:\n"
        '        results.write(\'{"metric": "loss", "value": 2}\\n\')\n'
    )
    benchmark = {
        "id": "line",
        "command": ["python3", "tiny.py"],
        "inputs": ["tiny.py", "capsule_regions.py"],
        "metrics": {"loss": {}},
    }
    manifest = write_manifest(author.folder, benchmarks=[benchmark], claims=None, seeds=[1])
    ended = author.run("run", manifest, "--output", "a.capsule.zip")
    assert ended.returncode == 0, ended.stderr
    assert values(author.folder / "a.capsule.zip", "loss") == [2]
