"""The judgement of a kept set of runs is the same to the digit as it was when it was kept.

    pytest tests/verdict/test_kept.py                         compare
    python -m tests.verdict.test_kept                         the same, names what differs
    python -m tests.verdict.test_kept --write FILE            write what this code says into FILE

`runs.json` says what was claimed and what ran, `judgements.json` what today's `judge_rule` makes of
it; `changed.md` beside them lists the words that were others under earlier rules, and why.
Nothing of it is ever written again for a change that is not meant to move a judgement.

What depends on how records are built stands in `tests.support.kept`; what is taken out of a
judgement, always by attribute, stands in the tables of names here.
"""

import functools
import importlib
import json
import math
import platform
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import capsule
from capsule import diff, stats, summary, verdict
from capsule.diff.several import compare_several
from capsule.jsons import Json
from capsule.lint.outlook import outlook
from capsule.record import Record
from capsule.verdict.model import Judged, Verdict
from capsule.verdict.several import SeveralVerdict, judge_several
from capsule.verdict.several import exit_code as exit_code_of_several
from tests.support.kept import KEPT, ORIGINAL_ID, SCENARIOS, record_of

# what is compared: attributes by name, so that documents may change their form

METRIC = ("unit", "direction", "kind", "resolution", "test_set")
RUN = ("seed", "seed_source", "status", "value", "trajectory")
FROZEN = (
    "metric",
    "type",
    "scale",
    "lower",
    "upper",
    "margin_source",
    "alpha",
    "primary",
    "looks",
    "paired",
    "resolution",
)
JUDGED = (
    "metric",
    "word",
    "decisive",
    "method",
    "unit",
    "direction",
    "kind",
    "scale",
    "estimate",
    "lower",
    "upper",
    "region",
    "step",
    "alpha",
    "level",
    "alpha_used",
    "p_reproduced",
    "p_different",
    "p_different_holm",
    "p_against_alpha",
    "p_zero",
    "superiority",
    "seeds",
)
COUNTS = ("seeds", "values", "independent", "failed", "missing", "failure_bound", "mean", "sd")
LOOK = ("planned", "runs", "number", "alpha")
ADVICE = ("answer", "as_seen", "if_equal")
PAIR = ("label", "word", "alpha", "p_different", "p_different_holm")
SPREAD = ("metric", "unit", "direction", "kind", "scale", "alpha")
PRECISION = (
    "repeatability_sd",
    "between_sd",
    "reproducibility_sd",
    "lower",
    "upper",
    "alpha",
    "within_df",
    "equal_spread_p",
    "sides",
    "runs",
    "limit",
)
MEAN = ("estimate", "standard_error", "between_sd", "sides", "df", "lower", "upper", "alpha")
OUTLOOK = ("metric", "type", "seeds", "rerun_seeds", "alpha", "narrowest", "margin", "runs")


Document = dict[str, Json]
Only = Collection[str] | None
"""The names of the metrics that a scenario is about; None for all of them."""


def attributes(value: object, names: Sequence[str]) -> Document:
    return {name: plain(getattr(value, name)) for name in names}


def attributes_if_any(value: object | None, names: Sequence[str]) -> Document | None:
    return None if value is None else attributes(value, names)


def plain(value: object) -> Json:
    """Numbers as they are; what JSON has no number for as a word."""
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):  # a scalar of numpy is the number that it holds
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    assert value is None or isinstance(value, str | int | float | bool), value
    return value


def values_of(record: Record, only: Only) -> Document:
    """Every metric of one side: its run values, and what is told of them and of calls inside."""
    metrics: Document = {}
    table = summary.metrics_document(record)["metrics"]
    for path, metric in summary.run_values(record).items():
        if only is not None and path.rpartition("/")[2] not in only:
            continue
        metrics[path] = {
            **attributes(metric, METRIC),
            "runs": [[plain(getattr(run, name)) for name in RUN] for run in metric.runs],
            **{name: plain(table[path][name]) for name in ("n", "failed", "missing")},
            **{name: plain(table[path][name]) for name in ("min", "median", "max", "mean")},
            "calls": [_calls(run) for run in metric.runs if summary.calls(run)],
        }
    return metrics


