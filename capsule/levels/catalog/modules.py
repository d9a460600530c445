"""Facts in a user's file about its `torch.nn.Module`, by one rule for host and image.

The file defines, at its top level:

    inputs = {"image": (1, 28, 28), "label": {"below": 10}}
    quality = "accuracy"        or "mean_absolute_error"
    def network():              makes the module, with initial values from torch's generator
        return torch.nn.Sequential(...)
    loss = "cross_entropy"      optional: or "mean_squared_error", or a function of what the
                                module yields and of what is due, which yields a scalar

`inputs` has each array of the dataset by its name, with the shape of one sample: a tuple for
numbers with fractions, a dictionary for whole numbers from 0 to `below - 1`, with `shape` where a
sample has more than one. `label` (accuracy) or `target` (mean absolute error) is what is due; all
others are what `forward` takes, in this order. It yields (batch, classes, *shape of a label), or
the shape of the target. The host takes `inputs` and `quality` from the syntax tree and executes
nothing of the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

NEEDED = ("inputs", "quality", "network")
"""Names that a module's file must define at its top level."""

_DUE = {"accuracy": "label", "mean_absolute_error": "target"}
_USUAL = {"accuracy": "cross_entropy", "mean_absolute_error": "mean_squared_error"}
_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
_MOST_AXES, _MOST = 8, 2**31 - 1


@dataclass(frozen=True)
class Sample:
    """One array of a dataset.

    Attributes:
        shape: Shape of one sample.
        below: Whole numbers are smaller than that; None for numbers with fractions.
    """

    shape: tuple[int, ...]
    below: int | None = None


@dataclass(frozen=True)
class Module:
    """Facts about a module, known without running it.

    Attributes:
        inputs: By name, in the order of the file.
        quality: Key of what `data.predictions` judges.
    """

    inputs: Mapping[str, Sample]
    quality: str

    @property
    def due(self) -> str:
        """Name of the array that says what the module should have said."""
        return _DUE[self.quality]

    @property
    def operands(self) -> dict[str, Sample]:
        """Return the inputs of `forward`, in order."""
        return {name: one for name, one in self.inputs.items() if name != self.due}

    @property
    def loss(self) -> str:
        """Return the one that is meant where the file does not say it."""
        return _USUAL[self.quality]

    @property
    def choices(self) -> int:
        """Return predictions of one sample that are judged."""
        return prod(self.inputs[self.due].shape)


def read(inputs: object, quality: object) -> Module:
    """Check and return `inputs` and `quality` of a file.

    Raises:
        ValueError: One of them is not what it has to be; begins with its name.

    >>> read({"x": (3,), "label": {"below": 10}}, "accuracy").choices
    1
    """
    if not isinstance(quality, str) or quality not in _DUE:
        raise ValueError(f"quality is {quality!r}, expected one of {', '.join(_DUE)}")
    if not isinstance(inputs, dict) or not all(map(_is_name, inputs)):
        raise ValueError(
            f"inputs is {inputs!r:.80}, expected a dictionary of lower-case names and shapes, for"
            ' example {"image": (1, 28, 28), "label": {"below": 10}}'
        )
    samples = {name: _sample(name, value) for name, value in inputs.items()}
    due = _DUE[quality]
    if due not in samples or len(samples) < 2:
        lacking = "an array for forward" if due in samples else f"{due}, which {quality} needs"
        raise ValueError(f"inputs lacks {lacking}")
    if (samples[due].below is None) == (due == "label"):
        form = 'whole numbers, such as {"below": 10}' if due == "label" else "a shape, such as (4,)"
        raise ValueError(f"inputs has {due} {inputs[due]!r}, expected {form}")
    return Module(samples, quality)


def _sample(name: str, value: object) -> Sample:
    shape, below = value, None
    if isinstance(value, dict):
        shape, below = value.get("shape", ()), value.get("below")
        if value.keys() - {"shape", "below"} or not _is_whole(below, 2):
            raise ValueError(
                f'inputs has {name} {value!r}, expected "below" (at least 2) and, if a sample has'
                ' several numbers, "shape"'
            )
    if (
        not isinstance(shape, (tuple, list))
        or len(shape) > _MOST_AXES
        or not all(_is_whole(length, 1) for length in shape)
        or prod(shape) > _MOST
    ):
        raise ValueError(
            f"inputs has {name} {value!r}, expected the shape of one sample: at most {_MOST_AXES}"
            f" whole numbers >= 1 with a product of at most {_MOST}, such as (1, 28, 28)"
        )
    return Sample(tuple(shape), below)


def _is_whole(value: object, least: int) -> bool:
    return type(value) is int and least <= value <= _MOST


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(_NAME.fullmatch(value))
