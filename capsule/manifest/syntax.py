"""Definitions of a user's Python file, read from its syntax tree without running it."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

# a syntax tree takes a thousand times its text
MOST_BYTES = 192 << 10
# before Python 3.12 one takes the square of its length to read
_MOST_FORMATTED_BYTES = 16 << 10
_FORMATTED = re.compile(rb"[fF][rR]?(\"\"\"|'''|\"|')")
_REST = {
    b'"': rb'(?:[^"\\\n]|\\.)',
    b"'": rb"(?:[^'\\\n]|\\.)",
    b'"""': rb'(?:[^"\\]|\\.|"(?!""))',
    b"'''": rb"(?:[^'\\]|\\.|'(?!''))",
}
_LONG = {
    quote: re.compile(b"%b{%d}" % (character, _MOST_FORMATTED_BYTES), re.DOTALL)
    for quote, character in _REST.items()
}


class Definitions(NamedTuple):
    """The names that a file binds at its top level, but for modules that it imports.

    Attributes:
        lines: Name to the line that binds it last.
        values: What was asked for and is there, to its value.
    """

    lines: dict[str, int]
    values: dict[str, Any]

    def line(self, name: str) -> int:
        """Return the line in which a name is bound, 1 if none."""
        return self.lines.get(name, 1)


def definitions(data: bytes, literals: Sequence[str]) -> Definitions:
    """Read a file.

    Args:
        data: Its bytes.
        literals: Names whose values are wanted.

    Raises:
        ValueError: With line, why it is no Python, or which value is no literal.
    """
    if len(data) > MOST_BYTES:
        raise ValueError(f"more than {MOST_BYTES >> 10} KiB")
    for start in _FORMATTED.finditer(data):
        if _LONG[start[1]].match(data, start.end()):
            line = data.count(b"\n", 0, start.start()) + 1
            raise ValueError(
                f"line {line}: an f-string exceeds the limit, {_MOST_FORMATTED_BYTES >> 10} KiB"
            )
    try:
        with warnings.catch_warnings():
            # those of the user's own code are for who runs it
            warnings.simplefilter("ignore")
            tree = ast.parse(data)
    except SyntaxError as error:
        raise ValueError(f"line {error.lineno or 1}: not Python: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError):
        raise ValueError("line 1: not Python") from None
    bound = {name: (line, value) for name, line, value in _bound(tree)}
    values = {name: _literal(name, *bound[name]) for name in literals if name in bound}
    return Definitions(lines={name: line for name, (line, _) in bound.items()}, values=values)


def _bound(tree: ast.Module) -> Iterator[tuple[str, int, ast.expr | None]]:
    """Name, line and, of an assignment, what is assigned."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, node.lineno, None
        elif isinstance(node, ast.ImportFrom):
            yield from ((alias.asname or alias.name, node.lineno, None) for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [target for target in targets if isinstance(target, ast.Name)]
            yield from ((target.id, node.lineno, node.value) for target in names)


def _literal(name: str, line: int, value: ast.expr | None) -> Any:
    try:
        if value is None:
            raise ValueError
        return ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise ValueError(
            f"line {line}: {name} is not a literal; capsule reads this file without running it"
        ) from None
