"""The part of the house style that a program can hold the code against."""

import ast
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

import capsule

PACKAGE = Path(capsule.__file__).parent
REPOSITORY = PACKAGE.parent
MOST_LINES = 400
MOST_FUNCTION_LINES = 65
MOST_ANY = 0.1

ROOMS = sorted(
    path.name
    for path in PACKAGE.iterdir()
    if path.suffix == ".py" or (path / "__init__.py").exists()
)
# where what is passed around has types: these say neither `Any` nor `Namespace`
TYPED_ROOMS = ("api.py", "cli.py", "execute", "resolve.py", "session.py", "verbs")

EMPTY_NAMES = {"found", "each", "told", "asked", "given", "said"}
# irregular participles, and words that only look like a regular one
IRREGULAR = """
    asked begun bought brought built caught done drawn driven felt found given gone grown heard held
    hidden kept known laid led left lent lost made meant met paid said seen sent shown sought spent
    stood taken taught thought thrown told understood won written
"""
REGULAR_LOOKING = """
    between children down dozen eleven embed even exceed feed flatten green listen need often open
    own proceed queen reopen screen seed seven shed speed succeed then token widen
"""
PARTICIPLES, NO_PARTICIPLES = set(IRREGULAR.split()), set(REGULAR_LOOKING.split())
ENDINGS = ("ed", "en", "wn")
# verbs whose object is named by what became of it, and the looks that are left
SOUND_NAMES = {"draw_sealed", "find_marked", "looks_left"}
PREDICATES = ("is", "are", "was", "were", "has", "have", "can")

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


def test_no_file_is_too_long() -> None:
    lengths = {
        path: path.read_text().count("\n")
        for path in sources("capsule", "tests", "benchmarks", "tools")
    }
    assert REPOSITORY / "tests" / "engines" in lengths
    assert not {path: lines for path, lines in lengths.items() if lines > MOST_LINES}


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


def stored_names(function: Function) -> Iterator[str]:
    yield from (one.arg for one in parameters(function))
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name
        elif isinstance(node, ast.Lambda):
            yield from (one.arg for one in node.args.args)


@pytest.mark.parametrize("room", ROOMS)
def test_a_variable_is_named_by_what_it_holds(room: str) -> None:
    def complain(function: Function) -> list[str]:
        return sorted(EMPTY_NAMES.intersection(stored_names(function)))

    assert not complaints(room_files(room), complain)


def is_participle(word: str) -> bool:
    if word in PARTICIPLES:
        return True
    return len(word) > 3 and word.endswith(ENDINGS) and word not in NO_PARTICIPLES


def test_participles_are_told_from_other_words() -> None:
    assert all(map(is_participle, ("settled", "told", "written", "drawn", "weighed", "frozen")))
    assert not any(map(is_participle, ("need", "feed", "embed", "seed", "speed", "open", "draw")))


def named_by_participle(function: Function) -> Iterator[str]:
    words = function.name.strip("_").split("_")
    if function.name in SOUND_NAMES or words[0] in PREDICATES:
        return
    # `paired_shift` is a shift, but `told_margin` and `made_before` are no things
    if is_participle(words[-1]) or words[0] in PARTICIPLES:
        yield "a function is a verb, or named by what it returns"


@pytest.mark.parametrize("room", ROOMS)
def test_no_function_is_named_by_a_participle(room: str) -> None:
    assert not complaints(room_files(room), named_by_participle)
