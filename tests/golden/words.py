"""Each sentence that has a code, worded with sample facts: what `words.txt` holds.

Of each fact the samples vary, one at a time: whatever changes more than a number stands in a line.
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from capsule import summary
from capsule.diff import words as comparisons
from capsule.manifest.warnings import WARNINGS
from capsule.notes import NOTES
from capsule.sentences import Fact, Templates
from capsule.verdict import wording
from capsule.verdict import words as verdicts
from tests.support.kept import SCENARIOS, record_of

FILE = Path(__file__).with_name("words.txt")
TABLES: dict[str, Templates[Any]] = {
    "notes of a record": NOTES,
    "warnings of lint": WARNINGS,
    "what was changed of an experiment": comparisons.CHANGES,
    "notes of a comparison": comparisons.NOTES,
    "why runs are no evidence": comparisons.REFUSALS,
    "judgements of a claim": verdicts.JUDGEMENTS,
    "notes of a judgement": verdicts.NOTES,
    "verdicts": verdicts.WHOLE,
    "advice": verdicts.ADVICE,
    "a metric over several machines": verdicts.SPREADS,
    "error rates": verdicts.RATES,
}
# where one that any type gives would read like no sentence of ours
SAMPLES: dict[str, Fact] = {
    "better": 2.5,
    "command": "capsule data hash",
    "began": "2020-01-01T00:00:00.000+00:00",
    "capsule": "3a06de48f4ca" + 52 * "0",
    "ended": "2026-03-01T00:00:00.000+00:00",
    "instead": ("python3", "train.py"),
    "load": "load 9.04 on 2 processors",
    "margin": 0.02,
    "most_bytes": 200 << 20,
    "path": "tune/search/*/score",
    "unset": ("RANK", "WORLD_SIZE"),
}


def render() -> str:
    """Return the text of the file."""
    lines = ["# Sentences with sample facts, by their codes. Written by: python -m tests.golden"]
    for title, table in TABLES.items():
        lines += ["", f"## {title}", ""]
        for code in table.codes:
            lines += without_alike(sentences(table, code))
    return "\n".join((*lines, "", "## what a claim allows", "", *without_alike(margins()))) + "\n"


def without_alike(lines: Iterable[str]) -> Iterable[str]:
    """Lines that differ from those before them in more than numbers."""
    worded: dict[str, str] = {}
    for line in lines:
        worded.setdefault(re.sub(r"[-+.e\d]*\d", "#", line), line)
    return worded.values()


def margins() -> Iterator[str]:
    """What the claims of all kept scenarios allow: a fact of their judgements."""
    for scenario in SCENARIOS.values():
        original = record_of(scenario, 0)
        values = summary.run_values(original)
        for claim in original.claims:
            yield wording.region(claim, values.get(claim.metric))


def sentences(table: Templates[Any], code: str) -> Iterator[str]:
    """A sentence with every kind of fact that its template takes."""
    for facts in samples(table.hints(code)):
        sentence = table.say(code, tuple(sorted(facts.items())))
        assert sentence is not None, (code, facts)
        yield f"{code}: {sentence}"


def samples(hints: dict[str, object]) -> Iterator[dict[str, Fact]]:
    """Facts of a template: those at first, then the same with one of them otherwise."""
    every = {name: list(alternatives(name, hint)) for name, hint in hints.items()}
    first = {name: values[0] for name, values in every.items()}
    yield first
    for name, values in every.items():
        yield from ({**first, name: value} for value in values[1:])


def alternatives(name: str, hint: object) -> Iterator[Fact]:
    """Values of a fact, at least one of each kind."""
    kind, parts = get_origin(hint), get_args(hint)
    if kind in (Union, types.UnionType):
        for part in parts:
            yield from alternatives(name, part)
    elif kind is Literal:
        yield from parts
    elif hint is types.NoneType:
        yield None
    elif name in SAMPLES:
        yield SAMPLES[name]
    elif kind is tuple and parts[-1] is Ellipsis:
        values = list(alternatives(name, parts[0]))
        yield (*values, *values)[:2]
        yield (values[0],)
    elif kind is tuple:
        every = [list(alternatives(name, part)) for part in parts]
        yield tuple(values[0] for values in every)
        yield tuple(values[-1] for values in every)
    else:
        yield from {str: (f"<{name}>",), bool: (False, True), int: (5, 1), float: (0.25,)}[hint]  # type: ignore[index]
