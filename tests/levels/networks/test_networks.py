"""Networks as graphs: published sizes, values, the reference, users' files."""

import hashlib
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy
import pytest
from numpy.typing import NDArray

from capsule.levels import catalog, networks
from capsule.levels.graphs import reference, structure, values
from capsule.levels.graphs.builder import Builder
from capsule.levels.graphs.graph import Graph

QUICK = [(name, entry.cases["quick"][0][1]) for name, entry in catalog.NETWORKS.items()]
USERS = """
parameters = ("batch",)
options = {"width": 4}

def network(g, sizes):
    x = g.input("image", (sizes["batch"], 3, 8, 8))
    x = g.conv2d(x, sizes["width"], 3, padding=1)
    y = g.gelu(x)
    x = g.concat([g.sum(x, y, y), g.transpose(y, (0, 1, 3, 2))], axis=1)
    x = g.batch_norm(x)
    x = g.flat(g.average_pool2d(x, 2, stride=2))
    target = g.input("target", g.shape(x))
    return g.graph([x], loss=g.mean_squared_error(x, target))
"""


def draw(graph: Graph, dtype: str = "float64", seed: int = 17) -> dict[str, NDArray[Any]]:
    return {**values.inputs(graph, dtype, seed), **values.parameters(graph, dtype, seed)}


def count_trained(graph: Graph) -> int:
    return sum(prod(graph.parameters[name].shape) for name in graph.trainable)


@pytest.mark.parametrize(
    ("name", "options", "count"),
    [
        ("lenet", {}, 61_706),
        ("alexnet", {}, 61_100_840),
        ("resnet9", {}, 6_573_120),
        ("resnet18", {}, 11_689_512),
        ("resnet44", {}, 661_338),
        ("resnet50", {}, 25_557_032),
        ("multilabel", {}, 23_671_952),
        ("hepcnn", {}, 594_178),
        ("unet", {}, 31_030_658),
        ("cosmoflow", {}, 8_907_556),
        # no number is published: the generator's and the discriminator's by hand
        ("cosmogan", {}, 12_692_929 + 4_435_329),
        ("deepcam", {}, 56_454_720),
        ("transformer", dict(catalog.NETWORKS["transformer"].cases["paper"][0][1]), 124_439_808),
    ],
)
def test_networks_have_the_published_number_of_parameters(
    name: str, options: Mapping[str, int], count: int
) -> None:
    assert count_trained(networks.build(name, {"batch": 1, **options})) == count


@pytest.mark.parametrize(
    ("name", "products"),
    [("alexnet", 714_188_480), ("resnet18", 1_814_073_344), ("resnet50", 4_089_184_256)],
)
def test_networks_do_the_published_number_of_multiplications(name: str, products: int) -> None:
    graph = networks.build(name, {"batch": 1})
    flops = sum(
        structure.load(node.operator).flops({**node.sizes, "bias": 0})
        for node in graph.inference
        if node.operator in ("conv2d", "gemm")
    )
    assert flops == 2 * products


@pytest.mark.parametrize("name", catalog.NETWORKS)
def test_every_case_is_complete_and_named(name: str) -> None:
    entry = catalog.NETWORKS[name]
    assert set(entry.cases) == {"quick", "paper"}
    for ((case, parameters),) in entry.cases.values():
        assert entry.name_case(parameters) == case
        graph = networks.build(name, parameters)
        assert all(x.shape[0] % parameters["batch"] == 0 for x in graph.inputs.values())
        for node in graph.nodes:
            formula = structure.load(node.operator)
            if node.operator in catalog.OPERATORS:
                assert catalog.OPERATORS[node.operator].complete(node.sizes) == dict(node.sizes)
            assert [prod(shape) for shape in formula.outputs(node.sizes)] == [prod(node.shape)]
        assert sum(structure.load(node.operator).flops(node.sizes) for node in graph.inference) > 0


@pytest.mark.parametrize(("name", "parameters"), QUICK)
def test_values_have_the_shapes_that_the_graph_states(
    name: str, parameters: Mapping[str, int]
) -> None:
    graph = networks.build(name, {**parameters, "batch": 2})
    results = reference.forward(graph, draw(graph, "float32"), "float32")
    assert {node.name: node.shape for node in graph.nodes} == {
        name: array.shape for name, array in results.items()
    }
    assert all(array.dtype == numpy.float64 for array in results.values())


def test_inference_and_training_differ_in_statistics_alone() -> None:
    graph = networks.build("resnet18", {"batch": 2, "side": 32})
    inference = [node.operator for node in graph.inference]
    training = [node.operator for node in graph.training]
    assert "batch_norm" not in inference
    assert "batch_norm_inference" not in training
    as_trained = [name.replace("batch_norm_inference", "batch_norm") for name in inference]
    assert [*as_trained, "softmax_cross_entropy"] == training
    kept = [name for name in graph.parameters if name.endswith((".mean", ".variance"))]
    assert len(kept) == 2 * inference.count("batch_norm_inference")
    assert not set(kept) & set(graph.trainable)
    read = {name for node in graph.inference for name in node.inputs}
    assert set(graph.trainable) <= read


