"""Level 0 in ONNX Runtime: each operation is a model of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable

from ...graphs.onnx import models, operators
from ...operators import Operator
from ..base import Call, look_up

if TYPE_CHECKING:
    from numpy.typing import NDArray


class OnnxRuntimeOperators:
    """A session for each operation."""

    gradient = None

    def __init__(self, start: Callable[[bytes], Any]) -> None:
        self._start = start

    def operation(
        self, operator: Operator, sizes: Mapping[str, int], tensors: tuple[NDArray[Any], ...]
    ) -> Call:
        """`InferenceSession.run`, all outputs, of the operator's model."""
        graph = look_up(operators.OPERATIONS, operator, "onnxruntime")(sizes)
        inputs = {f"i{place}": tensor for place, tensor in enumerate(tensors)}
        real = next(tensor for tensor in tensors if tensor.dtype.kind == "f")
        model = models.serialize(
            graph.nodes,
            inputs,
            {f"o{place}": real.dtype.name for place in range(graph.outputs)},
            {name: _as_input(value, real) for name, value in graph.constants.items()},
        )
        return self._start(model).run, (None, inputs)


def _as_input(constant: NDArray[Any], like: NDArray[Any]) -> NDArray[Any]:
    return constant.astype(like.dtype) if constant.dtype.kind == "f" else constant
