"""Write a network down, layer by layer, as a `graph.Graph`: shapes are inferred, parameters named.

Each method adds one operation and returns the name of its value, which later ones take:

    def network(g, sizes):
        x = g.input("image", (sizes["batch"], 1, 28, 28))
        x = g.relu(g.conv2d(x, 8, 3, padding=1))
        x = g.linear(g.flat(x), 10)
        labels = g.labels("label", sizes["batch"], 10)
        return g.graph([x], loss=g.softmax_cross_entropy(x, labels))

One graph serves inference and training. They differ where a network normalizes by batch: training
takes mean and variance from the batch, inference those that were kept from training. So whatever
depends on a `batch_norm` is there twice, once for the loss and once for the outputs (its name ends
in `.inference`), with the same weights; what neither needs is left out. The kept ones are
parameters that are not trained; training, here forward and backward alone, does not move them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod, sqrt

from .draft import Draft


class Builder(Draft):
    """A graph under construction, layer by layer."""

    def conv2d(
        self,
        x: str,
        channels: int,
        window: int,
        *,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = True,
        gain: float = sqrt(2),
    ) -> str:
        """Return a convolution with `channels` kernels of window x window, of (n, c, h, w).

        The initial weights make the result `gain` times the size of x; the usual one is that of
        He et al. (ICCV 2015), which makes up for a relu.
        """
        n, c, h, w = self.shape(x)
        name = self._name("conv2d")
        fan = c // groups * window * window
        operands = [x, self._weight(name, (channels, c // groups, window, window), fan, gain)]
        if bias:
            operands.append(self._bias(name, channels, fan))
        sizes = {"n": n, "c": c, "h": h, "w": w, "k": channels, "r": window, "s": window}
        how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        return self.node("conv2d", operands, {**sizes, **how, "bias": int(bias)}, name)

    def conv3d(self, x: str, channels: int, window: int, *, padding: int = 0) -> str:
        """Return a convolution with `channels` kernels of window**3 and a bias, of (n, c, d, h, w).

        Initial weights are those of Glorot and Bengio (AISTATS 2010), biases 0, as in Keras.
        """
        n, c, d, h, w = self.shape(x)
        name = self._name("conv3d")
        volume = window**3
        shape = (channels, c, window, window, window)
        operands = (x, *self._glorot(name, shape, c * volume, channels * volume))
        sizes = {"n": n, "c": c, "d": d, "h": h, "w": w, "k": channels}
        how = {"q": window, "r": window, "s": window, "padding": padding, "bias": 1}
        return self.node("conv3d", operands, {**sizes, **how}, name)

    def conv_transpose2d(
        self,
        x: str,
        channels: int,
        window: int,
        *,
        stride: int = 1,
        padding: int = 0,
        output_padding: int = 0,
        bias: bool = True,
    ) -> str:
        """Return a transposed convolution, whose lengths its operator of Level 0 gives."""
        n, c, h, w = self.shape(x)
        name = self._name("conv_transpose2d")
        operands = [x, self._weight(name, (c, channels, window, window), c, 1)]
        if bias:
            operands.append(self._bias(name, channels, c))
        sizes = {"n": n, "c": c, "h": h, "w": w, "k": channels, "r": window, "s": window}
        how = {"stride": stride, "padding": padding, "output_padding": output_padding}
        return self.node("conv_transpose2d", operands, {**sizes, **how, "bias": int(bias)}, name)

    def batch_norm(self, x: str, affine: tuple[str, str] | None = None) -> str:
        """Normalize each channel of (n, c, h, w), by batch statistics for the loss, else kept ones.

        Args:
            x: The values.
            affine: Weight and bias to share, (c,) each; None for some of its own. The kept
                statistics are always its own.
        """
        name = self._name("batch_norm")
        sizes = dict(zip("nchw", self.shape(x)))
        w, b = affine or self._affine(name, sizes["c"])
        kept = (
            self.parameter(f"{name}.mean", (sizes["c"],), "zeros", trainable=False),
            self.parameter(f"{name}.variance", (sizes["c"],), "ones", trainable=False),
        )
        value = self._append("batch_norm", (x, w, b), sizes, name)
        twins = (self._inference.get(x, x), w, b, *kept)
        self._inference[value] = self._append(
            "batch_norm_inference", twins, sizes, f"{value}.inference"
        )
        return value

    def layer_norm(self, x: str) -> str:
        """Normalize over the columns of (rows, columns)."""
        name = self._name("layer_norm")
        rows, columns = self.shape(x)
        operands = (x, *self._affine(name, columns))
        return self.node("layer_norm", operands, {"rows": rows, "columns": columns}, name)

    def linear(self, x: str, width: int, *, bias: bool = True, weight: str | None = None) -> str:
        """Multiply (rows, k) by the transpose of a (width, k) weight, and add a bias.

        Args:
            x: The rows.
            width: Columns of the result.
            bias: True if there is one.
            weight: A parameter to share; None for one of its own.
        """
        k = self.shape(x)[1]
        name = self._name("linear")
        operands = [x, weight or self._weight(name, (width, k), k, 1)]
        if bias:
            operands.append(self._bias(name, width, k))
        return self._product(name, operands, width)

    def dense(self, x: str, width: int) -> str:
        """Apply `linear` with initial weights of Glorot and Bengio (AISTATS 2010) and biases 0."""
        k = self.shape(x)[1]
        name = self._name("dense")
        return self._product(name, [x, *self._glorot(name, (width, k), k, width)], width)

    def embedding(self, index: str, table: str) -> str:
        """Look up rows of a parameter by whole numbers of shape (count,)."""
        rows, width = self.shape(table)
        (count,) = self.shape(index)
        sizes = {"rows": rows, "width": width, "count": count}
        return self.node("embedding", (table, index), sizes)

    def attention(self, q: str, k: str, v: str, *, causal: bool = False) -> str:
        """Compute scaled dot product attention of (batch, heads, length, width)."""
        sizes = dict(zip(("batch", "heads", "length", "width"), self.shape(q)))
        return self.node("attention", (q, k, v), {**sizes, "causal": int(causal)})

    def relu(self, x: str) -> str:
        """Compute the larger of x and 0."""
        return self._elementwise("relu", x)

    def leaky_relu(self, x: str, percent: int) -> str:
        """Keep positive values, and scale the others to a percentage."""
        return self._elementwise("leaky_relu", x, percent=percent)

    def tanh(self, x: str) -> str:
        """Compute the hyperbolic tangent."""
        return self._elementwise("tanh", x)

    def gelu(self, x: str, *, approximate: bool = False) -> str:
        """Compute the Gaussian error linear unit, or its form with a tanh."""
        return self._elementwise("gelu", x, approximate=int(approximate))

    def dropout(self, x: str, percent: int) -> str:
        """Add dropout: in training, zero a percentage of the values and scale the others.

        (Srivastava et al., JMLR 15, 2014, scaled in training.) Inference takes the values as they
        are. The mask is an input, see `graph.Input`; with 0 percent there is none.

        Raises:
            ValueError: It leaves nothing.
        """
        if not 0 <= percent < 100:
            raise ValueError(f"dropout is {percent} %, expected 0 to 99 %")
        if not percent:
            return x
        name = self._name("dropout")
        shape = self.shape(x)
        mask = self._mask(f"{name}.mask", shape, percent)
        value = self._append("dropout", (x, mask), {"n": prod(shape), "percent": percent}, name)
        self._inference[value] = self._inference.get(x, x)
        return value

    def sum(self, *values: str) -> str:
        """Add x0, x1, ... of one shape."""
        count = len(values)
        return self.node("sum", values, {"n": prod(self.shape(values[0])), "count": count})

    def add_rows(self, x: str, row: str) -> str:
        """Add a vector to each row of (rows, columns)."""
        rows, columns = self.shape(x)
        return self.node("add", (x, row), {"rows": rows, "columns": columns})

    def max_pool2d(self, x: str, window: int, *, stride: int, padding: int = 0) -> str:
        """Compute the largest value of each window."""
        return self._pool("max_pool2d", x, window, stride, padding)

    def max_pool3d(self, x: str, window: int, *, stride: int, padding: int = 0) -> str:
        """Compute the largest value of each window of (n, c, d, h, w)."""
        how = {"q": window, "r": window, "s": window, "stride": stride, "padding": padding}
        return self.node("max_pool3d", (x,), {**dict(zip("ncdhw", self.shape(x))), **how})

    def average_pool2d(self, x: str, window: int, *, stride: int, padding: int = 0) -> str:
        """Compute the mean of each window."""
        return self._pool("average_pool2d", x, window, stride, padding)

    def global_average_pool(self, x: str) -> str:
        """Average (n, c, h, w) to (n, c, 1, 1)."""
        return self.node("global_average_pool", (x,), dict(zip("nchw", self.shape(x))))

    def softmax(self, x: str) -> str:
        """Compute the softmax along the rows of (rows, columns)."""
        return self.node("softmax", (x,), dict(zip(("rows", "columns"), self.shape(x))))

    def view(self, x: str, shape: Iterable[int]) -> str:
        """View the same elements in another shape, in C order."""
        return self.node("view", (x,), {"of": self.shape(x), "shape": tuple(shape)})

    def flat(self, x: str) -> str:
        """View (n, ...) as (n, elements)."""
        n, *rest = self.shape(x)
        return self.view(x, (n, prod(rest)))

    def transpose(self, x: str, axes: Iterable[int]) -> str:
        """Return axes in another order."""
        return self.node("transpose", (x,), {"of": self.shape(x), "axes": tuple(axes)})

    def concat(self, values: Iterable[str], axis: int) -> str:
        """Return one after the other along an axis."""
        parts = tuple(values)
        return self.node("concat", parts, {"of": tuple(map(self.shape, parts)), "axis": axis})

    def expand(self, x: str, shape: Iterable[int]) -> str:
        """Return the values, repeated along axes of length 1."""
        return self.node("expand", (x,), {"of": self.shape(x), "shape": tuple(shape)})

    def scale(self, x: str, factor: float) -> str:
        """Return the values times a constant."""
        return self.node("scale", (x,), {"of": self.shape(x), "factor": factor})

    def detach(self, x: str) -> str:
        """Return the values, through which no gradient passes."""
        return self.node("detach", (x,), {"of": self.shape(x)})

    def softmax_cross_entropy(self, x: str, labels: str, weights: str | None = None) -> str:
        """Return the mean loss of (rows, classes) logits, each times the weight of its label; a
        scalar.
        """
        operands = (x, labels) if weights is None else (x, labels, weights)
        sizes = dict(zip(("rows", "columns"), self.shape(x)))
        how = {"weighted": int(weights is not None)}
        return self.node("softmax_cross_entropy", operands, {**sizes, **how})

    def sigmoid_cross_entropy(self, x: str, y: str) -> str:
        """Return the mean loss of logits, each against a target from 0 to 1 of its own; a
        scalar.
        """
        return self.node("sigmoid_cross_entropy", (x, y), {"n": prod(self.shape(x))})

    def mean_squared_error(self, a: str, b: str) -> str:
        """Return the mean of (a - b)**2; a scalar."""
        return self.node("mean_squared_error", (a, b), {"n": prod(self.shape(a))})

    def _elementwise(self, operator: str, x: str, **options: int) -> str:
        return self.node(operator, (x,), {"n": prod(self.shape(x)), **options})

    def _pool(self, operator: str, x: str, window: int, stride: int, padding: int) -> str:
        how = {"r": window, "s": window, "stride": stride, "padding": padding}
        return self.node(operator, (x,), {**dict(zip("nchw", self.shape(x))), **how})

    def _weight(self, name: str, shape: tuple[int, ...], fan: int, gain: float) -> str:
        # a uniform distribution of variance gain**2 / fan
        return self.parameter(f"{name}.weight", shape, "uniform", gain * sqrt(3 / fan))

    def _bias(self, name: str, width: int, fan: int) -> str:
        return self.parameter(f"{name}.bias", (width,), "uniform", 1 / sqrt(fan))

    def _glorot(
        self, name: str, shape: tuple[int, ...], fan_in: int, fan_out: int
    ) -> tuple[str, str]:
        # a uniform distribution of variance 2 / (fan_in + fan_out)
        bound = sqrt(6 / (fan_in + fan_out))
        return (
            self.parameter(f"{name}.weight", shape, "uniform", bound),
            self.parameter(f"{name}.bias", shape[:1], "zeros"),
        )

    def _product(self, name: str, operands: Sequence[str], width: int) -> str:
        rows, k = self.shape(operands[0])
        sizes = {"m": rows, "n": width, "k": k, "tb": 1, "bias": len(operands) - 2}
        return self.node("gemm", operands, sizes, name)

    def _affine(self, name: str, width: int) -> tuple[str, str]:
        return (
            self.parameter(f"{name}.weight", (width,), "ones"),
            self.parameter(f"{name}.bias", (width,), "zeros"),
        )
