"""The functions of scipy.special that are used, without the half of their import that is not.

Use it as `from capsule.stats import special`. SciPy takes over every name of numpy for its own
array functions, and numpy imports a submodule when its name is asked for: a compiler's front end,
a test framework, random numbers. While SciPy is imported stand-ins have these names.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

import numpy as np

_COSTLY = ("f2py", "ma", "random", "testing")


class _StandIn(ModuleType):
    """Imports the module that it is named after when something of that one is asked for."""

    def __getattr__(self, name: str) -> object:
        return getattr(import_module(self.__name__), name)


@contextmanager
def _stand_ins() -> Iterator[None]:
    """Of numpy's costly submodules, where they are not imported; afterwards numpy has none."""
    names = vars(np)
    absent = {name: _StandIn(f"numpy.{name}") for name in _COSTLY if name not in names}
    names.update(absent)
    try:
        yield
    finally:
        for name, stand_in in absent.items():
            if names.get(name) is stand_in:
                del names[name]


with _stand_ins():
    from scipy.special import (
        bdtr,
        bdtrik,
        betaincinv,
        chdtrc,
        gammaincinv,
        gammaln,
        kolmogi,
        ndtr,
        ndtri,
        stdtr,
        stdtrit,
        xlog1py,
        xlogy,
    )

__all__ = [
    "bdtr",
    "bdtrik",
    "betaincinv",
    "chdtrc",
    "gammaincinv",
    "gammaln",
    "kolmogi",
    "ndtr",
    "ndtri",
    "stdtr",
    "stdtrit",
    "xlog1py",
    "xlogy",
]
