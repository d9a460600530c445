"""Plant random faults in modules of the product, and run the tests nearest to each.

    python -m tests.support.mutation [--count N] [--seed N] [--json FILE] [MODULE ...]

A fault is one wrong comparison, condition, number, operator or step inside a function. The nearest
tests are collected once. A forked child runs those of a module under a tracer, to learn which lines
each of them reaches. Then a child for each fault puts the wrong code into the functions that are
there, empties their caches, and runs the tests that reach the place, the shortest first, until one
fails. A test that does not end has failed. Prints each fault with what became of it.
"""

from __future__ import annotations

import argparse
import ast
import functools
import gc
import importlib
import json
import math
import os
import random
import resource
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import TYPE_CHECKING, NamedTuple

import pytest
from _pytest.runner import runtestprotocol

from capsule.jsons import Json

if TYPE_CHECKING:
    from _typeshed import TraceFunction

ROOT = Path(__file__).parents[2]
ARCHIVE = tuple(
    f"archive/test_{name}.py" for name in ("archive", "damage", "forgery", "names", "whole")
)
EXTRACTION = tuple(
    f"extraction/test_{name}.py" for name in ("documents", "extraction", "printed", "values")
)
STATS = tuple(
    f"stats/test_{name}.py" for name in ("decision", "formulas", "interval", "one_set", "sides")
)
VERDICT = tuple(
    f"verdict/test_{name}.py" for name in ("bounds", "claim_types", "failing", "looks", "verdict")
)
NEAREST: Mapping[str, Sequence[str]] = {
    "archive/container": ("archive/test_archive.py", "archive/test_damage.py"),
    "archive/reader": ARCHIVE,
    "archive/whole": ("archive/test_archive.py", "archive/test_damage.py", "archive/test_whole.py"),
    "execute/journal": ("execute/test_journal.py", "execute/test_resumption.py"),
    "extraction/documents": EXTRACTION,
    "extraction/printed": EXTRACTION,
    "extraction/values": EXTRACTION,
    "fetching/download": ("fetching/test_download.py", "fetching/test_fetch.py"),
    "seeds": ("test_plan.py", "test_seeds.py"),
    "stats/decision": STATS,
    "stats/interval": STATS,
    "trust/ledger": ("trust/test_ledger.py",),
    "verdict/bounds": VERDICT,
    "verdict/claim": VERDICT,
}
"""Files of tests, by the module of the product that they are nearest to."""
OURS = ("capsule.", "tests.")
SPARE_SECONDS = 2
"""Of processor time, for tests with a fault, beyond what they take without."""
COMPARED: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt},
    **{ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In},
    **{ast.Is: ast.IsNot, ast.IsNot: ast.Is},
}
COMPUTED: Mapping[type[ast.operator], type[ast.operator]] = {
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult},
    **{ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr, ast.FloorDiv: ast.Mult},
}


class Fault(NamedTuple):
    """The `number`-th change of a module that `_changes` finds, in lines `first` to `last`."""

    module: str
    first: int
    last: int
    number: int
    words: str


@dataclass(frozen=True)
class Outcome:
    """What became of a fault: `caught`, `survived`, `not reached` or `not planted`.

    It is `doubtful` if the test that caught it fails alone without it, too.
    """

    fault: Fault
    word: str
    test: str = ""


class Change(NamedTuple):
    """A way to make a syntax tree wrong, at a statement."""

    at: ast.stmt
    words: str
    make: Callable[[], None]


def _changes(node: ast.AST, at: ast.stmt | None = None) -> Iterator[Change]:
    """The changes of all functions below a node: not of their messages, assertions and headers."""
    if isinstance(node, ast.Assert | ast.JoinedStr | ast.arguments):
        return
    if at is not None:
        yield from (Change(at, *words_and_make) for words_and_make in _wrong(node))
    for name, value in ast.iter_fields(node):
        below = value if isinstance(value, list) else [value]
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for index, one in enumerate(below):
            if not isinstance(one, ast.AST):
                continue
            # a class inside a function does not occur
            inside = at is not None or isinstance(node, ast.FunctionDef)
            step = one if isinstance(one, ast.stmt) else at
            call = isinstance(one, ast.Expr) and isinstance(one.value, ast.Call)
            if inside and (call or isinstance(one, ast.Raise)):
                words, gone = "call dropped" if call else "raise dropped", ast.Pass()
                assert isinstance(one, ast.stmt)
                yield Change(one, words, functools.partial(below.__setitem__, index, gone))
            if not isinstance(one, ast.Raise):
                yield from _changes(one, step if inside else None)


