"""Sentences for people, each made by one template from a code and the facts that it states."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from functools import wraps
from string import Formatter
from typing import (
    Generic,
    Literal,
    NamedTuple,
    ParamSpec,
    Self,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

Fact = str | int | float | bool | None | tuple["Fact", ...]
Facts = tuple[tuple[str, Fact], ...]
"""The facts of a sentence by their names, sorted."""

# of whatever wrote it: no fact of ours is longer
MAX_FACT_LETTERS = 10_000

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Sentence(str):
    """A text that is also the code and the facts that it was made from.

    Attributes:
        code: A word that names what is said, the same however it is worded.
        facts: What the sentence states.
    """

    code: str
    facts: Facts

    def __new__(cls, text: str, code: str, facts: Facts) -> Sentence:
        """Return the text with what it was made from."""
        made = super().__new__(cls, text)
        made.code, made.facts = code, facts
        return made

    def __getnewargs__(self) -> tuple[str, str, Facts]:  # type: ignore[override]
        """Return what a copy is made of."""
        return str(self), self.code, self.facts


class Shape(NamedTuple):
    """A way to write a fact, which texts name behind the colon of a field.

    Attributes:
        hint: The type of such facts.
        write: Returns one as it stands in the sentence.
    """

    hint: object
    write: Callable[..., str]


_SHAPES = {
    "": Shape(str, str),
    "!r": Shape(str, repr),
    "r": Shape(float, str),
    "and": Shape(tuple[str, ...], " and ".join),
    "list": Shape(tuple[str, ...], ", ".join),
}


class _Text:
    """A sentence in which facts are only inserted: pieces of text, and a field behind each.

    Attributes:
        hints: The type of each fact.
    """

    def __init__(self, text: str, shapes: Mapping[str, Shape]) -> None:
        self.hints: dict[str, object] = {}
        self._pieces: list[tuple[str, str | None, Callable[..., str]]] = []
        for before, name, form, conversion in Formatter().parse(text):
            hint, write = _read_form(f"!{conversion}" if conversion else form or "", shapes)
            self._pieces.append((before, name, write))
            # of a choice between two words another field can tell that its fact is a number
            if name is not None and self.hints.get(name, bool) is bool:
                self.hints[name] = hint
            assert name is None or hint in (bool, self.hints[name]), (text, name)

    def __call__(self, **facts: Fact) -> str:
        return "".join(
            before if name is None else before + write(facts[name])
            for before, name, write in self._pieces
        )


def _read_form(form: str, shapes: Mapping[str, Shape]) -> Shape:
    if form in shapes:
        return shapes[form]
    if "|" in form:
        one, other = form.split("|")
        return Shape(bool, lambda fact: one if fact == 1 else other)
    return Shape({"s": str, "d": int, "g": float}[form[-1]], lambda fact: format(fact, form))


class Templates(Generic[_T]):
    """The sentences of one kind by their codes: a text each, or a function that words it.

    The fields of a text say what its facts are: `{side}` is a text, `{capsule:.12s}` the beginning
    of one, `{name!r}` one in quotes, `{runs:d}` a whole number, `{share:.2g}` a number, `{value:r}`
    one with all its digits, `{sides:and}` texts with that word between them, `{places:list}` with
    commas, and `{is_ratio:ratio|shift}` one of two words, the former for True, and for 1.

    A function takes its facts by keyword, without defaults: its signature says what they are.

    Args:
        make: Makes a value of the kind of a text, its code and its facts.
        shapes: Further ways to write a fact.
    """

    def __init__(self, make: Callable[[str, str, Facts], _T], **shapes: Shape) -> None:
        self._make = make
        self._shapes = {**_SHAPES, **shapes}
        self._templates: dict[str, Callable[..., str]] = {}
        self._hints: dict[str, dict[str, object]] = {}

    @property
    def codes(self) -> tuple[str, ...]:
        """Every code, in the order of the source."""
        return tuple(self._templates)

    def __ior__(self, texts: Mapping[str, str]) -> Self:
        """Add the texts of codes."""
        for code, text in texts.items():
            assert code not in self._templates, code
            self._templates[code] = word = _Text(text, self._shapes)
            self._hints[code] = word.hints
        return self

    def __call__(self, code: str, /, **facts: Fact) -> _T:
        """Return the sentence of a code that has a text, with the facts that its fields name."""
        hints, stated = self._hints[code], from_json(facts)
        assert hints.keys() == facts.keys(), (code, facts)
        assert all(_is_ours(fact, hints[name]) for name, fact in stated), (code, facts)
        return self._make(self._templates[code](**dict(stated)), code, stated)

    def template(self, code: str) -> Callable[[Callable[_P, str]], Callable[_P, _T]]:
        """Return what makes a function that words a sentence the template of a code."""
        assert code not in self._templates, code

        def register(word: Callable[_P, str]) -> Callable[_P, _T]:
            self._templates[code] = word

            @wraps(word)
            def say(*args: _P.args, **facts: _P.kwargs) -> _T:
                return self._make(word(*args, **facts), code, from_json(facts))

            return say

        return register

    def hints(self, code: str) -> dict[str, object]:
        """Return the type of each fact of a template."""
        if code not in self._hints:
            self._hints[code] = get_type_hints(self._templates[code])
            del self._hints[code]["return"]
        return self._hints[code]

    def say(self, code: str, facts: Facts) -> str | None:
        """Return our sentence for a code and facts that somebody else wrote.

        None for a code that is not known, and for facts that are not those of its template.
        """
        word = self._templates.get(code)
        if word is None:
            return None
        hints = self.hints(code)
        if hints.keys() != {name for name, _ in facts} or len(hints) != len(facts):
            return None
        if not all(_fits(fact, hints[name]) for name, fact in facts):
            return None
        try:
            return word(**dict(facts))
        except (ArithmeticError, LookupError, ValueError):
            return None


def about(subject: str, sentence: Sentence) -> Sentence:
    """Return a sentence with what it is about before it."""
    return Sentence(f"{subject}: {sentence}", sentence.code, (("of", subject), *sentence.facts))


def extend(sentence: Sentence, tail: Sentence) -> Sentence:
    """Return a sentence that goes on: its code is that of its beginning."""
    facts = (*sentence.facts, (tail.code, tail.facts))
    return Sentence(f"{sentence}{tail}", sentence.code, facts)


def from_json(facts: Mapping[str, object]) -> Facts:
    """Return facts as a document has them, sorted by their names: a list is a tuple."""
    return tuple((name, _freeze(facts[name])) for name in sorted(facts))


def change(fact: Fact, change_text: Callable[[str], str]) -> Fact:
    """Return a fact with every text in it changed."""
    if isinstance(fact, tuple):
        return tuple(change(part, change_text) for part in fact)
    return change_text(fact) if isinstance(fact, str) else fact


def _freeze(fact: object) -> Fact:
    if isinstance(fact, list | tuple):
        return tuple(map(_freeze, fact))
    if not (fact is None or isinstance(fact, str | int | float)):
        raise TypeError(
            f"invalid fact {fact!r} of a sentence, expected None, text, a number or a list"
        )
    return str(fact) if isinstance(fact, str) else fact


def _is_ours(fact: Fact, hint: object) -> bool:
    """Return whether a fact has the type of a field; a whole number counts as a float."""
    kind = get_origin(hint) or hint
    assert isinstance(kind, type)
    return isinstance(fact, int | float if kind is float else kind)


def _fits(fact: Fact, hint: object) -> bool:
    """Return whether a fact has the type that a template takes."""
    kind, parts = get_origin(hint), get_args(hint)
    if kind in (Union, types.UnionType):
        return any(_fits(fact, part) for part in parts)
    if kind is Literal:
        return any(type(fact) is type(part) and fact == part for part in parts)
    if kind is tuple:
        if not isinstance(fact, tuple):
            return False
        if parts[-1] is Ellipsis:
            return all(_fits(part, parts[0]) for part in fact)
        return len(fact) == len(parts) and all(map(_fits, fact, parts))
    if isinstance(fact, str) and len(fact) > MAX_FACT_LETTERS:
        return False
    return type(fact) is hint
