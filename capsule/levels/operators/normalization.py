"""Batch, layer, group and root-mean-square normalization."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from .base import Operator, Sizes, Tensor, round_to
from .rounding import Calculator, Unit

if TYPE_CHECKING:
    from .base import Arrays

EPSILON = 1e-5


class _Normalization(Operator):
    """y = w (x - mean) / sqrt(variance + 1e-5) + b, with the biased variance (over n, not n - 1).

    Bounds grant that the mean and the scale are kept for the gradient in the dtype. FLOPs: 8 per
    element (mean 1, difference 1, variance 2, scaling and affine map 4).
    """

    _far_axis = 0

    def hard_inputs(self, sizes: Sizes, dtype: str, seed: int) -> Arrays:
        """Draw a first channel, sample or row whose mean is many deviations from 0."""
        x, *others = super().hard_inputs(sizes, dtype, seed)
        first = (slice(None),) * self._far_axis + (0,)
        # farther off the variance of XLA, the mean of squares less a square, leaves the bounds
        x[first] = round_to(x[first] + 2, dtype)
        return (x, *others)

    def flops(self, sizes: Sizes) -> int:
        """See the class."""
        return 8 * prod(self.outputs(sizes)[0])

    def outputs(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        """Return the shape of x."""
        return (self.tensors(sizes)["x"].shape,)

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:
        """Return the formula, mean first."""
        x, w, b = inputs
        normal, _ = self._normalize(c, sizes, x, lambda value: value)
        return c.store(normal * self._spread(c, w) + self._spread(c, b))

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:
        """Compute the gradients by x through mean and variance, by w and by b."""
        x, w, _ = inputs
        normal, scale = self._normalize(c, sizes, x, c.store)
        slope = self._group(c, sizes, upstream * self._spread(c, w))
        inner = self._group(c, sizes, normal)
        axes = self._axes(sizes)
        count = prod(inner.shape[axis] for axis in axes)
        level = self._total(c, slope, axes) / count
        by_slope = self._total(c, slope * inner, axes, unit=lambda: scale * self._spread(c, w))
        tilt = by_slope / count
        by_x = self._ungroup(c, sizes, (slope - level - inner * tilt) * scale)
        repeated, passes = self._repeated_axes(sizes), self._passes(sizes)
        by_w = self._total(c, upstream * normal, repeated, passes, lambda: scale)
        by_b = self._total(c, upstream, repeated, passes)
        flat = [c.select(lambda array: array.reshape(-1), by) for by in (by_w, by_b)]
        return c.store(by_x), c.store(flat[0]), c.store(flat[1])

    def _normalize(self, c: Calculator, sizes: Sizes, x: Any, keep: Any) -> tuple[Any, Any]:
        """Return the normalized x in its own shape, and 1 / sqrt(variance + epsilon)."""
        axes = self._axes(sizes)
        x = self._group(c, sizes, x)
        count = prod(x.shape[axis] for axis in axes)
        mean = c.total(x, axes) / count
        centred = x - mean
        scale = keep(1 / c.sqrt(c.total(centred * centred, axes) / count + EPSILON))
        centred = c.centre(x, keep(mean))
        return self._ungroup(c, sizes, centred * scale), scale

    def _total(
        self,
        c: Calculator,
        x: Any,
        axes: Any,
        passes: int = 0,
        unit: Unit = None,  # noqa: ARG002
    ) -> Any:
        """Return a sum of a gradient; `unit` is that of `Rounding.total_by_halves`."""
        return c.total(x, axes, passes)

    def _passes(self, sizes: Sizes) -> int:  # noqa: ARG002
        """Return how often the sums for w and b may pass through memory in the dtype."""
        return 0

    def _axes(self, sizes: Sizes) -> tuple[int, ...]:
        """Return axes of the grouped x that mean and variance are taken over."""
        raise NotImplementedError

    def _repeated_axes(self, sizes: Sizes) -> tuple[int, ...]:
        """Return axes of x along which w and b repeat."""
        raise NotImplementedError

    def _group(self, c: Calculator, sizes: Sizes, x: Any) -> Any:  # noqa: ARG002
        return x

    def _ungroup(self, c: Calculator, sizes: Sizes, x: Any) -> Any:  # noqa: ARG002
        return x

    def _spread(self, c: Calculator, w: Any) -> Any:
        return c.select(lambda array: array.reshape(-1, 1, 1), w)


class BatchNorm(_Normalization):
    """Training form over n, h, w for each channel of (n, c, h, w); running means are no output.

    Bounds grant that sums of the gradients go through 16 bits by halves, as in torch on CUDA.
    """

    name = "batch_norm"
    _far_axis = 1

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """Return values x and, per channel, w and b."""
        shape = tuple(sizes[name] for name in ("n", "c", "h", "w"))
        return {"x": Tensor(shape), "w": Tensor((shape[1],)), "b": Tensor((shape[1],))}

    def _total(
        self,
        c: Calculator,
        x: Any,
        axes: Any,
        passes: int = 0,  # noqa: ARG002
        unit: Unit = None,
    ) -> Any:
        return c.total_by_halves(x, axes, unit)

    def _axes(self, sizes: Sizes) -> tuple[int, ...]:  # noqa: ARG002
        return (0, 2, 3)

    _repeated_axes = _axes


class GroupNorm(BatchNorm):
    """Over the channels of one of `groups` groups, h and w, for each sample of (n, c, h, w)."""

    name = "group_norm"
    _far_axis = 0
    _total = _Normalization._total

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """Return values x and, per channel, w and b."""
        if sizes["c"] % sizes["groups"]:
            raise ValueError(f"c {sizes['c']} is not a multiple of groups {sizes['groups']}")
        return super().tensors(sizes)

    def _axes(self, sizes: Sizes) -> tuple[int, ...]:  # noqa: ARG002
        return (2, 3, 4)

    def _group(self, c: Calculator, sizes: Sizes, x: Any) -> Any:
        n, groups = sizes["n"], sizes["groups"]
        shape = (n, groups, sizes["c"] // groups, sizes["h"], sizes["w"])
        return c.select(lambda array: array.reshape(shape), x)

    def _ungroup(self, c: Calculator, sizes: Sizes, x: Any) -> Any:
        return c.select(lambda array: array.reshape(self.outputs(sizes)[0]), x)


class LayerNorm(_Normalization):
    """Over the columns of each row of a (rows, columns) matrix; w and b are (columns,).

    Bounds grant that the gradients of w and b are summed row by row in memory of the dtype, which
    is what torch does on CPUs.
    """

    name = "layer_norm"

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """Return values x and, per column, w and b."""
        columns = sizes["columns"]
        return {
            "x": Tensor((sizes["rows"], columns)),
            "w": Tensor((columns,)),
            "b": Tensor((columns,)),
        }

    def _axes(self, sizes: Sizes) -> tuple[int, ...]:  # noqa: ARG002
        return (1,)

    def _repeated_axes(self, sizes: Sizes) -> tuple[int, ...]:  # noqa: ARG002
        return (0,)

    def _passes(self, sizes: Sizes) -> int:
        return sizes["rows"]

    def _spread(self, c: Calculator, w: Any) -> Any:  # noqa: ARG002
        return w


class RmsNorm(Operator):
    """y = w x / sqrt(mean of x**2 + 1e-5) along the columns of a (rows, columns) matrix.

    w is (columns,). Bounds grant what those of `layer_norm` do. FLOPs: 4 per element (square, sum,
    scaling, weight).
    """

    name = "rms_norm"

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """Return values x and, per column, w."""
        return {"x": Tensor(self.outputs(sizes)[0]), "w": Tensor((sizes["columns"],))}

    def outputs(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        """Return the shape of x."""
        return ((sizes["rows"], sizes["columns"]),)

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:
        """Return the formula."""
        x, w = inputs
        return c.store(x * self._scale(c, sizes, x) * w)

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:
        """Compute the gradients by x through the mean, and by w."""
        x, w = inputs
        scale = c.store(self._scale(c, sizes, x))
        slope, normal = upstream * w, x * scale
        tilt = c.total(slope * normal, 1) / sizes["columns"]
        by_x = (c.between(slope) - c.between(normal * tilt)) * scale
        rows = sizes["rows"]
        by_w = c.linear(lambda array: array.sum(axis=0), upstream * normal, rows, rows)
        return c.store(by_x), c.store(by_w)

    def flops(self, sizes: Sizes) -> int:
        """See the class."""
        return 4 * sizes["rows"] * sizes["columns"]

    def _scale(self, c: Calculator, sizes: Sizes, x: Any) -> Any:
        return 1 / c.sqrt(c.total(x * x, 1) / sizes["columns"] + EPSILON)


class BatchNormInference(Operator):
    """y = w (x - mean) / sqrt(variance + 1e-5) + b with a given mean and variance per channel.

    Variances lie in (0, 1). Not differentiated by mean and variance. FLOPs: 4 per element. Bounds
    grant what those of `batch_norm` do.
    """

    name = "batch_norm_inference"

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """Return values x and, per channel, w, b, mean and variance."""
        shape = tuple(sizes[name] for name in ("n", "c", "h", "w"))
        channel = Tensor((shape[1],))
        return {
            "x": Tensor(shape),
            "w": channel,
            "b": channel,
            "mean": Tensor((shape[1],), gradient=False),
            "variance": Tensor((shape[1],), 0.0, 1.0, gradient=False),
        }

    def outputs(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        """Return the shape of x."""
        return (tuple(sizes[name] for name in ("n", "c", "h", "w")),)

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:  # noqa: ARG002
        """Return the formula."""
        x, w, b, mean, variance = (inputs[0], *(_channels(c, vector) for vector in inputs[1:]))
        scale = 1 / c.sqrt(variance + EPSILON)
        return c.store(c.centre(x, mean) * scale * w + b)

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:  # noqa: ARG002
        """Compute the gradients by x, w and b."""
        x, w, _, mean, variance = (inputs[0], *(_channels(c, vector) for vector in inputs[1:]))
        scale = 1 / c.sqrt(variance + EPSILON)
        products = upstream * c.centre(x, mean) * scale
        by_w = c.total_by_halves(products, (0, 2, 3), lambda: scale)
        by_b = c.total_by_halves(upstream, (0, 2, 3))
        flat = [c.select(lambda array: array.reshape(-1), by) for by in (by_w, by_b)]
        return c.store(upstream * (scale * w)), c.store(flat[0]), c.store(flat[1])

    def flops(self, sizes: Sizes) -> int:
        """See the class."""
        return 4 * prod(self.outputs(sizes)[0])


def _channels(c: Calculator, x: Any) -> Any:
    return c.select(lambda array: array.reshape(-1, 1, 1), x)


OPERATORS = {
    operator.name: operator
    for operator in (BatchNorm(), BatchNormInference(), LayerNorm(), GroupNorm(), RmsNorm())
}