def _calls(run: summary.Run) -> list[Json]:
    calls = summary.calls(run)
    interval = stats.median_interval(calls, level=0.95)
    return [len(calls), plain(interval), plain(stats.variation(calls))]


def judged_of(one: Judged) -> Document:
    return {
        **attributes(one, JUDGED),
        "look": attributes_if_any(one.look, LOOK),
        "advice": attributes_if_any(one.advice, ADVICE),
        "original": attributes(one.original, COUNTS),
        "rerun": attributes(one.rerun, COUNTS),
    }


def verdict_of(outcome: Verdict, only: Only = None) -> Document:
    return {
        "word": outcome.word,
        "exit_code": verdict.exit_code(outcome),
        "claims": [judged_of(one) for one in outcome.claims],
        "reported": [judged_of(one) for one in reports_of(outcome, only)],
    }


def reports_of(outcome: Verdict, only: Only) -> list[Judged]:
    """Unclaimed metrics, those alone that a scenario names where it names any."""
    return [one for one in outcome.reported if only is None or one.metric.split("/")[3] in only]


def several_of(outcome: SeveralVerdict) -> Document:
    return {
        "word": outcome.word,
        "exit_code": exit_code_of_several(outcome),
        "pairs": [
            {**attributes(pair, PAIR), "verdict": verdict_of(pair.verdict)}
            for pair in outcome.pairs
        ],
        "metrics": [
            {
                **attributes(metric, SPREAD),
                "counts": [attributes_if_any(side, COUNTS) for side in metric.counts],
                "precision": attributes_if_any(metric.precision, PRECISION),
                "mean": attributes_if_any(metric.mean, MEAN),
            }
            for metric in outcome.metrics
        ],
    }


def codes_of(outcome: Verdict, only: Only = None) -> Document:
    """What is said of a verdict: the code of each sentence, whose words are in tests/golden."""
    return {
        "sentence": outcome.sentence.code,
        "claims": [_codes(one) for one in (*outcome.claims, *reports_of(outcome, only))],
        "notes": [note.code for note in outcome.differences.notes],
    }


def _codes(one: Judged) -> list[Json]:
    advice = one.advice.sentence.code if one.advice else None
    return [one.sentence.code, advice, *(note.code for note in one.notes)]


def codes_of_several(outcome: SeveralVerdict) -> Document:
    return {
        "sentence": outcome.sentence.code,
        "pairs": [codes_of(pair.verdict) for pair in outcome.pairs],
        "metrics": [
            [
                metric.precision_sentence.code,
                metric.mean_sentence.code,
                *(note.code for note in metric.notes),
            ]
            for metric in outcome.metrics
        ],
    }


def judge(name: str, sides: Sequence[Record]) -> tuple[Document, Document]:
    """What is said of a scenario's records: numbers and words, and the codes apart."""
    only: Only = SCENARIOS[name]["only"]
    figures: Document = {
        "frozen": [attributes(claim, FROZEN) for claim in sides[0].claims],
        "outlook": [attributes(one, OUTLOOK) for one in outlook(sides[0].manifest)],
        "runs_advised": verdict.advise_runs(sides[0]),
        "sides": [values_of(side, only) for side in sides],
    }
    if len(sides) == 2:
        outcome = verdict.judge(diff.compare(*sides, original_id=ORIGINAL_ID))
        return {**figures, "verdict": verdict_of(outcome, only)}, codes_of(outcome, only)
    ids = [ORIGINAL_ID, *(f"{place:064x}" for place in range(1, len(sides)))]
    several = judge_several(compare_several(sides, ids))
    return {**figures, "several": several_of(several)}, codes_of_several(several)


def sides_of(name: str) -> list[Record]:
    scenario = SCENARIOS[name]
    return [record_of(scenario, place) for place in range(len(scenario["sides"]))]


@functools.cache
def judge_now(name: str) -> tuple[Document, Document]:
    return judge(name, sides_of(name))


# comparing


@functools.cache
def kept() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((KEPT / "judgements.json").read_text())
    return document


