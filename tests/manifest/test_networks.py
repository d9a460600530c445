"""Networks, and operators and networks of a user's own, as a manifest's author meets them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from capsule import manifest, plan
from capsule.errors import ManifestError, UsageError
from capsule.jsons import Json, JsonObject
from capsule.levels import catalog
from capsule.levels.catalog import users
from capsule.manifest import Manifest, Network, Operator
from capsule.manifest.benchmarks import subject_to_json

CUBE = """
import numpy
parameters = ("n",)
options = {"power": 3}

def tensors(sizes): ...
def outputs(sizes): ...
def flops(sizes): ...
def forward(c, sizes, x): ...
def backward(c, sizes, upstream, x): ...
def torch(context, sizes, x): ...
"""
NET = """
parameters = ("batch",)
options = {"width": 8}

def network(g, sizes): ...
"""
RESNET: JsonObject = {
    "id": "resnet",
    "level": 1,
    "network": "resnet18",
    "cases": "quick",
    "frameworks": ["torch", "onnxruntime"],
    "repetitions": 5,
    "isolation": "trial",
}
OWN: JsonObject = {
    "id": "own",
    "level": 0,
    "operator": {"file": "ops/cube.py"},
    "inputs": ["ops"],
    "cases": {"n": [4, 8]},
    "frameworks": ["torch", "numpy"],
}


def encode(*benchmarks: JsonObject, **fields: Json) -> bytes:
    """The bytes of a small manifest of these benchmarks."""
    document = {
        "name": "small",
        "title": "Small",
        "authors": [{"name": "Ada"}],
        "license": "MIT",
        "seeds": [1, 2],
        "benchmarks": benchmarks,
        "claims": [],
        **fields,
    }
    return json.dumps(document).encode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops" / "cube.py").write_text(CUBE)
    (tmp_path / "ops" / "net.py").write_text(NET)
    (tmp_path / "ops" / "net.onnx").write_bytes(b"not opened")
    return tmp_path


def read(folder: Path | None, *benchmarks: JsonObject, **fields: Json) -> Manifest:
    return manifest.read(encode(*benchmarks, **fields), where="m.json", folder=folder)


def complaint(folder: Path | None, benchmark: JsonObject) -> str:
    with pytest.raises(ManifestError) as caught:
        read(folder, benchmark)
    return str(caught.value)


@pytest.mark.parametrize("network", sorted(catalog.NETWORKS))
def test_every_network_has_a_quick_set_that_can_be_planned(network: str) -> None:
    frameworks = list(catalog.NETWORKS[network].frameworks)
    assert {"torch", "torch-compile", "numpy"} <= set(frameworks)
    small = read(None, {**RESNET, "network": network, "frameworks": frameworks})
    (benchmark,) = small.benchmarks
    assert benchmark.subject == Network(name=network, repetitions=5)
    trials = [trial for group in plan.make(small).groups for trial in group.trials]
    assert len(trials) == 2 * len(frameworks) * len(benchmark.cases)


def test_a_network_owes_the_metrics_of_networks() -> None:
    small = read(None, RESNET)
    paths = {path.split("/", 2)[2]: metric for path, metric in plan.metric_paths(small)}
    assert paths["torch/layer_time"].kind == "machine"
    assert paths["onnxruntime/parameters"].kind == "portable"
    assert "torch/training_time" in paths
    assert "onnxruntime/training_time" not in paths
    assert "torch/forward_time" not in paths


def test_the_plan_says_which_network() -> None:
    (first, *_) = plan.to_json(plan.make(read(None, RESNET)))["groups"]
    (trial,) = first["trials"]
    assert (trial["level"], trial["network"], trial["repetitions"]) == (1, "resnet18", 5)
    assert "operator" not in trial
    assert "source" not in trial


def test_options_of_networks_are_named_like_those_of_operators() -> None:
    cases = [{"batch": 2}, {"batch": 2, "side": 32, "classes": 10}]
    (resnet,) = read(None, {**RESNET, "cases": cases}).benchmarks
    assert [case.name for case in resnet.cases] == ["batch2", "batch2side32classes10"]


def test_a_file_is_read_for_sizes_options_and_frameworks_and_never_run(folder: Path) -> None:
    (folder / "ops" / "cube.py").write_text(CUBE + "\nraise SystemExit('it was run')\n")
    (own,) = read(folder, {**OWN, "cases": [{"n": 4}, {"n": 4, "power": 2}]}).benchmarks
    assert own.subject == Operator(name="ops/cube.py", source="ops/cube.py")
    assert [case.name for case in own.cases] == ["n4", "n4power2"]
    assert {metric.name for metric in own.metrics} == {
        metric.name for metric in catalog.OPERATOR_METRICS if metric.device is None
    }
    trial = plan.to_json(plan.make(read(folder, OWN)))["groups"][0]["trials"][0]
    assert (trial["operator"], trial["source"]) == ("ops/cube.py", "ops/cube.py")


def test_a_network_s_file_has_a_batch_and_options(folder: Path) -> None:
    own = {**RESNET, "network": {"file": "ops/net.py"}, "inputs": ["ops/net.py"]}
    sweep = {"batch": [2], "width": [8, 16]}
    (network,) = read(folder, {**own, "cases": sweep}).benchmarks
    assert [case.name for case in network.cases] == ["batch2", "batch2width16"]
    assert network.subject == Network(name="ops/net.py", source="ops/net.py", repetitions=5)
    assert "no set of cases" in complaint(folder, own)


MODULE = """
inputs = {"image": (3, 8, 8), "label": {"below": 4}}
quality = "accuracy"
def network(): raise SystemExit("it was run")
"""


def test_a_module_runs_in_torch_alone(folder: Path) -> None:
    (folder / "ops" / "module.py").write_text(MODULE)
    own: JsonObject = {
        **{"id": "m", "level": 1, "network": {"module": "ops/module.py"}, "inputs": ["ops"]},
        **{"cases": {"batch": [2]}, "frameworks": ["torch"]},
    }
    (network,) = read(folder, own).benchmarks
    assert network.subject == Network(name="ops/module.py", source="ops/module.py", trains=False)
    owed = {metric.name for metric in network.due("torch")}
    assert {"inference_time", "l2_error_ratio", "layer_time", "repeatable"} <= owed
    assert not owed & {"node_error_ratio", "training_time", "forward_flops"}
    trained: JsonObject = {
        "network": {"module": "ops/module.py", "trains": True},
        "frameworks": ["torch", "torch-compile"],
    }
    (network,) = read(folder, {**own, **trained}).benchmarks
    assert network.subject == Network(name="ops/module.py", source="ops/module.py", trains=True)
    more = {"training_time", "gradient_check", "node_error_ratio", "bound_share", "loss"}
    assert more <= {metric.name for metric in network.due("torch")} - owed
    compiled = {metric.name for metric in network.due("torch-compile")}
    assert compiled & more == more - {"node_error_ratio", "bound_share"}
    other = complaint(folder, {**own, "frameworks": ["numpy"]})
    assert "use torch or torch-compile" in other


@pytest.mark.parametrize(
    ("network", "trains"),
    [
        ({"onnx": "ops/net.onnx"}, False),
        ({"onnx": "ops/net.onnx", "trains": True}, True),
        ({"file": "ops/net.py"}, True),
        ({"file": "ops/net.py", "trains": False}, False),
    ],
)
def test_a_network_of_one_s_own_trains_where_it_is_asked_to(
    folder: Path, network: JsonObject, trains: bool
) -> None:
    own = {**RESNET, "network": network, "inputs": ["ops"], "cases": {"batch": [1, 8]}}
    (benchmark,) = read(folder, own).benchmarks
    assert isinstance(benchmark.subject, Network)
    assert benchmark.subject.source == next(iter(network.values()))
    assert benchmark.subject.trains == trains
    owed = {metric.name for metric in benchmark.due("torch")}
    assert "inference_time" in owed
    assert {"training_time", "gradient_check"} & owed == (
        {"training_time", "gradient_check"} if trains else set()
    )
    assert "training_time" not in {metric.name for metric in benchmark.due("onnxruntime")}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"network": "resnet81"}, ["/benchmarks/0/network", "unknown network", "'resnet18'?"]),
        ({"network": {}}, ["/0/network", "exactly one of file, onnx and module"]),
        ({"network": {"file": "a.py", "onnx": "a.onnx"}}, ["exactly one of file, onnx and module"]),
        ({"network": {"flie": "a.py"}}, ["did you mean 'file'?"]),
        ({"network": {"trains": True}}, ["exactly one of file, onnx and module"]),
        (
            {"network": {"module": "a.py", "onnx": "a.onnx"}},
            ["exactly one of file, onnx and module"],
        ),
        (
            {"network": {"module": "ops/net.onnx"}, "inputs": ["ops"]},
            ["expected a name that ends in .py"],
        ),
        ({"network": {"module": "ops/net.py"}, "inputs": ["ops"]}, ["defines no inputs, quality"]),
        ({"network": 3}, ["/0/network", "name of a network"]),
        ({"network": {"file": "net.py"}}, ["/0/network/file", "does not exist"]),
        ({"operator": "gemm"}, ["/0/operator: unknown field"]),
        ({"frameworks": ["tourch"]}, ["did you mean 'torch'?"]),
        ({"dtype": "float64"}, ["/0/dtype", "resnet18 has no float64; use one of: float32"]),
        ({"cases": [{"batch": 0}]}, ["found 0, expected a whole number of at least 1"]),
        ({"cases": [{"side": 64}]}, ["parameter 'batch' of resnet18 is missing"]),
        ({"inputs": ["ops"]}, ["/0/inputs", "this network names no file"]),
        ({"level": 4}, ["this version has level 0, level 1, level 2, level 3 and commands"]),
    ],
)
def test_a_mistake_about_a_network_is_told(
    folder: Path, change: JsonObject, words: Sequence[str]
) -> None:
    message = complaint(folder, {**RESNET, **change})
    assert [part for part in words if part not in message] == [], message


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("def flops", "def work", "cube.py, line 1: the top level defines no flops"),
        ('("n",)', "tuple('n')", "line 3: parameters is not a literal"),
        ('("n",)', '"n"', "line 3: parameters is 'n', expected a tuple"),
        ('("n",)', '("n", "n")', "line 3: parameters"),
        ('("n",)', '("n1",)', "line 3: parameters"),
        ('("n",)', '("name",)', "line 3: parameters"),
        ('"power": 3', '"power": -3', "line 4: options is {'power': -3}, expected a dictionary"),
        ('"power": 3', '"power": 1 + 1', "line 4: options is not a literal"),
        ('"power": 3', '"n": 3', "line 4: options"),
        ("def torch", "def tensorflow", "cube.py has no function for torch; use numpy"),
        ("def torch(context, sizes, x): ...", "import torch", "no function for torch"),
        ("def flops(sizes)", "def flops(sizes", "line 8: not Python"),
        ("import numpy", "\0", "not Python"),
        ("import numpy", "(" * 10_000, "not Python"),
    ],
)
def test_what_a_file_lacks_is_told_with_its_line(
    folder: Path, old: str, new: str, words: str
) -> None:
    (folder / "ops" / "cube.py").write_text(CUBE.replace(old, new, 1))
    message = complaint(folder, OWN)
    assert "/benchmarks/0/" in message
    assert words in message


def test_a_network_s_file_without_a_batch_is_told(folder: Path) -> None:
    own = {**RESNET, "network": {"file": "ops/net.py"}, "inputs": ["ops"], "cases": {"batch": [1]}}
    (folder / "ops" / "net.py").write_text(NET.replace('"batch"', '"n"'))
    assert "net.py, line 2: parameters is ('n',), expected ('batch',)" in complaint(folder, own)
    (folder / "ops" / "net.py").write_text(NET.replace("def network", "def net"))
    assert "net.py, line 1: the top level defines no network" in complaint(folder, own)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"inputs": ["ops/net.py"]}, "is outside this benchmark's inputs"),
        ({"inputs": []}, "found 0, expected at least 1"),
        ({"operator": {"file": "ops/absent.py"}}, "does not exist beside the manifest"),
        ({"operator": {"file": "ops/../ops/cube.py"}}, "outside of the manifest's folder"),
        ({"operator": {"file": "ops/net.onnx"}}, "expected a name that ends in .py"),
        ({"operator": {"onnx": "ops/net.onnx"}}, "unknown field"),
        ({"operator": {}}, "the field 'file' is missing"),
        ({"cases": "quick"}, "write out its sizes"),
    ],
)
def test_a_mistake_about_a_file_is_told(folder: Path, change: JsonObject, words: str) -> None:
    assert words in complaint(folder, {**OWN, **change})


def test_out_of_a_capsule_a_file_is_what_the_plan_states(folder: Path) -> None:
    first = read(folder, OWN)
    subjects = list(map(subject_to_json, first.benchmarks))
    second = manifest.read(encode(OWN), where="m.json", folder=None, subjects=subjects)
    assert second.benchmarks == first.benchmarks
    assert "cannot read ops/cube.py" in complaint(None, OWN)


def test_host_and_image_make_the_same_of_a_file(folder: Path) -> None:
    """The catalogue's entry from the syntax tree is that from the module."""
    from capsule.levels.operators import user

    (folder / "ops" / "cube.py").write_text(CUBE)
    (own,) = read(folder, OWN).benchmarks
    _, entry = user.load("ops/cube.py", folder / "ops" / "cube.py")
    assert entry == users.make_operator("ops/cube.py", ("n",), {"power": 3}, {"torch"})
    assert isinstance(own.subject, Operator)
    assert entry.name == own.subject.name
    assert {metric.name for metric in catalog.due(entry, "torch", "cpu")} == {
        metric.name for metric in own.metrics
    }
    assert set(own.frameworks) == set(entry.frameworks)


