"""Networks as ONNX files, in and out: one file runs in every framework. Needs the package onnx."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..graph import File, Graph

if TYPE_CHECKING:
    from .reader import Reader


def load(source: str | Path | bytes, sizes: Mapping[str, int]) -> Graph:
    """Return the network of an ONNX file, its weights as `Parameter.value`.

    The first axis of every input is the batch, whatever length the file gives it, and where inputs
    of fixed lengths differ, that many times the batch of the shortest; the other axes must have
    fixed lengths. Real numbers are of the trial's type, whatever type the file has.
    Initializers of reals are trained, but for running means and variances and for single numbers
    without axes. Inputs of whole numbers are flat in the graph; they are below what they look up,
    and 0 or 1 where they look up nothing. A node that no operation of Level 0 is stays what it is,
    with ONNX's own reference (`node`), and then the network cannot be trained.

    The loss is the file's scalar output; inference yields the others, or it if there is no other. A
    file without one and with a single output of shape (batch, classes) gets, beside that output, a
    softmax cross entropy with labels of its own; where the output is a softmax, of what goes into
    it. Any other file has no loss.

    Args:
        source: Path, or the content.
        sizes: `batch`.

    Raises:
        ModuleNotFoundError: There is no package onnx.
        ValueError: It is no such file, or a node is not supported: the message names it.
    """
    name = "network" if isinstance(source, bytes) else Path(source).stem
    _require_onnx(name)
    from onnx import defs, inliner

    from . import patterns
    from .reader import Reader, Refused

    model = _model(source, name)
    versions = {opset.domain or "ai.onnx": opset.version for opset in model.opset_import}
    version, newest = versions.get("ai.onnx", 1), defs.onnx_opset_version()
    if version > newest:
        raise ValueError(
            f"{name} uses version {version} of ONNX's operators; the installed package onnx"
            f" supports versions up to {newest}: export the file with opset {newest} or earlier"
        )
    content = model
    if model.functions:
        model = inliner.inline_local_functions(model)
    try:
        reader = Reader(model, name, sizes["batch"])
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    outputs = [value.name for value in model.graph.output]
    constants = [node for node in model.graph.node if node.op_type == "Constant"]
    others = [node for node in model.graph.node if node.op_type != "Constant"]
    for node in constants:
        reader.fold(node)
    for node in patterns.fuse(others, reader.constants, set(outputs)):
        _translate(reader, node, name, version)
    try:
        graph, yielded = _finish(reader, outputs)
    except Refused as error:
        raise ValueError(f"{name}: {error}") from None
    file = _file(content, reader, graph, yielded)
    return replace(graph, file=file, refusals=reader.refusals)


def dump(
    graph: Graph,
    parameters: Mapping[str, Any],
    dtype: str | None = None,
    batch: int | None = None,
    types: Mapping[str, str] | None = None,
) -> bytes:
    """Return an ONNX file of a network: its outputs, and its loss where it has one.

    `load` of it gives the same network, but for names.

    Args:
        graph: The network.
        parameters: Arrays by name; what is in the file.
        dtype: numpy's name of the type of reals; None for that of the parameters.
        batch: What the first axes of the inputs are multiples of, for `load` with another batch;
            None where it is the least of them.
        types: numpy's name of an input's type, where that is neither real nor of 64 bits.

    Raises:
        ImportError: There is no package onnx.
        ValueError: ONNX has no such operator, or the file would have no type.
    """
    from . import writer

    return writer.write(graph, parameters, dtype, batch, types or {})


def _require_onnx(name: str) -> None:
    """See that the package is there.

    Raises:
        ModuleNotFoundError: Says what is missing, and where.
    """
    if find_spec("onnx") is None:
        message = (
            f"{name} is an ONNX file, but the environment of the benchmark lacks the package onnx,"
            " which reads ONNX files: use an image that has onnx"
        )
        raise ModuleNotFoundError(message, name="onnx")


def _model(source: str | Path | bytes, name: str) -> Any:
    import onnx
    from google.protobuf.message import DecodeError

    try:
        if isinstance(source, bytes):
            return onnx.load_from_string(source)
        return onnx.load(str(source))
    except (DecodeError, UnicodeDecodeError):
        raise ValueError(f"{name} is not an ONNX file") from None
    except (onnx.checker.ValidationError, FileNotFoundError) as error:
        raise ValueError(
            f"{name}: {error} (weights must be inside the file: call torch.onnx.export with"
            " external_data=False)"
        ) from None


def _translate(reader: Reader, node: Any, name: str, version: int) -> None:
    """Write a node of a file to the network of the reader: by Level 0 where that has it."""
    from . import alone, mapping, others
    from .reader import Refused

    reason = ""
    try:
        if reader.fold(node):
            return
        single = not reader.read.intersection(node.output[1:])
        known = single and node.domain in ("", "ai.onnx") and node.op_type in mapping.KINDS
        if known and mapping.is_usual(node, version):
            try:
                mapping.KINDS[node.op_type](reader, node, alone.attributes(node))
                return
            except Refused as error:
                reason = str(error)
            except (IndexError, KeyError, TypeError, ValueError, ZeroDivisionError):
                # it is another case of the kind, or not as ONNX has it, which comes to light now
                pass
        others.write(reader, node)
        if reason:
            of_node = {reader.name_of(value): reason for value in node.output if value}
            reader.refusals.update(of_node)
    except Refused as error:
        called = node.name or (node.output[0] if node.output else "")
        other = reader.fixed not in (None, reader.batch)
        hint = (
            f" (the file has a fixed batch of {reader.fixed}, and the case needs {reader.batch}:"
            " export the file with a free batch)"
        )
        raise ValueError(
            f"{name}: node {called!r} ({node.op_type}) is not supported: {error}"
            f"{hint if other else ''}"
        ) from None


def _finish(reader: Reader, outputs: list[str]) -> tuple[Graph, list[str]]:
    """Return the network, and the file's names of its outputs."""
    from . import others
    from .reader import Refused

    g = reader.g
    values = [others.value(reader, output) for output in outputs]
    losses = [value for value in values if g.shape(value) == () and g.type_of(value) is None]
    if len(losses) > 1:
        raise Refused(f"it has the scalar outputs {', '.join(losses)}, expected only the loss")
    yielded = {value: name for value, name in zip(values, outputs) if value not in losses}
    nodes = {node.name: node for node in g.graph(values, losses[0] if losses else None).nodes}
    strange = [value for value in values if value not in nodes]
    if strange:
        raise Refused(
            f"its output {strange[0]!r} is an input or a weight, expected the result of a node"
        )
    if losses:
        names = list(yielded.values()) or [outputs[values.index(losses[0])]]
        return g.graph(yielded or losses, losses[0]), names
    rows = [value for value in yielded if len(g.shape(value)) == 2 and g.type_of(value) is None]
    if len(rows) != 1 or g.shape(rows[0])[0] != reader.batch:
        return g.graph(yielded), list(yielded.values())
    last = nodes[rows[0]]
    scores = last.inputs[0] if last.operator == "softmax" else last.name
    labels = g.labels(reader.free("labels"), *g.shape(scores))
    sizes = dict(zip(("rows", "columns"), g.shape(scores)))
    loss = reader.node("softmax_cross_entropy", (scores, labels), sizes, "loss")
    return g.graph(yielded, loss), list(yielded.values())


