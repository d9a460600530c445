"""A verdict on one screen: each claim's numbers, how sure, on which machines, what now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, cast

from capsule.diff import Differences
from capsule.diff.names import ROLES
from capsule.diff.words import OTHER_METRIC, REFUSED_VALUE
from capsule.notes import Note
from capsule.report.terminal import agreement
from capsule.report.terminal.agreement import Claimed
from capsule.report.terminal.claims import ClaimNames, ClaimTable, Row, make_row, needs_sentence
from capsule.report.terminal.environment import word_environment
from capsule.report.terminal.facing import describe, describe_rerun, describe_worlds
from capsule.report.terminal.lines import Screen, draw_labelled, draw_line, draw_word
from capsule.report.terminal.prose import cut, wrap
from capsule.sentences import Facts
from capsule.verdict import Advice, ClaimWord, Judged, Verdict, rates
from capsule.verdict.wording import count
from capsule.verdict.words import ADVICE

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

# so many lines of 120 may the claims take that fail or are open, and those that agree
_OPEN_LINES = 40
_AGREEING_LINES = 24
_AGREEING_ROWS = 12
_NAMED = 3
_WORDS: tuple[ClaimWord, ...] = ("DIFFERENT", "INCONCLUSIVE", "SKIPPED", "REPRODUCED")
_WARNINGS = 3
_NOTE_LINES = 2
_REFUSAL_LINES = 5
_REASON_LINES = 3
_BEFORE_A_REPORT = "Before reporting DIFFERENT: compare environments (--full), then ask the author."
# these notes say what is compared, and warn of nothing
_DESIGN = frozenset({"pair", "runs-added"})
# where the images are one, and their names are not
_SAME_BY = {"same-config": "configuration", "same-tree": "root file system's tree"}
_OF_MACHINES = frozenset({"busy", "shared-cores", "oversubscribed"})
# by the code of the sentence that says why a claim is reported only
_ALTERING = {"altered": "--set", "other-device": "--device"}
# notes of a judgement that its row says as well, or that change nothing for its reader
_IN_ROWS = frozenset({"planned-look", "unplanned-look", "paired-seeds", "unequal-failures"})

SAID_ABOVE = frozenset(
    {
        *("uncontained", "containment-differs", "image-unused", "image-replaced", "image-named"),
        *("images-differ", "not-a-reexecution", "of-another-original", "same-run"),
        *(REFUSED_VALUE, OTHER_METRIC),
    }
)
"""Notes that a verdict's first lines, or the line of a side, say as well."""


def draw_brief(verdict: Verdict) -> Iterator[RenderableType]:
    """Yield a verdict on one screen, as renderables to be printed one below the other."""
    yield Screen(lambda width, plus_minus: _draw(verdict, width, plus_minus))


def _draw(verdict: Verdict, width: int, plus_minus: str) -> Iterator[Text]:
    blank = draw_line("")
    claims = [one for one in agreement.list_claims(verdict) if one.judged.decisive]
    yield from draw_heading(verdict, width)
    if claims:
        yield blank
        yield from draw_claims(claims, verdict.differences.names.heads, width, plus_minus)
    yield blank
    yield from draw_labelled("error rate", rates.summarize(verdict.claims) or "", width)
    advice = list(advise(verdict, claims))
    for place, line in enumerate(advice):
        yield from draw_labelled("what now" if place == 0 else "", line, width)
    if claims:
        yield blank
    yield from draw_sides(verdict.differences, width)
    yield from draw_labelled("environment", word_environment(verdict.differences), width)
    yield from draw_warnings(choose_notes(verdict), width)
    yield from draw_labelled("other", _word_others(verdict), width)


def draw_heading(verdict: Verdict, width: int) -> Iterator[Text]:
    """Yield the word and what was measured, its reason, what weakens it, and what ranks formed."""
    differences = verdict.differences
    if _is_disjoint(differences):
        yield from draw_labelled(
            verdict.word, "the two capsules have no common metric with runs", width
        )
        yield from draw_labelled("", _title(differences), width)
    else:
        yield from draw_labelled(verdict.word, _title(differences), width)
    yield from draw_labelled("", verdict.sentence, width)
    for code, label in ((REFUSED_VALUE, "refused"), (OTHER_METRIC, "metric")):
        notes = [note.sentence for note in differences.notes if note.code == code]
        yield from draw_some(label, notes, width, most_lines=_REFUSAL_LINES)
    for note in differences.cautions:
        yield from draw_labelled("caution", note.sentence, width)
    first, second = differences.names.heads
    sides = (first, differences.original), (second, differences.rerun)
    yield from draw_labelled("world", describe_worlds(sides) or "", width)


