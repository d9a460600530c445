"""Level 0: one small class per operator, with its formula, its derivative and its error bounds.

An operator knows nothing of frameworks, and a framework's folder knows nothing of formulas. They
meet in names, in the order of tensors, and in conventions that stand in the operator's docstring.

What an operator tells (`base.Operator`)
    name, tensors(sizes)            inputs in the order of the call, with ranges
    forward, backward               the formula and its derivative against a `Calculator`: numpy
                                    in more bits for the reference, followed error bounds for the
                                    bound (`rounding`)
    outputs, flops, bytes           shapes of the results; counted work and traffic
    wrt(sizes)                      positions of the inputs that gradients are taken by

`sizes` holds every parameter of the case and every option of the catalogue's entry, with its
default where the case does not name it; all are whole numbers.

What a framework offers for it (`frameworks.base.Operators`)
    operation(operator, sizes, tensors) -> (function, arguments)
        The framework's own operation, so that `function(*arguments)` runs it with nothing around
        and returns a tensor, or a tuple in the order of `outputs`. Whatever can be done before the
        clock starts (views, constants, a session, a compiled function) is done here.
    gradient(operator, sizes, tensors, wrt, upstream) -> (function, arguments)
        `function(*arguments)` returns a tuple: for each position in `wrt`, the derivative of
        sum(upstream * output) by that tensor, by the framework's automatic differentiation, from
        a forward run that happened before. It can be called again and again.

What a framework offers for its tensors (`frameworks.base.Framework`)
    from_numpy(array, dtype), to_numpy(tensor), dtype_of(tensor)
        `dtype` is a word of `rounding.ARITHMETIC`; bfloat16 travels as float32 arrays, whose
        values it holds exactly. int64 arrays stay what they are (or become the integer type that
        the framework wants). `dtype_of` gives the word back, `float32` for tf32.
    arithmetic(dtype)
        A context manager around everything that a trial does: float32 without TF32, and 16-bit
        types accumulated in float32, whatever the framework ships as its default.

A framework keeps what it has for each operator in `frameworks/<name>/operators.py`, in a constant
dictionary `OPERATIONS`; what a user's file defines is in none, it comes with the operator
(`Operator.natives`). `catalog.FRAMEWORKS` says what each framework can do: its dtypes, whether it
differentiates, which operators it lacks.

Layouts are those of torch and ONNX: channels stand second (N, C, spatial...), weights are
(out, in / groups, spatial...), of transposed convolutions (in, out / groups, spatial...). A
framework that wants another layout transposes inside `function`, where it is timed, or before
the clock if a user of that framework would hold the tensor in that layout anyway; it says which.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from .. import catalog
from ..catalog import OPERATORS
from .base import (
    Due,
    Operator,
    Tensor,
    bounds,
    due,
    due_gradients,
    gradient_bounds,
    overflows_from,
    reference,
    reference_gradients,
    round_to,
    several,
)
from .rounding import ARITHMETIC, EXACT

__all__ = [
    "ARITHMETIC",
    "EXACT",
    "Due",
    "Operator",
    "Tensor",
    "bounds",
    "due",
    "due_gradients",
    "find",
    "gradient_bounds",
    "load",
    "overflows_from",
    "reference",
    "reference_gradients",
    "round_to",
    "several",
]


def load(name: str) -> Operator:
    """Return the operator that the catalogue lists under `name`; only its own module is imported.

    Raises:
        ValueError: There is none.
    """
    if name not in OPERATORS:
        raise ValueError(f"unknown operator {name!r}; known: {', '.join(OPERATORS)}")
    module = import_module(f".{OPERATORS[name].module}", __package__)
    operator: Operator = module.OPERATORS[name]
    return operator


def find(name: str, source: str | None) -> tuple[Operator, catalog.Operator]:
    """Return an operator of the catalogue, or the user's one that a file defines; see `user`.

    Args:
        name: As the trial calls it, for a user's one whatever the catalogue has by that name.
        source: Path of the user's file, None for the catalogue's.

    Raises:
        ValueError: There is none, or the file does not define one.
    """
    if source is None:
        return load(name), OPERATORS[name]
    from . import user

    return user.load(name, Path(source))
