"""BLAS that this process has loaded, and the number of threads it really uses.

OpenBLAS reads OMP_NUM_THREADS only if built with OpenMP, and caps the number; so the number is read
from the library itself.
"""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import Any

_LIBRARY = re.compile(r"\S*/lib[^/\s]*(?:openblas|mkl_rt|blis)[^/\s]*\.so\S*")
# names with and without the prefix and suffix that numpy's own wheels add
_THREADS = (
    "openblas_get_num_threads",
    "openblas_get_num_threads64_",
    "scipy_openblas_get_num_threads",
    "scipy_openblas_get_num_threads64_",
    "MKL_Get_Max_Threads",
    "bli_thread_get_num_threads",
)
_CONFIGURATION = (
    "openblas_get_config",
    "openblas_get_config64_",
    "scipy_openblas_get_config",
    "scipy_openblas_get_config64_",
)


def describe() -> list[dict[str, Any]]:
    """Return each BLAS library that this process has loaded: file name, threads, build with CPU
    kernel.

    Threads or configuration are None where the library has no function that returns them.
    """
    maps = Path("/proc/self/maps")
    if not maps.exists():
        return []
    return [_describe(path) for path in sorted(set(_LIBRARY.findall(maps.read_text())))]


def _describe(path: str) -> dict[str, Any]:
    library = ctypes.CDLL(path)
    threads = _function(library, _THREADS)
    configuration = _function(library, _CONFIGURATION)
    if configuration is not None:
        configuration.restype = ctypes.c_char_p
    return {
        "library": Path(path).name,
        "threads": None if threads is None else threads(),
        "configuration": None if configuration is None else configuration().decode(),
    }


def _function(library: ctypes.CDLL, names: tuple[str, ...]) -> Any:
    return next((getattr(library, name) for name in names if hasattr(library, name)), None)
