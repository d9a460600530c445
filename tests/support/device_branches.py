"""Find the branches of capsule that only a device takes, and plant two faults in each.

    python -m tests.support.device_branches [--list] [--json FILE] [MODULE ...]

A branch is an `if`, a `while`, a conditional expression, a guard of a comprehension or of a case, a
value that stands in for another (`or`, `and`), a handler of exceptions, or a function that
addresses a device by its library. A device alone takes it if its condition has one of `WORDS`, or a
name that is bound to such an expression; if it addresses a library of devices; or if it stands in
one of `MODULES`, or in a class or function with such a word in its name. Code outside of functions,
which runs at import, is left out.

The faults: the condition is inverted, and each side of the branch is emptied. A branch is held if
tests notice every one of its faults, see `mutation`. Prints each fault with what became of it, then
the number of branches and the share of those that are held.
"""

from __future__ import annotations

import argparse
import ast
import functools
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

import pytest

from tests.support import mutation
from tests.support.mutation import Campaign, Fault, Outcome

WORDS = re.compile(
    r"cuda|nccl|nvml|nvidia|amdsmi|amdgpu|rocm|gpus?(?![a-z])|device_clock|on_device"
    r"|ramework\.(?:memory|synchronize|transfer)\b|\bsynchronize\b|failures\.is_sticky"
    r"|device\b[^,]* [!=]= '(?:cpu|cuda)'|\bmetric\.device\b|\binvocation\.devices\b|is_mig"
    r"|!= 'rapl'|is_recorded|\bepoch\.copied\b",
    re.IGNORECASE,
)
"""What conditions say of a device."""

LIBRARY = re.compile(r"\btorch\.cuda\.\w|nvml\.nvml[A-Z]")
"""Calls of libraries of devices."""

NAMES = re.compile(
    r"cuda|(?<!lamb_)nvidia|nvml|amd|intel|kfd|gpu|ondevice|of_device|feedahead|device_advice|name_devices"
    r"|request_devices|keep_gradients",
    re.IGNORECASE,
)
"""Parts of the names of classes and functions that are there for a device."""

MODULES = (
    "inventory/gpu",
    "levels/frameworks/torch/arrays",
    "levels/frameworks/torch/clock",
    "levels/frameworks/torch/precision",
    "levels/frameworks/torch/transfer",
    "levels/instruments/doubles",
    "levels/instruments/ranges",
    "levels/instruments/tensor_cores",
    "runtimes/gpus",
    "runtimes/slots",
    "runtimes/visible",
    "telemetry/sources",
)
"""Modules whose every branch is there for a device."""

