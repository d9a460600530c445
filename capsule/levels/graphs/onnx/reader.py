"""An ONNX file while it is read: its constants, its shapes for one batch, the network so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

import numpy
import onnx
from onnx import helper, numpy_helper

from ..builder import Builder
from .writer import BATCH

_SAME = ("Identity", "Cast")
"""Kinds whose result is a trained weight if what they read is one; others stay operations."""

_NEVER_FOLDED = ("If", "Loop", "Scan", "Bernoulli", "Multinomial", "Dropout")


class Refused(Exception):
    """A node means what capsule's operators lack; the message says what."""


class Reader:
    """Values by their ONNX names, and the builder that they are written to.

    Attributes:
        g: The network under construction.
        batch: Length of the first axis of every input.
        fixed: What the file says that length is; None where it leaves it open.
        constants: Arrays that no input has a part in.
    """

    def __init__(self, model: Any, name: str, batch: int) -> None:
        self.g = Builder(name)
        self.batch = batch
        self.constants = {tensor.name: _array(tensor) for tensor in model.graph.initializer}
        self._opsets = model.opset_import
        self._weights = {name for name, array in self.constants.items() if array.dtype.kind == "f"}
        self._names: dict[str, str] = {}
        # inputs of whole numbers are flat in the graph: name of the input, shape in the file
        self._whole: dict[str, tuple[str, tuple[int, ...]]] = {}
        self._below: dict[str, int] = {}
        values = [value for value in model.graph.input if value.name not in self.constants]
        axes = [value.type.tensor_type.shape.dim for value in values]
        least = min((dims[0].dim_value for dims in axes if dims), default=0)
        stated = {prop.key: prop.value for prop in model.metadata_props}.get(BATCH)
        self.fixed = int(stated) if stated else (least or None)
        for value in values:
            self._input(value)

    def _input(self, value: Any) -> None:
        dims = value.type.tensor_type.shape.dim
        shape = [dim.dim_value for dim in dims]
        if dims:
            shape[0] = self.scale(shape[0]) if self.fixed else self.batch
        if not dims or min(shape) < 1:
            lengths = [dim.dim_param or dim.dim_value for dim in dims]
            raise ValueError(
                f"input {value.name!r} has the shape {lengths}; all but its first axis, the batch,"
                " must have a fixed length"
            )
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        if dtype.kind == "f" or dtype.name == "bfloat16":
            self._names[value.name] = self.g.input(value.name, shape)
        else:
            self._whole[value.name] = (value.name, tuple(shape))

    def scale(self, length: int) -> int:
        """A first axis of the file's own batch size, for the batch of this network."""
        if not self.fixed or length % self.fixed:
            return length
        return length // self.fixed * self.batch

    def shape(self, value: str) -> tuple[int, ...]:
        """Lengths of the axes, as the file has them but for the batch."""
        if value in self.constants:
            return tuple(self.constants[value].shape)
        if value in self._whole:
            return self._whole[value][1]
        if value not in self._names:
            raise Refused(f"its input {value!r} is a result that no supported node yields")
        return self.g.shape(self._names[value])

    def real(self, value: str, *, trainable: bool = True) -> str:
        """The network's name of a value; a constant becomes a parameter.

        Args:
            value: In the file.
            trainable: False for a constant that is no weight, whatever it looks like.
        """
        if value in self._names:
            return self._names[value]
        if value in self._whole:
            raise Refused(f"its input {value!r} holds whole numbers")
        if value not in self.constants:
            raise Refused(f"its input {value!r} is a result that no supported node yields")
        array = self.constants[value]
        if array.dtype.kind != "f":
            raise Refused(f"its input {value!r} is a constant of {array.dtype}")
        learnt = trainable and value in self._weights
        self._names[value] = self.g.parameter(value, array.shape, trainable=learnt, value=array)
        return value

    def whole(self, value: str, below: int) -> str:
        """The flat input of whole numbers from 0 to `below` - 1 that a value is."""
        if value not in self._whole:
            raise Refused(f"{value!r} must be an input of whole numbers")
        name, shape = self._whole[value]
        if self._below.setdefault(name, below) != below:
            raise Refused(f"{name!r} has two ranges, {self._below[name]} and {below}")
        if name not in self._names:
            self._names[name] = self.g.input(name, (prod(shape),), below)
        return name

    def constant(self, value: str) -> Any:
        """The array of a value that must not depend on an input."""
        if value not in self.constants:
            raise Refused(f"its input {value!r} must be a constant")
        return self.constants[value]

    def node(
        self, operator: str, inputs: Iterable[str], sizes: Mapping[str, Any], name: str
    ) -> str:
        """Write an operation, whose inputs are names of the network, under a free name."""
        try:
            return self.g.node(operator, inputs, sizes, self.free(name))
        except ValueError as error:
            raise Refused(str(error)) from None

    def view(self, value: str, shape: Iterable[int], name: str) -> str:
        """A value of the network in another shape; itself where it has that one."""
        of, to = self.g.shape(value), tuple(shape)
        return value if of == to else self.node("view", (value,), {"of": of, "shape": to}, name)

    def reshape(self, value: str, shape: tuple[int, ...], output: str) -> None:
        """`output` of the file is `value` of the file in another shape."""
        if prod(shape) != prod(self.shape(value)):
            raise Refused(f"{self.shape(value)} cannot become {shape}")
        if value in self._whole:
            self._whole[output] = (self._whole[value][0], shape)
        else:
            self.alias(output, self.view(self.real(value), shape, output))

    def alias(self, output: str, name: str) -> None:
        """`output` of the file is a value of the network."""
        self._names[output] = name

    def fold(self, node: Any) -> bool:
        """Work a node out now if it depends on no input, nor on a weight that it would change."""
        read = [name for name in node.input if name]
        if node.op_type in ("Shape", "Size"):
            lengths = numpy.array(self.shape(read[0]), dtype=numpy.int64)
            how = {attribute.name: attribute.i for attribute in node.attribute}
            part = lengths[how.get("start", 0) : how.get("end", len(lengths))]
            self.constants[node.output[0]] = part if node.op_type == "Shape" else lengths.prod()
            return True
        known = all(name in self.constants for name in read)
        source = bool(read) or node.op_type == "Constant"
        weights = bool(self._weights & set(read))
        if not known or not source or node.op_type in _NEVER_FOLDED:
            return False
        if weights and node.op_type not in _SAME:
            return False
        # a cast to whole numbers is no weight any more
        for name, array in self._evaluate(node, read).items():
            self.constants[name] = array
            if weights and array.dtype.kind == "f":
                self._weights.add(name)
        return True

    def _evaluate(self, node: Any, read: list[str]) -> dict[str, Any]:
        from onnx.reference import ReferenceEvaluator

        arrays = {name: self.constants[name] for name in read}
        described = [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in arrays.items()
        ]
        names = [name for name in node.output if name]
        outputs = [onnx.ValueInfoProto(name=name) for name in names]
        graph = helper.make_graph([node], "constant", described, outputs)
        model = helper.make_model(graph, opset_imports=self._opsets)
        results = ReferenceEvaluator(model).run(None, arrays)
        return dict(zip(names, map(numpy.asarray, results)))

    def free(self, name: str) -> str:
        """The name, with marks behind it where it is taken."""
        while True:
            try:
                self.g.shape(name)
            except ValueError:
                return name
            name = f"{name}'"


def _array(tensor: Any) -> Any:
    array = numpy_helper.to_array(tensor)
    # numpy knows bfloat16 only from ml_dtypes, and not as a floating type
    return array.astype(numpy.float32) if array.dtype.name == "bfloat16" else array
