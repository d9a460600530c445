"""Random operations of a module, for a reference that must draw the same numbers.

torch's generator yields other numbers for other dtypes and devices. So in runs that are compared
each draw is made of a stream of its own: by the label of the run and the number of the draw.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ...streams import fractions
from ..base import NativeTensor


def is_random(function: Any, args: Any, kwargs: Any) -> bool:
    """Return whether an operation of torch's dispatcher takes numbers from a generator when called
    so.
    """
    if torch.Tag.nondeterministic_seeded not in function.tags:
        return False
    # the kernels of attention draw for a dropout of theirs, and mostly have none
    for place, argument in enumerate(function._schema.arguments):
        if argument.name == "dropout_p":
            return bool(args[place] if place < len(args) else kwargs.get("dropout_p", 0.0))
    return True


class Draws:
    """The draws of one run.

    Attributes:
        count: How many there were.
    """

    def __init__(self, label: str | None) -> None:
        """Begin.

        Args:
            label: Names the run; None where nothing may be drawn.
        """
        self._label = label
        self.count = 0

    def __call__(self, function: Any, args: Any, kwargs: Any) -> NativeTensor:
        """Return the replacement of a random operation; dropout draws by `bernoulli_`.

        Raises:
            ValueError: Nothing may be drawn, or it is another one.
        """
        place, *rest = args
        share = rest[0] if rest else kwargs.get("p", 0.5)
        name = function._schema.name.rpartition("::")[2]
        if self._label is None or name != "bernoulli_" or not isinstance(share, float):
            raise ValueError(
                f"the module draws random numbers with {function}, but capsule supports only"
                " dropout in training"
            )
        numbers = fractions(f"{self._label}\n{self.count}\n", place.numel(), "float32")
        self.count += 1
        kept = torch.from_numpy(numbers < share).reshape(place.shape)
        return place.copy_(kept.to(place.device))


class Drawing(TorchDispatchMode):  # type: ignore[misc]
    """Operations as they are, and draws by a label."""

    def __init__(self, label: str) -> None:
        super().__init__()
        self._draws = Draws(label)

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if is_random(function, args, kwargs):
            return self._draws(function, args, kwargs)
        return function(*args, **kwargs)