_GPUS = (
    "runtimes/test_visible.py",
    "runtimes/test_gpus.py",
    "runtimes/test_gpu_nodes.py",
    "runtimes/test_gpu_containers.py",
)
_CLOCK = (
    "levels/frameworks/test_cuda.py",
    "levels/test_device_clock.py",
    "levels/test_failures.py",
)
_WAITS = (*_CLOCK, "levels/test_device_waits.py")
_FEED = ("levels/level2/test_device_feed.py", "levels/level2/test_tuning.py")
_TELEMETRY = (
    "telemetry/test_sources.py",
    "telemetry/test_sampler.py",
    "telemetry/test_spans.py",
    "telemetry/test_trace.py",
    "telemetry/test_watched.py",
)
_MANIFEST = (
    "manifest/test_devices.py",
    "manifest/test_otherdevice.py",
    "manifest/test_recipes.py",
    "manifest/test_catalog.py",
    "manifest/test_commands.py",
    "manifest/test_collectives.py",
    "manifest/test_mutable.py",
    "manifest/test_readings.py",
)
NEAREST: Mapping[str, Sequence[str]] = {
    "archive": ("archive/test_devices.py", "archive/test_readme.py"),
    "deviceseries": ("archive/test_devices.py",),
    "doctor": ("test_doctor.py",),
    "execute": (
        "execute/test_devices.py",
        "execute/test_placement.py",
        "journeys/test_rank_gpus.py",
    ),
    "inventory": (
        "inventory/test_devices.py",
        "inventory/test_inventory.py",
        "runtimes/test_gpu_nodes.py",
    ),
    "launch": ("launch/test_slurm.py", "launch/test_rank.py", "launch/test_srun_environment.py"),
    "levels/catalog": (
        *_MANIFEST,
        "levels/catalog/test_metrics.py",
        "levels/test_failures.py",
        "levels/test_determinism.py",
    ),
    "levels/catalog/schemes": ("manifest/test_schemes.py", "manifest/test_devices.py"),
    "levels/catalog/training": ("levels/level2/test_tuning.py", "manifest/test_recipes.py"),
    "levels/communicators": ("levels/level3/test_device_ranks.py",),
    "levels/frameworks/jax": ("levels/frameworks/test_cuda.py",),
    "levels/frameworks/numpy": ("levels/frameworks/test_cuda.py",),
    "levels/frameworks/onnxruntime": ("levels/frameworks/test_cuda.py",),
    "levels/frameworks/tensorflow": ("levels/frameworks/test_cuda.py",),
    "levels/frameworks/torch": ("levels/frameworks/test_cuda.py", "levels/test_tensor_cores.py"),
    "levels/frameworks/torch/arrays": (
        "levels/frameworks/test_device_arrays.py",
        "levels/test_doubles.py",
    ),
    "levels/frameworks/torch/modern": ("levels/operators/test_modern.py",),
    "levels/frameworks/torch/modules": ("levels/frameworks/test_cuda.py",),
    "levels/frameworks/torch/clock": _CLOCK,
    "levels/frameworks/torch/training": _FEED,
    "levels/frameworks/torch/transfer": (*_FEED, "levels/frameworks/test_cuda.py"),
    "levels/frameworks/torch/precision": ("levels/frameworks/test_precision.py",),
    "levels/instruments": _WAITS,
    "levels/instruments/between": (*_CLOCK, "levels/test_conditions.py"),
    "levels/instruments/capacity": ("levels/test_doubles.py",),
    "levels/instruments/doubles": ("levels/test_doubles.py",),
    "levels/instruments/roofs": (*_CLOCK, "levels/test_roofs.py"),
    "levels/instruments/tensor_cores": ("levels/test_tensor_cores.py",),
    "levels/level0": _WAITS,
    "levels/level1": _WAITS,
    "levels/level2": (*_FEED, "levels/level2/test_fingerprints.py"),
    "levels/level3": ("levels/level3/test_nccl.py", "levels/level3/test_device_ranks.py"),
    "levels/library": ("levels/test_regions.py",),
    "levels/operators": ("levels/operators/test_user.py",),
    "levels/recipe": ("levels/test_job.py", "levels/level2/test_tuning.py"),
    "levels/run": _WAITS,
    "levels/seeding": ("levels/test_kept_seeds.py",),
    "lint": ("lint/test_places.py", "lint/test_measured.py", "archive/test_devices.py"),
    "manifest": _MANIFEST,
    "manifest/warnings": ("archive/test_devices.py",),
    "report": ("report/test_inventory.py", "archive/test_devices.py", "journeys/test_rank_gpus.py"),
    "rerun": ("test_rerun.py",),
    "resolve": ("test_resolve.py", "journeys/test_rank_gpus.py"),
    "runtimes": _GPUS,
    "telemetry": _TELEMETRY,
    "trust": (
        "trust/test_outlook.py",
        "trust/test_policy.py",
    ),
    "rereading": ("archive/test_devices.py",),
}
"""Files of tests, by the module or folder that they are nearest to."""


Change = tuple[str, Callable[[], None]]
"""A fault: words, and the function that plants it in a syntax tree."""

_Place = ast.stmt | ast.expr | ast.pattern | ast.ExceptHandler


@dataclass(frozen=True)
class Branch:
    """A branch that only a device takes.

    Attributes:
        module: Its path below `capsule`, without the ending.
        first: The first line of its condition; of a function, of its body.
        last: The last one.
        function: Name of the class and function in which it stands.
        condition: Its source text.
        changes: The faults.
    """

    module: str
    first: int
    last: int
    function: str
    condition: str
    changes: tuple[Change, ...]

    def __str__(self) -> str:
        """Return place, function and condition on one line."""
        return f"capsule/{self.module}.py:{self.first} {self.function}: {self.condition}"


