"""Three capsules or more: every pair judged, one word for all, and what they say together."""

import dataclasses
import io
import random
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from capsule import diff, report, schema, verdict
from capsule.diff.several import compare_several, label
from capsule.digest import canonical_json
from capsule.errors import UsageError
from capsule.manifest import Claim, Margin
from capsule.record import Record
from capsule.stats import Precision, Runs
from capsule.stats.reproducibility import precision, random_effects_mean
from capsule.summary import run_values
from capsule.verdict.several import SeveralVerdict, exit_code, judge_several
from capsule.verdict.spread import Spread
from tests.support.judging import codes, states
from tests.support.records import LOSS, SEEDS, STEP_TIME, make_node, make_record, noted

FRESH = (101, 102, 103, 104, 105)
IDS = ("a" * 64, "b" * 64, "c" * 64)
WITHIN = Claim(metric=LOSS, type="equivalence", margin=Margin(absolute=0.05))


# which runs


def original(*claims: Claim, **changes: Any) -> Record:
    record = make_record(**changes)
    frozen = verdict.freeze(claims or (WITHIN,), run_values(record))
    return dataclasses.replace(record, claims=frozen)


def rerun(
    shift: float = 0.0, noise: int = 1, seeds: tuple[int, ...] = FRESH, **changes: Any
) -> Record:
    chance = random.Random(noise)
    losses = {seed: 1 + shift + chance.gauss(0, 0.01) for seed in sorted(seeds)}
    changes = {"losses": losses, **changes}
    return make_record(seeds=seeds, fresh=seeds, verifies=IDS[0], **changes)


def judged(*reruns: Record, ids: Sequence[str] = (), there: Record | None = None) -> SeveralVerdict:
    records = [there or original(), *reruns]
    ids = ids or [f"{index:064x}" for index in range(len(records))]
    return judge_several(compare_several(records, ids))


def test_every_rerun_is_held_against_the_original() -> None:
    several = compare_several([original(), rerun(), rerun(noise=2)], IDS)
    assert [side.id for side in several.sides] == list(IDS)
    assert [(pair.original.id, pair.rerun.id) for pair in several.pairs] == [
        (IDS[0], IDS[1]),
        (IDS[0], IDS[2]),
    ]
    assert [across.metric for across in several.metrics] == [LOSS]


def test_only_fresh_runs_count_where_there_are_any() -> None:
    both = make_record(seeds=SEEDS + FRESH, fresh=FRESH, verifies=IDS[0])
    (across,) = compare_several([original(), both, make_record(seeds=(7, 8, 9))], IDS).metrics
    sides = [side for side in across.sides if side is not None]
    assert [tuple(run.seed for run in side.runs) for side in sides] == [SEEDS, FRESH, (7, 8, 9)]


def test_two_capsules_are_not_several() -> None:
    with pytest.raises(UsageError, match="2 capsules given, expected at least 3"):
        compare_several([original(), rerun()], IDS[:2])


def test_a_capsule_counts_once() -> None:
    with pytest.raises(UsageError, match="B and C are the same capsule bbbb"):
        compare_several([original(), rerun(), rerun()], (IDS[0], IDS[1], IDS[1]))
    compare_several([original(), rerun(), rerun(noise=2)], (IDS[0], None, None))


@given(st.integers(0, 5000), st.integers(0, 5000))
def test_labels_are_unique(one: int, other: int) -> None:
    assert (label(one) == label(other)) == (one == other)


# words


@pytest.mark.parametrize(
    ("shifts", "word", "code"),
    [
        ((0.0, 0.001), "REPRODUCED", 0),
        ((0.0, 0.2), "DIFFERENT", 1),
        ((0.0, 0.05), "INCONCLUSIVE", 3),
        ((0.2, 0.05), "DIFFERENT", 1),
    ],
)
def test_one_word_for_all_pairs(shifts: tuple[float, float], word: str, code: int) -> None:
    outcome = judged(*(rerun(shift, noise) for noise, shift in enumerate(shifts)))
    assert (outcome.word, exit_code(outcome)) == (word, code)
    for pair, one in zip(outcome.pairs, (0, 1), strict=True):
        alone = verdict.judge(diff.compare(original(), rerun(shifts[one], one)))
        assert [c.word for c in pair.verdict.claims] == [c.word for c in alone.claims]
        assert exit_code(dataclasses.replace(outcome, word=alone.word)) == verdict.exit_code(alone)


