"""The judgement of several re-executions on a terminal, and as JSON."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from capsule import __version__
from capsule.diff import Side
from capsule.diff.several import label
from capsule.report.documents import to_json as pair_json
from capsule.report.style import STYLES, Path, table, text, word
from capsule.verdict.model import Counts, Judged
from capsule.verdict.several import JudgedPair, SeveralVerdict, exit_code
from capsule.verdict.spread import Spread
from capsule.verdict.wording import number

if TYPE_CHECKING:
    from rich.console import RenderableType

    from capsule.stats.reproducibility import Mean, Precision

FORMAT = "capsule-several/1"


def terminal(verdict: SeveralVerdict) -> tuple[RenderableType, ...]:
    """Several re-executions judged, as rich renderables to be printed one below the other.

    Readable without colour and at 80 columns. What differs between two sides is only counted:
    `capsule diff` of those two lists it.
    """
    return tuple(_parts(verdict))


def to_json(verdict: SeveralVerdict) -> dict[str, Any]:
    """The same as a value of the schema `several-1`, each pair as one of `comparison-1` in it.

    Computed numbers have 12 significant digits: special functions differ in the last ones between
    builds.
    """
    return {
        "format": FORMAT,
        "tool": __version__,
        "verdict": verdict.word,
        "exit_code": exit_code(verdict),
        "sentence": verdict.sentence,
        "sides": [
            {"label": label(index), **asdict(side)} for index, side in enumerate(verdict.sides)
        ],
        "pairs": [_pair(pair) for pair in verdict.pairs],
        "metrics": [_spread(metric) for metric in verdict.metrics],
    }


def _parts(verdict: SeveralVerdict) -> Iterator[RenderableType]:
    from rich.text import Text

    yield Text.assemble(
        (verdict.word, STYLES[verdict.word]), "  ", text(verdict.sentence), no_wrap=False
    )
    yield _pairs(verdict.pairs)
    if verdict.metrics:
        yield _metrics(verdict)
    yield _beside(verdict)
    for note in _notes(verdict.pairs):
        yield text(f"note: {note}")
    yield from (text(sentence, "dim") for sentence in _footing(verdict))


def _pairs(pairs: Sequence[JudgedPair]) -> RenderableType:
    rows = table(
        ("verdict", {"no_wrap": True}),
        ("pair", {"no_wrap": True}),
        ("", {"overflow": "fold"}),
        title="Each re-execution against the original",
    )
    for pair in pairs:
        told = pair.verdict.sentence
        if pair.word != pair.verdict.word:
            told += f", by itself; not after Holm over {len(pairs)} pairs"
        rows.add_row(word(pair.word), f"A-{pair.label}", text(told))
    return rows


def _metrics(verdict: SeveralVerdict) -> RenderableType:
    rows = table(
        ("claims", {"no_wrap": True}),
        ("metric", {"overflow": "fold", "ratio": 1}),
        title="Over all machines",
    )
    for metric in verdict.metrics:
        rows.add_row(_words(metric, verdict.pairs), _body(metric))
    return rows


def _words(metric: Spread, pairs: Sequence[JudgedPair]) -> RenderableType:
    """Every claim's word in every pair, one below the other."""
    from rich.text import Text

    found: list[Text] = []
    for pair in pairs:
        claims = [one for one in pair.verdict.claims if one.metric == metric.metric]
        for one in claims:
            kind = f"{_type(one)} " if len(claims) > 1 else ""
            found.append(Text.assemble(f"{pair.label} {kind}", word(one.word)))
    return Text("\n").join(found)


def _type(one: Judged) -> str:
    return one.claim.type if one.claim else ""


def _body(metric: Spread) -> RenderableType:
    from rich.console import Group

    values = ", ".join(
        f"{label(index)} {_value(counts, metric.unit)}"
        for index, counts in enumerate(metric.counts)
    )
    lines = (metric.precision_sentence, metric.mean_sentence, *metric.notes)
    return Group(Path(metric.metric), text(values), *(text(line, "dim") for line in lines))


def _value(counts: Counts | None, unit: str) -> str:
    if counts is None:
        return "none"
    mean = number(counts.mean, 4)
    told = mean if unit == "1" or counts.mean is None else f"{mean} {unit}"
    lost = f", {counts.failed} failed" * bool(counts.failed)
    lost += f", {counts.missing} missing" * bool(counts.missing)
    return f"{told} ({counts.independent} runs{lost})"


