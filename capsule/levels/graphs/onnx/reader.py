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
        self.constants = {each.name: _array(each) for each in model.graph.initializer}
        self._opsets = model.opset_import
        self._weights = {name for name, each in self.constants.items() if each.dtype.kind == "f"}
        self._names: dict[str, str] = {}
        # inputs of whole numbers are flat in the graph: name of the input, shape in the file
        self._whole: dict[str, tuple[str, tuple[int, ...]]] = {}
        self._below: dict[str, int] = {}
        given = [each for each in model.graph.input if each.name not in self.constants]
        lengths = [each.type.tensor_type.shape.dim for each in given]
        least = min((each[0].dim_value for each in lengths if each), default=0)
        told = {each.key: each.value for each in model.metadata_props}.get(BATCH)
        self.fixed = int(told) if told else (least or None)
        for each in given:
            self._input(each)

    def _input(self, value: Any) -> None:
        dims = value.type.tensor_type.shape.dim
        shape = [each.dim_value for each in dims]
        if dims:
            shape[0] = self.scaled(shape[0]) if self.fixed else self.batch
        if not dims or min(shape) < 1:
            found = [each.dim_param or each.dim_value for each in dims]
            raise ValueError(
                f"input {value.name!r} has the shape {found}; all but its first axis, the batch,"
                " must have a fixed length"
            )
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        if dtype.kind == "f" or dtype.name == "bfloat16":
            self._names[value.name] = self.g.input(value.name, shape)
        else:
            self._whole[value.name] = (value.name, tuple(shape))

    def scaled(self, length: int) -> int:
        """A first axis of the file's own batch size, for the batch that is asked for."""
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

    def real(self, value: str, *, trained: bool = True) -> str:
        """The network's name of a value; a constant becomes a parameter.

        Args:
            value: In the file.
            trained: False for a constant that is no weight, whatever it looks like.
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
        learnt = trained and value in self._weights
        self._names[value] = self.g.parameter(value, array.shape, trained=learnt, value=array)
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
        read = [each for each in node.input if each]
        if node.op_type in ("Shape", "Size"):
            lengths = numpy.array(self.shape(read[0]), dtype=numpy.int64)
            how = {each.name: each.i for each in node.attribute}
            part = lengths[how.get("start", 0) : how.get("end", len(lengths))]
            self.constants[node.output[0]] = part if node.op_type == "Shape" else lengths.prod()
            return True
        known = all(each in self.constants for each in read)
        source = bool(read) or node.op_type == "Constant"
        weights = bool(self._weights & set(read))
        if not known or not source or node.op_type in _NEVER_FOLDED:
            return False
        if weights and node.op_type not in _SAME:
            return False
        # a cast to whole numbers is no weight any more
        for name, array in self._evaluated(node, read).items():
            self.constants[name] = array
            if weights and array.dtype.kind == "f":
                self._weights.add(name)
        return True

    def _evaluated(self, node: Any, read: list[str]) -> dict[str, Any]:
        from onnx.reference import ReferenceEvaluator

        arrays = {name: self.constants[name] for name in read}
        described = [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(each.dtype), each.shape
            )
            for name, each in arrays.items()
        ]
        outputs = [onnx.ValueInfoProto(name=each) for each in node.output if each]
        graph = helper.make_graph([node], "constant", described, outputs)
        model = helper.make_model(graph, opset_imports=self._opsets)
        results = ReferenceEvaluator(model).run(None, arrays)
        return dict(zip((each for each in node.output if each), map(numpy.asarray, results)))

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
