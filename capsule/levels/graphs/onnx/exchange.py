"""Networks as ONNX files, in and out: one file runs in every framework. Needs the package onnx."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..graph import Graph

if TYPE_CHECKING:
    from .reader import Reader

OPSETS = range(13, 24)
"""Versions of the default operator set that are read."""


def load(source: str | Path | bytes, sizes: Mapping[str, int]) -> Graph:
    """The network of an ONNX file, its weights as `Parameter.value`.

    The first axis of every input is the batch, whatever length the file gives it, and where inputs
    of fixed lengths differ, that many times the batch of the shortest; the other axes must have
    fixed lengths. Real numbers are of the trial's type, whatever type the file has.
    Initializers of reals are trained, but for running means and variances. Whole numbers are read
    as the rows of an embedding or as class labels, from inputs that are flat in the graph.

    The loss is the file's scalar output; inference yields the others, or it if there is no other. A
    file without one and with a single output of shape (batch, classes) gets, beside that output, a
    softmax cross entropy with labels of its own; where the output is a softmax, of what goes into
    it. Any other file has no loss.

    Args:
        source: Path, or the content.
        sizes: `batch`.

    Raises:
        ImportError: There is no package onnx.
        ValueError: It is no such file, or a node is not supported: the message names it.
    """
    from onnx import inliner

    from . import patterns
    from .reader import Reader, Refused

    name = "network" if isinstance(source, bytes) else Path(source).stem
    model = _model(source, name)
    versions = {opset.domain: opset.version for opset in model.opset_import}
    if versions.get("", versions.get("ai.onnx")) not in OPSETS:
        raise ValueError(
            f"{name}: it uses version {versions.get('')} of ONNX's operators;"
            f" {OPSETS[0]} to {OPSETS[-1]} are supported"
        )
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
        _translate(reader, node, name)
    try:
        return _finish(reader, outputs)
    except Refused as error:
        raise ValueError(f"{name}: {error}") from None


def dump(
    graph: Graph,
    parameters: Mapping[str, Any],
    dtype: str | None = None,
    batch: int | None = None,
) -> bytes:
    """An ONNX file of a network: its outputs, and its loss where it has one.

    `load` of it gives the same network, but for names.

    Args:
        graph: The network.
        parameters: Arrays by name; what is in the file.
        dtype: numpy's name of the type of reals; None for that of the parameters.
        batch: What the first axes of the inputs are multiples of, for `load` with another batch;
            None where it is the least of them.

    Raises:
        ImportError: There is no package onnx.
        ValueError: ONNX has no such operator, or the file would have no type.
    """
    from . import writer

    return writer.write(graph, parameters, dtype, batch)


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
            f"{name}: {error} (weights must lie in the file itself: torch.onnx.export writes them"
            " there with external_data=False)"
        ) from None


def _translate(reader: Reader, node: Any, name: str) -> None:
    """Write a node of a file to the network of the reader."""
    import onnx

    from . import mapping
    from .reader import Refused

    try:
        if reader.fold(node):
            return
        if node.domain not in ("", "ai.onnx") or node.op_type not in mapping.KINDS:
            raise Refused("there is no operation of Level 0 for it")
        how = {
            attribute.name: onnx.helper.get_attribute_value(attribute)
            for attribute in node.attribute
        }
        mapping.KINDS[node.op_type](reader, node, how)
    except Refused as error:
        raise ValueError(_refusal(name, node, str(error), mapping.KINDS)) from None
    except (IndexError, KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        reason = f"it is not as ONNX has it ({type(error).__name__}: {error})"
        raise ValueError(_refusal(name, node, reason, mapping.KINDS)) from error


def _refusal(name: str, node: Any, reason: str, kinds: Mapping[str, Any]) -> str:
    called = node.name or (node.output[0] if node.output else "")
    supported = ", ".join(sorted(kind for kind in kinds if kind[0].isupper()))
    return (
        f"{name}: node {called!r} ({node.op_type}) is not supported: {reason}."
        f" Supported kinds of nodes: {supported}; and whatever can be worked out beforehand"
    )


def _finish(reader: Reader, outputs: list[str]) -> Graph:
    from .reader import Refused

    g = reader.g
    values = [reader.real(output) for output in outputs]
    losses = [value for value in values if g.shape(value) == ()]
    if len(losses) > 1:
        raise Refused(f"it has the scalar outputs {', '.join(losses)}; one, the loss, is supported")
    yielded = [value for value in values if value not in losses]
    nodes = {node.name: node for node in g.graph(values, losses[0] if losses else None).nodes}
    strange = [value for value in values if value not in nodes]
    if strange:
        raise Refused(f"its output {strange[0]!r} is an input or a weight")
    if losses:
        return g.graph(yielded or losses, losses[0])
    rows = [value for value in yielded if len(g.shape(value)) == 2]
    if len(rows) != 1 or g.shape(rows[0])[0] != reader.batch:
        return g.graph(yielded)
    last = nodes[rows[0]]
    scores = last.inputs[0] if last.operator == "softmax" else last.name
    labels = g.labels(reader.free("labels"), *g.shape(scores))
    sizes = dict(zip(("rows", "columns"), g.shape(scores)))
    return g.graph(yielded, reader.node("softmax_cross_entropy", (scores, labels), sizes, "loss"))
