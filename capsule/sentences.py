"""Sentences for people, each made by one template from a code and the facts that it states."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Generic, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

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


class Templates(Generic[_T]):
    """The sentences of one kind by their codes, each with the function that words it.

    A template takes its facts by keyword, without defaults: its signature says what they are.

    Args:
        make: Makes a value of the kind of a text, its code and its facts.
    """

    def __init__(self, make: Callable[[str, str, Facts], _T]) -> None:
        self._make = make
        self._templates: dict[str, Callable[..., str]] = {}
        self._hints: dict[str, dict[str, object]] = {}

    @property
    def codes(self) -> tuple[str, ...]:
        """Every code, in the order of the source."""
        return tuple(self._templates)

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
    assert fact is None or isinstance(fact, str | int | float), fact
    return str(fact) if isinstance(fact, str) else fact


def _fits(fact: Fact, hint: object) -> bool:
    """Whether a fact is of the type that a template takes."""
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
