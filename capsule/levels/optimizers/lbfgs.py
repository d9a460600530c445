"""L-BFGS as `torch.optim.LBFGS` takes it, whose decisions and tolerances are part of the formula.

Nocedal and Wright, Numerical Optimization, 2nd edition: algorithm 7.4 for the direction, 3.5 and
3.6 for the line search, with minFunc's safeguards (Schmidt, 2005).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any, Callable

from ..catalog.training import Numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

Differentiate = Callable[[Mapping[str, Any]], tuple[Any, Mapping[str, Any]]]
"""The loss of a batch with these parameters, and its gradients by name."""

_ARMIJO = 1e-4
_CURVATURE = 0.9
_LEAST_CURVATURE = 1e-10
"""Least product of both changes, of position and of gradient, of a remembered step."""


@dataclass(frozen=True)
class _Point:
    """A point that a line search has evaluated.

    Attributes:
        way: Along the direction.
        loss: There.
        gradient: There, flat.
        slope: Slope of the loss along the direction.
    """

    way: float
    loss: float
    gradient: NDArray[Any]
    slope: float


class Lbfgs:
    """The optimizer with its history, over numpy arrays by name.

    The history lives from step to step, so gradients of different batches are subtracted from each
    other, as torch does it.
    """

    def __init__(self, numbers: Numbers) -> None:
        """Create an optimizer without steps; see `catalog.training.OPTIMIZERS` for its numbers."""
        self._numbers = numbers
        self._pairs: deque[tuple[NDArray[Any], NDArray[Any]]] = deque(
            maxlen=int(numbers["history"])
        )
        self._scale = 1.0
        self._direction: NDArray[Any] | None = None
        self._way = 0.0
        self._before: NDArray[Any] | None = None

    def descend(
        self, parameters: Mapping[str, Any], differentiate: Differentiate, rate: float
    ) -> dict[str, Any]:
        """Return the parameters after one step, which is up to `iterations` moves, new arrays.

        Args:
            parameters: Arrays by name; those without a gradient stay as they are.
            differentiate: Called for each point at which the step looks.
            rate: Length of a move without line search, its first trial with one.
        """
        line = _Line(parameters, differentiate)
        numbers, iterations = self._numbers, int(self._numbers["iterations"])
        budget = iterations * 5 // 4 - 1
        loss, gradient = line.here
        flat, still = numbers["tolerance_gradient"], numbers["tolerance_change"]
        for iteration in range(1, iterations + 1):
            if abs(gradient).max() <= flat:
                break
            direction = self._turn(gradient)
            first = self._before is None
            self._before, self._direction = gradient, direction
            slope = float(gradient @ direction)
            self._way = min(1.0, 1.0 / float(abs(gradient).sum())) * rate if first else rate
            if slope > -still:
                break
            last = loss
            if numbers["strong_wolfe"]:
                search = _Search(line, direction, loss, slope, still)
                point, looks = search.run(_Point(0.0, loss, gradient, slope), self._way, budget)
                self._way, loss, gradient = point.way, point.loss, point.gradient
                line.move(direction, self._way)
            else:
                looks = int(iteration < iterations)
                line.move(direction, self._way)
                if looks:
                    loss, gradient = line.look()
            budget -= looks
            change = float(abs(direction).max()) * abs(self._way)
            if budget <= 0 or change <= still or abs(loss - last) < still:
                break
        return line.parameters()

    def state(self) -> dict[str, Any]:
        """Return history and last move, arrays by name."""
        import numpy

        kept = {"scale": numpy.array(self._scale), "way": numpy.array(self._way)}
        if self._before is not None and self._direction is not None:
            kept.update(before=self._before, direction=self._direction)
        for place, (moved, bend) in enumerate(self._pairs):
            kept.update({f"{place}/moved": moved, f"{place}/bend": bend})
        return kept

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on as the optimizer would whose `state` this was."""
        self._scale, self._way = float(state["scale"]), float(state["way"])
        self._before, self._direction = state.get("before"), state.get("direction")
        self._pairs.clear()
        while (place := f"{len(self._pairs)}/") + "moved" in state:
            self._pairs.append((state[place + "moved"], state[place + "bend"]))

    def _turn(self, gradient: NDArray[Any]) -> NDArray[Any]:
        """Return the direction of the next move, by the moves before."""
        if self._before is None or self._direction is None:
            return -gradient
        bend, moved = gradient - self._before, self._direction * self._way
        curvature = float(bend @ moved)
        if curvature > _LEAST_CURVATURE:
            self._pairs.append((moved, bend))
            self._scale = curvature / float(bend @ bend)
        direction, shares = -gradient, []
        for one, other in reversed(self._pairs):
            shares.append(float(one @ direction) / float(one @ other))
            direction = direction - shares[-1] * other
        direction = direction * self._scale
        for (one, other), share in zip(self._pairs, reversed(shares)):
            direction = direction + (share - float(other @ direction) / float(one @ other)) * one
        return direction