def _wrong(node: ast.AST) -> Iterator[tuple[str, Callable[[], None]]]:
    """Ways to make one node wrong."""

    def put(name: str, value: object, words: str) -> tuple[str, Callable[[], None]]:
        return words, functools.partial(setattr, node, name, value)

    if isinstance(node, ast.Compare):
        for index, operator in enumerate(node.ops):
            other = COMPARED[type(operator)]
            ops = [*node.ops[:index], other(), *node.ops[index + 1 :]]
            yield put("ops", ops, f"{type(operator).__name__} to {other.__name__}")
    elif isinstance(node, ast.BoolOp):
        turned = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield put("op", turned, f"to {type(turned).__name__}")
    elif isinstance(node, ast.BinOp) and type(node.op) in COMPUTED:
        yield put("op", COMPUTED[type(node.op)](), f"{type(node.op).__name__} to its opposite")
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield put("value", node.value + 1, f"{node.value} + 1")
        yield put("value", node.value - 1, f"{node.value} - 1")
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        yield put("value", not node.value, f"{node.value} turned")
    elif isinstance(node, ast.If | ast.IfExp | ast.While):
        yield put("test", ast.UnaryOp(ast.Not(), node.test), "condition turned")
        yield put("test", ast.Constant(False), "condition off")


def parse(module: str) -> ast.Module:
    """Return the syntax tree of a module."""
    return ast.parse(_path(module).read_text(encoding="utf-8"))


def _path(module: str) -> Path:
    return ROOT / "capsule" / f"{module}.py"


def faults(module: str) -> list[Fault]:
    """All faults that can be planted in a module."""
    found = []
    for number, (at, words, _) in enumerate(_changes(parse(module))):
        body = getattr(at, "body", None)
        last = max(at.lineno, body[0].lineno - 1) if body else at.end_lineno or at.lineno
        found.append(Fault(module, at.lineno, last, number, words))
    return found


def compile_tree(tree: ast.Module, module: str) -> CodeType:
    """Compile a changed syntax tree of a module."""
    return compile(ast.fix_missing_locations(tree), str(_path(module)), "exec")


def plant(fault: Fault) -> CodeType:
    """Compile the module with the fault."""
    tree = parse(fault.module)
    list(_changes(tree))[fault.number].make()
    return compile_tree(tree, fault.module)


@dataclass(frozen=True)
class Target:
    """A module, as it is in this process.

    Attributes:
        file: Its path.
        functions: Every function of it that there is.
        caches: What this project's functions keep of earlier calls.
    """

    file: str
    functions: Sequence[FunctionType]
    caches: Sequence[functools._lru_cache_wrapper[object]]

    @classmethod
    def find(cls, module: str) -> Target:
        """Look for all functions, those that others have imported or wrapped included."""
        # a framework may be missing, of which no function is there then
        with suppress(ImportError):
            importlib.import_module(f"capsule.{module.replace('/', '.')}".removesuffix(".__init__"))
        file, objects = str(_path(module)), gc.get_objects()
        # some objects answer `isinstance` with warnings
        found = [one for one in objects if type(one) is FunctionType]
        caches = [one for one in objects if type(one) is functools._lru_cache_wrapper]
        return cls(
            file,
            [one for one in found if one.__code__.co_filename == file],
            [one for one in caches if one.__module__.startswith(OURS)],
        )

    def swap(self, module: CodeType) -> None:
        """Give the functions the code that they have in another version of the file."""
        codes: dict[tuple[str, int], CodeType] = {}

        def gather(outer: CodeType) -> None:
            for one in outer.co_consts:
                if isinstance(one, CodeType):
                    codes[one.co_qualname, one.co_firstlineno] = one
                    gather(one)

        gather(module)
        for one in self.functions:
            one.__code__ = codes[one.__code__.co_qualname, one.__code__.co_firstlineno]
        for cache in self.caches:
            cache.cache_clear()


def run(items: Sequence[pytest.Item]) -> Iterator[tuple[pytest.Item, bool]]:
    """Run tests in this process; yields each with whether it failed."""
    for item, after in zip(items, [*items[1:], None], strict=True):
        reports = runtestprotocol(item, nextitem=after, log=False)
        yield item, any(report.failed for report in reports)


def reach(files: Collection[str], items: Sequence[pytest.Item]) -> Json:
    """Run tests; returns of each the seconds and the lines of each file that it reached.

    Raises:
        AssertionError: One fails without any fault.
    """
    lines: dict[str, set[int]] = {file: set() for file in files}

    def trace(frame: FrameType, _event: str, _argument: object) -> TraceFunction | None:
        own = lines.get(frame.f_code.co_filename)
        if own is None:
            return None
        own.add(frame.f_lineno)
        return trace

    threading.settrace(trace)
    sys.settrace(trace)
    reached: list[Json] = []
    began = time.process_time()
    for item, failed in run(items):
        assert not failed, f"{item.nodeid} fails without any fault"
        seconds = time.process_time() - began
        reached.append([seconds, {file: sorted(own) for file, own in lines.items()}])
        for own in lines.values():
            own.clear()
        began = time.process_time()
    return reached