def test_one_re_execution_differs_by_chance_more_often_among_many() -> None:
    shifts = (0.05 + step / 1000 for step in range(50))
    shift = next(
        shift
        for shift in shifts
        if verdict.judge(diff.compare(original(), rerun(shift))).word == "DIFFERENT"
    )
    outcome = judged(rerun(shift), rerun(noise=2), rerun(noise=3))
    pair = outcome.pairs[0]
    assert (pair.verdict.word, pair.word) == ("DIFFERENT", "INCONCLUSIVE")
    assert pair.p_different is not None
    assert pair.p_different_holm is not None
    assert pair.p_different <= 0.05 < pair.p_different_holm == pytest.approx(3 * pair.p_different)
    assert (outcome.word, outcome.pairs[1].p_different_holm) == ("INCONCLUSIVE", None)
    assert states(outcome.sentence, "some-by-chance", pairs=3, alone=("B",))
    assert judged(rerun(0.2), rerun(noise=2), rerun(noise=3)).word == "DIFFERENT"


def test_without_a_primary_claim_nothing_is_decided() -> None:
    outcome = judged(
        rerun(), rerun(noise=2), there=original(dataclasses.replace(WITHIN, primary=False))
    )
    assert (outcome.word, outcome.sentence.code) == ("INCONCLUSIVE", "no-primary-claims")


# what means something


def the_spread(*reruns: Record, claim: Claim = WITHIN, there: Record | None = None) -> Spread:
    (spread,) = judged(*reruns, there=there or original(claim)).metrics
    return spread


def known_precision(spread: Spread) -> Precision:
    assert spread.precision is not None
    return spread.precision


def test_a_portable_metric_has_a_spread_and_a_mean() -> None:
    spread = the_spread(rerun(), rerun(noise=2))
    runs = [run_values(side)[LOSS].runs for side in (original(), rerun(), rerun(noise=2))]
    values = [{run.seed: run.value for run in side if run.value is not None} for side in runs]
    assert [len(side) for side in values] == [5, 5, 5]
    sides = [Runs.of(side) for side in values]
    assert spread.precision == precision(sides, alpha=0.05)
    assert spread.mean == random_effects_mean(sides, alpha=0.05)
    assert known_precision(spread).within_df < 12  # B and C share their seeds
    assert any(states(note, "common-seeds", sides=("B", "C")) for note in spread.notes)
    assert states(spread.precision_sentence, "precision", machines=3, unit="")
    assert states(spread.mean_sentence, "mean", machines=3, is_geometric=False)


def test_seeds_of_their_own_are_independent() -> None:
    spread = the_spread(rerun(), rerun(seeds=(201, 202, 203, 204, 205)))
    assert (known_precision(spread).within_df, spread.notes) == (12, ())


def test_a_machine_metric_has_no_mean() -> None:
    spread = the_spread(rerun(), rerun(noise=2), claim=Claim(metric=STEP_TIME, type="ratio"))
    assert (spread.scale, spread.mean) == ("log", None)
    assert "describes one machine" in spread.mean_sentence
    assert states(spread.precision_sentence, "precision", unit=" as factors")


def test_sides_that_differ_have_no_mean_and_still_a_spread() -> None:
    spread = the_spread(rerun(), rerun(0.2))
    assert spread.mean is None
    assert "the claim is DIFFERENT in C" in spread.mean_sentence
    assert known_precision(spread).between_sd > 0.1


