"""Run networks in TensorFlow as a user of its two methods would, and print what is seen as JSON.

Started by `test_tensorflow`, in whatever Python has TensorFlow.
"""

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy
from numpy.typing import NDArray

from capsule.levels import frameworks, networks
from capsule.levels.catalog import training
from capsule.levels.frameworks.base import Call, Framework, NativeTensor, require
from capsule.levels.graphs import bounds, reference, statistics, values
from capsule.levels.graphs.graph import Input, Node
from capsule.levels.instruments import errors, memory
from capsule.levels.level1 import layers
from capsule.levels.level2 import trajectory
from capsule.levels.networks import Builder, Graph

FRAMEWORK = frameworks.load(sys.argv[1], "cpu", 1, "default")
NETWORKS = require(FRAMEWORK.networks, FRAMEWORK.name, "run networks")
TRAINING = require(NETWORKS.training, FRAMEWORK.name, "train networks")

Arrays = Mapping[str, NDArray[Any]]
Tensors = Mapping[str, NativeTensor]


def everything() -> Graph:
    """Each operator that reads the order of axes, behind ones that hold channels last."""
    g = Builder("everything")
    x = g.conv2d(g.input("image", (2, 3, 8, 8)), 4, 3, padding=1)
    both = g.concat([g.relu(x), x], 1)
    pooled = g.max_pool2d(both, 2, stride=2)
    rows = g.linear(g.flat(pooled), 6)
    pixels = g.linear(g.view(g.transpose(g.sum(pooled, pooled), (0, 2, 3, 1)), (32, 8)), 5)
    table = g.parameter("table", (7, 5), "uniform", 1.0)
    g.parameter("unread by the loss", (5, 8), "uniform", 1.0)
    words = g.embedding(g.input("tokens", (32,), below=7), table)
    mixed = g.add_rows(g.sum(pixels, words), g.parameter("row", (5,), "uniform", 1.0))
    # weights that two read, one of them in another layout
    again = g.linear(mixed, 7, bias=False, weight=table)
    other = g.linear(rows, 3)
    back = g.view(g.transpose(g.view(again, (2, 4, 4, 7)), (0, 3, 1, 2)), (2, 7, 4, 4))
    more = g.conv2d(back, 2, 1)
    far = g.linear(g.flat(g.global_average_pool(both)), 5, weight="unread by the loss")
    loss = g.softmax_cross_entropy(again, g.labels("label", 32, 7))
    return g.graph([both, other, more, far, g.transpose(x, (1, 0, 2, 3))], loss)


def draw(graph: Graph, dtype: str) -> Arrays:
    return {**values.inputs(graph, dtype, 17), **values.parameters(graph, dtype, 17)}


def to_native(arrays: Arrays, dtype: str) -> Tensors:
    return {name: FRAMEWORK.from_numpy(array, dtype) for name, array in arrays.items()}


def facts(results: Iterable[NativeTensor]) -> dict[str, Any]:
    shapes = [list(map(int, tensor.shape)) for tensor in results]
    return {"shapes": shapes, "dtypes": [FRAMEWORK.dtype_of(tensor) for tensor in results]}


def compare(graph: Graph, dtype: str) -> dict[str, Any]:
    """Ratios of both methods, shapes and dtypes beside those that are due."""
    inputs = draw(graph, dtype)
    tensors = to_native(inputs, dtype)
    right = reference.forward(graph, inputs, dtype)
    gradients = reference.backward(graph, inputs, dtype)
    limits = bounds.bounds(graph, inputs, dtype, 17)
    call, operands = NETWORKS.inference(graph, tensors)
    outputs = call(*operands)
    train, trained_operands = TRAINING(graph, tensors)
    step = train(*trained_operands)
    assert limits.loss is not None
    due = (right[graph.require_loss()], *(gradients[name] for name in graph.trainable))
    allowed = (limits.loss, *(limits.gradients[name] for name in graph.trainable))
    arrays = [tuple(map(FRAMEWORK.to_numpy, tensors)) for tensors in (outputs, step)]
    again = [
        tuple(map(FRAMEWORK.to_numpy, tensors))
        for tensors in (call(*operands), train(*trained_operands))
    ]
    # by what the loss does not read the gradient is 0, and so is the bound
    zero = [place for place, bound in enumerate(allowed) if bound == 0]
    rest = [place for place, bound in enumerate(allowed) if bound > 0]
    expected = tuple(right[name] for name in graph.outputs)
    return {
        "outputs": errors.worst_ratio(arrays[0], expected, limits.outputs),
        "training": errors.worst_ratio(
            tuple(arrays[1][place] for place in rest),
            tuple(due[place] for place in rest),
            tuple(allowed[place] for place in rest),
        ),
        "unread": [float(abs(arrays[1][place]).max()) for place in zero],
        "repeated": all(map(errors.same_bits, arrays, again)),
        "results": [facts(outputs), facts(step)],
        "shapes": [
            [list(right[name].shape) for name in graph.outputs],
            [[], *(list(graph.parameters[name].shape) for name in graph.trainable)],
        ],
    }


