"""Seeds a Python program that fixes its own seed, or knows none; any Python from 3.8 on.

Python imports this file by itself before a program whose PYTHONPATH names its folder, whether that
is a script, a module, a text (`-c`) or an installed command. `CAPSULE_SEED` seeds the program: the
file `capsule_seeding.py` beside this one does so in each library once the program has imported the
library. No library is imported here.

A stream that was given no seed follows from the run's seed, the rank, and the name of its process:
which process the parent started, in order, for each program and each thread of the parent. A child
finds its name in `CAPSULE_STREAM`; a forked one continues that of its parent. No process id and no
time is part of the name.
"""

from __future__ import annotations

import atexit
import os
import sys
from _thread import allocate_lock, get_ident
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from itertools import count

# what checks types reads it as true; every program would wait for the import else
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Callable

_STREAM = "CAPSULE_STREAM"
# of a report; each process of a rank appends to it
_MOST_BYTES = 1 << 16
_LAUNCHERS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
_LIBRARIES = ("random", "numpy.random", "torch", "tensorflow", "jax.random")


def _name_process() -> str:
    """Return the name of this process among those of its run; empty for the first of rank 0."""
    rank = os.environ.get("CAPSULE_RANK", "0")
    name = os.environ.get(_STREAM) or ("" if rank == "0" else f"rank {rank}")
    # a launcher inside the trial starts programs that share the name of its own process
    inner = (os.environ.get(variable, rank) for variable in _LAUNCHERS)
    return "".join([name, *(f" {one}" for one in dict.fromkeys(inner) if one != rank)])