GEMM: JsonObject = {
    "id": "gemm",
    "level": 0,
    "operator": "gemm",
    "cases": [{"m": 1, "n": 1, "k": 1}],
    "frameworks": ["torch", "numpy"],
}
TRAIN: JsonObject = {"id": "train", "command": ["true"], "metrics": {"loss": {}}}
CLAIMS: Json = [
    {"metric": "*/*/*/l2_error_ratio", "type": "threshold", "at_most": 1},
    {"metric": "resnet/*/*/loss", "type": "exact"},
    {"metric": "resnet/*/onnxruntime/parameters", "type": "exact"},
    {"metric": "gemm/*/torch/forward_time", "type": "ratio"},
]


def write(folder: Path, *benchmarks: JsonObject, **fields: Json) -> Path:
    path = folder / "m.json"
    path.write_bytes(encode(*benchmarks, **fields))
    return path


def test_a_manifest_is_narrowed_to_the_frameworks_of_an_image(tmp_path: Path) -> None:
    path = write(tmp_path, GEMM, RESNET, TRAIN, claims=CLAIMS)
    whole, part = manifest.load(path), manifest.load(path, ["onnxruntime"])
    assert [benchmark.id for benchmark in part.benchmarks] == ["resnet"]
    assert part.benchmarks[0].frameworks == ("onnxruntime",)
    # onnxruntime has no loss: that claim would match nothing
    kept = ["*/*/*/l2_error_ratio", "resnet/*/onnxruntime/parameters"]
    assert [claim.metric for claim in part.claims] == kept
    assert str(part.narrowed_from) == plan.to_json(plan.make(whole))["manifest"]
    assert part.source == manifest.load(path, ["onnxruntime"]).source
    again = manifest.read(part.source, where="m.json", folder=None)
    assert again == manifest.read(part.source, where="m.json", folder=None)
    assert again.benchmarks == part.benchmarks
    assert plan.make(again).digest == plan.make(part).digest


