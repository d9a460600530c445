"""The cases, a module for each door with its CASES: all that lie in this folder."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from tests.hostile.case import Case

CASES: tuple[Case, ...] = tuple(
    case
    for module in iter_modules(__path__)
    for case in import_module(f"{__name__}.{module.name}").CASES
)