class _Scan(ast.NodeVisitor):
    """Gathers the branches of one module."""

    def __init__(self, module: str) -> None:
        self.found: list[Branch] = []
        self._module = module
        self._names: list[str] = []
        self._is_own = module in MODULES
        # what a function has bound to expressions about a device; None outside of functions
        self._bound: frozenset[str] | None = None
        # parts of conditions, which are no branches of their own
        self._conditions: set[int] = set()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._enter(node, self._bound)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        bound = frozenset(_find_bound(node)) | (self._bound or frozenset())
        self._enter(node, bound)

    def visit_If(self, node: ast.If) -> None:
        changes = [_invert(node), _empty(node, "body")]
        if node.orelse and not isinstance(node.orelse[0], ast.If):
            changes.append(_empty(node, "orelse"))
        self._add(node, node.test, (*node.body, *node.orelse), changes)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        if not isinstance(node.test, ast.Constant):
            self._add(node, node.test, node.body, [_invert(node), _empty(node, "body")])
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        sides = [name for name in ("body", "orelse") if not _is_none(getattr(node, name))]
        changes = [_invert(node), *(_void(node, name) for name in sides)]
        self._add(node, node.test, (node.body, node.orelse), changes)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        if id(node) not in self._conditions:
            turned = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
            first, rest = node.values[0], node.values[1:]
            alone = [ast.IfExp(_never(), one, first) for one in rest]
            changes = [
                _put("inverted", node, "op", turned),
                _put("emptied", node, "values", [first, *alone]),
            ]
            self._add(node, node, (), changes)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for place, guard in enumerate(node.ifs):
            before, after = node.ifs[:place], node.ifs[place + 1 :]
            turned, hidden = ast.UnaryOp(ast.Not(), guard), ast.BoolOp(ast.And(), [_never(), guard])
            changes = [
                _put("inverted", node, "ifs", [*before, turned, *after]),
                _put("emptied", node, "ifs", [*before, hidden, *after]),
            ]
            self._add(guard, guard, (), changes)
        self.generic_visit(node)

    def visit_Match(self, node: ast.Match) -> None:
        for case in node.cases:
            turned = _never() if case.guard is None else ast.UnaryOp(ast.Not(), case.guard)
            changes = [_put("inverted", case, "guard", turned), _empty(case, "body")]
            self._add(case.pattern, case.guard or node.subject, case.body, changes)
        self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> None:
        """Leave out what is no branch."""

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.type is not None:
            nothing = ast.Tuple([], ast.Load())
            changes = [_put("inverted", node, "type", nothing), _empty(node, "body")]
            self._add(node, node.type, node.body, changes, last=node.lineno)
        self.generic_visit(node)

    def visit_With(self, node: ast.With) -> None:
        for item in node.items:
            call = item.context_expr
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "suppress":
                changes = [_put("inverted", call, "args", []), _empty(node, "body")]
                self._add(call, call, node.body, changes)
        self.generic_visit(node)

    def _enter(self, node: ast.ClassDef | ast.FunctionDef, bound: frozenset[str] | None) -> None:
        before = self._is_own, self._bound
        self._names.append(node.name)
        named = NAMES.search(node.name)
        self._is_own, self._bound = self._is_own or bool(named), bound
        count = len(self.found)
        for one in node.body:
            self.visit(one)
        body = [one for one in node.body if not _is_docstring(one)]
        is_plain = isinstance(node, ast.FunctionDef) and len(self.found) == count
        if is_plain and any(LIBRARY.search(ast.unparse(one)) for one in body):
            name = ast.Name(node.name, ast.Load())
            self._add(body[0], name, body, [_empty(node, "body")], last=_last_line(body[-1]))
        self._names.pop()
        self._is_own, self._bound = before

    def _add(
        self,
        place: _Place,
        condition: ast.expr,
        guarded: Iterable[ast.AST],
        changes: Sequence[Change],
        *,
        last: int = 0,
    ) -> None:
        self._conditions.update(map(id, ast.walk(condition)))
        if self._bound is None:
            return
        text = ast.unparse(condition)
        names = {one.id for one in ast.walk(condition) if isinstance(one, ast.Name)}
        is_found = self._is_own or WORDS.search(text) or names & self._bound
        if is_found or any(LIBRARY.search(ast.unparse(one)) for one in guarded):
            # of a statement only the head
            end = last or _last_line(condition if isinstance(place, ast.If | ast.While) else place)
            where = self._module, place.lineno, end, ".".join(self._names)
            self.found.append(Branch(*where, text, tuple(changes)))


def _find_bound(function: ast.FunctionDef) -> Iterator[str]:
    """Yield the names that a function binds to an expression about a device."""
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                pass
            case ast.NamedExpr(target=ast.Name(id=name), value=value):
                pass
            case _:
                continue
        # the operands of a call say nothing of its result
        about = value.func if isinstance(value, ast.Call) else value
        if isinstance(about, ast.Set | ast.List | ast.Tuple | ast.Dict):
            continue
        if WORDS.search(ast.unparse(about)):
            yield name


def _never() -> ast.Compare:
    """Return a condition that never holds, which no compiler sees: the code behind it stays."""
    return ast.Compare(ast.Constant(0), [ast.Gt()], [ast.Constant(1)])


def _put(words: str, node: ast.AST, name: str, value: object) -> Change:
    return words, functools.partial(setattr, node, name, value)


def _invert(node: ast.If | ast.While | ast.IfExp) -> Change:
    return _put("inverted", node, "test", ast.UnaryOp(ast.Not(), node.test))


