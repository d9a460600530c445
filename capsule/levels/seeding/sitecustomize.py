"""Seeds a Python program that fixes its own seed, or knows none; any Python from 3.8 on.

Python imports this file by itself before a program whose PYTHONPATH names its folder, whether that
is a script, a module, a text (`-c`) or an installed command. `CAPSULE_SEED` seeds `random`,
`numpy.random`, torch and TensorFlow. A seed that the program sets is replaced by one that follows
from both: two streams stay two, and one that is set again starts again. What was replaced is
reported, once for each function, in the file that `CAPSULE_SEEDING` names. A `torch.Generator`,
and a key of JAX, keep the seed that a program gives them, and a seed made of the clock stays one.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import itertools
import json
import os
import random
import sys
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any, Callable

_SEED = os.environ["CAPSULE_SEED"]
_MOST_SEED = 2**32
_LONGEST = 100
_reported: set[str] = set()
# calls of one thing without a seed get another stream each
_unseeded = itertools.count()
# torch.manual_seed seeds the devices, too, by functions that are replaced themselves
_inside: list[str] = []


def _report(**line: str) -> None:
    with open(os.environ["CAPSULE_SEEDING"], "ab", buffering=0) as file:  # noqa: PTH123 - quick
        file.write((json.dumps(line) + "\n").encode())


def _derive(seed: object) -> int:
    """Return the seed in place of a program's own; the run's where that has none."""
    if seed is None:
        return int(_SEED) % _MOST_SEED
    if hasattr(seed, "__index__"):
        seed = seed.__index__()  # numpy's whole numbers are written otherwise
    digest = hashlib.sha256(f"{_SEED}\n{seed!r}".encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:4], "big")


def _replace(name: str, seed: object) -> int:
    """Return the same, reported."""
    if seed is not None and name not in _reported:
        _reported.add(name)
        _report(replaced=name, value=repr(seed)[:_LONGEST])
    return _derive(seed)


def _replace_or_make(name: str, seed: object) -> object:
    """Return the same for a generator, of which each that is given no seed gets one of its own."""
    if seed is None:
        return _derive(f"unseeded {next(_unseeded)}")
    # what generators are made of has been seeded itself
    made = any(hasattr(seed, mark) for mark in ("random_raw", "spawn", "bit_generator"))
    return seed if made else _replace(name, seed)


def _set_by(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function whose first argument is a seed, which it need not be given.

    The wrapper is a plain function: torch._dynamo sorts the functions of torch by their identity,
    when the first optimizer is made, and takes no other object in place of one.
    """

    @functools.wraps(function)
    def set_seed(seed: object = None, *rest: Any, **named: Any) -> Any:
        if _inside:
            return function(seed, *rest, **named)
        _inside.append(name)
        try:
            return function(_replace(name, seed), *rest, **named)
        finally:
            _inside.pop()

    return set_seed


def _subclass(name: str, base: Any) -> Any:
    """Return a class that takes a seed first; what the other one makes passes for its instance."""

    class Either(type(base)):  # type: ignore[misc]
        def __instancecheck__(cls, instance: object) -> bool:
            if cls is Seeded:
                return isinstance(instance, base)
            return bool(super().__instancecheck__(instance))

    class Seeded(base, metaclass=Either):  # type: ignore[misc]
        def __init__(self, seed: object = None, *rest: Any, **named: Any) -> None:
            super().__init__(_replace_or_make(name, seed), *rest, **named)

        def seed(self, seed: object = None) -> None:
            super().seed(_replace_or_make(name, seed))

    functools.update_wrapper(Seeded, base, updated=())
    return Seeded


def _seed_random(module: Any) -> None:
    own = module.Random.seed

    def seed(self: random.Random, a: Any = None, version: int = 2) -> None:
        # the library's own generators (names of temporary files) take none, and stay as they are
        own(self, None if a is None else _replace("random.Random.seed", a), version)

    module.Random.seed = seed
    module.seed = _set_by("random.seed", functools.partial(own, module._inst))
    module.seed()


def _seed_numpy(numpy: Any) -> None:
    module = numpy.random
    module.seed = _set_by("numpy.random.seed", module.seed)
    module.seed()
    module.RandomState = _subclass("numpy.random.RandomState", module.RandomState)
    make_rng = module.default_rng

    @functools.wraps(make_rng)
    def default_rng(seed: object = None) -> Any:
        return make_rng(_replace_or_make("numpy.random.default_rng", seed))

    module.default_rng = default_rng


def _seed_torch(torch: Any) -> None:
    for name in ("manual_seed", "manual_seed_all"):
        setattr(torch.cuda, name, _set_by(f"torch.cuda.{name}", getattr(torch.cuda, name)))
    torch.manual_seed = torch.random.manual_seed = _set_by("torch.manual_seed", torch.manual_seed)

    # not the same object as manual_seed: torch._dynamo has another rule for it
    @functools.wraps(torch.seed)
    def seed() -> int:
        return int(torch.manual_seed().initial_seed())

    torch.seed = torch.random.seed = seed
    torch.manual_seed()


def _seed_tensorflow(tensorflow: Any) -> None:
    tensorflow.random.set_seed = _set_by("tensorflow.random.set_seed", tensorflow.random.set_seed)
    tensorflow.random.set_seed()
    old = tensorflow.compat.v1
    old.set_random_seed = old.random.set_random_seed = _set_by(
        "tensorflow.compat.v1.set_random_seed", old.set_random_seed
    )


_SEEDERS: dict[str, Callable[[Any], None]] = {
    "numpy": _seed_numpy,
    "torch": _seed_torch,
    "tensorflow": _seed_tensorflow,
}


class _Finder:
    """Has a library seeded once it has been imported."""

    @classmethod
    def find_spec(cls, name: str, *_place: object) -> ModuleSpec | None:
        """Return the spec of a library to be seeded; None for all others."""
        seed = _SEEDERS.pop(name, None)
        spec = importlib.util.find_spec(name) if seed else None
        if seed is None or spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_seed(module: Any) -> None:
            execute(module)
            seed(module)

        spec.loader.exec_module = execute_and_seed  # type: ignore[method-assign]
        return spec


def _import_other() -> None:
    """Execute the image's own file of this name, which this one stands before."""
    here = os.path.realpath(__file__).rpartition(os.sep)[0]
    others = [path for path in sys.path if os.path.realpath(path) != here]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


_report(python="{}.{}.{}".format(*sys.version_info))
_seed_random(random)
sys.meta_path.insert(0, _Finder)
_import_other()