def test_a_graph_has_nothing_that_nobody_reads() -> None:
    g = Builder("mine")
    x = g.input("x", (2, 3))
    g.input("unread", (1,))
    g.relu(x)
    graph = g.graph(g.linear(x, 4))
    assert [node.operator for node in graph.nodes] == ["gemm"]
    assert list(graph.inputs) == ["x"]
    with pytest.raises(ValueError, match="mine has no loss"):
        _ = graph.training


@pytest.mark.parametrize("dtype", ["float32", "tf32", "bfloat16", "float16"])
def test_values_are_exact_in_their_dtype_and_spread_evenly(dtype: str) -> None:
    graph = networks.build("lenet", {"batch": 64})
    arrays = draw(graph, dtype)
    reals = {name: array for name, array in arrays.items() if array.dtype.kind == "f"}
    for array in reals.values():
        if dtype == "bfloat16":
            assert not (array.view(numpy.uint32) & 0xFFFF).any()
        assert array.dtype == ("float16" if dtype == "float16" else "float32")
    assert 1.98 < abs(reals.pop("image")).max() < 2
    for name, array in reals.items():
        bound = graph.parameters[name].bound
        assert abs(array.astype("float64")).max() <= bound
        assert array.size < 400 or 0.9 < array.std() * 3**0.5 / bound < 1.1
    assert set(arrays["label"]) == set(range(10))


def test_values_are_the_same_everywhere() -> None:
    graph = networks.build("lenet", {"batch": 2})
    content = b"".join(
        array.astype(array.dtype.newbyteorder("<")).tobytes()
        for array in draw(graph, "float32").values()
    )
    digest = "a92245f65acffe9340caec73197595663bc535ac92b429a6798b3298b54e0731"
    assert hashlib.sha256(content).hexdigest() == digest


def test_weights_that_a_network_brings_are_rounded_to_the_dtype() -> None:
    g = Builder("mine")
    x = g.input("x", (2, 3))
    brought = numpy.array([1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-7 - 2**-9])
    weight = g.parameter("b", (3,), value=brought)
    graph = g.graph(g.add_rows(x, weight))
    drawn = values.parameters(graph, "bfloat16", 17)["b"]
    assert list(drawn) == [1, 1 + 2**-6, -1 - 2**-7]
    assert values.parameters(graph, "float32", 17)["b"].dtype == numpy.float32


def write(folder: Path, text: str = USERS, name: str = "mine.py") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def differences(
    graph: Graph, exact: Mapping[str, NDArray[Any]], name: str, step: float = 2.0**-18
) -> tuple[float, NDArray[numpy.float64]]:
    """The derivative of the loss along a parameter's random +-1 direction."""
    signs = numpy.random.default_rng(5).choice([-1.0, 1.0], graph.parameters[name].shape)
    ends = []
    for sign in (1, -1):
        moved = {**exact, name: exact[name] + sign * step * signs}
        ends.append(float(reference.evaluate(graph.training, moved)[graph.require_loss()]))
    return (ends[0] - ends[1]) / (2 * step), signs


@pytest.mark.parametrize("name", ["lenet", "cosmoflow", "transformer", "mine"])
def test_gradients_are_what_central_differences_find(tmp_path: Path, name: str) -> None:
    source = write(tmp_path) if name == "mine" else None
    sizes = {"batch": 2, **({"side": 8, "width": 4} if name == "cosmoflow" else {})}
    graph = networks.build(name, sizes, source)
    exact = draw(graph)
    computed = reference.evaluate(graph.training, exact)
    gradients = reference.differentiate(graph, exact, computed)
    assert set(gradients) == set(graph.trainable)
    for parameter, gradient in gradients.items():
        assert gradient.shape == graph.parameters[parameter].shape
        slope, direction = differences(graph, exact, parameter)
        size = numpy.linalg.norm(gradient) + 1e-3
        assert abs(float((gradient * direction).sum()) - slope) < 1e-6 * size


def test_a_parameter_that_the_loss_does_not_need_has_gradient_zero() -> None:
    g = Builder("mine")
    x = g.input("x", (2, 3))
    y = g.linear(x, 3)
    z = g.linear(y, 2)
    graph = g.graph([z], loss=g.mean_squared_error(y, x))
    gradients = reference.backward(graph, draw(graph, "float32"), "float32")
    assert gradients["linear1.weight"].any()
    assert not gradients["linear2.weight"].any()


