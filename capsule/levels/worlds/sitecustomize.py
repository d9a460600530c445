"""Notes the world of ranks that a Python program makes; changes no seed; any Python from 3.8 on.

Python imports this file by itself before a program whose PYTHONPATH names its folder. It appends a
JSON object a line to the file that `CAPSULE_WORLD` names: one when Python begins, and one at once
when a world has been made, so that nothing that happens later can lose it. No library is imported
here: each is looked at when the program itself has imported it. Whatever goes wrong in here, the
program goes on.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec, PathFinder

# what checks types reads it as true; every program would wait for the import else
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

_PLACE = os.environ.get("CAPSULE_WORLD", "")
_KEY = "capsule-world"


def _note(line: str) -> None:
    """Append a line by one write: processes of one rank share the file."""
    try:
        file = os.open(_PLACE, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.write(file, (line + "\n").encode())
        finally:
            os.close(file)
    except OSError:
        pass


def _note_world(by: str, rank: int, ranks: int, backend: object, token: object = None) -> None:
    import json

    facts = {"world": by, "rank": int(rank), "ranks": int(ranks), "backend": str(backend)}
    _note(json.dumps({**facts, **({"token": str(token)} if token else {})}))


def _after(function: Callable[..., Any], look: Callable[..., None]) -> Callable[..., Any]:
    """Return the same function, after which something is looked at, with its first argument."""
    import functools

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        result = function(*arguments, **named)
        try:  # noqa: SIM105 - without an import when Python begins
            look(*arguments[:1])
        except Exception:  # noqa: S110 - the program's own business goes on
            pass
        return result

    return call


def _watch_torch(module: Any) -> None:
    def look(*_: object) -> None:
        backend = module.get_backend()
        # which connects nobody
        if backend != "fake":
            token = _share_token(module)
            _note_world("torch", module.get_rank(), module.get_world_size(), backend, token)

    module.init_process_group = _after(module.init_process_group, look)


def _share_token(module: Any) -> str | None:
    """Return a word that all ranks of one store have: the first one there sets it, and nobody
    waits.
    """
    own = f"{os.getpid()}-{os.urandom(8).hex()}"
    try:
        word: Any = module._get_default_store().compare_set(_KEY, "", own)
    except Exception:
        return None
    return word.decode(errors="replace") if isinstance(word, bytes) else str(word)


def _watch_mpi(module: Any) -> None:
    def look(*_: object) -> None:
        # workers that a rank starts by MPI have a world of their own
        if module.Comm.Get_parent() == module.COMM_NULL:
            world = module.COMM_WORLD
            library = module.Get_library_version().split("\n")[0][:200]
            _note_world("mpi4py", world.Get_rank(), world.Get_size(), library)

    if module.Is_initialized():
        look()
        return
    for name in ("Init", "Init_thread"):
        setattr(module, name, _after(getattr(module, name), look))


def _watch_jax(module: Any) -> None:
    def look(state: Any) -> None:
        address = getattr(state, "coordinator_address", None)
        _note_world("jax", state.process_id, state.num_processes, "jax", address)

    module.State.initialize = _after(module.State.initialize, look)


def _watch_tensorflow(module: Any) -> None:
    def look(strategy: Any) -> None:
        resolver = strategy.cluster_resolver
        cluster = resolver.cluster_spec().as_dict() if resolver else {}
        # a chief, where there is one, comes before the workers
        kinds = [(kind, len(cluster.get(kind, ()))) for kind in ("chief", "worker")]
        tasks = [(kind, number) for kind, count in kinds for number in range(count)]
        own = (resolver.task_type, resolver.task_id) if tasks else None
        rank = tasks.index(own) if own in tasks else 0
        _note_world("tensorflow", rank, strategy.extended._num_workers, "collective")

    strategy = module.CollectiveAllReduceStrategy
    strategy.__init__ = _after(strategy.__init__, look)


_WATCHERS: dict[str, Callable[[Any], None]] = {
    "torch.distributed.distributed_c10d": _watch_torch,
    "mpi4py.MPI": _watch_mpi,
    "jax._src.distributed": _watch_jax,
    "tensorflow.python.distribute.collective_all_reduce_strategy": _watch_tensorflow,
}


class _Finder:
    """Has a library watched once the program has imported it."""

    @classmethod
    def find_spec(cls, name: str, *place: Any) -> ModuleSpec | None:
        """Return the other finders' spec of a watched library; None for all others."""
        watch = _WATCHERS.get(name)
        if watch is None:
            return None
        finders = [one for one in sys.meta_path if one is not cls and hasattr(one, "find_spec")]
        specs = (one.find_spec(name, *place) for one in finders)
        spec = next((one for one in specs if one is not None), None)
        execute = getattr(spec and spec.loader, "exec_module", None)
        if execute is None:
            return spec

        def execute_and_watch(module: Any) -> None:
            execute(module)
            try:  # noqa: SIM105
                watch(module)
            except Exception:  # noqa: S110 - another version of the library
                pass

        try:  # noqa: SIM105
            spec.loader.exec_module = execute_and_watch  # type: ignore[union-attr, method-assign]
        except AttributeError:
            pass
        return spec


def _import_other() -> None:
    """Execute the next file of this name, which this one stands before."""
    here = os.path.realpath(__file__).rpartition(os.sep)[0]
    places = [os.path.realpath(path) for path in sys.path]
    others = sys.path[places.index(here) + 1 :] if here in places else sys.path
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None or spec.origin == __file__:
        return
    import importlib.util

    spec.loader.exec_module(importlib.util.module_from_spec(spec))


if _PLACE:
    _note('{{"python": "{}.{}.{}"}}'.format(*sys.version_info))
    sys.meta_path.insert(0, _Finder)
_import_other()
