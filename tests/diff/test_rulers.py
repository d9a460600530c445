"""Errors over bounds that two programs take by other rules."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest

import capsule.levels
from capsule import diff, reading
from capsule.diff import rulers
from capsule.execute import payload
from capsule.levels.catalog.ruler import RULER
from capsule.manifest import Margin, load
from capsule.record import Record
from tests.support.judging import frozen, judge_all, metric
from tests.support.records import make_manifest, make_record

RATIO = "gemm/default/torch/l2_error_ratio"
KEPT = (0.1, 0.2, 0.3, 0.2, 0.1)
BROKEN = (0.1, 1.5, 0.3, 0.2, 0.1)


def by(ruler: str | None, **changes: Any) -> Record:
    record = make_record(**changes)
    return dataclasses.replace(record, levels={**record.levels, "ruler": ruler})


def judge(
    path: str, original: str | None, rerun: str | None, values: tuple[float, ...], **claim: Any
) -> tuple[str, str]:
    """The word and the sentence of a claim on runs of two programs."""
    pair = diff.Pair(
        metric=path,
        claim=dataclasses.replace(frozen(metric(KEPT), **claim), metric=path),
        seeds="fresh",
        original=metric(KEPT, path=path),
        rerun=metric(values, first_seed=50, path=path),
    )
    (marked,) = rulers.mark([pair], by(original), by(rerun))
    (judged,) = judge_all(marked).claims
    return judged.word, judged.sentence


@pytest.mark.parametrize("values", [KEPT, BROKEN])
@pytest.mark.parametrize(("original", "rerun"), [("1", "2"), ("2", "1"), (None, "1"), ("1", None)])
def test_a_bound_by_another_ruler_is_neither_kept_nor_broken(
    original: str | None, rerun: str | None, values: tuple[float, ...]
) -> None:
    word, sentence = judge(RATIO, original, rerun, values, type="bound", at_most=1.0)
    assert word == "INCONCLUSIVE"
    assert sentence.startswith("error bounds computed by different rules")
    assert ("without a version" in sentence) is (None in (original, rerun))


@pytest.mark.parametrize("ruler", [None, "3"])
def test_by_one_ruler_it_is(ruler: str | None) -> None:
    bound: dict[str, Any] = {"type": "bound", "at_most": 1.0}
    assert judge(RATIO, ruler, ruler, KEPT, **bound)[0] == "REPRODUCED"
    assert judge(RATIO, ruler, ruler, BROKEN, **bound)[0] == "DIFFERENT"


def test_what_is_not_finite_is_beyond_any_ruler() -> None:
    values = (*KEPT[:4], math.nan)
    assert judge(RATIO, "1", "2", values, type="bound", at_most=1.0)[0] == "DIFFERENT"


def test_a_margin_of_such_errors_is_not_judged_either() -> None:
    claim: dict[str, Any] = {"type": "equivalence", "margin": Margin(absolute=0.5)}
    assert judge(RATIO, "1", "1", KEPT, **claim)[0] == "REPRODUCED"
    assert judge(RATIO, "1", "2", KEPT, **claim)[0] == "INCONCLUSIVE"


def test_other_numbers_need_no_ruler() -> None:
    path = "gemm/default/torch/l2_error"
    assert judge(path, "1", "2", KEPT, type="bound", at_most=1.0)[0] == "REPRODUCED"


def test_the_measuring_program_says_its_number(tmp_path: Path) -> None:
    manifest = make_manifest()
    folder = Path(capsule.levels.__file__).parent
    measuring = load(folder.parents[1] / "manifests" / "operators.json")
    assert payload.levels_facts(folder, measuring)["ruler"] == str(RULER)
    # a command is not measured by its rules, and its capsule does not carry them
    assert payload.levels_facts(folder, manifest)["ruler"] is None
    (tmp_path / "catalog").mkdir()
    assert payload.levels_facts(tmp_path, manifest)["ruler"] is None
    for text, number in (("RULER = 12\n", "12"), ("RULER = 0\n", None), ("RULER = 'x'\n", None)):
        (tmp_path / "catalog" / "ruler.py").write_text(f'"""Other."""\n\n{text}')
        assert payload.levels_facts(tmp_path, manifest)["ruler"] == number


def test_a_number_that_is_not_the_programs_is_refused() -> None:
    record = make_record()
    facts: dict[str, str | None] = {
        "digest": reading.own_program(record.manifest),
        "release": None,
        "ruler": str(RULER + 1),
    }
    (fault,) = reading.release_faults(dataclasses.replace(record, levels=facts))
    assert fault == (
        f"the record says that levels/ computes bounds by rules {RULER + 1}, expected rules {RULER}"
    )
    for ruler in (None, str(RULER)):
        told = dataclasses.replace(record, levels={**facts, "ruler": ruler})
        assert not list(reading.release_faults(told))
