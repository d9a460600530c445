"""The functions of scipy.special that are used, without the rest of it, whose import takes longer.

Use it as `from capsule.stats import special`. They are the very ones that the package has of its
extension module. The package wraps each of its functions for the arrays of other libraries, for
which it imports half of numpy and takes documentation apart.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from types import ModuleType

import scipy

_PACKAGE = "scipy.special"


@contextmanager
def _empty_package() -> Iterator[None]:
    """Make an empty package with the modules' path, unless it is imported already."""
    spec = PathFinder.find_spec(_PACKAGE, scipy.__path__)
    if spec is None or _PACKAGE in sys.modules:
        yield
        return
    empty = module_from_spec(spec)
    sys.modules[_PACKAGE] = empty
    try:
        yield
    finally:
        # whoever imports it next gets the whole
        if sys.modules.get(_PACKAGE) is empty:
            del sys.modules[_PACKAGE]


def _load() -> ModuleType:
    try:
        with _empty_package():
            return import_module(f"{_PACKAGE}._ufuncs")
    except ImportError:
        # of a release that has it elsewhere
        return import_module(_PACKAGE)


_functions = _load()
bdtr = _functions.bdtr
betaincinv = _functions.betaincinv
chdtrc = _functions.chdtrc
gammaincinv = _functions.gammaincinv
gammaln = _functions.gammaln
ndtr = _functions.ndtr
ndtri = _functions.ndtri
stdtr = _functions.stdtr
stdtrit = _functions.stdtrit
xlog1py = _functions.xlog1py
xlogy = _functions.xlogy

__all__ = [
    "bdtr",
    "betaincinv",
    "chdtrc",
    "gammaincinv",
    "gammaln",
    "ndtr",
    "ndtri",
    "stdtr",
    "stdtrit",
    "xlog1py",
    "xlogy",
]
