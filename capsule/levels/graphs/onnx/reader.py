"""An ONNX file while it is read: its constants, its shapes for one batch, the network so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

import numpy
import onnx
from onnx import helper, numpy_helper

from ..builder import Builder
from .alone import REALS
from .writer import BATCH

_SAME = ("Identity", "Cast")
"""Kinds whose result is a trained weight if what they read is one; others stay operations."""

DRAWN = (
    *("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike"),
    *("RandomUniform", "RandomUniformLike"),
)
"""Kinds that draw random numbers."""

_NEVER_FOLDED = ("If", "Loop", "Scan", "Dropout", *DRAWN)

_PASSED = ("Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
"""Kinds whose result holds the numbers of their first input."""

_LOOKED_UP = ("Gather", "GatherElements")


class Refused(Exception):
    """A node means what capsule's operators lack; the message says what."""


class Reader:
    """Values by their ONNX names, and the builder that they are written to.

    Attributes:
        g: The network under construction.
        batch: Length of the first axis of every input.
        fixed: What the file says that length is; None where it leaves it open.
        constants: Arrays that no input has a part in.
        opsets: Versions of the operators, as the file states them.
        read: Values that a node reads, or the file yields.
        ranges: Number of rows that an input of whole numbers looks up, by input.
        refusals: Why Level 0 has no operation for a node, by the network's name of its value.
    """

    def __init__(self, model: Any, name: str, batch: int) -> None:
        self.g = Builder(name)
        self.batch = batch
        self.constants = {tensor.name: _array(tensor) for tensor in model.graph.initializer}
        self.opsets = model.opset_import
        # a number without axes is a constant of the formula, no weight
        self._weights = {
            name for name, array in self.constants.items() if is_real(array) and array.ndim
        }
        self.read = {name for node in model.graph.node for name in node.input}
        self.read |= {value.name for value in model.graph.output}
        self.ranges = _find_ranges(model.graph, self.constants)
        self.refusals: dict[str, str] = {}
        self._names: dict[str, str] = {}
        # inputs of whole numbers, flat in the graph: the input's name, shape and type in the file
        self._whole: dict[str, tuple[str, tuple[int, ...], int]] = {}
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
                f"input {value.name!r} has shape {lengths}: export the file with a fixed length of"
                " each axis but the first, the batch"
            )
        kind = value.type.tensor_type.elem_type
        if kind in REALS:
            self._names[value.name] = self.g.input(value.name, shape)
        elif helper.tensor_dtype_to_np_dtype(kind).kind in "biu":
            self._whole[value.name] = (value.name, tuple(shape), kind)
        else:
            named = onnx.TensorProto.DataType.Name(kind)
            raise ValueError(f"input {value.name!r} has the unsupported type {named}")

    def scale(self, length: int) -> int:
        """Return a first axis of the file's own batch size, for the batch of this network."""
        if not self.fixed or length % self.fixed:
            return length
        return length // self.fixed * self.batch

    def shape(self, value: str) -> tuple[int, ...]:
        """Return the lengths of the axes, as the file has them but for the batch."""
        if value in self.constants:
            return tuple(self.constants[value].shape)
        if value in self._whole:
            return self._whole[value][1]
        if value not in self._names:
            raise Refused(f"no supported node returns its input {value!r}")
        return self.g.shape(self._names[value])

    def real(self, value: str, *, trainable: bool = True) -> str:
        """Return the network's name of a value; a constant becomes a parameter.

        Args:
            value: In the file.
            trainable: False for a constant that is no weight, whatever it looks like.
        """
        if value in self._names:
            if kind := self.g.type_of(self._names[value]):
                raise Refused(f"its input {value!r} has the type {kind}, expected real numbers")
            return self._names[value]
        if value in self._whole:
            raise Refused(f"its input {value!r} has whole numbers, expected real numbers")
        if value not in self.constants:
            raise Refused(f"no supported node returns its input {value!r}")
        array = self.constants[value]
        if not is_real(array):
            raise Refused(
                f"its input {value!r} is a constant of {array.dtype}, expected real numbers"
            )
        learnt = trainable and value in self._weights
        self._names[value] = self.g.parameter(value, array.shape, trainable=learnt, value=array)
        return value

    def whole(self, value: str, below: int) -> str:
        """Return the flat input of whole numbers from 0 to `below` - 1 that a value is."""
        if value not in self._whole:
            raise Refused(f"expected an input of whole numbers, found {value!r}")
        name, shape, _ = self._whole[value]
        if self._below.setdefault(name, below) != below:
            raise Refused(
                f"its input {name!r} has the ranges below {self._below[name]} and below {below},"
                " expected one range"
            )
        if name not in self._names:
            self._names[name] = self.g.input(name, (prod(shape),), below)
        return name

    def constant(self, value: str) -> Any:
        """Return the array of a value that must not depend on an input."""
        if value not in self.constants:
            raise Refused(f"its input {value!r} depends on the data, expected a constant")
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
        """Return a value of the network in another shape; itself where it has that one."""
        of, to = self.g.shape(value), tuple(shape)
        return value if of == to else self.node("view", (value,), {"of": of, "shape": to}, name)

    def reshape(self, value: str, shape: tuple[int, ...], output: str) -> None:
        """`output` of the file is `value` of the file in another shape."""
        if prod(shape) != prod(self.shape(value)):
            raise Refused(f"{self.shape(value)} cannot become {shape}")
        if value in self._whole:
            name, _, kind = self._whole[value]
            self._whole[output] = (name, shape, kind)
        else:
            self.alias(output, self.view(self.real(value), shape, output))

    def cast(self, value: str, kind: int, output: str) -> None:
        """`output` of the file is `value` of the file as another of ONNX's types.

        Raises:
            Refused: It is not only another word for what the value is.
        """
        if value in self._whole and kind in (onnx.TensorProto.INT32, onnx.TensorProto.INT64):
            name, shape, _ = self._whole[value]
            self._whole[output] = (name, shape, kind)
        elif kind in REALS:
            self.alias(output, self.real(value))
        else:
            raise Refused(
                f"it casts to {onnx.TensorProto.DataType.Name(kind)}, expected a real type"
            )

    def flat(self, value: str) -> tuple[str, tuple[int, ...], int] | None:
        """Of a value that is an input of whole numbers: the input's own name, the value's shape in
        the file, and its type there. None for any other.
        """
        return self._whole.get(value)

    def is_known(self, value: str) -> bool:
        """Return whether a value is one of the network's, by `name_of`."""
        return value in self._names

    def name_of(self, value: str) -> str:
        """Return the network's name of a value of any type that an operation yields."""
        if value not in self._names:
            raise Refused(f"no supported node returns its input {value!r}")
        return self._names[value]

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
        if node.op_type in _NEVER_FOLDED:
            return False
        known = all(name in self.constants for name in read)
        source = bool(read) or node.op_type == "Constant"
        weights = bool(self._weights & set(read))
        if not known or not source:
            return False
        if weights and node.op_type not in _SAME:
            return False
        # a cast to whole numbers is no weight any more
        for name, array in self._evaluate(node, read).items():
            self.constants[name] = array
            if weights and is_real(array):
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
        model = helper.make_model(graph, opset_imports=self.opsets)
        results = ReferenceEvaluator(model).run(None, arrays)
        return {
            name: _without_bfloat(numpy.asarray(result)) for name, result in zip(names, results)
        }

    def free(self, name: str) -> str:
        """Return the name, with marks behind it where it is taken."""
        while True:
            try:
                self.g.shape(name)
            except ValueError:
                return name
            name = f"{name}'"


def _find_ranges(graph: Any, constants: Mapping[str, Any]) -> dict[str, int]:
    """Return the table size for each whole-number input that indexes a constant."""
    origin = {value.name: value.name for value in graph.input}
    ranges: dict[str, int] = {}
    for node in graph.node:
        if node.op_type in _PASSED and node.input[0] in origin:
            origin[node.output[0]] = origin[node.input[0]]
        elif node.op_type in _LOOKED_UP and node.input[0] in constants and node.input[1] in origin:
            axis = next((one.i for one in node.attribute if one.name == "axis"), 0)
            length = constants[node.input[0]].shape[axis]
            name = origin[node.input[1]]
            ranges[name] = min(length, ranges.get(name, length))
    return ranges


def is_real(array: Any) -> bool:
    """Return whether an array holds real numbers of a type that trials have."""
    return array.dtype.name in ("float16", "float32", "float64")


def _array(tensor: Any) -> Any:
    return _without_bfloat(numpy_helper.to_array(tensor))


def _without_bfloat(array: Any) -> Any:
    # numpy knows bfloat16 only from ml_dtypes, and not as a floating type
    return array.astype(numpy.float32) if array.dtype.name == "bfloat16" else array
