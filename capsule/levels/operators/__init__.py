"""Level 0: one module per operator, each with its inputs, its reference and its error bound."""

from __future__ import annotations

from importlib import import_module

from ..catalog import OPERATORS
from .base import ROUNDOFF, WIDER, Operator

__all__ = ["ROUNDOFF", "WIDER", "Operator", "load"]


def load(name: str) -> Operator:
    """The operator that the catalogue lists under `name`; only its own module is imported.

    Raises:
        ValueError: There is none.
    """
    if name not in OPERATORS:
        raise ValueError(f"no operator {name!r}; there are {', '.join(OPERATORS)}")
    operator: Operator = import_module(f".{name}", __package__).OPERATOR
    return operator