def _empty(node: ast.AST, side: str) -> Change:
    """Return the fault by which the statements of a side are never reached."""
    hidden = ast.If(_never(), getattr(node, side), [])
    return _put("other side emptied" if side == "orelse" else "emptied", node, side, [hidden])


def _void(node: ast.IfExp, side: str) -> Change:
    """Return the fault by which a side of a conditional expression is None."""
    hidden = ast.IfExp(_never(), getattr(node, side), ast.Constant(None))
    return _put("other side emptied" if side == "orelse" else "emptied", node, side, hidden)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _last_line(node: _Place) -> int:
    return node.end_lineno or node.lineno


def scan(tree: ast.Module, module: str) -> list[Branch]:
    """Return the branches in the syntax tree of a module that only a device takes."""
    found = _Scan(module)
    found.visit(tree)
    return found.found


def find(module: str) -> list[Branch]:
    """Return the branches of a module that only a device takes."""
    return scan(mutation.parse(module), module)


def list_modules() -> list[str]:
    """Return the modules of capsule that have such branches, by path."""
    folder = mutation.ROOT / "capsule"
    paths = sorted(folder.rglob("*.py"))
    names = [path.relative_to(folder).with_suffix("").as_posix() for path in paths]
    return [name for name in names if find(name)]


def list_faults(module: str) -> list[Fault]:
    """Return the faults of the branches of a module, those of one branch after each other."""
    each = ((branch, words) for branch in find(module) for words, _ in branch.changes)
    return [
        Fault(module, branch.first, branch.last, number, f"{words} in {branch.function}")
        for number, (branch, words) in enumerate(each)
    ]


def plant(fault: Fault) -> CodeType:
    """Compile the module with the fault."""
    tree = mutation.parse(fault.module)
    makes = [make for branch in scan(tree, fault.module) for _, make in branch.changes]
    makes[fault.number]()
    return mutation.compile_tree(tree, fault.module)


def find_nearest(module: str) -> Sequence[str]:
    """Return the files of tests that are nearest to a module."""
    parts = module.split("/")
    places = ["/".join(parts[:count]) for count in range(len(parts), 0, -1)]
    return next((NEAREST[place] for place in places if place in NEAREST), ())


@dataclass(frozen=True)
class Result:
    """A branch, with the outcome of each of its faults."""

    branch: Branch
    outcomes: tuple[Outcome, ...]

    @property
    def is_held(self) -> bool:
        """Return whether tests notice every fault."""
        return all(one.word == "caught" for one in self.outcomes)

    def describe(self) -> Mapping[str, object]:
        """Return the result as a document."""
        outcomes = [
            {"fault": one.fault.words, "word": one.word, "test": one.test} for one in self.outcomes
        ]
        return {"branch": str(self.branch), "is_held": self.is_held, "outcomes": outcomes}


def join(outcomes: Sequence[Outcome]) -> list[Result]:
    """Return the branches of all modules of some outcomes, which are those of every fault."""
    rest = iter(outcomes)
    modules = dict.fromkeys(one.fault.module for one in outcomes)
    return [
        Result(branch, tuple(next(rest) for _ in branch.changes))
        for module in modules
        for branch in find(module)
    ]


def run(modules: Sequence[str]) -> list[Result]:
    """Plant all faults of some modules; returns what became of their branches.

    Raises:
        RuntimeError: A nearest test fails without any fault, or cannot be collected.
    """
    drawn = [fault for module in modules for fault in list_faults(module)]
    nearest = {module: find_nearest(module) for module in modules}
    campaign = Campaign(drawn, nearest, plant)
    files = dict.fromkeys(name for names in nearest.values() for name in names)
    paths = [str(mutation.ROOT / "tests" / name) for name in files]
    options = ["-q", "-s", "-p", "no:cacheprovider", "-m", "not engines and not long"]
    status = pytest.main([*options, *paths], plugins=[campaign])
    # it also fails for what tests with a fault leave behind
    if len(campaign.outcomes) < len(drawn):
        raise RuntimeError(f"pytest ended with status {int(status)}: see its output")
    return join(campaign.outcomes)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="path without the ending")
    parser.add_argument("--list", action="store_true", help="list the branches, plant nothing")
    parser.add_argument("--json", type=Path, help="write the outcomes there")
    words = parser.parse_args()
    modules = words.modules or list_modules()
    if words.list:
        branches = [branch for module in modules for branch in find(module)]
        print(*branches, f"{len(branches)} branches", sep="\n")
        return 0
    results = run(modules)
    counts = Counter(outcome.word for result in results for outcome in result.outcomes)
    held = sum(result.is_held for result in results)
    print(dict(counts))
    print(f"held {held} of {len(results)} branches")
    if words.json:
        words.json.write_text(json.dumps([one.describe() for one in results], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