def test_a_threshold_kept_by_some_says_nothing_against_a_mean() -> None:
    claim = Claim(metric=LOSS, type="threshold", at_most=1.1)
    assert the_spread(rerun(), rerun(0.3), claim=claim).mean is not None


def test_exact_claims_have_no_spread() -> None:
    spread = the_spread(rerun(), rerun(noise=2), claim=Claim(metric=LOSS, type="exact"))
    assert (spread.precision, spread.mean) == (None, None)
    assert "seed by seed" in spread.precision_sentence


def test_an_exact_claim_beside_another_does_not_matter() -> None:
    there = original(Claim(metric=LOSS, type="exact", primary=False), WITHIN)
    assert the_spread(rerun(), rerun(noise=2), there=there).precision is not None


def test_a_side_without_values_is_left_out_and_named() -> None:
    spread = the_spread(rerun(), rerun(noise=2, failed=FRESH))
    assert (known_precision(spread).sides, spread.mean) == (2, None)
    assert "fewer than three capsules have a value" in spread.mean_sentence
    assert any(states(note, "left-out", side="C", why="no value") for note in spread.notes)
    assert spread.counts[2] is not None
    assert spread.counts[2].failed == 5


def test_a_side_without_the_metric_is_left_out_and_named() -> None:
    there = original()
    claim = dataclasses.replace(there.claims[0], metric="gone/default/command/final_loss")
    spread = the_spread(rerun(), rerun(), there=dataclasses.replace(there, claims=(claim,)))
    assert spread.counts == (None, None, None)
    assert (
        spread.precision_sentence == "no spread over machines: fewer than two capsules have a value"
    )
    assert len(spread.notes) == 3


def test_one_run_each_tells_no_spread() -> None:
    reruns = (rerun(seeds=(1,)), rerun(seeds=(2,)))
    spread = the_spread(*reruns, there=original(seeds=(3,)))
    assert "at most one independent run" in spread.precision_sentence


def test_units_must_agree() -> None:
    other = rerun(noise=2)
    (benchmark,) = other.manifest.benchmarks
    metrics = tuple(dataclasses.replace(metric, unit="kg") for metric in benchmark.metrics)
    manifest = dataclasses.replace(
        other.manifest, benchmarks=(dataclasses.replace(benchmark, metrics=metrics),)
    )
    spread = the_spread(rerun(), dataclasses.replace(other, manifest=manifest))
    assert spread.precision is None
    assert "the units differ: 1 in B, kg in C" in spread.precision_sentence


def test_ratios_need_positive_values() -> None:
    claim = Claim(metric=LOSS, type="equivalence", margin=Margin(ratio=1.1))
    spread = the_spread(rerun(), rerun(-2.0), claim=claim)
    assert "positive values" in spread.precision_sentence


def test_a_noisier_machine_is_noted() -> None:
    losses = {seed: 1 + seed % 5 for seed in FRESH}
    spread = the_spread(rerun(), rerun(losses=losses))
    assert "unequal-spread" in codes(spread)


# reports


def mixed(backwards: bool = False) -> SeveralVerdict:
    claims = (
        WITHIN,
        Claim(metric=LOSS, type="exact", primary=False),
        Claim(metric=STEP_TIME, type="ratio"),
    )
    order = -1 if backwards else 1
    there = original(*claims, seeds=SEEDS[::order])
    there = dataclasses.replace(there, manifest=make_record().manifest)
    return judged(
        rerun(seeds=FRESH[::order]),
        rerun(0.2, 2, seeds=FRESH[::order], image=False, failed=(103,), notes=noted("no network")),
        there=there,
        ids=IDS,
    )


def draw(outcome: SeveralVerdict, width: int, *, full: bool = True) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=width)
    for item in report.draw_several(outcome, full=full):
        console.print(item)
    return stream.getvalue()


