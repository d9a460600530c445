"""Operators and networks of one's own, from the manifest beside them to a stranger's verdict."""

import dataclasses
import json
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from capsule.levels import networks
from capsule.levels.graphs import values
from capsule.levels.graphs.onnx import exchange
from tests.support.command import User, write_manifest
from tests.support.compiler import needs_compiler
from tests.support.engines import engine_cache, tensorflow_image, torch_image

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "manifests" / "own-operator"
# with fewer, an interval on the logarithms of errors is now and then too wide to decide
SEEDS = [1, 2, 3, 4, 5, 6]


def seal_example(author: User, *words: str, seeds: Sequence[int] = (17, 18, 19)) -> Path:
    """Seal the worked example, whose files are then gone."""
    shutil.copytree(EXAMPLE, author.folder / EXAMPLE.name)
    document = json.loads(EXAMPLE.with_suffix(".json").read_text())
    del document["$schema"]
    manifest = author.folder / "own-operator.json"
    manifest.write_text(json.dumps({**document, "seeds": seeds}))
    ended = author.run("run", manifest, *words)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    shutil.rmtree(author.folder / EXAMPLE.name)
    (capsule,) = author.folder.glob("*.capsule.zip")
    return capsule


@pytest.fixture(scope="module")
def capsule(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The worked example, measured with numpy on the host."""
    somebody = User.make(tmp_path_factory.mktemp("example"))
    return seal_example(somebody, "--runtime", "host", "--frameworks", "numpy")


@needs_compiler
def test_the_worked_example_is_sealed_and_reproduced_on_the_host(
    capsule: Path, author: User, stranger: User
) -> None:
    with zipfile.ZipFile(capsule) as opened:
        kernel = opened.read("data/inputs/own-operator/cube.cpp")
        plan = json.loads(opened.read("data/records/plan.json"))
    assert kernel == (EXAMPLE / "cube.cpp").read_bytes()
    assert plan["groups"][0]["trials"][0]["source"] == "own-operator/cube.py"
    shown = author.json("show", capsule)
    assert {path.split("/")[2] for path in shown["metrics"]} == {"numpy"}
    assert any("measured with numpy only" in note["sentence"] for note in shown["notes"])

    refused = stranger.run("verify", capsule)
    assert refused.returncode == 4
    assert "the author's operator own-operator/cube.py" in refused.stderr
    verdict = stranger.json("verify", capsule, "--trust", "--allow-host")
    words = [claim["verdict"] for claim in verdict["claims"]]
    assert [word for word in words if word != "REPORTED"] == ["REPRODUCED"] * 6


@needs_compiler
def test_a_kernel_that_is_wrong_fails_its_claims(capsule: Path, author: User) -> None:
    shutil.copytree(EXAMPLE, author.folder / EXAMPLE.name)
    kernel = author.folder / EXAMPLE.name / "cube.cpp"
    kernel.write_text(kernel.read_text().replace("y[i] = x[i]", "y[i] = 1.001f * x[i]"))
    manifest = author.folder / "own-operator.json"
    document = json.loads(EXAMPLE.with_suffix(".json").read_text())
    del document["$schema"]
    manifest.write_text(json.dumps({**document, "seeds": [117, 118, 119]}))
    author.run("run", manifest, "--frameworks", "numpy", "--output", "wrong.capsule.zip")
    verdict = author.json("diff", capsule, author.folder / "wrong.capsule.zip", code=1)
    wrong = {claim["metric"] for claim in verdict["claims"] if claim["verdict"] == "DIFFERENT"}
    assert {path.split("/")[3] for path in wrong} == {"l2_error_ratio"}


NETWORK = """
parameters = ("batch",)
options = {"width": 16}

def network(g, sizes):
    x = g.relu(g.linear(g.input("x", (sizes["batch"], 12)), sizes["width"]))
    x = g.linear(x, 10)
    return g.graph([x], loss=g.softmax_cross_entropy(x, g.labels("y", sizes["batch"], 10)))
"""


def test_a_network_of_one_s_own_is_measured_and_reproduced(author: User) -> None:
    (author.folder / "net.py").write_text(NETWORK)
    own = {
        "id": "own",
        "level": 1,
        "network": {"file": "net.py"},
        "inputs": ["net.py"],
        "cases": {"batch": [4], "width": [8, 16]},
        "frameworks": ["numpy"],
        "repetitions": 2,
        "warmup": 1,
    }
    claims = [
        {"metric": "own/*/*/l2_error_ratio", "type": "bound", "at_most": 1},
        {"metric": "own/*/*/parameters", "type": "exact"},
        {"metric": "own/*/*/layer_time", "type": "ratio", "primary": False},
    ]
    manifest = write_manifest(author.folder, benchmarks=[own], claims=claims, seeds=SEEDS)
    ended = author.run("run", manifest)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (capsule,) = author.folder.glob("*.capsule.zip")
    metrics = author.json("show", capsule)["metrics"]
    runs = metrics["own/batch4/numpy/parameters"]["runs"]
    assert [run["value"] for run in runs] == [12 * 16 + 16 + 16 * 10 + 10] * len(SEEDS)
    with zipfile.ZipFile(capsule) as opened:
        lines = map(json.loads, opened.read("data/results/samples.jsonl").splitlines())
        layers = {
            line["metric"]: len(line["values"])
            for line in lines
            if line["metric"].endswith("layer_time")
        }
    # linear, relu, linear
    assert layers == {"own/batch4/numpy/layer_time": 3, "own/batch4width8/numpy/layer_time": 3}
    ended = author.run("verify", capsule)
    assert (ended.returncode, ended.stdout[:10]) == (0, "REPRODUCED"), ended.stderr


@pytest.mark.engines
@pytest.mark.parametrize(("first", "second"), [("docker", "apptainer")])
def test_it_is_reproduced_in_the_torch_image(
    author: User, stranger: User, monkeypatch: pytest.MonkeyPatch, first: str, second: str
) -> None:
    monkeypatch.setenv("CAPSULE_CACHE", str(engine_cache()))
    words = ("--runtime", first, "--image", torch_image())
    capsule = seal_example(author, *words, seeds=[17, 18])
    ended = stranger.run("verify", capsule, "--runtime", second, "--trust")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.startswith("REPRODUCED")
    assert "/grad_l2_error_ratio" in ended.stdout


EXCHANGED = {
    "id": "net",
    "level": 1,
    "network": {"onnx": "net.onnx", "trains": True},
    "inputs": ["net.onnx"],
    "cases": {"batch": [3]},
    "repetitions": 2,
    "warmup": 1,
}
EVERY = {"l2_error_ratio", "grad_l2_error_ratio", "gradient_check"}


def bounds(benchmark: str) -> list[dict[str, object]]:
    """That every one of them is within its bound."""
    paths = [f"{benchmark}/*/*/{metric}" for metric in sorted(EVERY)]
    return [{"metric": path, "type": "bound", "at_most": 1} for path in paths]


def ratios(author: User, *words: str) -> dict[str, set[str]]:
    """Framework to the metrics of ours that were within their bounds in every run of the file."""
    ended = author.run("run", author.folder / "tiny.json", *words, "--output", "c.zip")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    within: dict[str, set[str]] = {}
    for path, facts in author.json("show", author.folder / "c.zip")["metrics"].items():
        _, _, framework, metric = path.split("/")
        if metric in EVERY:
            assert all(0 < run["value"] < 1 for run in facts["runs"]), path
            within.setdefault(framework, set()).add(metric)
    (author.folder / "c.zip").unlink()
    return within


def write_exchanged(author: User, frameworks: list[str]) -> None:
    """A network as its author would hand it on: an ONNX file of scores, without a loss."""
    sizes = {"batch": 3, "side": 12}
    graph = networks.build("lenet", sizes)
    scores = dataclasses.replace(graph, nodes=graph.inference, loss=None)
    file = exchange.dump(scores, values.parameters(graph, "float32", 17))
    (author.folder / "net.onnx").write_bytes(file)
    own = {**EXCHANGED, "frameworks": frameworks}
    write_manifest(author.folder, benchmarks=[own], claims=bounds("net"), seeds=[1])


def test_an_onnx_file_infers_and_trains(author: User) -> None:
    write_exchanged(author, ["numpy", "onnxruntime"])
    assert ratios(author) == {"numpy": EVERY, "onnxruntime": {"l2_error_ratio"}}


@pytest.mark.engines
def test_one_onnx_file_runs_in_every_framework(
    author: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAPSULE_CACHE", str(engine_cache()))
    write_exchanged(author, ["torch", "tensorflow", "tensorflow-xla", "jax", "onnxruntime"])
    chosen = ["--runtime", "docker", "--image", torch_image(), "--frameworks", "torch"]
    assert ratios(author, *chosen) == {"torch": EVERY}
    others = "tensorflow,tensorflow-xla,jax,onnxruntime"
    chosen = ["--runtime", "docker", "--image", tensorflow_image(), "--frameworks", others]
    assert ratios(author, *chosen) == {
        "tensorflow": EVERY,
        "tensorflow-xla": EVERY,
        "jax": EVERY,
        "onnxruntime": {"l2_error_ratio"},
    }


SQUARED = """
parameters = ("n",)

def tensors(sizes):
    return {"x": (sizes["n"],)}

def outputs(sizes):
    return ((sizes["n"],),)

def flops(sizes):
    return sizes["n"]

def forward(c, sizes, x):
    return c.store(x * x)

def backward(c, sizes, upstream, x):
    return (c.store(upstream * x * 2),)

def torch(context, sizes, x):
    return context.build("squared.cpp").squared, (x,)
"""
SQUARED_CPP = """
#include <torch/extension.h>
torch::Tensor squared(torch::Tensor x) { return x * x; }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("squared", &squared); }
"""


@pytest.mark.engines
def test_torchs_own_extension_builder_compiles_in_the_image(
    author: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAPSULE_CACHE", str(engine_cache()))
    (author.folder / "own").mkdir()
    (author.folder / "own" / "squared.py").write_text(SQUARED)
    own = {
        "id": "squared",
        "level": 0,
        "operator": {"file": "own/squared.py"},
        "inputs": ["own"],
        "cases": [{"n": 1000}],
        "frameworks": ["torch"],
        "repetitions": 2,
        "warmup": 1,
    }
    write_manifest(author.folder, benchmarks=[own], claims=bounds("squared"), seeds=[1])
    source = author.folder / "own" / "squared.cpp"
    source.write_text(SQUARED_CPP)
    chosen = ["--runtime", "apptainer", "--image", torch_image()]
    assert ratios(author, *chosen) == {"torch": EVERY}
