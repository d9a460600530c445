"""An optimizer that a user defines in a Python file; `catalog.optimizers` says what that holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Callable

from ..catalog import optimizers, training
from ..catalog.training import Numbers
from ..sources import import_file


@dataclass(frozen=True)
class UserOptimizer:
    """Optimizer that a user's file defines.

    Attributes:
        name: Name of the file, for messages.
        facts: What the file says.
        torch: Makes an optimizer of torch of parameters and numbers.
        formula: See `optimizers.FORMULAS`; None where there is none.
    """

    name: str
    facts: optimizers.Optimizer
    torch: Callable[[Sequence[Any], Mapping[str, float]], Any]
    formula: Callable[..., tuple[Any, tuple[Any, ...]]] | None


def load(source: Path, numbers: Numbers) -> UserOptimizer:
    """Run a user's file.

    Args:
        source: The file.
        numbers: What a recipe has it take.

    Raises:
        ValueError: The file lacks something, or takes other numbers.
    """
    name = source.name
    file: Any = import_file(source, optimizers.NEEDED)
    try:
        facts = optimizers.read(file.numbers, getattr(file, "slots", 0), vars(file))
        if training.complete(facts.numbers, numbers) != dict(numbers):
            known = ", ".join(number.name for number in facts.numbers)
            raise ValueError(f"the recipe has the numbers {', '.join(numbers)}, expected {known}")
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    for function in ("torch", *(("formula",) if facts.has_formula else ())):
        if not callable(getattr(file, function)):
            found = type(getattr(file, function)).__name__
            raise ValueError(f"{name}: {function} is of type {found}, expected a function")
    formula = _Formula(name, file.formula, facts.slots) if facts.has_formula else None
    return UserOptimizer(name, facts, file.torch, formula)


class _Formula:
    """A user's formula, which is shown arrays that it cannot change, and yields what is due."""

    def __init__(self, name: str, function: Callable[..., Any], slots: int) -> None:
        self._name = name
        self._function = function
        self._slots = slots

    def __call__(
        self, step: Any, state: tuple[Any, ...], parameter: Any, gradient: Any
    ) -> tuple[Any, tuple[Any, ...]]:
        """See `optimizers.FORMULAS`; zeros of the first step may come as one number.

        Raises:
            ValueError: What the formula returns is not what is due.
        """
        import numpy

        shape = numpy.shape(parameter)
        # views that cannot be written to
        zeros = numpy.zeros((), parameter.dtype)
        before = (zeros if isinstance(one, float) else one for one in state)
        held = tuple(numpy.broadcast_to(array, shape) for array in before)
        shown = (numpy.broadcast_to(array, shape) for array in (parameter, gradient))
        step = replace(step, numbers=MappingProxyType(step.numbers))
        made = self._function(step, held, *shown)
        if not isinstance(made, tuple) or len(made) != 2 or not isinstance(made[1], (tuple, list)):
            raise ValueError(
                f"formula of {self._name} returned a {type(made).__name__}, expected a pair of"
                " change and state (a tuple of arrays)"
            )
        change, after = made
        if len(after) != self._slots:
            raise ValueError(
                f"formula of {self._name} returns a state of {len(after)} arrays, expected"
                f" {self._slots}, the value of slots"
            )
        kept = tuple(self._check("state", array, shape) for array in after)
        return self._check("change", change, shape), kept

    def _check(self, what: str, value: Any, shape: tuple[int, ...]) -> Any:
        import numpy

        array = numpy.asarray(value)
        if array.shape != shape or array.dtype.kind != "f":
            raise ValueError(
                f"formula of {self._name} returns a {what} of shape {array.shape} and type"
                f" {array.dtype}, expected floats of shape {shape}"
            )
        return array