def _beside(verdict: SeveralVerdict) -> RenderableType:
    rows = table(
        ("", {"no_wrap": True}),
        ("capsule", {"overflow": "fold"}),
        ("image", {"overflow": "fold"}),
        ("runtime", {"overflow": "fold"}),
        ("differs from A in", {"overflow": "fold", "ratio": 1}),
        title="What is not the same beside the numbers (no cause is implied)",
    )
    rows.add_row("A", *map(text, _side(verdict.sides[0])), "")
    for pair in verdict.pairs:
        found = pair.verdict.differences
        counted = Counter(fact.topic for fact in found.facts)
        told = ", ".join(f"{topic} ({count})" for topic, count in counted.items())
        rows.add_row(pair.label, *map(text, _side(found.rerun, found.image)), text(told or "none"))
    return rows


def _side(side: Side, relation: str | None = None) -> tuple[str, str, str]:
    image = (side.image or "none").removeprefix("sha256:")[:12]
    return (
        (side.id or side.uuid)[:12],
        image if relation in (None, "none") else f"{image} {relation}",
        side.runtime if side.contained else f"{side.runtime}, not contained",
    )


def _notes(pairs: Sequence[JudgedPair]) -> Iterator[str]:
    """The notes of all pairs, each once, with the pairs that it belongs to."""
    owners: dict[str, list[str]] = {}
    for pair in pairs:
        for note in pair.verdict.differences.notes:
            owners.setdefault(note, []).append(f"A-{pair.label}")
    for note, named in owners.items():
        yield f"{', '.join(named)}: {note}"


def _footing(verdict: SeveralVerdict) -> Iterator[str]:
    levels = sorted({pair.alpha for pair in verdict.pairs})
    rates = " or ".join(f"{number(100 * level)} %" for level in levels)
    yield (
        "REPRODUCED asks for every pair, each at its own level, and needs no correction for their"
        f" number. DIFFERENT is corrected by Holm: any wrong one among the pairs has a probability"
        f" of at most {rates}."
    )
    if any(metric.precision for metric in verdict.metrics):
        widths = sorted({metric.alpha for metric in verdict.metrics if metric.precision})
        inside = " or ".join(f"{number(100 * (1 - 2 * alpha))} %" for alpha in widths)
        yield (
            f"Limits have a confidence of {inside}, for normal runs that spread equally on every"
            " machine; heavy tails make those of s_R too narrow."
        )
    yield "`capsule diff` of A and one other lists what differs between the two."


def _pair(pair: JudgedPair) -> dict[str, Any]:
    return {
        "label": pair.label,
        "verdict": pair.word,
        "alpha": pair.alpha,
        "p_different": _rounded(pair.p_different),
        "p_different_holm": _rounded(pair.p_different_holm),
        "comparison": pair_json(pair.verdict),
    }


def _spread(metric: Spread) -> dict[str, Any]:
    return {
        "metric": metric.metric,
        "unit": metric.unit,
        "direction": metric.direction,
        "kind": metric.kind,
        "scale": metric.scale,
        "alpha": metric.alpha,
        "sides": [None if counts is None else _counts(counts) for counts in metric.counts],
        "reproducibility": _precision(metric.precision) if metric.precision else None,
        "reproducibility_sentence": metric.precision_sentence,
        "mean": _mean(metric.mean) if metric.mean else None,
        "mean_sentence": metric.mean_sentence,
        "notes": list(metric.notes),
    }


def _counts(counts: Counts) -> dict[str, Any]:
    return {
        "seeds": list(counts.seeds),
        "values": counts.values,
        "independent": counts.independent,
        "failed": counts.failed,
        "missing": counts.missing,
        "mean": _rounded(counts.mean),
        "sd": _rounded(counts.sd),
    }


def _precision(found: Precision) -> dict[str, Any]:
    return {
        "machines": found.sides,
        "runs": found.runs,
        "s_r": _rounded(found.repeatability_sd),
        "s_L": _rounded(found.between_sd),
        "s_R": _rounded(found.reproducibility_sd),
        "interval": [_rounded(found.lower), _rounded(found.upper)],
        "limit": _rounded(found.limit),
        "within_df": _rounded(found.within_df),
        "equal_spread_p": _rounded(found.equal_spread_p),
    }


def _mean(found: Mean) -> dict[str, Any]:
    return {
        "machines": found.sides,
        "estimate": _rounded(found.estimate),
        "interval": [_rounded(found.lower), _rounded(found.upper)],
        "standard_error": _rounded(found.standard_error),
        "tau": _rounded(found.between_sd),
        "df": _rounded(found.df),
    }


def _rounded(value: float | None) -> float | None:
    """Twelve digits; an upper limit that is none is null."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.12g}") + 0.0  # no -0.0
