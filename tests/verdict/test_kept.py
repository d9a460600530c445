"""The judgement of a kept set of runs is the same to the digit as it was when it was kept.

    pytest tests/verdict/test_kept.py                         compare
    python -m tests.verdict.test_kept                         the same, names what differs
    python -m tests.verdict.test_kept --write FILE            write what this code says into FILE

`runs.json` says what was claimed and what ran, `judgements.json` what commit c473676 made of it.
Neither is ever written again for a change that is not meant to move a judgement.

What depends on how records are built stands in `tests.support.kept`; what is taken out of a
judgement, always by attribute, stands in the tables of names here.
"""

import functools
import importlib
import json
import math
import platform
import sys
from pathlib import Path

import pytest

from capsule import diff, stats, summary, verdict
from capsule.diff.several import compare_several
from capsule.lint.outlook import outlook
from capsule.verdict import wording
from capsule.verdict.several import exit_code as exit_code_of_several
from capsule.verdict.several import judge_several
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


def taken(value, names):
    return None if value is None else {name: plain(getattr(value, name)) for name in names}


def plain(value):
    """Numbers as they are; what JSON has no number for as a word."""
    if isinstance(value, tuple | list):
        return [plain(each) for each in value]
    if hasattr(value, "item"):  # a scalar of numpy is the number that it holds
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    assert value is None or isinstance(value, str | int | float | bool), value
    return value


def values_of(record, only):
    """Every metric of one side: its run values, and what is told of them and of calls inside."""
    found = {}
    table = summary.metrics_document(record)["metrics"]
    for path, metric in summary.run_values(record).items():
        if only is not None and path.rpartition("/")[2] not in only:
            continue
        found[path] = {
            **taken(metric, METRIC),
            "runs": [[plain(getattr(run, name)) for name in RUN] for run in metric.runs],
            **{name: plain(table[path][name]) for name in ("n", "failed", "missing")},
            **{name: plain(table[path][name]) for name in ("min", "median", "max", "mean")},
            "calls": [_calls(run) for run in metric.runs if summary.calls(run)],
        }
    return found


def _calls(run):
    calls = summary.calls(run)
    interval = stats.median_interval(calls, level=0.95)
    return [len(calls), plain(interval), plain(stats.variation(calls))]


def judged_of(one):
    return {
        **taken(one, JUDGED),
        "look": taken(one.look, LOOK),
        "advice": taken(one.advice, ADVICE),
        "original": taken(one.original, COUNTS),
        "rerun": taken(one.rerun, COUNTS),
    }


def verdict_of(found, only=None):
    return {
        "word": found.word,
        "exit_code": verdict.exit_code(found),
        "claims": [judged_of(one) for one in found.claims],
        "reported": [judged_of(one) for one in reported(found, only)],
    }


def reported(found, only):
    """Unclaimed metrics, those alone that a scenario names where it names any."""
    return [one for one in found.reported if only is None or one.metric.split("/")[3] in only]


def several_of(found):
    return {
        "word": found.word,
        "exit_code": exit_code_of_several(found),
        "pairs": [
            {
                **taken(pair, ("label", "word", "alpha", "p_different", "p_different_holm")),
                "verdict": verdict_of(pair.verdict),
            }
            for pair in found.pairs
        ],
        "metrics": [
            {
                **taken(metric, SPREAD),
                "counts": [taken(side, COUNTS) for side in metric.counts],
                "precision": taken(metric.precision, PRECISION),
                "mean": taken(metric.mean, MEAN),
            }
            for metric in found.metrics
        ],
    }


def allowed_of(original):
    """What each frozen claim allows, as a table of claims tells it."""
    values = summary.run_values(original)
    return [wording.region(claim, values.get(claim.metric)) for claim in original.claims]


def words_of(found, only=None):
    """Every sentence of a verdict: kept apart, because wording may change on purpose."""
    return {
        "sentence": found.sentence,
        "claims": [_words(one) for one in (*found.claims, *reported(found, only))],
        "notes": [note.sentence for note in found.differences.notes],
    }


def _words(one):
    told = [one.sentence, one.advice.sentence if one.advice else None]
    return [*told, *(note.sentence for note in one.notes)]


def words_of_several(found):
    return {
        "sentence": found.sentence,
        "pairs": [words_of(pair.verdict) for pair in found.pairs],
        "metrics": [
            [
                metric.precision_sentence,
                metric.mean_sentence,
                *(note.sentence for note in metric.notes),
            ]
            for metric in found.metrics
        ],
    }


def judged(name, sides):
    """What is said of a scenario's records: numbers and words, and the sentences apart."""
    only = SCENARIOS[name]["only"]
    told = {
        "frozen": [taken(claim, FROZEN) for claim in sides[0].claims],
        "outlook": [taken(one, OUTLOOK) for one in outlook(sides[0].manifest)],
        "runs_advised": verdict.advise_runs(sides[0]),
        "sides": [values_of(side, only) for side in sides],
    }
    if len(sides) == 2:
        outcome = verdict.judge(diff.compare(*sides, original_id=ORIGINAL_ID))
        said = {"allowed": allowed_of(sides[0]), **words_of(outcome, only)}
        return {**told, "verdict": verdict_of(outcome, only)}, said
    ids = [ORIGINAL_ID, *(f"{place:064x}" for place in range(1, len(sides)))]
    outcome = judge_several(compare_several(sides, ids))
    said = {"allowed": allowed_of(sides[0]), **words_of_several(outcome)}
    return {**told, "several": several_of(outcome)}, said