@pytest.mark.parametrize(
    "claim", [WITHIN, Claim(metric=STEP_TIME, type="equivalence", margin=Margin(relative=0.2))]
)
def test_a_busy_machine_is_a_warning_only_where_its_times_are_judged(claim: Claim) -> None:
    node = make_node()
    node["class"]["cpu"]["threads"] = 2
    node["state"]["momentary"] = {"system": {"load_average_1_minute": 9.04}}
    outcome = judged(rerun(), rerun(noise=2, nodes=(node,)), there=original(claim))
    assert ("busy at start" in draw(outcome, 100, full=False)) == (claim.metric == STEP_TIME)
    assert "busy at start" in draw(outcome, 100)


def test_the_document_fits_its_schema_and_so_does_every_pair_in_it() -> None:
    document = report.several_to_json(mixed())
    assert schema.validate(document, "several-1") == []
    assert schema.parse(canonical_json(document), where="here") == document
    pairs: Any = document["pairs"]
    assert [pair["label"] for pair in pairs] == ["B", "C"]
    for pair in pairs:
        assert schema.validate(pair["comparison"], "comparison-1") == []
    assert schema.validate({**document, "verdict": "SAME"}, "several-1")
    assert schema.validate({**document, "surplus": 1}, "several-1")


def test_every_field_of_the_schema_is_required() -> None:
    def objects(node: Any) -> Iterator[dict[str, Any]]:
        if isinstance(node, dict):
            if "additionalProperties" in node:
                yield node
            for inner in node.values():
                yield from objects(inner)

    nodes = list(objects(schema.load("several-1")))
    assert len(nodes) == 10
    for node in nodes:
        assert sorted(node["required"]) == sorted(node["properties"])


def test_bytes_do_not_depend_on_the_order_of_runs() -> None:
    there, back = mixed(), mixed(backwards=True)
    assert canonical_json(report.several_to_json(there)) == canonical_json(
        report.several_to_json(back)
    )


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_words_are_there_without_colour_at_any_width(width: int) -> None:
    shown = draw(mixed(), width)
    assert all(len(line) <= width for line in shown.splitlines())
    assert re.match("DIFFERENT +A tiny training run\n +1 of 2 re-runs differs", shown)
    flat = " ".join(shown.split())
    for words in (
        "A and B",
        "A and C",
        "C DIFFERENT: difference",
        "s_R",
        "no mean:",
        "1 failed",
        "Holm",
    ):
        assert words in flat
    assert "\x1b" not in shown


def test_a_note_of_two_pairs_is_told_once() -> None:
    shown = draw(judged(rerun(notes=noted("odd")), rerun(noise=2, notes=noted("odd"))), 120)
    assert "A-B, A-C: re-run: workloads could reach the network: odd" in shown


def test_in_short_each_machine_and_each_metric_has_a_line() -> None:
    shown = draw(judged(rerun(), rerun(noise=2), ids=IDS), 220, full=False)
    heads = [line.split()[0] for line in shown.splitlines() if line.strip()]
    assert heads.count("REPRODUCED") == 3
    assert "both re-runs reproduce the original" in shown
    assert "A 1 (n=5), B 1.002 (n=5), C 1.006 (n=5)" in shown
    assert "s_R 0.0118" in shown


@pytest.mark.parametrize("width", [60, 80, 120])
def test_in_short_a_machine_that_differs_says_in_what(width: int) -> None:
    shown = draw(mixed(), width, full=False)
    assert all(len(line) <= width for line in shown.splitlines())
    assert re.match("DIFFERENT +A tiny training run\n +1 of 2 re-runs differs", shown)
    flat = " ".join(shown.split())
    assert "C compared: a re-run without the original's image" in flat
    assert "C: claims that are not reproduced" in flat
    assert "(n=4, 1 failed)" in flat
    assert len(shown.splitlines()) < len(draw(mixed(), width).splitlines())


def test_importing_the_report_loads_neither_numbers_nor_drawing() -> None:
    code = (
        "import sys, capsule.report.terminal.several;"
        "print([m for m in ('numpy', 'scipy', 'rich', 'jsonschema') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