def _is_disjoint(differences: Differences) -> bool:
    """Return whether no metric of one side has runs on the other."""
    verified = differences.rerun.verifies
    if verified is not None and verified == differences.original.id:
        return False
    return not any(pair.original and pair.rerun for pair in differences.pairs)


def _title(differences: Differences) -> str:
    """Return what was measured, on each side where that differs."""
    there, here = differences.original.title, differences.rerun.title
    if there == here:
        return there
    first, second = differences.names.heads
    return f"{first}: {there}; {second}: {here}"


def draw_claims(
    claims: Sequence[Claimed], heads: tuple[str, str], width: int, plus_minus: str
) -> Iterator[Text]:
    """Yield the table of claims, gravest first; those that agree in groups where they are many."""
    names = ClaimNames([one.judged for one in claims])
    rows = {
        id(one): make_row(one, names.name(one.judged), plus_minus, *_reasons(one, width))
        for one in claims
    }
    if names.prefix:
        yield from map(draw_line, wrap(f"metrics in {names.prefix}", width))
    of_words: dict[ClaimWord, list[Claimed]] = {
        word: [one for one in claims if one.judged.word == word] for word in _WORDS
    }
    agreeing = of_words.pop("REPRODUCED")
    is_grouped = len(agreeing) > _AGREEING_ROWS
    listed = list(chain.from_iterable(of_words.values())) if is_grouped else claims
    table = ClaimTable([rows[id(one)] for one in listed], heads, width)
    yield from map(draw_line, table.draw_heading() if listed else [])
    room = _OPEN_LINES
    for word, members in of_words.items():
        if members:
            drawn = list(_draw_section(word, members, rows, table, room, len(claims), width))
            room = max(0, room - len(drawn))
            yield from drawn
    if is_grouped:
        yield draw_word("REPRODUCED", f"({len(agreeing)})")
        yield from _draw_groups(agreeing, width)
    elif agreeing:
        room = max(room, _AGREEING_LINES)
        yield from _draw_section("REPRODUCED", agreeing, rows, table, room, len(claims), width)


def _draw_section(
    word: ClaimWord,
    members: Sequence[Claimed],
    rows: dict[int, Row],
    table: ClaimTable,
    room: int,
    claims: int,
    width: int,
) -> Iterator[Text]:
    """Yield the rows of claims with one word, as many as have room; the rest by name."""
    if claims > 1:
        yield draw_word(word, f"({len(members)})")
    shown = 0
    for one in members:
        lines = table.draw(rows[id(one)])
        room -= len(lines)
        if room < 0 and shown:
            break
        yield from map(draw_line, lines)
        shown += 1
    if left := members[shown:]:
        names = Counter(one.name for one in left)
        named = ", ".join(f"{name} ({number})" for name, number in list(names.items())[:_NAMED])
        others = f", {len(names) - _NAMED} other metrics" if len(names) > _NAMED else ""
        line = f"and {count(len(left), 'more claim')}: {named}{others} (--full)"
        yield from map(draw_line, wrap(line, width))


def _draw_groups(claims: Sequence[Claimed], width: int) -> Iterator[Text]:
    """Yield what is reproduced, one line for each metric name, as many as have room."""
    groups = agreement.group(claims)
    room = _AGREEING_LINES
    for place, members in enumerate(groups):
        lines = wrap(agreement.word_group(members), width)
        room -= len(lines)
        if room < 0:
            left = list(chain.from_iterable(groups[place:]))
            metrics = count(len({one.name for one in left}), "other metric")
            yield draw_line(f"and {count(len(left), 'more claim')} on {metrics} (--full)")
            return
        yield from map(draw_line, lines)


