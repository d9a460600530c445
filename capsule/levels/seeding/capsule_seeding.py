"""Seeders of random, numpy, torch, TensorFlow and JAX; executed by `sitecustomize.py` beside it.

A seed that the program sets is replaced by one that follows from both: two streams stay two, and
one that is set again starts again, alike on every rank. A generator without a seed gets one by the
name of its process. Some generators keep the seed that a program gives them: numpy's bit generators
and seed sequences, `torch.Generator`, keys of JAX, and states that a program restores. The report
has the place of each, so that a reader of several runs can compare them.
"""

from __future__ import annotations

import functools
import hashlib
import operator
import os
import sys
from _thread import _local

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, Callable

process: Any = None
"""The `Process` of `sitecustomize.py`, which sets it."""

_MOST_SEED = 2**32
_LONGEST = 100
# of a seed in the report; a longer one is given by its digest
_MOST_LETTERS = 40
# seeds that one place of a program reports, and calls of one place that are looked at
_MOST_TURNS, _MOST_CALLS = 4, 64
_WORKER = "torch.utils.data._utils.worker"
_SITES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_STANDARD = os.__file__.rpartition(os.sep)[0] + os.sep

_reported: set[str] = set()
_noted: dict[object, int] = {}
# by thread: whether seeds are set by this file now, and what numpy asked for last
_own = _local()


# seeds


def _digest(text: object, size_bytes: int) -> int:
    data = f"{process.seed}\n{text!r}".encode("utf-8", "replace")
    return int.from_bytes(hashlib.sha256(data).digest()[:size_bytes], "big")


def _make_seed(kind: str, size_bytes: int = 4, *, is_global: bool = False) -> int:
    """Return the seed of a stream that was given none.

    The global generators of a library that the first process imports have the run's own seed.
    """
    name = process.count(kind)
    if is_global and f"{process.name}{name}" == f"{kind}0":
        return int(process.seed) % _MOST_SEED
    return _digest(f"unseeded {process.name}{name}", size_bytes)


def _to_plain(seed: Any) -> object:
    """Return a seed without the type that a library gives its numbers."""
    try:
        return operator.index(seed)
    except TypeError:
        return seed.tolist() if hasattr(seed, "tolist") else seed


def _replace(name: str, seed: object) -> int:
    """Return the seed in place of a program's own, and report the first one of each function."""
    # a worker's seeds are torch's, drawn from a generator that was seeded
    is_own = sys._getframe(2).f_globals.get("__name__") != _WORKER
    if is_own and name not in _reported:
        _reported.add(name)
        _report(replaced=name, value=repr(seed)[:_LONGEST])
    return _digest(_to_plain(seed), 4)


def _report(**line: object) -> None:
    import json

    process.note(json.dumps(line))


def _is_inside() -> bool:
    """Return whether this file sets seeds now: one function of a library calls others."""
    return getattr(_own, "is_inside", False)


def _call(function: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """Call a function whose seed comes from here."""
    before, _own.is_inside = _is_inside(), True
    try:
        return function(*given, **named)
    finally:
        _own.is_inside = before


# seeds that generators keep


def _note_kept(name: str, frame: FrameType, read: Callable[[], str]) -> None:
    """Report the seed that a generator keeps, with its place in the program.

    Args:
        name: What takes the seed.
        frame: The caller of this.
        read: Returns the seed as text; fails for one without a value, as in a traced function.
    """
    near = name, frame.f_code, frame.f_lineno
    calls = _noted.get(near, 0)
    if _is_inside() or calls >= _MOST_CALLS:
        return
    _noted[near] = calls + 1
    file, line, by = _find_place(frame)
    place = name, file, line, by
    turn = _noted.get(place, 0)
    if turn >= _MOST_TURNS:
        return
    try:
        seed = read()
    except Exception:
        # a generator of a version that hides its seed: no report is worth a program's failure
        return
    _noted[place] = turn + 1
    if len(seed) > _MOST_LETTERS:
        seed = f"{seed[:20]}... {_hash(seed)}"
    _report(kept=name, value=seed, file=file, line=line, by=by, process=process.name, turn=turn)


def _find_place(frame: FrameType) -> tuple[str, int, str]:
    """Return file and line of the program's own code, and the function of a library it called."""
    found: FrameType | None = frame
    while found is not None and _is_library(found.f_code.co_filename):
        found = found.f_back
    # of a program that is a library itself
    own = found or frame
    by = ""
    if own is not frame:
        caller = frame.f_locals.get("self")
        by = frame.f_code.co_name
        by = by if caller is None else f"{type(caller).__name__}.{by}"
    file, inputs = own.f_code.co_filename, os.environ.get("CAPSULE_INPUTS", "")
    is_input = bool(inputs) and file.startswith(inputs + os.sep)
    return (file[len(inputs) + 1 :] if is_input else file), own.f_lineno, by


def _is_library(path: str) -> bool:
    is_frozen = path.startswith("<") and path not in ("<string>", "<stdin>")
    return is_frozen or path.startswith(_STANDARD) or any(site in path for site in _SITES)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]