def test_a_users_network_has_options_and_both_forms(tmp_path: Path) -> None:
    source = write(tmp_path)
    entry = networks.find("mine", source)
    assert [option.name for option in entry.options] == ["width", "limit_mib"]
    assert "torch-compile" in entry.frameworks
    graph = networks.build("mine", {"batch": 3, "width": 5}, source)
    assert graph.nodes[0].shape == (3, 5, 8, 8)
    assert graph.outputs == ("view1.inference",)
    assert graph.name == "mine"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("parameters = ('batch',)", "does not define network"),
        ("def network(g, sizes): pass", "does not define parameters"),
        ("parameters = ('n',)\ndef network(g, sizes): pass", r"mine.py: .*\('batch',\)"),
        ("parameters = ('batch',)\ndef network(g, sizes): pass", "returned NoneType, not g.graph"),
        (USERS.replace("[x], loss", "[], loss"), "mine has no outputs"),
        (USERS.replace("loss=g.mean_squared_error(x, target)", "loss=x"), r"expected \(\)$"),
        (USERS.replace("g.gelu(x)", "g.gelu('y')"), "earlier node is named 'y'"),
        (USERS.replace("axis=1", "axis=4"), "cannot be concatenated along axis 4"),
        (USERS.replace("(0, 1, 3, 2)", "(0, 1, 3)"), "expected each axis of the shape"),
        (USERS.replace('"target"', '"image"'), "mine has two values named 'image'"),
        (USERS.replace("8, 8)", "2, 2)").replace("3, padding=1", "5"), "does not fit into"),
    ],
)
def test_what_is_wrong_with_a_users_network_is_said_in_a_line(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message) as refusal:
        networks.build("mine", {"batch": 2}, write(tmp_path, text))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("side", [4, 9, 12, 96])
def test_a_volume_that_cannot_be_halved_until_four_are_left_is_refused(side: int) -> None:
    if side < 8:
        with pytest.raises(
            ValueError, match="side of cosmoflow is 4, expected a whole number >= 8"
        ):
            networks.build("cosmoflow", {"batch": 1, "side": side})
        return
    with pytest.raises(
        ValueError, match=f"side of cosmoflow is {side}, expected a power of two >= 8"
    ):
        networks.build("cosmoflow", {"batch": 1, "side": side})


@pytest.mark.parametrize("name", ["height", "width"])
def test_a_map_is_a_multiple_of_sixteen_on_both_sides(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} of deepcam is 40, expected a multiple of 16"):
        networks.build("deepcam", {"batch": 1, "height": 32, "width": 32, name: 40})


def test_operators_check_the_shapes_that_they_take() -> None:
    g = Builder("mine")
    x, y = g.input("x", (2, 3)), g.input("y", (3, 2))
    with pytest.raises(ValueError, match=r"expected \[\(6,\), \(6,\)\]"):
        g.sum(x, y)
    with pytest.raises(ValueError, match="linear1 of mine has shapes"):
        g.linear(x, 4, weight=y)
    with pytest.raises(ValueError, match="unknown operator 'fold'; known: gemm,"):
        g.node("fold", (x,), {})
    with pytest.raises(ValueError, match=r"\(2, 3\) cannot be viewed as \(5,\)"):
        g.view(x, (5,))


@pytest.mark.parametrize(
    ("name", "sizes", "message"),
    [
        ("vgg", {"batch": 1}, "unknown network 'vgg'; known: lenet, alexnet"),
        ("lenet", {}, "lenet needs the parameters batch and allows side, classes, limit_mib"),
        ("unet", {"batch": 1, "side": 24}, "side of unet is 24, expected a multiple of 16"),
        ("transformer", {"batch": 1, "heads": 3}, "width 64 is not a multiple of heads 3"),
    ],
)
def test_wrong_networks_and_sizes_are_named(
    name: str, sizes: Mapping[str, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        networks.build(name, sizes)


def test_files_that_are_no_networks_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no file .*there\.py"):
        networks.find("mine", str(tmp_path / "there.py"))
    with pytest.raises(ValueError, match=r"expected a \.py file"):
        networks.find("mine", write(tmp_path, "", "mine.txt"))


def test_the_catalogue_keeps_levels_apart() -> None:
    assert not set(catalog.NETWORKS) & set(catalog.OPERATORS)
    for entry in catalog.NETWORKS.values():
        assert entry.frameworks == tuple(catalog.FRAMEWORKS)
        assert catalog.refusal(entry, "torch-compile", "float32", "cpu") is None
    lenet = catalog.NETWORKS["lenet"]
    in_float64 = catalog.refusal(lenet, "torch", "float64", "cpu")
    in_bfloat16 = catalog.refusal(lenet, "numpy", "bfloat16", "cpu")
    assert in_float64 is not None
    assert "lenet does not support float64" in in_float64
    assert in_bfloat16 is not None
    assert in_bfloat16.startswith("numpy does not support bfloat")
    with_gradient = {facts.name for facts in catalog.due(lenet, "torch", "cuda")}
    without = {facts.name for facts in catalog.due(lenet, "onnxruntime", "cpu")}
    assert with_gradient - without == {
        *("training_time", "training_throughput", "loss", "grad_l2_error_ratio"),
        *("gradient_check", "micro_batches", "element_error_ratio", "bound_share"),
        *("layer_backward_time", "inference_latency", "training_latency"),
    }