def find_failing(target: Target, module: CodeType, items: Sequence[pytest.Item]) -> Json:
    """Name the first test that fails with other code; "" for none, False where it does not fit."""
    try:
        target.swap(module)
    except (ValueError, KeyError):
        # it closes over other variables, or lacks a function
        return False
    return next((item.nodeid for item, failed in run(items) if failed), "")


def in_child(work: Callable[[], Json], seconds: float = math.inf) -> Json:
    """Do something in a fork; returns its result, or None where it takes longer or raises."""
    end, start = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.close(end)
            if seconds < math.inf:
                most = SPARE_SECONDS + math.ceil(seconds)
                resource.setrlimit(resource.RLIMIT_CPU, (most, most))
                # it may also wait for ever
                signal.alarm(20 * most)
            with os.fdopen(start, "w") as pipe:
                json.dump(work(), pipe)
        finally:
            os._exit(0)
    os.close(start)
    with os.fdopen(end) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else None


class Campaign:
    """A plugin of pytest that plants faults instead of running the tests that it collected."""

    def __init__(
        self,
        drawn: Sequence[Fault],
        nearest: Mapping[str, Sequence[str]] = NEAREST,
        plant: Callable[[Fault], CodeType] = plant,
    ) -> None:
        """Take the faults, the files of tests nearest to each module, and what plants a fault."""
        self._drawn, self._nearest, self._plant = drawn, nearest, plant
        self._passes: dict[str, bool] = {}
        self.outcomes: list[Outcome] = []

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        """Let a property end with its first counter-example."""
        # imported before pytest, it warns
        import hypothesis

        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        usual = hypothesis.settings.get_profile("capsule")
        hypothesis.settings.register_profile("mutation", usual, phases=phases, database=None)
        hypothesis.settings.load_profile("mutation")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Go through the modules, and through the faults of each."""
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        modules: dict[tuple[str, ...], list[str]] = {}
        for module in dict.fromkeys(fault.module for fault in self._drawn):
            modules.setdefault(tuple(self._nearest[module]), []).append(module)
        for names, some in modules.items():
            files = {ROOT / "tests" / name for name in names}
            items = [item for item in session.items if item.path in files]
            targets = {module: Target.find(module) for module in some}
            traced = [target.file for target in targets.values()]
            reached = in_child(functools.partial(reach, traced, items))
            assert isinstance(reached, list), f"the tests of {some} fail without any fault"
            tests = sorted(zip(reached, items, strict=True), key=lambda pair: pair[0][0])
            for fault in (one for one in self._drawn if one.module in targets):
                target, places = targets[fault.module], set(range(fault.first, fault.last + 1))
                near = [
                    (taken, item)
                    for (taken, lines), item in tests
                    if places & set(lines[target.file])
                ]
                self._add(target, fault, near)
        return True

    def _add(self, target: Target, fault: Fault, near: Sequence[tuple[float, pytest.Item]]) -> None:
        outcome = Outcome(fault, "not reached")
        if near:
            items = [item for _, item in near]
            work = functools.partial(find_failing, target, self._plant(fault), items)
            test = in_child(work, sum(seconds for seconds, _ in near))
            if test is False:
                outcome = Outcome(fault, "not planted")
            else:
                word = "survived" if test == "" else "caught"
                if isinstance(test, str) and test and not self._passes_alone(test, items):
                    word = "doubtful"
                outcome = Outcome(fault, word, "does not end" if test is None else str(test))
        self.outcomes.append(outcome)
        place = f"capsule/{fault.module}.py:{fault.first}"
        print(f"{outcome.word:11} {place}: {fault.words}  {outcome.test}", flush=True)

    def _passes_alone(self, name: str, items: Sequence[pytest.Item]) -> bool:
        """Return whether a test passes alone and without a fault, for most depend on no other."""
        if name not in self._passes:
            alone = [item for item in items if item.nodeid == name]
            failed = in_child(lambda: [failed for _, failed in run(alone)])
            self._passes[name] = failed == [False]
        return self._passes[name]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("modules", nargs="*", metavar="MODULE", default=list(NEAREST))
    parser.add_argument("--count", type=int, help="so many faults; all of them by default")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the outcomes there")
    words = parser.parse_args()
    drawn = [fault for module in words.modules for fault in faults(module)]
    if words.count is not None:
        drawn = sorted(random.Random(words.seed).sample(drawn, words.count))
    files = dict.fromkeys(name for fault in drawn for name in NEAREST[fault.module])
    campaign = Campaign(drawn)
    paths = [str(ROOT / "tests" / name) for name in files]
    options = ["-q", "-s", "-p", "no:cacheprovider", "-m", "not engines"]
    status = pytest.main([*options, *paths], plugins=[campaign])
    print(Counter(one.word for one in campaign.outcomes))
    if words.json:
        words.json.write_text(json.dumps([asdict(one) for one in campaign.outcomes], indent=1))
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