class Process:
    """This process: its name among those of the run, what it has started, and its report.

    Attributes:
        seed: The run's.
        name: See the module.
        is_used: Whether a generator has drawn from the run's seed.
        checks: Each returns whether one of a library's generators has drawn.
    """

    def __init__(self, seed: str, report: str) -> None:
        self.seed = seed
        self.name = _name_process()
        self.is_used = False
        self.checks: list[Callable[[], bool]] = []
        self._report = report
        self._counts: dict[str, Iterator[int]] = {}
        self._forks: dict[int, str] = {}
        self._lock = allocate_lock()
        self._has_ended = False

    def count(self, kind: str) -> str:
        """Return the next name of a kind in this thread, such as `fork 0`."""
        threading = sys.modules.get("threading")
        thread = getattr(threading, "_active", {}).get(get_ident())
        if thread is not None and thread is not getattr(threading, "_main_thread", None):
            kind = f"{thread.name} {kind}"
        return f"{kind}{next(self._counts.setdefault(kind, count()))}"

    def note(self, line: str) -> None:
        """Append a JSON object to the report, by one write."""
        try:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            file = os.open(self._report, flags, 0o644)
            try:
                if os.fstat(file).st_size < _MOST_BYTES:
                    os.write(file, f"{line}\n".encode())
            finally:
                os.close(file)
        except OSError:
            pass

    def use(self) -> None:
        """Note that a generator draws from the run's seed."""
        if not self.is_used:
            self.is_used = True
            self.note('{"used": true}')

    def look(self) -> None:
        """Note whether the generators of libraries have drawn since they were seeded."""
        if not self.is_used and any(check() for check in self.checks):
            self.use()

    def end(self, *_: object) -> None:
        """Note at the end that this process has drawn nothing."""
        if self._has_ended:
            return
        self._has_ended = True
        self.look()
        if not self.is_used:
            self.note('{"used": false}')

    # forks

    def before_fork(self) -> None:
        """Name the child."""
        self.look()
        self._forks[get_ident()] = f"{self.name}/{self.count('fork ')}"

    def after_fork(self) -> None:
        """Forget its name in the parent."""
        self._forks.pop(get_ident(), None)

    def become_child(self) -> None:
        """Take the name of the child, which has started nothing yet."""
        self.name = os.environ[_STREAM] = self._forks.pop(get_ident(), f"{self.name}/fork")
        self._counts, self._forks, self._lock = {}, {}, allocate_lock()
        self._has_ended = False
        # a parent that has drawn settles the question for the run
        if not self.is_used:
            self.note('{"forked": true}')

    # other programs

    def name_child(self, program: str | bytes) -> str:
        """Return the name of a program that is about to start.

        A count for each program: a compiler that finds its cache filled shifts no other name.
        """
        name = os.fsdecode(program).rpartition(os.sep)[2]
        return f"{self.name}/{self.count('python ' if name.startswith('python') else f'{name} ')}"

    def set_variable(self, name: str) -> None:
        """Set the variable for programs that inherit the environment of this process."""
        os.putenv(_STREAM, name)

    def fork_exec(self, own: Callable[..., int]) -> Callable[..., int]:
        """Wrap the function by which `subprocess` and `multiprocessing` start programs."""

        def start(*given: Any) -> int:
            if len(given) < 6:
                return own(*given)
            name = self.name_child(given[1][0])
            if given[5] is not None:
                prefix = os.fsencode(f"{_STREAM}=")
                others = [one for one in given[5] if not os.fsencode(one).startswith(prefix)]
                return own(*given[:5], [*others, prefix + os.fsencode(name)], *given[6:])
            # as a variable of this process alone, of which libraries may have set others
            with self._lock:
                self.set_variable(name)
                try:
                    return own(*given)
                finally:
                    self.set_variable(self.name)

        return start

    def spawn(self, own: Callable[..., int]) -> Callable[..., int]:
        """Wrap `os.posix_spawn` or its like."""

        def start(path: Any, argv: Any, env: Any, *rest: Any, **named: Any) -> int:
            name = self.name_child(path)
            return own(path, argv, {**(env or os.environ), _STREAM: name}, *rest, **named)

        return start

    def execve(self, own: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap `os.execve`, which may get variables from before a fork."""

        def replace(path: Any, argv: Any, env: Any) -> Any:
            return own(path, argv, {**env, _STREAM: self.name})

        return replace

    def system(self, own: Callable[[Any], int]) -> Callable[[Any], int]:
        """Wrap `os.system`."""

        def start(command: Any) -> int:
            self.set_variable(self.name_child("sh"))
            try:
                return own(command)
            finally:
                self.set_variable(self.name)

        return start


def _name_children(process: Process) -> None:
    """Have all ways to start a process name it."""
    os.register_at_fork(
        before=process.before_fork,
        after_in_parent=process.after_fork,
        after_in_child=process.become_child,
    )
    import _posixsubprocess

    own = _posixsubprocess.fork_exec
    _posixsubprocess.fork_exec = process.fork_exec(own)
    subprocess = sys.modules.get("subprocess")
    # some versions hold the function under a name of their own
    if getattr(subprocess, "_fork_exec", None) is own:
        setattr(subprocess, "_fork_exec", _posixsubprocess.fork_exec)  # noqa: B010 - no stub has it
    for name, wrap in (
        ("posix_spawn", process.spawn),
        ("posix_spawnp", process.spawn),
        ("execve", process.execve),
        ("system", process.system),
    ):
        if hasattr(os, name):
            setattr(os, name, wrap(getattr(os, name)))


class _Finder:
    """Has a library seeded once it has been imported.

    Attributes:
        process: The one in which it is.
    """

    process: Process
    _seeding: Any = None

    @classmethod
    def find_spec(cls, name: str, *place: Any) -> ModuleSpec | None:
        """Return the other finders' spec of a library to be seeded; None for all others."""
        if name not in _LIBRARIES and name != "multiprocessing.util":
            return None
        finders = [one for one in sys.meta_path if one is not cls and hasattr(one, "find_spec")]
        specs = (one.find_spec(name, *place) for one in finders)
        spec = next((one for one in specs if one is not None), None)
        execute = getattr(spec and spec.loader, "exec_module", None)
        # a class that loads is shared by all that it loads
        if spec is None or execute is None or isinstance(spec.loader, type):
            return spec

        def execute_and_seed(module: Any) -> None:
            execute(module)
            cls.seed(name, module)

        spec.loader.exec_module = execute_and_seed  # type: ignore[union-attr, method-assign]
        return spec

    @classmethod
    def seed(cls, name: str, module: Any) -> None:
        """Seed a library that has just been imported."""
        if name == "multiprocessing.util":
            # its children end without what is registered for the end of Python
            module.register_after_fork(
                cls.process,
                lambda process: module.Finalize(None, process.end, exitpriority=-1000),
            )
            return
        if cls._seeding is None:
            folder = os.path.realpath(__file__).rpartition(os.sep)[0]
            loader = SourceFileLoader("capsule_seeding", f"{folder}/capsule_seeding.py")
            cls._seeding = type(sys)("capsule_seeding")
            loader.exec_module(cls._seeding)
            cls._seeding.process = cls.process
        getattr(cls._seeding, f"seed_{name.replace('.', '_')}")(module)


def _import_other() -> None:
    """Execute the image's own file of this name, which this one stands before."""
    here = os.path.realpath(__file__).rpartition(os.sep)[0]
    others = [path for path in sys.path if os.path.realpath(path) != here]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    import importlib.util

    spec.loader.exec_module(importlib.util.module_from_spec(spec))


def _inject(process: Process) -> None:
    process.note('{{"python": "{}.{}.{}"}}'.format(*sys.version_info))
    # the first one registered is the last one called
    atexit.register(process.end)
    _name_children(process)
    _Finder.process = process
    sys.meta_path.insert(0, _Finder)
    for name in (*_LIBRARIES, "multiprocessing.util"):
        if name in sys.modules:
            _Finder.seed(name, sys.modules[name])


# a child without these variables is not of the run
if "CAPSULE_SEED" in os.environ and "CAPSULE_SEEDING" in os.environ:
    _inject(Process(os.environ["CAPSULE_SEED"], os.environ["CAPSULE_SEEDING"]))
_import_other()
