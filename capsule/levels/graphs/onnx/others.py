"""ONNX nodes that are no operation of Level 0: each goes into the network as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

import numpy
import onnx
from onnx import TensorProto, helper, shape_inference

from .. import structure
from . import alone, models
from .reader import DRAWN, Reader, Refused, is_real

_DECIDED = (
    *("Compress", "NonMaxSuppression", "NonZero", "StringSplit", "Unique"),
    *("SequenceAt", "SequenceErase", "SplitToSequence"),
)
"""Kinds whose result is as long as the data will have it."""

_NUMBERS = {("Resize", 1), ("Resize", 2), ("Upsample", 1)}
"""Inputs of real numbers that decide about a shape, or on nothing that is computed."""

_LIKE = "real numbers"
"""A parameter that says only which type they have."""

_USUAL_RANGE = 2
"""Limit of whole-number inputs that are no lookup: 0 and 1 are allowed everywhere."""


def write(r: Reader, node: Any, opsets: Any = None) -> None:
    """Write a node to the network, with its constants in it.

    Args:
        r: The network so far.
        node: As ONNX has it.
        opsets: Versions of the operators; None for the file's.

    Raises:
        Refused: It cannot be written; the message says why.
    """
    if node.op_type in DRAWN or _drops(r, node):
        raise Refused("it draws random numbers, which differ from framework to framework")
    operands: dict[str, str] = {}
    types: dict[str, tuple[int, tuple[int, ...]]] = {}
    constants = {}
    for place, name in _reads(node):
        if name in r.constants and _belongs(r.constants[name], node.op_type, place):
            constants[name] = r.constants[name]
        elif name not in operands:
            operands[name] = _operand(r, name)
            types[name] = _type(r, operands[name])
    if not operands:
        raise Refused("it reads only constants, expected a value of the network")
    model = alone.pack(node, types, constants, opsets or r.opsets)
    results = _infer(model, node)
    if node.op_type == "Reshape":
        _check_count(types, node.input[0], results[0][2])
    own = [None if kind in alone.REALS else _name(kind) for kind, _ in types.values()]
    real = all(own) and any(kind is None for _, kind, _ in results)
    inputs = [*operands.values(), *([_like(r)] if real else [])]
    sizes = {
        "kind": node.op_type,
        "model": model.SerializeToString().hex(),
        "of": tuple(r.g.shape(name) for name in inputs),
        "types": (*own, *([None] if real else [])),
    }
    for place, (output, kind, shape) in enumerate(results):
        more = {**sizes, "output": place, "shape": shape, "type": kind}
        r.alias(output, r.node(structure.ONNX, inputs, more, output))


def _drops(r: Reader, node: Any) -> bool:
    """Return whether a node is dropout as in training."""
    trains = node.input[2] if node.op_type == "Dropout" and len(node.input) > 2 else ""
    return bool(trains and (trains not in r.constants or r.constants[trains].any()))


def _check_count(types: Mapping[str, Any], name: str, shape: tuple[int, ...]) -> None:
    """Check the number of elements of a shape, which ONNX's inference leaves unchecked."""
    of = types[name][1] if name in types else shape
    if prod(of) != prod(shape):
        raise Refused(f"{of} cannot become {shape}")


def value(r: Reader, name: str) -> str:
    """Return the network's name of a value of the file, of any type.

    Raises:
        Refused: It is a constant of whole numbers, or no value at all.
    """
    return _operand(r, name)


def _reads(node: Any) -> Iterator[tuple[int, str]]:
    """Yield a node's inputs with their places, including those of its subgraphs."""
    from onnx.reference.op_run import OpRun

    for place, name in enumerate(node.input):
        if name:
            yield place, name
    for attribute in node.attribute:
        if attribute.HasField("g"):
            for name in sorted(filter(None, OpRun.implicit_inputs(attribute.g))):
                yield len(node.input), name


