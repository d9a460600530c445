"""Reference of a network's outputs, loss and gradients, with error bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import methodcaller
from typing import Any

from ..graphs.bounds import Bounds, bounds
from ..graphs.graph import Graph, Node
from ..graphs.reference import as_reals, backward, evaluate, forward
from ..instruments import errors
from ..operators import ARITHMETIC
from .microbatch import Part, couples

MOVE = 2.0**-20
"""Most that central differences may move the loss by, relative to what it is computed from, and a
parameter by: a network has many kinks and much curvature, and its gradients can be of any size."""

MOVED = 8.0
"""Roundings to the dtype, in the norm, by which what is due has to differ to be told apart."""

KINKS = 0.2
"""See `hold_again`; TensorFlow's right gradients of CosmoFlow were off by 0.017 of the change."""


@dataclass(frozen=True)
class Right:
    """The reference, in more bits than the dtype has.

    Attributes:
        outputs: Outputs of the whole minibatch.
        output_bounds: The largest right L2 norm of the error of each.
        training: Loss, and gradients in the order of `graph.trainable`; empty without a loss.
        training_bounds: As `output_bounds`.
    """

    outputs: tuple[Any, ...]
    output_bounds: tuple[float, ...]
    training: tuple[Any, ...]
    training_bounds: tuple[float, ...]


def right(
    parts: Sequence[Part],
    whole: Part,
    parameters: Mapping[str, Any],
    dtype: str,
    seed: int,
    trains: bool,
) -> Right:
    """Return the reference of a minibatch that runs in parts.

    Results are those of `compute`. The bounds are the parts' own, and for their sum one rounding of
    each weighted part and of each partial sum.

    Args:
        parts: What the minibatch is split in; `whole` alone where it is not.
        whole: All of it.
        parameters: Numpy arrays by name.
        dtype: A key of `ARITHMETIC`, that of the arrays.
        seed: See `bounds`.
        trains: True if loss and gradients are due.
    """
    import numpy

    of_parts = [_bounds(part, parameters, dtype, seed, trains) for part in parts]
    norms = numpy.linalg.norm([limits.outputs for limits in of_parts], axis=0)
    outputs, training = compute(parts, whole, parameters, dtype, trains)
    training_bounds: tuple[float, ...] = ()
    if trains:
        # of what is not split there is nothing to sum up
        split = len(parts) > 1
        terms = [_training(part, parameters, dtype) for part in parts] if split else [training]
        limits_by_part = [
            (limits.loss, *map(limits.gradients.get, whole.graph.trainable)) for limits in of_parts
        ]
        shares = [part.share for part in parts]
        training_bounds = tuple(
            sum(share * limit for share, limit in zip(shares, limits)) + _adding(arrays, dtype)
            for limits, arrays in zip(zip(*limits_by_part), zip(*terms))
        )
    return Right(outputs, tuple(map(float, norms)), training, training_bounds)


