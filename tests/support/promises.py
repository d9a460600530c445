"""Sentences that state a rate or a rule: of a page, and those that the product itself prints."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
_STATES = re.compile(
    r"%|REPRODUCED|DIFFERENT|INCONCLUSIVE|\balpha\b|½|"
    r"\b(at (most|least|best)|never|always|levels?|probability|error rate|rates?|powers?|half"
    r"|quarter|sixth|eighth|corrected|correction|confidence|no number|cannot|must"
    r"|depends?|likelier|count(s|ed)?|needs?|refused|judged|confirms?|confirmed|narrower|wider|seldom)\b"
)
_SENTENCE = re.compile(r"(?<=[.!?])[*_)\"]*\s+(?=[*_(\"`]*[A-Z0-9])")


@dataclass(frozen=True, kw_only=True)
class Promise:
    """What a sentence states, and the tests that fail where it is untrue.

    Attributes:
        sentence: Word for word, with single spaces.
        checks: Node ids of tests, without parameters.
    """

    sentence: str
    checks: tuple[str, ...]


def read(path: Path) -> list[Promise]:
    """A list of sentences, each followed by the tests that check it, one a line after `->`."""
    promises: list[Promise] = []
    for block in path.read_text().split("\n\n"):
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        checks = tuple(line.removeprefix("-> ") for line in lines if line.startswith("-> "))
        words = " ".join(line.strip() for line in lines if not line.startswith("-> "))
        if words or checks:
            promises.append(Promise(sentence=words, checks=checks))
    return promises


def states_something(sentence: str) -> bool:
    """Whether a sentence has a word of rates or rules in it."""
    return _STATES.search(sentence) is not None


def sentences_of_page(page: str) -> list[str]:
    """The sentences of a page in order, each line of its tables one; without what is generated."""
    page = page.partition("\n## Sources")[0]
    page = re.sub(r"<!-- begin (\S+) -->.*?<!-- end \1 -->", "\n\n", page, flags=re.DOTALL)
    page = re.sub(r"^```.*?^```$", "\n\n", page, flags=re.DOTALL | re.MULTILINE)
    return [one for block in _blocks(page) for one in _SENTENCE.split(block) if one]


def _blocks(page: str) -> Iterator[str]:
    """Paragraphs, items of lists and lines of tables, each on a line of its own."""
    block: list[str] = []
    for line in [*page.splitlines(), ""]:
        item = re.match(r"(\* |\d\. |\| )", line)
        if item or not line.strip() or line.startswith("#"):
            if block:
                yield " ".join(" ".join(block).split())
            block = []
        if not line.startswith(("#", "![", "| ---")):
            block.append(re.sub(r"^(\* |\d\. )", "", line))


def sentences_of_code(path: Path) -> list[str]:
    """Every text that a module may print, `{}` in place of what is filled in; no docstrings."""
    tree = ast.parse(path.read_text())
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)
              for part in node.values}  # fmt: skip
    apart, texts = docstrings | inside, []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            texts.append("".join(map(_part, node.values)))
        elif isinstance(node, ast.Constant) and id(node) not in apart:
            texts.append(node.value if isinstance(node.value, str) else "")
    # a word alone is a name, not a sentence
    return [" ".join(one.split()) for one in texts if " " in one.strip()]


def _part(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else "{}"


def has_test(node: str) -> bool:
    """Whether there is a test of that name: `tests/room/test_x.py::test_name`."""
    path, _, name = node.partition("::")
    return name.startswith("test_") and name in _functions(ROOT / path)


@lru_cache
def _functions(path: Path) -> frozenset[str]:
    if not path.is_file():
        return frozenset()
    body = ast.parse(path.read_text()).body
    return frozenset(one.name for one in body if isinstance(one, ast.FunctionDef))