def _belongs(array: Any, kind: str, place: int) -> bool:
    """Return whether a constant is a part of the operation, rather than a weight that it reads."""
    return not is_real(array) or not array.ndim or (kind, place) in _NUMBERS


def _operand(r: Reader, name: str) -> str:
    whole = r.flat(name)
    if whole is None:
        return r.name_of(name) if r.is_known(name) else r.real(name)
    source, shape, kind = whole
    typed = f"{name}/{_name(kind)}"
    if r.is_known(typed):
        return r.name_of(typed)
    flat = r.whole(name, r.ranges.get(source, _USUAL_RANGE))
    shaped = r.view(flat, shape, f"{name}/shaped")
    if kind == TensorProto.INT64:
        r.alias(typed, shaped)
    else:
        r.alias(f"{name}/shaped", shaped)
        cast = helper.make_node("Cast", [f"{name}/shaped"], [typed], to=kind)
        write(r, cast, [helper.make_opsetid("", models.OPSET)])
    return r.name_of(typed)


def _type(r: Reader, name: str) -> tuple[int, tuple[int, ...]]:
    kind = r.g.type_of(name)
    elements = helper.np_dtype_to_tensor_dtype(numpy.dtype(kind)) if kind else TensorProto.FLOAT
    return elements, r.g.shape(name)


def _like(r: Reader) -> str:
    if not r.is_known(_LIKE):
        like = r.g.parameter(r.free(_LIKE), (), trainable=False, value=numpy.zeros((), "float32"))
        r.alias(_LIKE, like)
    return r.name_of(_LIKE)


def _infer(model: Any, node: Any) -> list[tuple[str, str | None, tuple[int, ...]]]:
    """Name, type and shape of each result that the file names."""
    try:
        inferred = shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except (shape_inference.InferenceError, onnx.checker.ValidationError) as error:
        words = str(error).strip().splitlines()
        raise Refused(words[-1] if words else "ONNX cannot infer the shape of its result") from None
    results = []
    for place, value in enumerate(inferred.graph.output):
        form = value.type.tensor_type
        if not value.type.HasField("tensor_type") or not form.elem_type:
            found = value.type.WhichOneof("value") or "unknown"
            found = "a tensor of unknown type" if found == "tensor_type" else f"of type {found}"
            raise Refused(f"its result {value.name!r} is {found}, expected a tensor of known type")
        kind = None if form.elem_type in alone.REALS else _name(form.elem_type)
        dims = form.shape.dim
        if form.HasField("shape") and all(dim.HasField("dim_value") for dim in dims):
            shape = tuple(dim.dim_value for dim in dims)
        else:
            shape = _try_shape(model, node, place)
        results.append((value.name, kind, shape))
    return results


def _try_shape(model: Any, node: Any, place: int) -> tuple[int, ...]:
    """Return the shape of a result that ONNX does not infer, by running the node."""
    from onnx.reference import ReferenceEvaluator

    kinds = {value.type.tensor_type.elem_type for value in model.graph.input}
    if node.op_type in _DECIDED or not kinds <= set(alone.REALS):
        raise Refused("the length of its result depends on the data")
    arrays = {}
    for value in model.graph.input:
        form = value.type.tensor_type
        dtype = helper.tensor_dtype_to_np_dtype(form.elem_type)
        arrays[value.name] = numpy.zeros([dim.dim_value for dim in form.shape.dim], dtype)
    try:
        results = ReferenceEvaluator(model).run(None, arrays)
    except Exception as error:
        raise Refused(f"ONNX's reference cannot run the node: {error}") from None
    return tuple(numpy.asarray(results[place]).shape)


def _name(kind: int) -> str:
    """Return numpy's name of a type that is not real.

    Raises:
        Refused: No trial has such values.
    """
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    if dtype.kind not in "biu":
        raise Refused(f"it has values of the unsupported type {TensorProto.DataType.Name(kind)}")
    return str(dtype.name)