def _word_seed(seed: object) -> str:
    return repr(_to_plain(seed))


def _word_state(state: Any) -> str:
    return f"state {_hash(repr(state.tolist() if hasattr(state, 'tolist') else state))}"


# ways to seed


class _Global:
    """The generator that a library's functions share.

    Args:
        read: Returns its state, to be compared.
    """

    def __init__(self, read: Callable[[], object]) -> None:
        self._read = read
        self._fresh: object = None
        self.refresh()
        process.checks.append(self.has_drawn)

    def refresh(self) -> None:
        """Remember the state after a seed; once a generator of the run has drawn, none matters."""
        if not process.is_used:
            try:
                self._fresh = self._read()
            except Exception:
                # a state that cannot be read may have been drawn from
                process.use()

    def has_drawn(self) -> bool:
        """Return whether the state is another one than that after the last seed."""
        try:
            return self._read() != self._fresh
        except Exception:
            return True


def _set_by(
    name: str, function: Callable[..., Any], kind: str, generator: _Global | None = None
) -> Callable[..., Any]:
    """Wrap a function whose first argument is a seed, which it need not be given.

    The wrapper is a plain function: torch._dynamo sorts the functions of torch by their identity,
    when the first optimizer is made, and takes no other object in place of one.
    """

    @functools.wraps(function)
    def set_seed(seed: object = None, *rest: Any, **named: Any) -> Any:
        if _is_inside():
            return function(seed, *rest, **named)
        process.look()
        seed = _make_seed(kind, is_global=True) if seed is None else _replace(name, seed)
        result = _call(function, seed, *rest, **named)
        if generator is not None:
            generator.refresh()
        return result

    return set_seed


def _replace_or_make(name: str, seed: object) -> object:
    """Return the seed of a new generator, of which each that is given none gets one of its own."""
    # what generators are made of has its own seed
    if any(hasattr(seed, mark) for mark in ("random_raw", "spawn", "bit_generator")):
        return seed
    process.use()
    return _make_seed("") if seed is None else _replace(name, seed)


def _subclass(name: str, base: Any) -> Any:
    """Return a class that takes a seed first; what the other one makes passes for its instance."""

    class Either(type(base)):  # type: ignore[misc]
        def __instancecheck__(cls, instance: object) -> bool:
            if cls is Seeded:
                return isinstance(instance, base)
            return bool(super().__instancecheck__(instance))

    class Seeded(base, metaclass=Either):  # type: ignore[misc]
        def __init__(self, seed: object = None, *rest: Any, **named: Any) -> None:
            _call(super().__init__, _replace_or_make(name, seed), *rest, **named)

        def seed(self, seed: object = None) -> None:
            _call(super().seed, _replace_or_make(name, seed))

    functools.update_wrapper(Seeded, base, updated=())
    return Seeded


def _set_in_class(base: Any, name: str, value: object) -> None:
    """Set an attribute of a class that is written in C and takes none by itself.

    A subclass in its place would be another class: torch compares it by identity, and what numpy
    makes inside is of the class itself.
    """
    try:
        setattr(base, name, value)
    except TypeError:
        import ctypes
        import gc

        (attributes,) = gc.get_referents(base.__dict__)
        attributes[name] = value
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(base))


