"""Optimizers as formulas: what those of the frameworks are held to, and for arrays of any kind.

Each is that of its paper in the form in which PyTorch documents it, which differs between
frameworks: where epsilon stands, whether weight decay goes through the moments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Callable, Union

from ..catalog.training import Numbers
from .lbfgs import Differentiate, Lbfgs
from .user import UserOptimizer

State = tuple[Any, ...]
"""State of an optimizer for one parameter: arrays of its shape, zeros before the first step."""

Chosen = Union[str, UserOptimizer]
"""An optimizer of the catalogue by its name, or a user's."""


@dataclass(frozen=True)
class Step:
    """Values that all parameters share in one step.

    Attributes:
        numbers: All that the optimizer takes.
        rate: Learning rate.
        number: Number of the step, from 1.
        sqrt: Square root of an array.
        total: The sum of an array's elements.
        where: Of a condition and two numbers, the first where it holds, else the second.
        squares: The sum of the squares of all gradients' elements; 0 but for formulas in `GLOBAL`,
            and users'.
    """

    numbers: Numbers
    rate: Any
    number: Any
    sqrt: Callable[[Any], Any]
    total: Callable[[Any], Any]
    where: Callable[[Any, Any, Any], Any]
    squares: Any = 0.0


Formula = Callable[[Step, State, Any, Any], tuple[Any, State]]
"""See `FORMULAS`."""


class Optimizer:
    """One optimizer with its state, over numpy arrays by name."""

    def __init__(self, name: Chosen, numbers: Numbers) -> None:
        """Create an optimizer without steps.

        Args:
            name: Key of `catalog.training.OPTIMIZERS`, or a user's.
            numbers: All that it takes.

        Raises:
            ValueError: It is a user's that has no formula.
        """
        self._name = name
        self._formula = _find_formula(name)
        self._slots = slots(name, numbers)
        self._numbers = numbers
        self._number = 0
        self._states: dict[str, State] = {}

    def step(
        self, parameters: Mapping[str, Any], gradients: Mapping[str, Any], rate: float
    ) -> dict[str, Any]:
        """Return the parameters after one step, new arrays.

        Args:
            parameters: Arrays by name; those without a gradient stay as they are.
            gradients: Arrays of the same shapes and dtype.
            rate: Learning rate of this step.
        """
        import numpy

        self._number += 1
        step = Step(self._numbers, rate, self._number, numpy.sqrt, numpy.sum, numpy.where)
        step = gather(self._name, step, gradients)
        moved = dict(parameters)
        for name, gradient in gradients.items():
            state = self._states.get(name, (0.0,) * self._slots)
            change, self._states[name] = self._formula(step, state, parameters[name], gradient)
            moved[name] = parameters[name] + change
        return moved

    def descend(
        self, parameters: Mapping[str, Any], differentiate: Differentiate, rate: float
    ) -> dict[str, Any]:
        """`step` with the gradients there, as `Lbfgs.descend` takes more than one."""
        _, gradients = differentiate(parameters)
        return self.step(parameters, gradients, rate)

    def state(self) -> dict[str, Any]:
        """Return the optimizer's state, arrays by name, and `steps`, the number taken."""
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


def start(name: Chosen, numbers: Numbers) -> Optimizer | Lbfgs:
    """Return an optimizer that has taken no step; see `Optimizer`."""
    return Lbfgs(numbers) if name == "lbfgs" else Optimizer(name, numbers)


def has_formula(name: Chosen) -> bool:
    """Return whether it is known what a right step is."""
    return isinstance(name, str) or name.formula is not None


def _find_formula(name: Chosen) -> Formula:
    if isinstance(name, str):
        return FORMULAS[name]
    if name.formula is None:
        raise ValueError(f"{name.name} defines no formula, which numpy needs to train")
    return name.formula


def gather(name: Chosen, step: Step, gradients: Mapping[Any, Any]) -> Step:
    """Return a step that knows of all gradients what its formula has to."""
    if isinstance(name, str) and name not in GLOBAL:
        return step
    return replace(step, squares=sum(step.total(one * one) for one in gradients.values()))


def slots(name: Chosen, numbers: Numbers) -> int:
    """Return the number of arrays in the state of a parameter."""
    if isinstance(name, UserOptimizer):
        return name.facts.slots
    momentum = int(bool(numbers.get("momentum")))
    return {"sgd": momentum, "adagrad": 1, "rmsprop": 1 + momentum}.get(name, 2)