def sides_of(name):
    scenario = SCENARIOS[name]
    return [record_of(scenario, place) for place in range(len(scenario["sides"]))]


@functools.cache
def judged_now(name):
    return judged(name, sides_of(name))


# comparing


@functools.cache
def kept():
    return json.loads((KEPT / "judgements.json").read_text())


def unequal(a, b, here=""):
    """Where two JSON values are not the same to the digit: 1, 1.0 and true are three things."""
    if isinstance(a, dict) and isinstance(b, dict):
        return [
            told
            for key in dict.fromkeys((*a, *b))
            for told in unequal(a.get(key, "(lacking)"), b.get(key, "(lacking)"), f"{here}/{key}")
        ]
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return [
            told
            for index, (x, y) in enumerate(zip(a, b, strict=True))
            for told in unequal(x, y, f"{here}/{index}")
        ]
    if type(a) is type(b) and repr(a) == repr(b):
        return []
    return [f"{here}: was {a!r}, is {b!r}"]


def unlike_judgement(name):
    return unequal(kept()["judgements"][name], judged_now(name)[0])


def unlike_wording(name):
    return unequal(kept()["sentences"][name], judged_now(name)[1])


def made_with():
    """What else decides the last digits."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        **{name: importlib.import_module(name).__version__ for name in ("numpy", "scipy")},
    }


def _elsewhere():
    differs = unequal(kept()["made_with"], made_with())
    return f"(kept with other versions: {differs})" if differs else ""


def strangers():
    """Modules of another tree: an editable install lends its own where this tree lacks one."""
    tree = Path(sys.modules["capsule"].__file__).parent
    loaded = {name: each for name, each in sys.modules.items() if name.startswith("capsule.")}
    return [name for name, each in loaded.items() if not Path(each.__file__).is_relative_to(tree)]


def test_all_code_is_of_one_tree():
    assert not strangers()


def test_every_kept_scenario_has_a_judgement():
    assert list(kept()["judgements"]) == list(kept()["sentences"]) == list(SCENARIOS)


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_judgement_is_the_kept_one(name):
    assert not unlike_judgement(name), _elsewhere()


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_wording_is_the_kept_one(name):
    """May be changed on purpose; then write the sentences, and only them, again."""
    assert not unlike_wording(name), _elsewhere()


# sealed and read again, the records are judged the same

# records that no capsule holds: completed runs lack some metrics of the operator
UNSEALED = ("operator",)


@pytest.mark.parametrize("name", [each for each in SCENARIOS if each not in UNSEALED])
def test_sealed_and_read_again_it_is_judged_the_same(name, tmp_path):
    sealed = [sealed_again(side, tmp_path / str(n)) for n, side in enumerate(sides_of(name))]
    found, _ = judged(name, sealed)
    assert not unequal(kept()["judgements"][name], found)


def sealed_again(record, folder):
    """The record as a capsule's reader returns it."""
    from capsule import archive
    from tests.support.capsules import seal

    folder.mkdir()
    return archive.read(seal(folder, record)).record


def written():
    told = {name: judged_now(name) for name in SCENARIOS}
    return {
        "format": "kept-judgements/1",
        "made_by": "commit c473676",
        "made_with": made_with(),
        "judgements": {name: each[0] for name, each in told.items()},
        "sentences": {name: each[1] for name, each in told.items()},
    }


def _text(document):
    """JSON with one line for each of a scenario's parts: floats as `repr` has them."""
    lines = []
    for key, value in document.items():
        if key not in ("judgements", "sentences"):
            lines.append(f"{json.dumps(key)}: {json.dumps(value)}")
            continue
        parts = [
            f"{json.dumps(name)}: {{\n  "
            + ",\n  ".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in each.items())
            + "}"
            for name, each in value.items()
        ]
        lines.append(f"{json.dumps(key)}: {{\n " + ",\n ".join(parts) + "}")
    return "{" + ",\n".join(lines) + "}\n"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        text = _text(written())
        print("judged by", sys.modules["capsule"].__file__, strangers() or "alone")
        Path(sys.argv[2]).write_text(text)
        sys.exit(bool(strangers()))
    told = [f"{name}{line}" for name in SCENARIOS for line in unlike_judgement(name)]
    reworded = [f"{name}{line}" for name in SCENARIOS for line in unlike_wording(name)]
    print(*told, *reworded, sep="\n")
    print(f"{len(SCENARIOS)} scenarios: {len(told)} judgements differ, {len(reworded)} sentences")
    sys.exit(bool(told))