# libraries


def seed_random(module: Any) -> None:
    """Seed `random`, and its generator anew in every forked child."""
    own, own_state = module.Random.seed, module.Random.setstate
    generator = _Global(module.getstate)

    def set_global(seed: int, version: int = 2) -> None:
        own(module._inst, seed, version)
        generator.refresh()

    @functools.wraps(own)
    def seed(self: Any, a: Any = None, version: int = 2) -> None:
        if a is not None:
            a = _replace("random.Random.seed", a)
        elif _is_of_temporary_files(sys._getframe(1), module):
            own(self, None)
            return
        else:
            a = _make_seed("random.Random ", 8)
        process.use()
        own(self, a, version)

    @functools.wraps(module.seed)
    def seed_global(a: Any = None, version: int = 2) -> None:
        process.look()
        is_set = a is not None
        a = _replace("random.seed", a) if is_set else _make_seed("random ", is_global=True)
        set_global(a, version)

    @functools.wraps(own_state)
    def setstate(self: Any, state: Any) -> None:
        _note_kept("random.setstate", sys._getframe(1), lambda: _word_state(state))
        own_state(self, state)

    def reseed_child() -> None:
        # random itself has just taken a seed of the system
        set_global(_make_seed("random ", is_global=True))

    module.Random.seed, module.Random.setstate = seed, setstate
    module.seed, module.setstate = seed_global, module._inst.setstate
    set_global(_make_seed("random ", is_global=True))
    os.register_at_fork(after_in_child=reseed_child)


def _is_of_temporary_files(frame: FrameType | None, module: Any) -> bool:
    """Return whether a generator is that of the names of temporary files, which must not repeat."""
    while frame is not None and frame.f_globals is vars(module):
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__") == "tempfile"


def seed_numpy_random(module: Any) -> None:
    """Seed numpy's generators, old and new."""

    def read() -> tuple[bytes, int]:
        _, words, position, *_ = module.get_state()
        return words.tobytes(), position

    generator = _Global(read)
    module.seed = _set_by("numpy.random.seed", module.seed, "numpy.random ", generator)
    module.seed()
    module.RandomState = _subclass("numpy.random.RandomState", module.RandomState)
    module.mtrand.RandomState = module.RandomState
    make_rng = module.default_rng

    @functools.wraps(make_rng)
    def default_rng(seed: object = None) -> Any:
        return _call(make_rng, _replace_or_make("numpy.random.default_rng", seed))

    module.default_rng = default_rng
    _watch_sequences(module.bit_generator)
    for name in ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"):
        # older versions lack one
        if hasattr(module, name):
            _watch_states(f"numpy.random.{name}.state", getattr(module, name))