def _sgd(step: Step, state: State, parameter: Any, gradient: Any) -> tuple[Any, State]:
    """Compute momentum without dampening (Sutskever et al., ICML 2013, with the rate outside)."""
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


def _lamb(step: Step, state: State, parameter: Any, gradient: Any) -> tuple[Any, State]:
    """You et al., arXiv:1904.00962, algorithm 2, with the identity for phi."""
    direction, state = _layer(step, state, parameter, gradient)
    return -step.rate * _trust(step, parameter, direction) * direction, state


def _lamb_nvidia(step: Step, state: State, parameter: Any, gradient: Any) -> tuple[Any, State]:
    """`FusedLAMB` of NVIDIA's Apex with what it has by default: gradients are first scaled to a
    norm of at most `max_norm` over all parameters, and none is trusted without weight decay.
    """
    norm, most = step.sqrt(step.squares), step.numbers["max_norm"]
    direction, state = _layer(step, state, parameter, gradient / _at_least_1(step, norm / most))
    if not step.numbers["weight_decay"]:
        return -step.rate * direction, state
    return -step.rate * _trust(step, parameter, direction) * direction, state


def _accelegrad(
    step: Step,
    state: State,
    parameter: Any,  # noqa: ARG001
    gradient: Any,
) -> tuple[Any, State]:
    """Levy, Yurtsever and Cevher, NeurIPS 2018, algorithm 2, without a bound on the parameters.

    The rate stands for 2 D. What is kept of z is how far it is from x, where gradients are taken
    and the network is evaluated; y is never needed but for the next x.
    """
    weight = _weight(step.number)
    ahead, squares = state
    # the same in every element: the norm is that of all parameters
    squares = squares + weight * weight * step.squares
    rate = step.rate / step.sqrt(step.numbers["bound"] ** 2 + squares)
    z, y = ahead - weight * rate * gradient, -rate * gradient
    share = 1 / _weight(step.number + 1)
    change = share * z + (1 - share) * y
    return change, (z - change, squares)


def _weight(number: Any) -> Any:
    """AcceleGrad's alpha, max(1, number / 4), of tensors too."""
    quarter = number / 4
    return (quarter + 1 + abs(quarter - 1)) / 2


def _layer(step: Step, state: State, parameter: Any, gradient: Any) -> tuple[Any, State]:
    """LAMB's direction before it is scaled."""
    direction, state = _moments(
        step, state, gradient, corrects=bool(step.numbers["bias_correction"])
    )
    return direction + step.numbers["weight_decay"] * parameter, state


def _trust(step: Step, parameter: Any, direction: Any) -> Any:
    """Return the norm of a parameter by that of its direction, 1 where either is 0."""
    length, way = (step.sqrt(step.total(one * one)) for one in (parameter, direction))
    # so that nothing is divided by 0
    one = 0 * way + 1
    return step.where((length > 0) & (way > 0), length / step.where(way > 0, way, one), one)


def _at_least_1(step: Step, number: Any) -> Any:
    return step.where(number > 1, number, 0 * number + 1)


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


def _moments(
    step: Step, state: State, gradient: Any, *, corrects: bool = True
) -> tuple[Any, State]:
    """Adam's direction, of both moments without their bias towards zero, or with it."""
    one, two = step.numbers["beta1"], step.numbers["beta2"]
    mean = one * state[0] + (1 - one) * gradient
    squares = two * state[1] + (1 - two) * gradient * gradient
    unbiased = squares / (1 - two**step.number) if corrects else squares
    numerator = mean / (1 - one**step.number) if corrects else mean
    return numerator / (step.sqrt(unbiased) + step.numbers["epsilon"]), (mean, squares)


def _add_decay(step: Step, parameter: Any, gradient: Any) -> Any:
    return gradient + step.numbers["weight_decay"] * parameter


FORMULAS: dict[str, Formula] = {
    "sgd": _sgd,
    "adam": _adam,
    "adamw": _adamw,
    "adagrad": _adagrad,
    "rmsprop": _rmsprop,
    "lamb": _lamb,
    "lamb-nvidia": _lamb_nvidia,
    "accelegrad": _accelegrad,
}
"""Each takes a step, a parameter's state, the parameter and its gradient, all of one dtype; returns
the change of the parameter, and the new state."""

GLOBAL = ("lamb-nvidia", "accelegrad")
"""Formulas of `FORMULAS` that use the norm of all gradients together."""
