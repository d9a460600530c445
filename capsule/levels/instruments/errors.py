"""Hold results to a reference: norms of errors, ratios to bounds, gradients, repeatability."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Callable

from ..operators.base import Due, Operator, overflows_from, reference_outputs, several
from ..operators.likely import PerElement
from ..operators.rounding import ARITHMETIC, as_doubles
from ..streams import words

HEATMAP_BLOCKS = 64
SMALL = 128

ROUNDOFF = 2.0**-53
"""Unit roundoff of the float64 in which central differences are computed."""
CLEAR = 2.0**-7
"""Share of a derivative that truncation may take of a central difference, unless rounding takes
more."""
HALVINGS = 64
"""Most halvings of a step: from 2**-17 to below any distance from a float64 to 0."""

KINKS = 20
"""Steps that are tried at most where differences of one are far off, each half the one before."""

ABSENT = 2.0**126
"""The ratio of a result that a framework does not yield."""

EXACT = 2.0**-126
"""Scale of an element that must be exact: the smallest normal float32."""


def errors(
    results: tuple[Any, ...], reference: tuple[Any, ...], bounds: tuple[float, ...]
) -> dict[str, tuple[float, ...]]:
    """Return norms of the difference over all outputs together.

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


def largest(ratios: Iterable[float]) -> float:
    """NaN if any is."""
    import numpy

    return float(numpy.array([*ratios]).max())


def worst_ratio(
    results: tuple[Any, ...], reference: tuple[Any, ...], bounds: tuple[float, ...]
) -> float:
    """Return the largest L2 norm of a difference over its bound, 0 / 0 being 0; NaN if any is."""
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
    """Return the largest error of an element over what it may be, 0 / 0 being 0; NaN if any is.

    One that has to be exact is off by so many times `EXACT`: infinity would fail the trial, and
    hide what its other metrics tell.
    """
    import numpy

    worst = [0.0]
    for result, right in zip(results, due):
        if result.shape != right.value.shape:
            return float("inf")
        off = _subtract(result, right.value)
        with numpy.errstate(divide="ignore", invalid="ignore"):
            bound = numpy.where(right.error == 0, EXACT, right.error)
            ratio = numpy.where(off == 0, 0.0, off / bound)
        worst.append(float(ratio.max(initial=0.0)))
    return float(numpy.array(worst).max())


def settle(results: tuple[Any, ...], due: tuple[Due, ...], dtype: str) -> tuple[Any, ...]:
    """Return results with what is due in place of each infinity that rounding it to the dtype
    makes.
    """
    import numpy

    limit = overflows_from(dtype)

    def put(result: Any, right: Due) -> Any:
        infinite = numpy.isinf(result)
        if not infinite.any():
            return result
        size = abs(right.value)
        with numpy.errstate(invalid="ignore"):
            beyond = (size >= limit) | (size + right.error >= limit)
        beyond &= numpy.signbit(result) == numpy.signbit(right.value)
        return numpy.where(infinite & beyond, right.value, result)

    return tuple(map(put, results, due))


def same_bits(first: Iterable[Any], second: Iterable[Any]) -> bool:
    """Return whether arrays agree in every bit, NaNs and the sign of zero too."""
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
    import numpy

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
        total = sum(part.sum() for part in terms)
        return float(total), float(sum(abs(part).sum() for part in terms))

    by = [doubles[index] for index in wrt]
    c = PerElement(ARITHMETIC["float64"])
    entered = (c.enter(array) if array.dtype.kind == "f" else array for array in doubles)
    outputs = several(operator.forward(c, sizes, *entered))
    with numpy.errstate(all="ignore"):
        noise = sum(
            float((abs(up) * (out.error + 64 * ROUNDOFF * abs(out.value))).sum())
            for up, out in zip(upstream, outputs)
        )
        # the moved inputs are rounded, too
        noise += sum(
            4 * ROUNDOFF * float((abs(gradient.astype("float64")) * abs(array)).sum())
            for gradient, array in zip(gradients, by)
        )
    step = 2.0**-17 if operator.smooth else 2.0**-30
    label = f"capsule-direction-1\n{operator.name}\n{seed}\n"
    return derivatives(
        scalar,
        by,
        gradients,
        bounds,
        lambda size, slope: step,  # noqa: ARG005
        label,
        noise,
        HALVINGS,
    )