def compute(
    parts: Sequence[Part], whole: Part, parameters: Mapping[str, Any], dtype: str, trains: bool
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return outputs, and loss and gradients, as in `Right`.

    They are those of the whole minibatch, unless examples are coupled: then of the parts.
    """
    import numpy

    run_in = separate(parts, whole)
    outputs = []
    for part in run_in:
        results = forward(_inferring(part), {**part.inputs, **parameters}, dtype)
        outputs.append([as_reals(results[name]) for name in part.graph.outputs])
    training: tuple[Any, ...] = ()
    if trains:
        training = _sums([_training(part, parameters, dtype) for part in run_in])
    return tuple(numpy.concatenate(arrays) for arrays in zip(*outputs)), training


def hold_again(
    results: tuple[Any, ...],
    due: tuple[Any, ...],
    before: Sequence[Any],
    bounds: Sequence[float],
    *,
    gradients_from: int,
) -> float:
    """Return the largest error over its bound of results for other values than the bounds are for.

    These are of the same network, and its rounding of the same kind: they count twice, and grow
    with the size of the result. But kinks lie elsewhere, of which rounding may choose another side,
    and change gradients, if nothing else, by more: `KINKS` of what the other values change is right
    as well. What was kept or put off is off by all of that.

    Args:
        results: What the framework returned.
        due: The same in more bits.
        before: What was due of the values that `bounds` are for.
        bounds: The largest right L2 norm of each error.
        gradients_from: How many of the results come before the first gradient.
    """
    import numpy

    as_double = methodcaller("astype", "float64")
    limits = []
    every = zip(map(as_double, due), map(as_double, before), bounds)
    for place, (value, first, bound) in enumerate(every):
        size = float(numpy.linalg.norm(first))
        grown = float(numpy.linalg.norm(value)) / size if size else 1.0
        limit = 2 * bound * max(1.0, grown)
        if place >= gradients_from:
            limit = max(limit, KINKS * float(numpy.linalg.norm(value - first)))
        limits.append(limit)
    return errors.worst_ratio(results, due, tuple(limits))


def is_moved(due: Sequence[Any], before: Sequence[Any], dtype: str) -> bool:
    """Return whether what is due of other values is so far from what was that no right results are
    equal.

    Of deep networks in 16 bits the bounds may be as large as all of their gradients.
    """
    import numpy

    share = MOVED * ARITHMETIC[dtype].storage
    return any(
        float(numpy.linalg.norm(value - first)) > share * float(numpy.linalg.norm(first))
        for value, first in zip(due, before)
    )


def gradient_check(
    parts: Sequence[Part],
    parameters: Mapping[str, Any],
    gradients: tuple[Any, ...],
    limits: tuple[float, ...],
    seed: int,
) -> float:
    """`errors.derivatives` of the loss by the trained parameters.

    What no gradient passes stays as it is while these are moved.

    Args:
        parts: In which the loss is to be computed.
        parameters: Numpy arrays by name.
        gradients: What is to be tested, in the order of `graph.trainable`.
        limits: The largest right L2 norm of the error of each of them.
        seed: For a direction.
    """
    graph = parts[0].graph
    doubles = _doubles(parameters)
    inputs = [_freeze(part.graph, _doubles(part.inputs), doubles) for part in parts]
    nodes = [_moving(part.graph) for part in parts]

    def scalar(moved: list[Any]) -> tuple[float, float]:
        parameters = {**doubles, **dict(zip(graph.trainable, moved))}
        loss, size = 0.0, 0.0
        for part, arrays, moving in zip(parts, inputs, nodes):
            results = evaluate(moving, {**arrays, **parameters})
            loss += part.share * float(results[part.graph.require_loss()])
            # the loss is a difference of numbers as large as what its node reads
            last = part.graph.training[-1]
            size += float(abs(results.get(last.inputs[0], 0.0)).max())
        return loss, abs(loss) + size

    label = f"capsule-direction-1\n{graph.name}\n{seed}\n"
    by = [doubles[name] for name in graph.trainable]
    return errors.derivatives(scalar, by, gradients, limits, step, label)


def _moving(graph: Graph) -> list[Node]:
    return [node for node in graph.training if node.operator != "detach"]


def _freeze(
    graph: Graph, inputs: Mapping[str, Any], parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the inputs, and the values that no gradient passes."""
    stops = [node.name for node in graph.training if node.operator == "detach"]
    if not stops:
        return dict(inputs)
    results = evaluate(graph.training, {**inputs, **parameters})
    return {**inputs, **{name: results[name] for name in stops}}


def separate(parts: Sequence[Part], whole: Part) -> Sequence[Part]:
    """Return the parts in which a minibatch's right results are computed: itself, unless it is
    coupled.
    """
    return parts if couples(whole.graph) else [whole]


def step(size: float, slope: float) -> float:
    """Return the step by which parameters are moved; see `errors.derivatives`."""
    return MOVE * min(1.0, size / slope) if 0 < slope < float("inf") else MOVE


def _bounds(
    part: Part, parameters: Mapping[str, Any], dtype: str, seed: int, trains: bool
) -> Bounds:
    graph = part.graph if trains else _inferring(part)
    return bounds(graph, {**part.inputs, **parameters}, dtype, seed)


def _inferring(part: Part) -> Any:
    """Return the graph without what the loss alone needs."""
    return replace(part.graph, nodes=part.graph.inference, loss=None)


def _training(part: Part, parameters: Mapping[str, Any], dtype: str) -> list[Any]:
    """Return a part's share of the loss and of each gradient."""
    values = {**part.inputs, **parameters}
    training = replace(part.graph, nodes=part.graph.training)
    loss = forward(training, values, dtype)[part.graph.require_loss()]
    gradients = backward(part.graph, values, dtype)
    return [part.share * term for term in (loss, *map(gradients.get, part.graph.trainable))]


def _sums(terms: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    return tuple(sum(arrays[1:], arrays[0]) for arrays in zip(*terms))


def _adding(terms: Sequence[Any], dtype: str) -> float:
    """Return the largest right L2 norm of the error of summing up weighted parts in the dtype."""
    import numpy

    if len(terms) == 1:
        return 0.0
    arithmetic = ARITHMETIC[dtype]
    total, norm = 0.0, 0.0
    for place, term in enumerate(terms):
        total = total + term
        # a part weighted, its share rounded to the dtype, and from the second on a sum
        norm += 2 * float(numpy.linalg.norm(term)) + (float(numpy.linalg.norm(total)) * (place > 0))
    smallest: float = 2 * len(terms) * arithmetic.tiny * float(numpy.size(total)) ** 0.5
    return arithmetic.storage * norm + smallest


def _doubles(arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: array.astype("float64") if array.dtype.kind == "f" else array
        for name, array in arrays.items()
    }