def _watch_sequences(bits: Any) -> None:
    """Seed numpy's seed sequences, of which every generator of its new kind is made.

    A sequence calls these two functions of its module: one for its number where it is given none,
    the other for its number and then, always a tuple, for its place among those of one number.
    """
    coerce = bits._coerce_to_uint32_array

    def draw_bits(size: int) -> int:
        process.use()
        made: int = _make_seed("numpy entropy ", size // 8)
        _own.made = made
        return made

    def note_and_coerce(number: Any) -> Any:
        if _is_inside():
            return coerce(number)
        before, _own.number = getattr(_own, "number", None), None
        # those of a list come here one by one
        words = _call(coerce, number)
        if before is None or type(number) is not tuple:
            _own.number = (number,)
        elif type(before[0]) is not int or before[0] != getattr(_own, "made", None):
            place = f", spawn_key={number}" if number else ""
            _note_kept(
                "numpy.random.SeedSequence",
                sys._getframe(1),
                lambda: f"{_word_seed(before[0])}{place}",
            )
        return words

    bits.randbits = draw_bits
    bits._coerce_to_uint32_array = note_and_coerce


def _watch_states(name: str, base: Any) -> None:
    own = base.__dict__["state"]

    def restore(self: Any, state: Any) -> None:
        _note_kept(name, sys._getframe(1), lambda: _word_state(state))
        own.__set__(self, state)

    _set_in_class(base, "state", property(own.__get__, restore, doc=own.__doc__))


def seed_torch(torch: Any) -> None:
    """Seed torch's global generators, and the others that get no seed."""

    def read() -> object:
        devices = torch.cuda.default_generators if torch.cuda.is_initialized() else ()
        busy = [
            name
            for name in ("xpu", "mtia")
            if hasattr(torch, name) and getattr(torch, name).is_initialized()
        ]
        state = torch.default_generator.get_state().tolist()
        return state, any(one.get_offset() for one in devices), busy

    generator = _Global(read)
    _watch_generators(torch._C.Generator)
    for name in ("manual_seed", "manual_seed_all"):
        own = getattr(torch.cuda, name)
        setattr(torch.cuda, name, _set_by(f"torch.cuda.{name}", own, "torch "))
    torch.manual_seed = torch.random.manual_seed = _set_by(
        "torch.manual_seed", torch.manual_seed, "torch ", generator
    )

    # not the same object as manual_seed: torch._dynamo has another rule for it
    @functools.wraps(torch.seed)
    def seed() -> int:
        return int(torch.manual_seed().initial_seed())

    torch.seed = torch.random.seed = seed
    torch.manual_seed()


def _watch_generators(base: Any) -> None:
    """Seed generators of torch that get no seed, and report those of the others."""
    own_seed, own_state, kind = base.manual_seed, base.set_state, type(base)
    # seeded here, so far: they draw from the run's seed unless another one follows
    waiting: set[int] = set()

    @functools.wraps(own_seed)
    def manual_seed(self: Any, seed: Any) -> Any:
        _note_kept("torch.Generator.manual_seed", sys._getframe(1), lambda: _word_seed(seed))
        waiting.discard(id(self))
        return own_seed(self, seed)

    @functools.wraps(own_state)
    def set_state(self: Any, state: Any) -> Any:
        _note_kept("torch.Generator.set_state", sys._getframe(1), lambda: _word_state(state))
        waiting.discard(id(self))
        return own_state(self, state)

    @functools.wraps(base.seed)
    def seed(self: Any) -> int:
        process.use()
        made = _make_seed("torch.Generator ")
        own_seed(self, made)
        return made

    def make(cls: Any, *given: Any, **named: Any) -> Any:
        made = type.__call__(cls, *given, **named)
        if cls is base:
            own_seed(made, _make_seed("torch.Generator "))
            waiting.add(id(made))
        return made

    for method in (manual_seed, set_state, seed):
        _set_in_class(base, method.__name__, method)
    # before torch 2.13 the class has no class of its own
    if kind is not type:
        kind.__call__ = make
    process.checks.append(lambda: bool(waiting))


def seed_tensorflow(tensorflow: Any) -> None:
    """Seed TensorFlow's global generator."""
    # its generators say of no draw
    process.use()
    own = tensorflow.random.set_seed
    tensorflow.random.set_seed = _set_by("tensorflow.random.set_seed", own, "tensorflow ")
    tensorflow.random.set_seed()
    old = tensorflow.compat.v1
    old.set_random_seed = old.random.set_random_seed = _set_by(
        "tensorflow.compat.v1.set_random_seed", old.set_random_seed, "tensorflow "
    )


def seed_jax_random(module: Any) -> None:
    """Report the keys of JAX, which has no global generator."""
    # a seed in a traced function has no value
    words: dict[str, Callable[[Any], str]] = {
        "PRNGKey": lambda seed: repr(operator.index(seed)),
        "key": lambda seed: repr(operator.index(seed)),
        "wrap_key_data": _word_state,
    }
    for name, word in words.items():
        if hasattr(module, name):
            setattr(module, name, _watch_key(f"jax.random.{name}", getattr(module, name), word))


def _watch_key(
    name: str, function: Callable[..., Any], word: Callable[[Any], str]
) -> Callable[..., Any]:
    @functools.wraps(function)
    def make_key(*given: Any, **named: Any) -> Any:
        seed = given[0] if given else next(iter(named.values()), None)
        _note_kept(name, sys._getframe(1), lambda: word(seed))
        return function(*given, **named)

    return make_key