def derivatives(
    scalar: Callable[[list[Any]], tuple[float, float]],
    by: list[Any],
    gradients: tuple[Any, ...],
    bounds: tuple[float, ...],
    step: Callable[[float, float], float],
    label: str,
    noise: float | None = None,
    halvings: int = 0,
) -> float:
    """Return gradients against central differences of the reference's formula, which knows no
    derivative.

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
        noise: How far rounding can carry a value of L, and of x what it is computed from; None for
            64 roundoffs of L's terms.
        halvings: How often h may be halved, while truncation takes more than `CLEAR` and more than
            rounding does, or a step leaves where L is defined.

    Returns:
        The largest difference over what may be: |d| times the gradient's own bound, the distance
        between the differences with h and 2 h (which truncation cannot exceed to first order), and
        the noise over h; of a smaller h where that makes it right. A right gradient stays below 1.
    """
    import numpy

    size = scalar(by)[1]
    noise = 64 * ROUNDOFF * size if noise is None else noise
    ratios = []
    for direction in _directions(by, gradients, label):
        slope = sum(
            float((gradient.astype("float64") * way).sum())
            for gradient, way in zip(gradients, direction)
        )

        def along(scale: float, direction: list[Any] = direction) -> float:
            return scalar([array + scale * way for array, way in zip(by, direction)])[0]

        bound = sum(float(numpy.linalg.norm(way)) * most for way, most in zip(direction, bounds))
        h = step(size, abs(slope))
        ratios.append(_compare(along, slope, bound, h, noise, halvings))
    return float(numpy.array(ratios).max())


def _compare(
    along: Callable[[float], float],
    slope: float,
    bound: float,
    h: float,
    noise: float,
    halvings: int,
) -> float:
    """Return the difference of a slope from that of a step over what may be.

    A kink within h, much closer than that, moves the differences with h and 2 h alike, by up to
    half of what it bends: the step is halved, past it, while rounding is nothing beside what is
    off. A slope that is right for none of these is as wrong as the first one says.
    """
    near, far, h = _narrow(along, h, abs(slope), noise, halvings)
    ratios: list[float] = []
    for _ in range(KINKS):
        allowed, off = bound + abs(near - far) + noise / h, abs(slope - near)
        ratios.append(off / allowed if allowed else (0.0 if off == 0 else float("inf")))
        if not (ratios[-1] > 1 and 100 * noise < off * h):
            break
        h /= 2
        near, far = (along(h) - along(-h)) / (2 * h), near
    return ratios[-1] if ratios[-1] <= 1 else ratios[0]


def _narrow(
    along: Callable[[float], float], h: float, slope: float, noise: float, halvings: int
) -> tuple[float, float, float]:
    """Central differences with h and with 2 h, and h, once it is small enough."""
    import numpy

    def difference(h: float) -> float:
        return (along(h) - along(-h)) / (2 * h)

    with numpy.errstate(all="ignore"):
        near, far = difference(h), difference(2 * h)
        for _ in range(halvings):
            if abs(near - far) <= max(CLEAR * slope, noise / h):
                break
            h /= 2
            near, far = difference(h), near
    return near, far, h


def _directions(inputs: list[Any], gradients: tuple[Any, ...], label: str) -> Iterable[list[Any]]:
    import numpy

    if sum(array.size for array in inputs) <= SMALL:
        for index, array in enumerate(inputs):
            for place in range(array.size):
                direction = [numpy.zeros_like(other) for other in inputs]
                numpy.put(direction[index], place, 1.0)
                yield direction
        return
    largest = max(float(abs(gradient).max()) for gradient in gradients)
    if 0 < largest < float("inf"):
        pairs = zip(gradients, inputs)
        yield [as_doubles(gradient, array) / largest for gradient, array in pairs]
    signs = (words(label, sum(array.size for array in inputs)) >> 63).astype("float64") * 2 - 1
    ends = numpy.cumsum([array.size for array in inputs])
    parts = numpy.split(signs, ends[:-1])
    yield [as_doubles(part.reshape(array.shape), array) for part, array in zip(parts, inputs)]


def _difference(result: Any, right: Any) -> Any:
    return _subtract(result, right).ravel()


def _subtract(result: Any, right: Any) -> Any:
    """Return sizes of the differences, float64; none where both are the same infinity."""
    import numpy

    result = result.astype(right.dtype)
    with numpy.errstate(invalid="ignore"):
        off = abs(result - right)
    if numpy.isinf(right).any():
        off = numpy.where(result == right, 0, off)
    return as_doubles(off, off)


def _norm(array: Any) -> float:
    import numpy

    return float(numpy.linalg.norm(array.astype("float64").ravel()))
