"""Sentences: texts with fields, facts of strangers in them, and each place that says one."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import capsule
from capsule.sentences import Fact, Sentence, Shape, Templates, _Text
from tests.golden.words import TABLES

TABLE: Templates[Sentence] = Templates(Sentence, loud=Shape(str, str.upper))
TABLE |= {
    "plain": "nothing to add",
    "braces": "write {{seed}} or {{{name}}}",
    "text": "{side} of {whole:.4s}, {name!r}",
    "numbers": "{runs:d} {runs:run|runs}, {share:.2g} of {value:r}",
    "lists": "{sides:and}; {places:list}",
    "choice": "the {is_ratio:ratio|shift}",
    "loud": "{word:loud}",
}


def said(code: str, /, **facts: Fact) -> str | None:
    """What a stranger's code and facts become."""
    return TABLE.say(code, tuple(sorted(facts.items())))


def test_a_text_takes_facts_by_name() -> None:
    sentence = TABLE("text", side="here", whole="abcdef", name="it's")
    assert sentence == 'here of abcd, "it\'s"'
    assert sentence.code == "text"
    assert sentence.facts == (("name", "it's"), ("side", "here"), ("whole", "abcdef"))
    assert TABLE("plain") == "nothing to add"
    assert TABLE("braces", name="n") == "write {seed} or {n}"
    assert TABLE("numbers", runs=1, share=0.256, value=1 / 3) == f"1 run, 0.26 of {1 / 3}"
    assert TABLE("numbers", runs=0, share=2, value=float("nan")) == "0 runs, 2 of nan"
    assert TABLE("lists", sides=("A", "B"), places=()) == "A and B; "
    assert TABLE("choice", is_ratio=False) == "the shift"
    assert TABLE("loud", word="x") == "X"


def test_the_fields_of_a_text_say_what_its_facts_are() -> None:
    assert TABLE.hints("numbers") == {"runs": int, "share": float, "value": float}
    assert TABLE.hints("lists") == {"sides": tuple[str, ...], "places": tuple[str, ...]}
    assert TABLE.hints("choice") == {"is_ratio": bool}
    assert TABLE.hints("loud") == {"word": str}


@pytest.mark.parametrize(
    "facts",
    [
        {"side": "a", "whole": "b"},
        {"side": "a", "whole": "b", "name": "c", "more": "d"},
        {"side": 1, "whole": "b", "name": "c"},
        {"side": None, "whole": "b", "name": "c"},
    ],
)
def test_a_fact_of_ours_that_its_text_does_not_take_is_a_bug(facts: dict[str, Fact]) -> None:
    with pytest.raises(AssertionError):
        TABLE("text", **facts)


@pytest.mark.parametrize(
    "value",
    ["{0.__class__}", "{side.__class__.__mro__}", "{whole}", "{{", "}", "{", "%s", "a|b", "!r:d"],
)
def test_a_stranger_s_fact_is_text_whatever_it_looks_like(value: str) -> None:
    assert said("text", side=value, whole="abcd", name="") == f"{value} of abcd, ''"
    assert said("lists", sides=(value,), places=(value, value)) == f"{value}; {value}, {value}"


HOSTILE: dict[str, tuple[str, dict[str, Fact]]] = {
    "none": ("text", {}),
    "one missing": ("text", {"side": "a", "whole": "b"}),
    "one more": ("plain", {"side": "a"}),
    "self": ("plain", {"self": "a"}),
    "the code": ("plain", {"code": "text"}),
    "a field with an attribute": ("choice", {"is_ratio.__class__": True}),
    "a place": ("choice", {"0": True}),
    "a truth for a number": ("numbers", {"runs": True, "share": 0.5, "value": 0.5}),
    "a number for a truth": ("choice", {"is_ratio": 1}),
    "a whole number for a float": ("numbers", {"runs": 1, "share": 1, "value": 0.5}),
    "a float for a whole number": ("numbers", {"runs": 1.0, "share": 0.5, "value": 0.5}),
    "text for a number": ("numbers", {"runs": "1", "share": 0.5, "value": 0.5}),
    "more digits than Python writes": (
        "numbers",
        {"runs": 10**5000, "share": 0.5, "value": 0.5},
    ),
    "text for a list": ("lists", {"sides": "AB", "places": ()}),
    "numbers in a list": ("lists", {"sides": (1,), "places": ()}),
    "a list in a list": ("lists", {"sides": (("A",),), "places": ()}),
    "nothing": ("loud", {"word": None}),
    "too long": ("loud", {"word": "a" * 10_001}),
    "too long in a list": ("lists", {"sides": ("a" * 10_001,), "places": ()}),
    "unknown": ("unknown", {}),
    "the name of a method": ("__class__", {}),
}


@pytest.mark.parametrize(("code", "facts"), HOSTILE.values(), ids=HOSTILE)
def test_facts_that_a_text_does_not_take_say_nothing(code: str, facts: dict[str, Fact]) -> None:
    assert said(code, **facts) is None


def test_a_fact_twice_says_nothing() -> None:
    assert TABLE.say("loud", (("word", "a"), ("word", "b"))) is None


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.0, 5e-324, 1.7e308])
def test_any_float_is_written(value: float) -> None:
    assert said("numbers", runs=2, share=value, value=value) == f"2 runs, {value:.2g} of {value!r}"


@pytest.mark.parametrize(
    "text",
    ["{side:{width}}", "{side:x}", "{runs:d} {runs}", "{is_a:b|c|d}", "{side", "{runs:d} {runs:g}"],
)
def test_a_text_that_cannot_be_written_is_no_template(text: str) -> None:
    table = Templates(Sentence)
    with pytest.raises((AssertionError, KeyError, ValueError)):
        table |= {"broken": text}


def test_a_code_is_one_of_a_kind() -> None:
    table = Templates(Sentence)
    table |= {"one": "a"}
    with pytest.raises(AssertionError):
        table |= {"one": "b"}
    with pytest.raises(AssertionError):
        table.template("one")


def calls() -> Iterator[tuple[str, Templates[object], str, set[str | None]]]:
    """Each place of the product that says a text: where it is, the table, the code, the facts."""
    root = Path(capsule.__file__).parent
    for path in sorted(root.rglob("*.py")):
        source = path.read_text()
        if path.is_relative_to(root / "levels") or not any(f"{one}(" in source for one in NAMES):
            continue
        name = ".".join(path.relative_to(root.parent).with_suffix("").parts)
        module = importlib.import_module(name.removesuffix(".__init__"))
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in NAMES:
                table = eval(ast.unparse(node.func), vars(module))
                first = node.args[0]
                codes = [first.body, first.orelse] if isinstance(first, ast.IfExp) else [first]
                for code in codes:
                    facts = {keyword.arg for keyword in node.keywords}
                    yield (
                        f"{name}:{node.lineno}",
                        table,
                        eval(ast.unparse(code), vars(module)),
                        facts,
                    )


NAMES = {
    "NOTES",
    "WARNINGS",
    "CHANGES",
    "REFUSALS",
    "JUDGEMENTS",
    "WHOLE",
    "ADVICE",
    "SPREADS",
    "RATES",
}


def test_each_place_says_a_text_with_its_facts_and_each_text_is_said() -> None:
    wrong, said = [], set()
    for place, table, code, facts in calls():
        said.add((id(table), code))
        if code not in table.codes or table.hints(code).keys() != facts:
            wrong.append(f"{place} {code}")
    assert not wrong
    for table in TABLES.values():
        texts = [code for code, word in table._templates.items() if isinstance(word, _Text)]
        assert [code for code in texts if (id(table), code) not in said] == []
