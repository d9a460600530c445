"""Facts in a user's file about its optimizer, by one rule for host and image.

The file defines, at its top level:

    numbers = {"momentum": 0.9}         what a recipe says of it besides `lr`, with defaults; {} for
                                        nothing
    def torch(parameters, numbers):     makes a `torch.optim.Optimizer` over a list of tensors
        return Mine(parameters, lr=numbers["lr"], momentum=numbers["momentum"])

    slots = 1                           optional: how many arrays the formula keeps of a parameter
    def formula(step, state, parameter, gradient):
        return change, state            optional: the reference, in numpy

Before each step every group of the optimizer gets the step's rate as `lr`, and every parameter that
the loss depends on its gradient; then `step()` is called, without a closure. It is to hold all
parameters, and to keep what later steps depend on in its `state_dict()`.

The formula gets `step` with `numbers`, `rate`, `number` (from 1) and `squares`, the sum of the
squares of all gradients' elements; `state`, a tuple of `slots` arrays of the parameter's shape,
zeros before the first step; and two more arrays. It changes none of them, and returns what is added
to the parameter and the new state. By it numpy trains, and the first steps of torch are held to it.
Without one nothing says what a right step is: `trajectory_error`, `exact_trajectory_error` and
`update_error` are no metrics then. What torch alone needs is imported inside `torch`: there is none
where numpy trains.

The host takes `numbers` and `slots` from the syntax tree and executes nothing of the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .frameworks import FRAMEWORKS
from .training import GENERATES, OPTIMIZERS, RATE, SCHEDULES, Number

TOGETHER = ("lamb-nvidia", "accelegrad", "lbfgs")
"""Those of the catalogue whose step of one parameter depends on gradients by others."""

NEEDED = ("numbers", "torch")
"""Names that an optimizer's file must define at its top level."""

OPTIONAL = ("slots", "formula")
"""Names that it may define."""

MOST_SLOTS = 16
MOST_NUMBERS = 18
"""Most numbers of an optimizer: with `file` and `lr`, as many fields as a recipe allows."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,31}")
_LARGEST = 1e300
# all that a case may name besides, for a case has one name for each number
_RESERVED = {
    *("name", "file", RATE.name, "batch", "epochs", "accumulate", "workers", "milestones"),
    *(number.name for numbers in SCHEDULES.values() for number in numbers),
}


@dataclass(frozen=True)
class Optimizer:
    """Facts about an optimizer, known without running it.

    Attributes:
        numbers: All that it takes, the learning rate among them.
        slots: Arrays that its formula keeps of a parameter.
        has_formula: True if there is one.
    """

    numbers: tuple[Number, ...]
    slots: int
    has_formula: bool


def read(numbers: object, slots: object, defined: Iterable[str]) -> Optimizer:
    """Check and return the definitions of an optimizer's file.

    Args:
        numbers: The file's.
        slots: Likewise, 0 where it has none.
        defined: Names that the file defines.

    Raises:
        ValueError: One of them is not what it has to be; begins with its name.

    >>> [one.name for one in read({"momentum": 0.9}, 1, ["formula"]).numbers]
    ['lr', 'momentum']
    """
    if (
        not isinstance(numbers, dict)
        or not all(isinstance(name, str) and _NAME.fullmatch(name) for name in numbers)
        or not all(type(one) in (int, float) and abs(one) <= _LARGEST for one in numbers.values())
    ):
        raise ValueError(
            f"numbers is {numbers!r:.80}, expected a dictionary of names and finite numbers, such"
            ' as {"momentum": 0.9}'
        )
    if taken := sorted(_RESERVED & numbers.keys()):
        raise ValueError(
            f"numbers has {taken[0]}, the name of a field of recipes; use another name"
        )
    if len(numbers) > MOST_NUMBERS:
        raise ValueError(f"numbers has {len(numbers)} names, expected at most {MOST_NUMBERS}")
    if type(slots) is not int or not 0 <= slots <= MOST_SLOTS:
        raise ValueError(f"slots is {slots!r}, expected a whole number from 0 to {MOST_SLOTS}")
    has_formula = "formula" in set(defined)
    if slots and not has_formula:
        raise ValueError(
            f"slots is {slots}, but the file defines no formula: define formula, or leave slots out"
        )
    own = (Number(name, value, -_LARGEST, _LARGEST) for name, value in numbers.items())
    return Optimizer((RATE, *own), slots, has_formula)


def refusal(framework: str, optimizer: Optimizer) -> str | None:
    """Return why a framework cannot train by a user's optimizer; None where it can.

    Args:
        framework: Its name.
        optimizer: What its file says.
    """
    facts = FRAMEWORKS.get(framework)
    if facts is None or facts.user_optimizers == "function":
        return None
    able = ", ".join(
        name
        for name, one in FRAMEWORKS.items()
        if one.user_optimizers == "function"
        or (one.user_optimizers == "formula" and optimizer.has_formula)
    )
    if facts.user_optimizers is None:
        return f"{framework} cannot train with an optimizer from a file; use {able}"
    if optimizer.has_formula:
        return None
    return (
        f"{framework} trains by an optimizer's formula, and the file defines none: define formula,"
        f" or use {able}"
    )


def mismatch(quality: str, optimizer: str) -> str | None:
    """Return why an optimizer of the catalogue cannot train what has a quality; None where it can.

    Args:
        quality: Value of `training.QUALITY`.
        optimizer: Key of `training.OPTIMIZERS`.
    """
    if quality in GENERATES and optimizer in TOGETHER:
        able = ", ".join(name for name in OPTIMIZERS if name not in TOGETHER)
        return (
            f"{optimizer} cannot train two networks against each other, because its steps depend on"
            f" the gradients of all parameters; use one of {able}"
        )
    return None
