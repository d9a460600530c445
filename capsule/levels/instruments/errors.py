"""Hold results to a reference: norms of errors, ratios to bounds, gradients, repeatability."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Callable

from ..operators.base import Due, Operator, reference_outputs
from ..streams import words

HEATMAP_BLOCKS = 64
SMALL = 128

EXACT = 2.0**-126
"""What an element that has to be exact counts as held to: the smallest normal float32."""


def errors(
    results: tuple[Any, ...], reference: tuple[Any, ...], bounds: tuple[float, ...]
) -> dict[str, tuple[float, ...]]:
    """Norms of the difference over all outputs together.

    Args:
        results: What the framework returned.
        reference: The same in more bits.
        bounds: The largest right L2 norm of each difference.

    Returns:
        `l1_error`, `l2_error`, `max_error` in the unit of the result; `relative_error`, the L2 norm
        over that of the reference (0 / 0 is 0); `l2_error_ratio`, the largest over outputs of L2
        norm over bound; `error_heatmap`, at most 64 maxima of |difference| over blocks of equal
        length of all outputs in C order, one after the other.
    """
    import numpy

    difference = numpy.concatenate(
        [_difference(result, right) for result, right in zip(results, reference)]
    )
    l2 = float(numpy.linalg.norm(difference))
    size = float(numpy.linalg.norm([_norm(array) for array in reference]))
    length = -(-difference.size // HEATMAP_BLOCKS)
    blocks = [difference[at : at + length] for at in range(0, difference.size, length)]
    return {
        "l1_error": (float(difference.sum()),),
        "l2_error": (l2,),
        "max_error": (float(difference.max()),),
        "relative_error": (l2 / size if size else (0.0 if l2 == 0 else float("inf")),),
        "l2_error_ratio": (worst_ratio(results, reference, bounds),),
        "error_heatmap": tuple(float(block.max()) for block in blocks),
    }


def worst_ratio(
    results: tuple[Any, ...], reference: tuple[Any, ...], bounds: tuple[float, ...]
) -> float:
    """The largest L2 norm of a difference over its bound, 0 / 0 being 0; NaN if any is."""
    import numpy

    norms = [
        float(numpy.linalg.norm(_difference(result, right)))
        for result, right in zip(results, reference)
    ]
    ratios = [
        norm / bound if bound else (0.0 if norm == 0 else float("inf"))
        for norm, bound in zip(norms, bounds)
    ]
    return float(numpy.array(ratios).max())


def worst_element(results: tuple[Any, ...], due: tuple[Due, ...]) -> float:
    """The largest error of an element over what it may be, 0 / 0 being 0; NaN if any is.

    One that has to be exact is off by so many times `EXACT`: infinity would fail the trial, and
    hide what its other metrics tell.
    """
    import numpy

    worst = [0.0]
    for result, right in zip(results, due):
        if result.shape != right.value.shape:
            return float("inf")
        off = abs(result.astype(right.value.dtype) - right.value).astype("float64")
        with numpy.errstate(divide="ignore", invalid="ignore"):
            bound = numpy.where(right.error == 0, EXACT, right.error)
            ratio = numpy.where(off == 0, 0.0, off / bound)
        worst.append(float(ratio.max(initial=0.0)))
    return float(numpy.array(worst).max())


def same_bits(first: Iterable[Any], second: Iterable[Any]) -> bool:
    """Whether arrays agree in every bit, NaNs and the sign of zero too."""
    return all(one.tobytes() == other.tobytes() for one, other in zip(first, second))


def directional(
    operator: Operator,
    sizes: Mapping[str, int],
    inputs: tuple[Any, ...],
    upstream: tuple[Any, ...],
    gradients: tuple[Any, ...],
    bounds: tuple[float, ...],
    seed: int,
) -> float:
    """`derivatives` of L(x) = sum(upstream * f(x)), for an operator f and its inputs x.

    The step is 2**-17, about the cube root of the roundoff, where truncation and rounding balance;
    for an operator with kinks, linear between them, 2**-30, less than a float32 input's distance.
    """
    doubles = tuple(
        array.astype("float64") if array.dtype.kind == "f" else array for array in inputs
    )
    wrt = operator.wrt(sizes)

    def scalar(moved: list[Any]) -> tuple[float, float]:
        operands = list(doubles)
        for index, array in zip(wrt, moved):
            operands[index] = array
        outputs = reference_outputs(operator, sizes, tuple(operands))
        terms = [(up * out).ravel() for up, out in zip(upstream, outputs)]
        return sum(part.sum() for part in terms), sum(abs(part).sum() for part in terms)

    step = 2.0**-17 if operator.smooth else 2.0**-30
    label = f"capsule-direction-1\n{operator.name}\n{seed}\n"
    by = [doubles[index] for index in wrt]
    return derivatives(scalar, by, gradients, bounds, lambda size, slope: step, label)  # noqa: ARG005


def derivatives(
    scalar: Callable[[list[Any]], tuple[float, float]],
    by: list[Any],
    gradients: tuple[Any, ...],
    bounds: tuple[float, ...],
    step: Callable[[float, float], float],
    label: str,
) -> float:
    """Gradients against central differences of the reference's formula, which knows no derivative.

    For a direction d the number <gradient, d> must equal the derivative of L along d, here
    (L(x + h d) - L(x - h d)) / 2 h in float64. Along each element where all of x together have at
    most 128; else along the gradient that is tested, where a wrong length shows best, and a random
    direction of +-1, through all of x at once.

    Args:
        scalar: L, and the sum of the absolute values of the terms that it is summed from.
        by: x, as float64.
        gradients: What is to be tested, for each of x.
        bounds: The largest right L2 norm of the error of each of them.
        step: Gives h, from the sum of the absolute values of L's terms and <gradient, d>.
        label: Names the random direction.

    Returns:
        The largest difference over what may be: |d| times the gradient's own bound, the distance
        between the differences with h and 2 h (which truncation cannot exceed to first order, nor
        can a kink), and 64 roundoffs of L's terms over h. A right gradient stays below 1.
    """
    import numpy

    size = scalar(by)[1]
    ratios = []
    for direction in _directions(by, gradients, label):
        slope = sum(
            float((gradient.astype("float64") * way).sum())
            for gradient, way in zip(gradients, direction)
        )
        h = step(size, abs(slope))

        def along(scale: float, direction: list[Any] = direction) -> float:
            return scalar([array + scale * way for array, way in zip(by, direction)])[0]

        near = (along(h) - along(-h)) / (2 * h)
        far = (along(2 * h) - along(-2 * h)) / (4 * h)
        allowed = sum(
            float(numpy.linalg.norm(way)) * bound for way, bound in zip(direction, bounds)
        )
        allowed += abs(near - far) + 64 * 2.0**-53 * size / h
        ratios.append(abs(slope - near) / allowed)
    return float(numpy.array(ratios).max())


def _directions(inputs: list[Any], gradients: tuple[Any, ...], label: str) -> Iterable[list[Any]]:
    import numpy

    if sum(array.size for array in inputs) <= SMALL:
        for index, array in enumerate(inputs):
            for place in range(array.size):
                direction = [numpy.zeros_like(other) for other in inputs]
                direction[index].flat[place] = 1.0
                yield direction
        return
    largest = max(float(abs(gradient).max()) for gradient in gradients)
    if 0 < largest < float("inf"):
        yield [gradient.astype("float64") / largest for gradient in gradients]
    signs = (words(label, sum(array.size for array in inputs)) >> 63).astype("float64") * 2 - 1
    ends = numpy.cumsum([array.size for array in inputs])
    parts = numpy.split(signs, ends[:-1])
    yield [part.reshape(array.shape) for part, array in zip(parts, inputs)]


def _difference(result: Any, right: Any) -> Any:
    return abs(result.astype(right.dtype) - right).astype("float64").ravel()


def _norm(array: Any) -> float:
    import numpy

    return float(numpy.linalg.norm(array.astype("float64").ravel()))