def _reasons(one: Claimed, width: int) -> Iterator[str]:
    """Yield what a row's cells leave out: why it is so, and what its reader must know."""
    judged = one.judged
    if needs_sentence(judged):
        lines = wrap(judged.sentence, width)
        yield " ".join(cut(lines, _REASON_LINES, width) if len(lines) > _REASON_LINES else lines)
    if judged.word != "REPRODUCED":
        yield from (note.sentence for note in judged.notes if note.code not in _IN_ROWS)


def advise(verdict: Verdict, claims: Sequence[Claimed]) -> Iterator[str]:
    """Yield what to do next: one sentence for each kind of advice, on the first claim of it."""
    if verdict.word == "DIFFERENT" and verdict.differences.names == ROLES:
        yield _BEFORE_A_REPORT
    if verdict.word != "INCONCLUSIVE":
        return
    first: dict[str, tuple[Claimed, Advice]] = {}
    advised = [one for one in claims if one.judged.advice is not None]
    for one in advised:
        assert one.judged.advice is not None
        first.setdefault(one.judged.advice.answer, (one, one.judged.advice))
    for one, advice in first.values():
        sentence = _shorten_advice(advice)
        is_alone = len(advised) == 1
        yield f"{sentence[:1].upper()}{sentence[1:]}." if is_alone else f"{one.name}: {sentence}"
    if len(advised) > len(first):
        yield f"{count(len(advised) - len(first), 'more claim')} with advice: --full"


def _shorten_advice(advice: Advice) -> str:
    """Return advice without the levels of further looks, which `--full` has."""
    levels = dict(advice.sentence.facts).get("levels")
    tail = None if levels is None else ADVICE.say("levels", cast(Facts, levels))
    return advice.sentence.removesuffix(tail or "")


def draw_sides(differences: Differences, width: int) -> Iterator[Text]:
    """Yield each side in a line, and what makes their images equal."""
    first, second = differences.names.heads
    yield from draw_labelled(first, describe(differences.original), width)
    yield from draw_labelled(second, describe_rerun(differences), width)
    if differences.image in _SAME_BY:
        yield from draw_labelled(
            "image",
            f"equal on both sides by the digest of the {_SAME_BY[differences.image]}",
            width,
        )


def choose_notes(verdict: Verdict) -> list[Note]:
    """Return the notes that concern a judged metric and stand nowhere else on the screen."""
    left_out = set(SAID_ABOVE)
    judged = [one for one in verdict.claims if one.word not in ("REPORTED", "SKIPPED")]
    if all(one.kind != "machine" for one in judged):
        left_out |= _OF_MACHINES
    if any(one.sentence.code == "repeated-seeds" for one in judged):
        left_out.add("shared-seeds")
    return [note for note in verdict.differences.notes if note.code not in left_out]


def draw_warnings(notes: Sequence[Note], width: int) -> Iterator[Text]:
    """Yield what is compared, then the first few warnings, and how many more there are."""
    design = [note.sentence for note in notes if note.code in _DESIGN]
    yield from draw_some("note", design, width)
    warnings = [note.sentence for note in notes if note.code not in _DESIGN]
    yield from draw_some("warning", warnings, width)


def draw_some(
    label: str, sentences: Sequence[str], width: int, most_lines: int = _NOTE_LINES
) -> Iterator[Text]:
    """Yield the first of some sentences below a label, and how many more there are."""
    for sentence in sentences[:_WARNINGS]:
        yield from draw_labelled(label, sentence, width, most_lines=most_lines)
    if (left := len(sentences) - _WARNINGS) > 0:
        yield from draw_labelled("", f"{left} more: --full", width)


def _word_others(verdict: Verdict) -> str:
    """Return how many claims and metrics decide nothing."""
    parts = list(_count_others(verdict))
    return f"{', '.join(parts)} (--full)" if parts else ""


def _count_others(verdict: Verdict) -> Iterator[str]:
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
        codes = {one.sentence.code for one in altered}
        options = ", ".join(option for code, option in _ALTERING.items() if code in codes)
        yield f"{count(len(altered), 'claim')} on machine metrics not judged ({options})"
    ratios = sum(map(_is_ratio, judged))
    if ratios:
        yield f"{count(ratios, 'ratio')} not judged"
    if verdict.reported:
        yield f"{count(len(verdict.reported), 'unclaimed metric')}"


def _is_ratio(one: Judged) -> bool:
    return one.claim is not None and one.claim.type == "ratio"
