"""The part of the house style that a program can hold the code against."""

import ast
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

import capsule

PACKAGE = Path(capsule.__file__).parent
REPOSITORY = PACKAGE.parent
MOST_FUNCTION_LINES = 65
MOST_ANY = 0.1

# where what is passed around has types: these say neither `Any` nor `Namespace`
TYPED_ROOMS = ("api.py", "cli.py", "execute", "resolve.py", "session.py", "verbs")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def sources(*folders: str) -> list[Path]:
    """The Python files, and the scripts without a suffix, of some folders of the repository."""
    paths = [path for folder in folders for path in sorted((REPOSITORY / folder).rglob("*"))]
    return [path for path in paths if path.is_file() and is_program(path)]


def is_program(path: Path) -> bool:
    if path.suffix in (".py", ".sh"):
        return True
    return not path.suffix and path.read_bytes()[:2] == b"#!"


def functions(path: Path) -> Iterator[Function]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, Function):
            yield node


def parameters(function: Function) -> list[ast.arg]:
    a = function.args
    return [one for one in (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg) if one]


def complaints(paths: Iterable[Path], complain: Callable[[Function], Iterable[str]]) -> list[str]:
    return [
        f"{path.relative_to(REPOSITORY)}:{function.lineno} {function.name}: {text}"
        for path in paths
        for function in functions(path)
        for text in complain(function)
    ]


def room_files(room: str) -> list[Path]:
    return [PACKAGE / room] if room.endswith(".py") else sorted((PACKAGE / room).rglob("*.py"))


def test_no_function_is_too_long() -> None:
    def complain(function: Function) -> Iterator[str]:
        assert function.end_lineno is not None
        lines = function.end_lineno - function.lineno + 1
        if lines > MOST_FUNCTION_LINES:
            yield f"{lines} lines"

    assert not complaints(sources("capsule"), complain)


def mentions_any(annotation: ast.expr | None) -> bool:
    nodes = () if annotation is None else ast.walk(annotation)
    return any(isinstance(node, ast.Name) and node.id == "Any" for node in nodes)


def test_few_signatures_of_the_host_part_say_any() -> None:
    signatures = [
        any(
            map(mentions_any, [*(one.annotation for one in parameters(function)), function.returns])
        )
        for path in sources("capsule")
        if not path.is_relative_to(PACKAGE / "levels")
        for function in functions(path)
    ]
    assert sum(signatures) / len(signatures) < MOST_ANY, f"{sum(signatures)} of {len(signatures)}"


@pytest.mark.parametrize("room", TYPED_ROOMS)
def test_a_room_of_the_host_has_types_for_all_it_passes_around(room: str) -> None:
    paths = room_files(room)
    assert paths
    untyped = [
        f"{path.relative_to(REPOSITORY)}:{line} {name}"
        for path in paths
        for node in ast.walk(ast.parse(path.read_text()))
        for line, name in spelled_names(node)
        if name in ("Any", "Namespace")
    ]
    assert not untyped


def spelled_names(node: ast.AST) -> Iterator[tuple[int, str]]:
    """With the line of each."""
    if isinstance(node, ast.Name):
        yield node.lineno, node.id
    elif isinstance(node, ast.Attribute):
        yield node.lineno, node.attr
    elif isinstance(node, ast.ImportFrom):
        yield from ((node.lineno, alias.name) for alias in node.names)