def test_commands_are_kept_by_their_name(tmp_path: Path) -> None:
    path = write(tmp_path, GEMM, TRAIN)
    part = manifest.load(path, ["command", "numpy"])
    assert [benchmark.frameworks for benchmark in part.benchmarks] == [("numpy",), ("command",)]


@pytest.mark.parametrize("frameworks", [[], ["torch", "numpy"]])
def test_a_manifest_that_loses_nothing_stays_as_it_was_written(
    tmp_path: Path, frameworks: Sequence[str]
) -> None:
    path = write(tmp_path, GEMM)
    whole = manifest.load(path, frameworks)
    assert (whole.source, whole.narrowed_from) == (path.read_bytes(), None)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "tourch",
            r"unknown framework 'tourch'\n  did you mean 'torch'\? the benchmarks use torch, numpy",
        ),
        ("tensorfow", r"did you mean 'tensorflow'\? the benchmarks use torch, numpy"),
        (
            "tensorflow",
            r"no benchmark of the manifest uses 'tensorflow'\n  the benchmarks use torch, numpy",
        ),
        ("", "unknown framework ''"),
    ],
)
def test_a_framework_that_nothing_uses_is_told(tmp_path: Path, name: str, words: str) -> None:
    path = write(tmp_path, GEMM)
    with pytest.raises(UsageError, match=words):
        manifest.load(path, ["torch", name])