def differences(a: Json, b: Json, here: str = "") -> list[str]:
    """Where two JSON values are not the same to the digit: 1, 1.0 and true are three things."""
    if isinstance(a, dict) and isinstance(b, dict):
        return [
            line
            for key in dict.fromkeys((*a, *b))
            for line in differences(
                a.get(key, "(lacking)"), b.get(key, "(lacking)"), f"{here}/{key}"
            )
        ]
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return [
            line
            for index, (x, y) in enumerate(zip(a, b, strict=True))
            for line in differences(x, y, f"{here}/{index}")
        ]
    if type(a) is type(b) and repr(a) == repr(b):
        return []
    return [f"{here}: was {a!r}, is {b!r}"]


def unlike_judgement(name: str) -> list[str]:
    return differences(kept()["judgements"][name], judge_now(name)[0])


def unlike_codes(name: str) -> list[str]:
    return differences(kept()["codes"][name], judge_now(name)[1])


def versions() -> dict[str, str]:
    """What else decides the last digits."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        **{name: importlib.import_module(name).__version__ for name in ("numpy", "scipy")},
    }


def _elsewhere() -> str:
    others = differences(kept()["made_with"], versions())
    return f"(kept with other versions: {others})" if others else ""


def strangers() -> list[str]:
    """Modules of another tree: an editable install lends its own where this tree lacks one."""
    tree = Path(capsule.__file__).parent
    modules = {name: one for name, one in sys.modules.items() if name.startswith("capsule.")}
    files = {name: Path(one.__file__ or "/") for name, one in modules.items()}
    return [name for name, file in files.items() if not file.is_relative_to(tree)]


def test_all_code_is_of_one_tree() -> None:
    assert not strangers()


def test_every_kept_scenario_has_a_judgement() -> None:
    assert list(kept()["judgements"]) == list(kept()["codes"]) == list(SCENARIOS)


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_judgement_is_the_kept_one(name: str) -> None:
    assert not unlike_judgement(name), _elsewhere()
    assert not unlike_codes(name), _elsewhere()


# sealed and read again, the records are judged the same

# records that no capsule holds: completed runs lack some metrics of the operator
UNSEALED = ("operator",)


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in UNSEALED])
def test_sealed_and_read_again_it_is_judged_the_same(name: str, tmp_path: Path) -> None:
    sealed = [seal_and_read(side, tmp_path / str(n)) for n, side in enumerate(sides_of(name))]
    assert not differences(kept()["judgements"][name], judge(name, sealed)[0])


def seal_and_read(record: Record, folder: Path) -> Record:
    """The record as a capsule's reader returns it."""
    from capsule import archive
    from tests.support.capsules import seal

    folder.mkdir()
    return archive.read(seal(folder, record)).record


def whole_document() -> dict[str, Any]:
    judgements = {name: judge_now(name) for name in SCENARIOS}
    return {
        "format": "kept-judgements/1",
        "made_by": "judge_rule 3",
        "made_with": versions(),
        "judgements": {name: figures for name, (figures, _) in judgements.items()},
        "codes": {name: codes for name, (_, codes) in judgements.items()},
    }


def _text(document: dict[str, Any]) -> str:
    """JSON with one line for each of a scenario's parts: floats as `repr` has them."""
    lines = []
    for key, value in document.items():
        if key not in ("judgements", "codes"):
            lines.append(f"{json.dumps(key)}: {json.dumps(value)}")
            continue
        parts = [
            f"{json.dumps(name)}: {{\n  "
            + ",\n  ".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in scenario.items())
            + "}"
            for name, scenario in value.items()
        ]
        lines.append(f"{json.dumps(key)}: {{\n " + ",\n ".join(parts) + "}")
    return "{" + ",\n".join(lines) + "}\n"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        text = _text(whole_document())
        print("judged by", capsule.__file__, strangers() or "alone")
        Path(sys.argv[2]).write_text(text)
        sys.exit(bool(strangers()))
    judged = [f"{name}{line}" for name in SCENARIOS for line in unlike_judgement(name)]
    said = [f"{name}{line}" for name in SCENARIOS for line in unlike_codes(name)]
    print(*judged, *said, sep="\n")
    print(f"{len(SCENARIOS)} scenarios: {len(judged)} judgements differ, {len(said)} codes")
    sys.exit(bool(judged or said))
