"""A verdict as a JSON value: the same bytes for any order of runs, on any machine."""

from __future__ import annotations

import math
from dataclasses import asdict

from capsule import __version__
from capsule.diff import Side
from capsule.jsons import Json
from capsule.manifest import Claim
from capsule.notes import Note
from capsule.record import FrozenClaim
from capsule.sentences import Fact, Facts, Sentence
from capsule.verdict import POWERS, Advice, Counts, Judged, Look, Verdict, exit_code, rates

FORMAT = "capsule-comparison/1"


def verdict_to_json(verdict: Verdict, next_command: str | None = None) -> dict[str, Json]:
    """A verdict as a value of the schema `comparison-1`.

    Args:
        verdict: Of one capsule by another.
        next_command: What decides what is open, None where nothing is known to.

    Computed numbers have 12 significant digits: special functions differ in the last ones between
    builds. Values of runs in sentences of exact claims are whole.
    """
    differences = verdict.differences
    return {
        "format": FORMAT,
        "tool": __version__,
        "verdict": verdict.word,
        "exit_code": exit_code(verdict),
        "code": verdict.sentence.code,
        "sentence": verdict.sentence,
        "cautions": [_caution(note) for note in differences.cautions],
        "error_rate": sentence_to_json(rates.summarize(verdict.claims)),
        "sides": {
            "original": side_to_json(differences.original),
            "rerun": side_to_json(differences.rerun),
        },
        "image": differences.image,
        "changes": notes_to_json(differences.changes),
        "claims": [_judgement(judged) for judged in verdict.claims],
        "reported": [_judgement(judged) for judged in verdict.reported],
        "differences": [asdict(fact) for fact in differences.facts],
        "notes": notes_to_json(differences.notes),
        "next": next_command,
    }


def side_to_json(side: Side) -> dict[str, Json]:
    """One capsule of a comparison."""
    added: list[Json] = [asdict(one) for one in side.added]
    return {**asdict(side), "authors": list(side.authors), "added": added}


def notes_to_json(notes: tuple[Note, ...]) -> list[Json]:
    """Remarks as every document tells them."""
    return [{"code": note.code, "sentence": note.sentence} for note in notes]


def _caution(note: Note) -> dict[str, Json]:
    facts = facts_to_json(note.facts or ())
    return {"code": note.code, "facts": facts, "sentence": note.sentence}


def sentence_to_json(sentence: Sentence | None) -> dict[str, Json] | None:
    """A sentence with its code and facts, as every document tells it."""
    if sentence is None:
        return None
    facts = facts_to_json(sentence.facts)
    return {"code": sentence.code, "facts": facts, "sentence": str(sentence)}


def facts_to_json(facts: Facts) -> dict[str, Json]:
    """The facts of a sentence by their names."""
    return {name: _list(fact) for name, fact in facts}


def _list(fact: Fact) -> Json:
    return [_list(part) for part in fact] if isinstance(fact, tuple) else fact


def _judgement(judged: Judged) -> dict[str, Json]:
    return {
        "metric": judged.metric,
        "claim": claim_to_json(judged.claim) if judged.claim else None,
        "verdict": judged.word,
        "unit": judged.unit,
        "direction": judged.direction,
        "kind": judged.kind,
        "scale": judged.scale,
        "method": judged.method,
        "estimate": round_digits(judged.estimate),
        "interval": [round_digits(judged.lower), round_digits(judged.upper)],
        "region": [round_digits(end) for end in judged.region],
        "step": round_digits(judged.step),
        "alpha_used": round_digits(judged.alpha_used),
        "p_reproduced": round_digits(judged.p_reproduced),
        "p_different": round_digits(judged.p_different),
        "p_different_holm": round_digits(judged.p_different_holm),
        "p_zero": round_digits(judged.p_zero),
        "superiority": round_digits(judged.superiority),
        "look": _look(judged.look) if judged.look else None,
        "error_rate": judged.alpha if judged.decisive and judged.no_rate is None else None,
        "no_error_rate": sentence_to_json(judged.no_rate),
        "failure": judged.failure,
        "fault": judged.fault,
        "seeds": judged.seeds,
        "original": counts_to_json(judged.original),
        "rerun": counts_to_json(judged.rerun),
        "code": judged.sentence.code,
        "sentence": judged.sentence,
        "advice": _advice(judged.advice) if judged.advice else None,
        "notes": notes_to_json(judged.notes),
    }


def _look(look: Look) -> dict[str, Json]:
    return {
        "planned": list(look.planned),
        "runs": look.runs,
        "number": look.number,
        "alpha": round_digits(look.alpha),
    }


def _advice(advice: Advice) -> dict[str, Json]:
    return {
        "answer": advice.answer,
        "powers": list(POWERS),
        "as_seen": list(advice.as_seen),
        "if_equal": list(advice.if_equal),
        "sentence": advice.sentence,
    }


def claim_to_json(claim: FrozenClaim) -> dict[str, Json]:
    """A claim as every document tells it."""
    return {
        "pattern": claim.pattern.metric,
        "label": claim.pattern.label,
        "type": claim.type,
        "primary": claim.primary,
        "alpha": claim.alpha,
        "scale": claim.scale,
        "region": [claim.lower, claim.upper],
        "margin_source": claim.margin_source,
        "looks": list(claim.looks),
        "paired": claim.paired,
        "resolution": claim.resolution,
        "failure_margin": claim.pattern.failure_margin,
        "value": _value(claim.pattern),
        "published": claim.pattern.published._asdict() if claim.pattern.published else None,
    }


def _value(claim: Claim) -> Json:
    return None if claim.mean_of_last is None else {"mean_of_last": claim.mean_of_last}


def counts_to_json(side: Counts) -> dict[str, Json]:
    """The runs of one side."""
    return {
        "seeds": list(side.seeds),
        "values": side.values,
        "independent": side.independent,
        "failed": side.failed,
        "missing": side.missing,
        "failure_bound": round_digits(side.failure_bound),
        "mean": round_digits(side.mean),
        "sd": round_digits(side.sd),
        "unit": side.unit,
    }


def round_digits(value: float | None) -> float | None:
    """Twelve digits; None for no number, and for an infinite one."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.12g}") + 0.0  # no -0.0
