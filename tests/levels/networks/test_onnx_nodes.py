"""ONNX's own node tests: how many load, agree with what ONNX says, and run in torch."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy
import pytest
from numpy.typing import NDArray

from capsule.levels import frameworks
from capsule.levels.frameworks.base import Framework, FrameworkError
from capsule.levels.graphs import reference
from capsule.levels.graphs.graph import Graph
from tests.support.capabilities import inference
from tests.support.networks import ran

pytest.importorskip("onnx")
pytest.importorskip("torch")

import onnx

from capsule.levels.graphs.onnx import exchange

Array = NDArray[Any]
Arrays = Mapping[str, Array]

NodeCase = Any
"""A `TestCase` of ONNX: a model of one node, or of what it stands for, with inputs and outputs."""

ALL, LOADED, IN_TORCH = 1884, 1537, 1173
"""Of ONNX 1.23.2; the last two may only go up."""


def cases() -> Sequence[NodeCase]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        cases: Sequence[NodeCase] = collect_testcases(None)
        return cases


def array_of(value: Any) -> Array:
    if isinstance(value, onnx.TensorProto):
        tensor: Array = onnx.numpy_helper.to_array(value)
        return tensor
    return numpy.asarray(value)


def constant(array: Array, value: onnx.ValueInfoProto) -> onnx.TensorProto:
    """A tensor of the type of an input, which numpy may lack."""
    kind = value.type.tensor_type.elem_type
    return onnx.helper.make_tensor(value.name, kind, array.shape, array.ravel().tolist())


def attempts(case: NodeCase) -> Iterator[tuple[Graph, dict[str, Array]]]:
    """The case with the first input that has axes as its only one, or with all of them."""
    values = case.data_sets[0][0]
    if any(isinstance(value, (list, dict)) or value is None for value in values):
        return
    operands = list(map(array_of, values))
    with_axes = [place for place, array in enumerate(operands) if array.ndim and len(array)]
    for places in sorted({tuple(with_axes[:1]), tuple(with_axes)} - {()}, key=len):
        model = onnx.ModelProto()
        model.CopyFrom(case.model)
        inputs = list(model.graph.input)
        del model.graph.input[:]
        for place, (value, array) in enumerate(zip(inputs, operands, strict=True)):
            if place in places:
                model.graph.input.append(value)
            else:
                model.graph.initializer.append(constant(array, value))
        batch = min(operands[place].shape[0] for place in places)
        try:
            graph = exchange.load(model.SerializeToString(), {"batch": batch})
        except ValueError as error:
            assert str(error).startswith("network: "), case.name
            continue
        yield graph, dict(zip((value.name for value in inputs), operands, strict=True))


def feed(graph: Graph, arrays: Arrays) -> dict[str, Array]:
    """What the graph takes; labels of a loss that the file does not have are read by nobody."""
    taken: dict[str, Array] = {}
    for name, one in graph.inputs.items():
        if name in arrays:
            kind = numpy.float32 if one.below is None else numpy.int64
            taken[name] = arrays[name].reshape(one.shape).astype(kind)
    for name, parameter in graph.parameters.items():
        taken[name] = parameter.value.astype(numpy.float32)
    return taken


def due(graph: Graph, case: NodeCase) -> list[Array]:
    right = list(map(array_of, case.data_sets[0][1]))
    if len(graph.outputs) < len(right):  # the loss is none of them
        right = [array for array in right if array.shape or array.dtype.kind != "f"]
    return right


def agrees(results: Sequence[Array], right: Sequence[Array]) -> bool:
    """Within what ONNX allows; of 16-bit numbers within what these hold."""
    tolerances = {"float16": (2e-3, 1e-3), "bfloat16": (2e-2, 1e-2)}
    for one, other in zip(results, right, strict=True):
        rtol, atol = tolerances.get(other.dtype.name, (1e-3, 1e-5))
        pair = one.astype(numpy.float64), other.astype(numpy.float64)
        if one.shape != other.shape or not numpy.allclose(*pair, rtol, atol, equal_nan=True):
            return False
    return True


def run_in(framework: Framework, graph: Graph, arrays: Arrays) -> list[Array]:
    native = {name: framework.from_numpy(array) for name, array in arrays.items()}
    return ran(framework, inference(framework, graph, native))


def test_onnxs_own_node_tests_load_agree_and_run_in_torch() -> None:
    torch = frameworks.load("torch", "cpu", 1, "default")
    every = cases()
    assert len(every) == ALL
    loaded, wrong, in_torch, wrong_in_torch = set(), set(), set(), set()
    for case in every:
        for graph, operands in attempts(case):
            arrays, right = feed(graph, operands), due(graph, case)
            try:
                with numpy.errstate(all="ignore"):  # of an empty row the softmax is not a number
                    results = reference.evaluate(graph.inference, arrays)
            except ValueError:
                continue
            loaded.add(case.name)
            if not agrees([results[name] for name in graph.outputs], right):
                wrong.add(case.name)
            try:
                yielded = run_in(torch, graph, arrays)
            except FrameworkError:
                break
            in_torch.add(case.name)
            if not agrees(yielded, right):
                wrong_in_torch.add(case.name)
            break
    assert (sorted(wrong), sorted(wrong_in_torch)) == ([], [])
    print(f"{len(loaded)} load, {len(in_torch)} of these run in torch")
    assert len(loaded) >= LOADED
    assert len(in_torch) >= IN_TORCH
