"""An operator that a user defines in a Python file, with native code in C++ or CUDA if they like.

The file defines, at its top level:

    parameters = ("n",)             names of its sizes
    options = {"power": 2}          optional: further whole numbers >= 0, with defaults

    def tensors(sizes):             inputs by name, in the order of the call: a shape, or a
        return {"x": (sizes["n"],)}     dictionary with `shape` and other fields of `base.Tensor`
    def outputs(sizes):             shapes of the results, a tuple of tuples
    def flops(sizes):               counted operations of one forward run

    def forward(c, sizes, *inputs):             the reference: one formula in numpy, against a
    def backward(c, sizes, upstream, *inputs):  calculator; see `rounding` and the operators here.
                                                `c.store` goes around each result

    def torch(context, sizes, *tensors):        what is measured, for each framework that it is
        return function, arguments              there for; function(*arguments) is timed

The formula on float64 or longdouble is the reference; on `Rounded` values it gives the bounds, so
a user's operator is judged by the same rules as ours. With torch, `backward` is what autograd
does: a `torch.autograd.Function` brings its own.

Sources lie beside the file. `context.library("mine.cpp")` compiles plain C++ into a shared library
and returns it by ctypes, as it returns a `.so` that was built before: one source for every
framework, in a second. `context.build("mine.cpp", ...)` compiles with torch's own extension builder
and returns the module that their PYBIND11_MODULE defines, in a minute or more; `.cu` sources are
compiled by nvcc. A framework without a function of its name cannot run the operator; numpy then
runs the formula. Which frameworks run users' operators is in `catalog.frameworks`.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Callable

from .. import catalog
from ..catalog import users
from ..sources import import_file
from .base import Call, Operator, Sizes, Tensor
from .rounding import Calculator

_COMPILER = os.environ.get("CXX", "c++")


class UserOperator(Operator):
    """The functions of a user's file behind the interface of our own operators."""

    def __init__(
        self, name: str, module: ModuleType, natives: Mapping[str, Callable[..., Call]]
    ) -> None:
        self.name = name
        self.natives = natives
        self._module: Any = module

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """Return the file's, with shapes made into `Tensor`s."""
        return {
            name: Tensor(**form) if isinstance(form, dict) else Tensor(tuple(form))
            for name, form in self._module.tensors(sizes).items()
        }

    def outputs(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        """Return the file's."""
        return tuple(tuple(shape) for shape in self._module.outputs(sizes))

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:
        """Return the file's."""
        return self._module.forward(c, sizes, *inputs)

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:
        """Return the file's."""
        return tuple(self._module.backward(c, sizes, upstream, *inputs))

    def flops(self, sizes: Sizes) -> int:
        """Return the file's."""
        return int(self._module.flops(sizes))


class Context:
    """Services for a user's native function.

    Attributes:
        folder: Where the file and what came with it lie, read-only.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def library(self, source: str) -> Any:
        """Return a shared library by ctypes, compiled first unless it is one: C functions on
        pointers.

        Raises:
            FileNotFoundError: The source is not there.
            RuntimeError: The image has no compiler, or it fails; its words are in the message.
        """
        path = self._find(source)
        if path.suffix == ".so":
            return ctypes.CDLL(str(path))
        return _once("library", [path], lambda: self._compile(path))

    @staticmethod
    def _compile(path: Path) -> Any:
        _check_tools([path], _COMPILER)
        with _make_folder() as folder:
            built = f"{folder}/{path.stem}.so"
            words = [_COMPILER, "-O3", "-shared", "-fPIC", "-o", built, str(path)]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(f"{' '.join(words)} failed: {done.stderr[-1500:]}")
            return ctypes.CDLL(built)

    def build(self, *sources: str) -> Any:
        """Compile C++ and CUDA sources into a Python module, once and for this process alone.

        Raises:
            FileNotFoundError: A source is not there.
            RuntimeError: The image has no compiler, no ninja or no nvcc, or they fail.
        """
        paths = [self._find(source) for source in sources]
        return _once("module", paths, lambda: self._build(paths))

    @staticmethod
    def _build(paths: list[Path]) -> Any:
        cuda = any(path.suffix == ".cu" for path in paths)
        _check_tools(paths, _COMPILER, "ninja", *(["nvcc"] if cuda else []))
        from torch.utils import cpp_extension

        with _make_folder() as folder:
            return cpp_extension.load(
                name="capsule_user_" + "_".join(path.stem for path in paths),
                sources=[str(path) for path in paths],
                build_directory=folder,
            )

    def _find(self, source: str) -> Path:
        path = self.folder / source
        if not path.is_file():
            raise FileNotFoundError(
                f"source {path} is missing: list it among the benchmark's inputs"
            )
        return path


_BUILT: dict[Any, Any] = {}


def _once(kind: str, paths: list[Path], build: Callable[[], Any]) -> Any:
    """Return the library built from these sources, once a process.

    What they include is taken to stay.
    """
    key = kind, tuple((path.resolve(), path.read_bytes()) for path in paths)
    if key not in _BUILT:
        _BUILT[key] = build()
    return _BUILT[key]


def _make_folder() -> tempfile.TemporaryDirectory[str]:
    """Make a folder for the build; a loaded library stays when its file goes."""
    return tempfile.TemporaryDirectory(prefix="capsule-build-")


def load(name: str, source: Path) -> tuple[UserOperator, catalog.Operator]:
    """Run a user's file.

    Args:
        name: How the trial calls it.
        source: The file.

    Raises:
        ValueError: The file lacks something.
    """
    module = import_file(source, users.NEEDED)
    # a module that the file imports has a framework's name too, and is no function
    functions = {key: value for key, value in vars(module).items() if callable(value)}
    options = getattr(module, "options", {})
    entry = users.make_operator(name, module.parameters, options, functions)
    context = Context(source.parent)
    natives = {
        framework: partial(functions[framework], context)
        for framework in entry.frameworks
        if framework in functions
    }
    return UserOperator(name, module, natives), entry


def _check_tools(paths: list[Path], *needed: str) -> None:
    if missing := [tool for tool in needed if shutil.which(tool) is None]:
        names = ", ".join(path.name for path in paths)
        raise RuntimeError(
            f"cannot build {names}: this environment has no {', no '.join(missing)}; use an image"
            f" that has {' and '.join(missing)}"
        )