def _file(model: Any, reader: Reader, graph: Graph, outputs: list[str]) -> File | None:
    """The file, for what can run it as it is; None where it is of another batch, or of reals of
    several types.
    """
    import numpy
    from google.protobuf.message import EncodeError
    from onnx import helper

    from .alone import REALS

    inputs, reals = {}, set()
    initial = {tensor.name for tensor in model.graph.initializer}
    for value in model.graph.input:
        if value.name not in initial:
            kind = value.type.tensor_type.elem_type
            if kind in REALS:
                reals.add(kind)
            shape = reader.shape(value.name)
            dtype = helper.tensor_dtype_to_np_dtype(kind)
            inputs[value.name] = (value.name, shape, str(dtype.name))
    reals |= {one.data_type for one in model.graph.initializer if one.data_type in REALS}
    same = reader.fixed in (None, reader.batch) and len(reals) == 1
    needed = {name for node in graph.inference for name in node.inputs} & set(graph.inputs)
    if not same or set(inputs) != needed:
        return None
    try:
        content = model.SerializeToString()
    except (EncodeError, ValueError):
        # no message has more than 2 GiB
        return None
    real = numpy.dtype(helper.tensor_dtype_to_np_dtype(reals.pop())).name
    return File(content, real, inputs, tuple(outputs), graph.outputs)