def differentiate_nodes() -> dict[str, Any]:
    """How far the gradients of each node by itself are from those of its formula."""
    graph = everything()
    arrays = draw(graph, "float64")

    def differentiate(framework: Framework) -> list[list[Any]]:
        yielded = []

        def keep(call: Call) -> float:
            function, operands = call
            yielded.append(list(map(framework.to_numpy, function(*operands))))
            return 0.0

        native = {name: framework.from_numpy(array, "float64") for name, array in arrays.items()}
        layers.backward(graph, native, framework, "float64", keep)
        return yielded

    of_formulas = differentiate(frameworks.load("numpy", "cpu", 1, "default"))
    pairs = zip(differentiate(FRAMEWORK), of_formulas, strict=True)
    distances = [trajectory.deviation(*pair) for pair in pairs]
    return {"nodes": len(distances), "deviation": max(distances)}


def chain(length: int, side: int) -> Graph:
    """Convolutions of one activation of side * side * 64 bytes into the next."""
    g = Builder("chain")
    x = g.input("image", (1, 16, side, side))
    for _ in range(length):
        x = g.relu(g.conv2d(x, 16, 1))
    rows = g.flat(g.global_average_pool(x))
    return g.graph([rows], g.softmax_cross_entropy(rows, g.labels("label", 1, 16)))


def peaks() -> dict[str, int]:
    """Growth of peak memory: of one inference, one training step, and ten more of these."""
    side, length = 512, 60
    graph = chain(length, side)
    tensors = to_native(draw(graph, "float32"), "float32")
    peaks = {"activation": side * side * 64, "length": length}
    watch = memory.watch(FRAMEWORK)

    def growth(call: Callable[..., Any], operands: tuple[Any, ...], times: int) -> int:
        watch.reset_peak()
        for _ in range(times):
            call(*operands)
        return watch.peak()

    for name, method in (
        ("inference", NETWORKS.inference),
        ("training", TRAINING),
    ):
        call, operands = method(graph, tensors)
        peaks[name] = growth(call, operands, 1)
    peaks["again"] = growth(call, operands, 10)
    return peaks


def refusals() -> dict[str, str]:
    """What is said of an operator and of a dtype that are not there."""
    node = Node("y", "spin", {}, ("x",), (2,))
    graph = Graph("odd", {"x": Input((2,))}, {}, (node,), ("y",), None)
    messages = {}
    for name, dtype in (("operator", "float32"), ("dtype", "float16")):
        tensors = {"x": FRAMEWORK.from_numpy(numpy.ones(2, "float32"), dtype)}
        try:
            NETWORKS.inference(graph, tensors)
        except frameworks.FrameworkError as error:
            messages[name] = str(error)
    return messages


def compare_exchanged() -> dict[str, Any]:
    """A network that has been an ONNX file."""
    from capsule.levels.graphs.onnx import exchange

    sizes = networks.find("lenet").complete({"batch": 2})
    graph = networks.build("lenet", sizes)
    written = exchange.dump(graph, values.parameters(graph, "float32", 17))
    return compare(exchange.load(written, sizes), "float32")


def follow_statistics() -> dict[str, float]:
    """Errors of three steps and of an evaluation, where pictures are normalized by batch twice."""
    g = Builder("normalized")
    x = g.batch_norm(g.input("image", (4, 2, 6, 6)))
    x = g.relu(g.batch_norm(g.conv2d(x, 5, 3, padding=1)))
    x = g.linear(g.flat(g.global_average_pool(x)), 3)
    graph = g.graph([x], loss=g.softmax_cross_entropy(x, g.labels("label", 4, 3)))
    start = values.parameters(graph, "float32", 17)
    batches = [values.inputs(graph, "float32", seed) for seed in range(4)]
    rates = [0.1, 0.05, 0.1]
    numbers = training.complete(training.OPTIMIZERS["sgd"], {"lr": 0.1, "momentum": 0.9})
    *_, last = trajectory.follow(graph, start, batches[:3], rates, "sgd", numbers)
    begin = require(NETWORKS.trainer, FRAMEWORK.name, "train")
    trainer = begin(graph, to_native(start, "float32"), "sgd", numbers)
    for inputs, rate in zip(batches, rates, strict=False):
        trainer.step(to_native(inputs, "float32"), rate)
    moved = {name: FRAMEWORK.to_numpy(tensor) for name, tensor in trainer.parameters().items()}
    evaluation = statistics.evaluation(graph)
    judged = trainer.evaluate(evaluation, to_native(batches[3], "float32"))
    expected = trajectory.evaluate(evaluation, {**start, **last.after}, batches[3])
    return {
        "steps": trajectory.distance(moved, last.after, start, graph.trainable),
        "moved": len(moved) - len(graph.trainable),
        "evaluation": trajectory.deviation(list(map(FRAMEWORK.to_numpy, judged)), expected),
    }


DOES: dict[str, Callable[[], Mapping[str, Any]]] = {
    "everything": lambda: compare(everything(), "float32"),
    "nodes": differentiate_nodes,
    "peaks": peaks,
    "refused": refusals,
    "exchanged": compare_exchanged,
    "statistics": follow_statistics,
}
print(json.dumps({name: DOES[name]() for name in sys.argv[2:]}))
