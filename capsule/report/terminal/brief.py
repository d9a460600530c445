"""A verdict in a few lines: what decides and what fails in full, what agrees in one line a name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from capsule.diff import Differences
from capsule.diff.names import ROLES
from capsule.diff.words import OTHER_METRIC, REFUSED_VALUE
from capsule.report.terminal import agreement
from capsule.report.terminal.agreement import Claimed
from capsule.report.terminal.facing import describe, describe_worlds, sides_of, subject
from capsule.report.terminal.footing import error_rate
from capsule.report.terminal.style import Path, grid, text, word
from capsule.verdict import ClaimWord, Judged, Verdict
from capsule.verdict.wording import count

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

_AGREEING_LINES = 6
_OPEN_CLAIMS = 12
_WARNINGS = 3
# this note says what a pair is, and warns of nothing
_DESIGN = "pair"
# where the images are one, and their names are not
_SAME_BY = {"same-config": "configuration", "same-tree": "root file system's tree"}
_GRAVITY = {"DIFFERENT": 0, "INCONCLUSIVE": 1, "SKIPPED": 2}

SAID_ABOVE = frozenset(
    {
        *("uncontained", "containment-differs", "image-unused", "image-replaced", "image-named"),
        *(REFUSED_VALUE, OTHER_METRIC),
    }
)
"""Notes that a verdict's first line, or the line of a side, says as well."""


def draw_brief(verdict: Verdict) -> Iterator[RenderableType]:
    """A verdict in about eight lines, as renderables to be printed one below the other."""
    rows = heading(verdict)
    decisive = [one for one in agreement.list_claims(verdict) if one.judged.decisive]
    for name, claim in open_claims(decisive):
        rows.add_row(name, claim)
    for name, claims in agreeing(decisive):
        rows.add_row(name, claims)
    rest = _rest(verdict)
    if rest:
        rows.add_row("besides", text(f"{rest}: --full"))
    notes = [note for note in verdict.differences.notes if note.code not in SAID_ABOVE]
    design = [note for note in notes if note.code == _DESIGN][:1]
    for note in design:
        rows.add_row("note", text(note.sentence))
    warnings = [note.sentence for note in notes if note not in design]
    add_footing(rows, warnings, error_rate(verdict.claims))
    yield rows


def heading(verdict: Verdict) -> Table:
    """The word and its reason, then what was run again, where and for how long."""
    rows = grid(style="")
    rows.add_row(word(verdict.word), text(verdict.sentence))
    differences = verdict.differences
    for note in differences.notes:
        if note.code == REFUSED_VALUE:
            rows.add_row("refused", text(note.sentence))
    others = [note.sentence for note in differences.notes if note.code == OTHER_METRIC]
    for sentence in others[:_WARNINGS]:
        rows.add_row("metric", text(sentence))
    if (more := len(others) - _WARNINGS) > 0:
        rows.add_row("", text(f"and {count(more, 'more metric')}: --full"))
    there, here = sides_of(verdict.claims or verdict.reported)
    first, second = differences.names.heads
    rows.add_row("title", text(_subjects(differences)))
    rows.add_row(first, text(describe(differences.original, there)))
    rows.add_row(second, text(describe(differences.rerun, here)))
    sides = (first, differences.original), (second, differences.rerun)
    if (world := describe_worlds(sides)) is not None:
        rows.add_row("world", text(world))
    if differences.image in _SAME_BY:
        rows.add_row("image", text(f"the same, by the digest of its {_SAME_BY[differences.image]}"))
    return rows


def _subjects(differences: Differences) -> str:
    """What was measured: of two variants what each is called, where that is not the same."""
    there, here = subject(differences.original), subject(differences.rerun)
    if differences.names == ROLES or there == here:
        return there
    first, second = differences.names.heads
    return f"{first}: {there}; {second}: {here}"