class _Line:
    """Parameters as one flat array, and their loss anywhere."""

    def __init__(self, parameters: Mapping[str, Any], differentiate: Differentiate) -> None:
        import numpy

        self._differentiate = differentiate
        self._all = dict(parameters)
        loss, gradients = differentiate(parameters)
        self._names = list(gradients)
        self._flat = numpy.concatenate([parameters[name].ravel() for name in self._names])
        self.here = float(loss), self._flatten(gradients)

    def look(
        self, direction: NDArray[Any] | None = None, way: float = 0.0
    ) -> tuple[float, NDArray[Any]]:
        """Return the loss and its gradient some way along a direction, or here."""
        at = self._flat if direction is None else self._flat + way * direction
        loss, gradients = self._differentiate(self.parameters(at))
        return float(loss), self._flatten(gradients)

    def move(self, direction: NDArray[Any], way: float) -> None:
        """Go there."""
        self._flat = self._flat + way * direction

    def parameters(self, flat: NDArray[Any] | None = None) -> dict[str, Any]:
        """Return arrays by name, those here or those of another flat array."""
        rest, named = self._flat if flat is None else flat, dict(self._all)
        for name in self._names:
            shape, size = named[name].shape, named[name].size
            named[name], rest = rest[:size].reshape(shape), rest[size:]
        return named

    def _flatten(self, gradients: Mapping[str, Any]) -> NDArray[Any]:
        import numpy

        flat: NDArray[Any] = numpy.concatenate([gradients[name].ravel() for name in self._names])
        return flat


class _Search:
    """Line search for a point that meets the strong Wolfe conditions."""

    def __init__(
        self, line: _Line, direction: NDArray[Any], loss: float, slope: float, tolerance: float
    ) -> None:
        self._line, self._direction = line, direction
        self._loss, self._slope, self._tolerance = loss, slope, tolerance
        self._looks = 0

    def run(self, start: _Point, way: float, most: int) -> tuple[_Point, int]:
        """Return the point, and how often the loss was taken.

        Args:
            start: Where the direction begins.
            way: Length of the first trial step.
            most: Trials behind the first one.
        """
        before, point = start, self._look(way)
        for trial in range(most):
            if self._is_high(point) or (trial > 1 and point.loss >= before.loss):
                return self._zoom(before, point, most - trial)
            if self._is_flat(point):
                return point, self._looks
            if point.slope >= 0:
                return self._zoom(before, point, most - trial)
            least = point.way + 0.01 * (point.way - before.way)
            way = _interpolate(before, point, (least, point.way * 10))
            before, point = point, self._look(way)
        return (start if start.loss <= point.loss else point), self._looks

    def _zoom(self, one: _Point, other: _Point, most: int) -> tuple[_Point, int]:
        """Return the lowest point of an interval that holds one that is sought."""
        low, high = (one, other) if one.loss <= other.loss else (other, one)
        width = float(abs(self._direction).max())
        stuck = False
        for _ in range(most):
            if abs(high.way - low.way) * width < self._tolerance:
                break
            way, stuck = _keep_inside(low, high, _interpolate(low, high), stuck)
            point = self._look(way)
            if self._is_high(point) or point.loss >= low.loss:
                low, high = (low, point) if low.loss <= point.loss else (point, low)
                continue
            if self._is_flat(point):
                return point, self._looks
            if point.slope * (high.way - low.way) >= 0:
                high = low
            low = point
        return low, self._looks

    def _look(self, way: float) -> _Point:
        self._looks += 1
        loss, gradient = self._line.look(self._direction, way)
        return _Point(way, loss, gradient, float(gradient @ self._direction))

    def _is_high(self, point: _Point) -> bool:
        return point.loss > self._loss + _ARMIJO * point.way * self._slope

    def _is_flat(self, point: _Point) -> bool:
        return abs(point.slope) <= -_CURVATURE * self._slope


def _keep_inside(low: _Point, high: _Point, way: float, stuck: bool) -> tuple[float, bool]:
    """Return a trial not too near the ends of its interval, the second time in a row or at an
    end.
    """
    least, most = sorted((low.way, high.way))
    margin = 0.1 * (most - least)
    if min(most - way, way - least) >= margin:
        return way, False
    if not stuck and least < way < most:
        return way, True
    return (most - margin if abs(way - most) < abs(way - least) else least + margin), False


def _interpolate(one: _Point, other: _Point, bounds: tuple[float, float] | None = None) -> float:
    """Return the minimum of the cubic through two points with slopes, within bounds."""
    left, right = (one, other) if one.way <= other.way else (other, one)
    least, most = bounds or (left.way, right.way)
    if left.way == right.way:
        return (least + most) / 2
    bend = left.slope + right.slope - 3 * (left.loss - right.loss) / (left.way - right.way)
    square = bend * bend - left.slope * right.slope
    if not square >= 0:
        return (least + most) / 2
    root = sqrt(square)
    whole = right.slope - left.slope + 2 * root
    if not whole:
        return (least + most) / 2
    share = (right.slope + root - bend) / whole
    return min(max(right.way - (right.way - left.way) * share, least), most)
