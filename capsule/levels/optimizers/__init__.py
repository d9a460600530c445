"""Optimizers as formulas: what those of the frameworks are held to, and for arrays of any kind.

Each is that of its paper in the form in which PyTorch documents it, which differs between
frameworks: where epsilon stands, whether weight decay goes through the moments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable

from ..catalog.training import Numbers

State = tuple[Any, ...]
"""What an optimizer keeps of one parameter: arrays of its shape, zeros before the first step."""


@dataclass(frozen=True)
class Step:
    """What all parameters have in common in one step.

    Attributes:
        numbers: All that the optimizer takes.
        rate: Learning rate.
        number: Of the step, from 1.
        sqrt: Of an array.
    """

    numbers: Numbers
    rate: Any
    number: Any
    sqrt: Callable[[Any], Any]


class Optimizer:
    """One optimizer with its state, over numpy arrays by name."""

    def __init__(self, name: str, numbers: Numbers) -> None:
        """With no step taken yet.

        Args:
            name: Key of `catalog.training.OPTIMIZERS`.
            numbers: All that it takes.
        """
        self._formula = FORMULAS[name]
        self._slots = slots(name, numbers)
        self._numbers = numbers
        self._number = 0
        self._states: dict[str, State] = {}

    def step(
        self, parameters: Mapping[str, Any], gradients: Mapping[str, Any], rate: float
    ) -> dict[str, Any]:
        """The parameters after one step, new arrays.

        Args:
            parameters: Arrays by name; those without a gradient stay as they are.
            gradients: Arrays of the same shapes and dtype.
            rate: Learning rate of this step.
        """
        import numpy

        self._number += 1
        step = Step(self._numbers, rate, self._number, numpy.sqrt)
        moved = dict(parameters)
        for name, gradient in gradients.items():
            state = self._states.get(name, (0.0,) * self._slots)
            change, self._states[name] = self._formula(step, state, parameters[name], gradient)
            moved[name] = parameters[name] + change
        return moved

    def state(self) -> dict[str, Any]:
        """What it keeps, arrays by name, and `steps`, how many were taken."""
        import numpy

        kept = {
            f"{name}/{place}": array
            for name, state in self._states.items()
            for place, array in enumerate(state)
        }
        return {**kept, "steps": numpy.array(self._number)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on as the optimizer would whose `state` this was."""
        self._number = int(state["steps"])
        owners = dict.fromkeys(name.rpartition("/")[0] for name in state if name != "steps")
        self._states = {
            owner: tuple(state[f"{owner}/{place}"] for place in range(self._slots))
            for owner in owners
        }


def slots(name: str, numbers: Numbers) -> int:
    """How many arrays the state of a parameter has."""
    momentum = int(bool(numbers.get("momentum")))
    return {"sgd": momentum, "adagrad": 1, "rmsprop": 1 + momentum}.get(name, 2)


def _sgd(step: Step, state: State, parameter: Any, gradient: Any) -> tuple[Any, State]:
    """Momentum without dampening (Sutskever et al., ICML 2013, with the rate outside)."""
    gradient = _add_decay(step, parameter, gradient)
    if not state:
        return -step.rate * gradient, ()
    momentum = step.numbers["momentum"]
    velocity = momentum * state[0] + gradient
    direction = gradient + momentum * velocity if step.numbers["nesterov"] else velocity
    return -step.rate * direction, (velocity,)


def _adam(step: Step, state: State, parameter: Any, gradient: Any) -> tuple[Any, State]:
    """Kingma and Ba, arXiv:1412.6980, algorithm 1; weight decay goes through the moments."""
    direction, state = _moments(step, state, _add_decay(step, parameter, gradient))
    return -step.rate * direction, state


def _adamw(step: Step, state: State, parameter: Any, gradient: Any) -> tuple[Any, State]:
    """Loshchilov and Hutter, arXiv:1711.05101, algorithm 2, with the rate before the decay."""
    direction, state = _moments(step, state, gradient)
    return -step.rate * (direction + step.numbers["weight_decay"] * parameter), state


def _adagrad(step: Step, state: State, parameter: Any, gradient: Any) -> tuple[Any, State]:
    """Duchi, Hazan and Singer, JMLR 12, 2011: the diagonal form, from a sum of zero."""
    gradient = _add_decay(step, parameter, gradient)
    squares = state[0] + gradient * gradient
    return -step.rate * gradient / (step.sqrt(squares) + step.numbers["epsilon"]), (squares,)


def _rmsprop(step: Step, state: State, parameter: Any, gradient: Any) -> tuple[Any, State]:
    """Hinton's lecture 6e, 2012, with momentum as in Graves, arXiv:1308.0850, not centred."""
    gradient = _add_decay(step, parameter, gradient)
    alpha = step.numbers["alpha"]
    squares = alpha * state[0] + (1 - alpha) * gradient * gradient
    scaled = gradient / (step.sqrt(squares) + step.numbers["epsilon"])
    if len(state) == 1:
        return -step.rate * scaled, (squares,)
    velocity = step.numbers["momentum"] * state[1] + scaled
    return -step.rate * velocity, (squares, velocity)


def _moments(step: Step, state: State, gradient: Any) -> tuple[Any, State]:
    """Adam's direction, of both moments without their bias towards zero."""
    one, two = step.numbers["beta1"], step.numbers["beta2"]
    mean = one * state[0] + (1 - one) * gradient
    squares = two * state[1] + (1 - two) * gradient * gradient
    unbiased = squares / (1 - two**step.number)
    direction = mean / (1 - one**step.number) / (step.sqrt(unbiased) + step.numbers["epsilon"])
    return direction, (mean, squares)


def _add_decay(step: Step, parameter: Any, gradient: Any) -> Any:
    return gradient + step.numbers["weight_decay"] * parameter


FORMULAS: dict[str, Callable[[Step, State, Any, Any], tuple[Any, State]]] = {
    "sgd": _sgd,
    "adam": _adam,
    "adamw": _adamw,
    "adagrad": _adagrad,
    "rmsprop": _rmsprop,
}
"""Each takes a step, a parameter's state, the parameter and its gradient, all of one dtype; returns
the change of the parameter, and the new state."""