def open_claims(claims: Sequence[Claimed]) -> Iterator[tuple[Text, RenderableType]]:
    """What fails or is open, gravest first: the first dozen in full, the rest by name."""
    graves = [one for one in claims if one.judged.word in _GRAVITY]
    graves.sort(key=lambda one: _GRAVITY[one.judged.word])
    for one in graves[:_OPEN_CLAIMS]:
        yield word(one.judged.word), _in_full(one)
    left = Counter((one.judged.word, one.name) for one in graves[_OPEN_CLAIMS:])
    names = list(left.items())
    for (verdict, name), number in names[:_OPEN_CLAIMS]:
        yield word(verdict), text(f"{name}, {number} more: --full")
    unnamed: Counter[ClaimWord] = Counter()
    for (verdict, _), number in names[_OPEN_CLAIMS:]:
        unnamed[verdict] += number
    for verdict, number in unnamed.items():
        yield word(verdict), text(f"{number} more claims: --full")


def _in_full(one: Claimed) -> RenderableType:
    from rich.console import Group

    judged = one.judged
    values = judged.original.values + judged.rerun.values
    lines = [*[agreement.both_sides(one)] * bool(values), judged.sentence]
    lines += [note.sentence for note in judged.notes]
    if judged.advice:
        lines.append(judged.advice.sentence)
    return Group(Path(judged.metric), *map(text, lines))


def agreeing(claims: Sequence[Claimed]) -> Iterator[tuple[Text, Text]]:
    """What is reproduced, in one line for each metric name."""
    names = Counter(one.name for one in claims)
    groups = agreement.group(one for one in claims if one.judged.word == "REPRODUCED")
    # a last line that counts is no shorter than the last group that it stands for
    shown = groups if len(groups) <= _AGREEING_LINES else groups[: _AGREEING_LINES - 1]
    for members in shown:
        if len(members) > 1:
            line = agreement.word_group(members)
        else:
            one = members[0]
            line = agreement.word_claim(one, one.name if names[one.name] == 1 else one.path)
        yield word("REPRODUCED"), text(line)
    left = list(chain.from_iterable(groups[len(shown) :]))
    if left:
        metrics = count(len({one.name for one in left}), "other metric")
        yield word("REPRODUCED"), text(f"{len(left)} more claims on {metrics}: --full")


def _rest(verdict: Verdict) -> str:
    return ", ".join((*_other_metrics(verdict), *_other_facts(verdict.differences)))


def _other_metrics(verdict: Verdict) -> Iterator[str]:
    rest = [one for one in verdict.claims if not one.decisive]
    if skipped := sum(one.word == "SKIPPED" for one in rest):
        yield f"{count(skipped, 'claim')} not run"
    judged = [one for one in rest if one.word != "SKIPPED"]
    altered = [one for one in judged if one.word == "REPORTED" and not _is_ratio(one)]
    secondary = [one for one in judged if one.word != "REPORTED" and not _is_ratio(one)]
    if secondary:
        words = Counter(one.word for one in secondary)
        words_of_all = ", ".join(f"{number} {name}" for name, number in sorted(words.items()))
        yield f"{count(len(secondary), 'secondary claim')} ({words_of_all})"
    if altered:
        yield f"{count(len(altered), 'claim')} on the machine only reported (--set)"
    ratios = sum(map(_is_ratio, judged))
    if ratios:
        yield f"{count(ratios, 'ratio')} only reported"
    if verdict.reported:
        yield f"{count(len(verdict.reported), 'metric')} that nobody claimed"


def _is_ratio(one: Judged) -> bool:
    return one.claim is not None and one.claim.type == "ratio"


def _other_facts(differences: Differences) -> Iterator[str]:
    topics = Counter(fact.topic for fact in differences.facts)
    if topics:
        yield "not the same: " + ", ".join(f"{topic} ({n})" for topic, n in topics.items())


def add_footing(rows: Table, warnings: Sequence[str], rate: str | None) -> None:
    """The first few warnings, how many more there are, and how likely a wrong verdict is."""
    for warning in warnings[:_WARNINGS]:
        rows.add_row("warning", text(warning))
    left = len(warnings) - _WARNINGS
    if left > 0:
        rows.add_row("warning", text(f"{left} more: --full"))
    if rate:
        rows.add_row("error rate", text(rate))
