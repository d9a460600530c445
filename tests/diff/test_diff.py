"""What is held against what, and what differs beside: facts about two records."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import pytest

from capsule import diff, verdict
from capsule.diff.changes import image_relation
from capsule.diff.facts import Leaf
from capsule.digest import Digest
from capsule.manifest import Claim
from capsule.origin import Verification
from capsule.record import Record
from capsule.summary import MetricRuns, run_values
from tests.support.judging import codes
from tests.support.records import LOSS, SEEDS, STEP_TIME, make_node, make_record, noted

FRESH = (101, 102, 103, 104, 105)
ID = "a" * 64


def original(**changes: Any) -> Record:
    return make_record(**changes)


def rerun(**changes: Any) -> Record:
    return make_record(**{"seeds": FRESH, "fresh": FRESH, "verifies": ID, **changes})


def claiming(record: Record, *claims: Claim) -> Record:
    return dataclasses.replace(record, claims=verdict.freeze(claims, run_values(record)))


def seeds(side: MetricRuns | None) -> tuple[int, ...]:
    assert side is not None
    return tuple(run.seed for run in side.runs)


def topics(differences: diff.Differences) -> set[str]:
    return {fact.topic for fact in differences.facts}


def with_image(record: Record, **changes: Any) -> Record:
    """The record with fields of its image replaced."""
    assert record.image is not None
    return dataclasses.replace(record, image=dataclasses.replace(record.image, **changes))


# which runs


def test_a_verification_uses_only_the_fresh_seeds_of_the_rerun() -> None:
    both = rerun(seeds=SEEDS + FRESH, fresh=FRESH)
    pair = diff.compare(original(), both).pairs[0]
    assert (pair.metric, pair.seeds) == (LOSS, "fresh")
    assert seeds(pair.original) == SEEDS
    assert seeds(pair.rerun) == FRESH


def test_an_exact_claim_holds_equal_seeds_against_each_other() -> None:
    there = claiming(original(), Claim(metric=LOSS, type="exact"))
    pair = diff.compare(there, rerun(seeds=(18, 17, 101), fresh=(101,))).pairs[0]
    assert pair.seeds == "same"
    assert seeds(pair.original) == seeds(pair.rerun) == (17, 18)


def test_two_separate_capsules_are_compared_whole_and_said_to_be_so() -> None:
    differences = diff.compare(original(), make_record(seeds=(31, 32, 33)))
    assert differences.pairs[0].seeds == "all"
    assert seeds(differences.pairs[0].rerun) == (31, 32, 33)
    assert "not-a-reexecution" in codes(differences)


def test_metrics_without_a_claim_follow_the_claims() -> None:
    differences = diff.compare(original(), rerun())
    assert [(pair.metric, pair.claim is None) for pair in differences.pairs] == [
        (LOSS, False),
        (STEP_TIME, True),
    ]


def test_a_claimed_metric_that_neither_side_has_is_still_a_pair() -> None:
    there = original()
    claim = dataclasses.replace(there.claims[0], metric="gone/default/command/final_loss")
    differences = diff.compare(dataclasses.replace(there, claims=(claim,)), rerun())
    assert (differences.pairs[0].original, differences.pairs[0].rerun) == (None, None)
    judged = verdict.judge(differences)
    assert (judged.word, judged.claims[0].sentence) == (
        "INCONCLUSIVE",
        "the original does not measure this metric",
    )


def test_seeds_used_twice_are_noted_and_their_runs_left_out() -> None:
    differences = diff.compare(original(), make_record(seeds=(20, 21, 22, 23)))
    assert [note.sentence for note in differences.notes if note.code == "shared-seeds"] == [
        "both sides use 2 equal seeds: runs under equal seeds count only for exact and paired"
        " claims"
    ]
    assert seeds(differences.pairs[0].rerun) == (22, 23)
    assert differences.pairs[0].refused is None
    assert "shared-seeds" not in codes(diff.compare(original(), rerun()))


# pairs


def paired(**other: Any) -> list[Mapping[str, Any]]:
    """A paired claim on the loss, and another one if it is given."""
    one = {"metric": LOSS, "type": "equivalence", "margin": {"absolute": 0.5}, "paired": True}
    return [one, {"metric": LOSS, **other}] if other else [one]


def test_a_paired_claim_that_stands_alone_is_judged_under_fresh_seeds_too() -> None:
    there = original(asked=paired())
    here = rerun(seeds=SEEDS + FRESH, losses={seed: 1 + seed / 1e4 for seed in SEEDS + FRESH})
    by_seed, fresh = diff.compare(there, here).pairs[:2]
    assert (by_seed.seeds, seeds(by_seed.rerun)) == ("same", SEEDS)
    assert (fresh.seeds, seeds(fresh.rerun)) == ("fresh", FRESH)
    judged = verdict.judge(diff.compare(there, here))
    assert [one.method for one in judged.claims] == ["paired", "envelope"]
    assert judged.word == "REPRODUCED"


def test_pairs_do_not_confirm_a_number_that_fresh_seeds_deny() -> None:
    there = original(asked=paired())
    lucky = {seed: 1 + seed / 1e4 for seed in SEEDS} | {seed: 9 + seed / 1e4 for seed in FRESH}
    judged = verdict.judge(diff.compare(there, rerun(seeds=SEEDS + FRESH, losses=lucky)))
    assert [one.word for one in judged.claims] == ["REPRODUCED", "DIFFERENT"]
    assert judged.word == "DIFFERENT"
    alone = verdict.judge(diff.compare(there, make_record(verifies=ID)))
    assert [one.word for one in alone.claims] == ["REPRODUCED", "INCONCLUSIVE"]
    assert alone.word == "INCONCLUSIVE"


@pytest.mark.parametrize(
    ("other", "count"),
    [
        ({"type": "equivalence", "margin": {"absolute": 2}}, 2),
        ({"type": "threshold", "at_most": 2}, 2),
        ({"type": "equivalence", "margin": {"absolute": 2}, "primary": False}, 3),
        ({"type": "exact"}, 3),
        ({"type": "ratio"}, 3),
    ],
)
def test_a_claim_beside_the_pairs_answers_for_fresh_seeds(
    other: Mapping[str, Any], count: int
) -> None:
    pairs = diff.compare(original(asked=paired(**other)), rerun(seeds=SEEDS + FRESH)).pairs
    assert sum(pair.metric == LOSS for pair in pairs) == count


def test_equal_values_under_different_seeds_are_noted() -> None:
    differences = diff.compare(original(losses=dict.fromkeys(SEEDS, 0.25)), rerun())
    assert codes(differences) == ["equal-values"]
    assert "all 5 runs of the original have the same value" in differences.notes[0].sentence


@pytest.mark.parametrize("claim", [{"type": "exact"}, {"type": "bound", "at_least": 0.25}])
def test_equal_values_are_what_some_claims_allow(claim: Mapping[str, Any]) -> None:
    there = original(losses=dict.fromkeys(SEEDS, 0.25), asked=[{"metric": LOSS, **claim}])
    assert "equal-values" not in codes(diff.compare(there, rerun(seeds=SEEDS, fresh=())))


# identity


def test_the_same_capsule_again_has_no_differences() -> None:
    differences = diff.compare(original(), rerun())
    assert differences.facts == ()
    assert differences.notes == ()


def test_a_rerun_of_another_capsule_is_noted() -> None:
    right = diff.compare(original(), rerun(), original_id=ID)
    wrong = diff.compare(original(), rerun(), original_id="b" * 64)
    assert right.original.id == ID
    assert "of-another-original" not in codes(right)
    assert "of-another-original" in codes(wrong)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "same-manifest"),
        ({"manifest_digest": None}, "same-config"),
        ({"manifest_digest": None, "config_digest": Digest(hex="c" * 64)}, "same-tree"),
        ({"manifest_digest": None, "config_digest": None, "layers": ()}, "same-tree"),
        (
            {"manifest_digest": None, "config_digest": Digest(hex="c" * 64), "layers": ()},
            "different",
        ),
    ],
)
def test_image_relation_is_the_strongest_identity(
    changes: Mapping[str, Any], expected: str
) -> None:
    own = {} if expected == "different" else {"tree_digest": Digest(hex="d" * 64)}
    there, other = with_image(original(), **own), with_image(rerun(), **own, **changes)
    assert image_relation(there, other) == expected
    differences = diff.compare(there, other)
    assert ("images-differ" in codes(differences)) == (expected == "different")


def test_another_platform_of_one_index_is_the_same_index() -> None:
    index = Digest(hex="1" * 64)

    def on(record: Record, digit: str) -> Record:
        own = Digest(hex=digit * 64)
        return with_image(
            record, index_digest=index, manifest_digest=own, config_digest=own, layers=()
        )

    assert image_relation(on(original(), "2"), on(rerun(), "3")) == "same-index"


def test_mixed_containment_is_noted() -> None:
    differences = diff.compare(original(), rerun(image=False))
    assert differences.image == "none"
    assert [note.sentence for note in differences.notes if note.code == "containment-differs"] == [
        "the re-run ran without a container, the other side in a container"
    ]
    assert {"image", "runtime"} <= topics(differences)


@pytest.mark.parametrize(
    ("here", "code", "ending"),
    [
        (
            with_image(
                rerun(origin=Verification(of=ID, runs=5, image="docker://other")),
                manifest_digest=None,
                config_digest=Digest(hex="c" * 64),
                layers=(),
            ),
            "another-image",
            ". Compared: another image (docker://other)",
        ),
        (
            with_image(
                rerun(origin=Verification(of=ID, runs=5, image="sif:other.sif")),
                manifest_digest=None,
                config_digest=None,
                layers=(),
                tree_digest=Digest(hex="d" * 64),
            ),
            "another-image",
            ". Compared: perhaps another image (sif:other.sif)",
        ),
        (rerun(image=False), "without-image", ". Compared: a re-run without the original's image"),
        (
            rerun(
                origin=Verification(of=ID, runs=5, levels="own"),
                levels={"digest": "sha256:0", "release": None},
            ),
            "another-program",
            ". Compared: measuring code of another version of capsule (--levels own)",
        ),
        (
            rerun(origin=Verification(of=ID, runs=5, set={"/resources/threads": 4})),
            "changed-manifest",
            ". Compared: a re-run with /resources/threads set to 4",
        ),
    ],
)
def test_what_was_changed_of_the_experiment_ends_the_sentence_of_the_verdict(
    here: Record, code: str, ending: str
) -> None:
    differences = diff.compare(original(), here)
    assert code in [note.code for note in differences.changes]
    assert ending in verdict.judge(differences).sentence


def test_an_image_fetched_from_elsewhere_by_the_same_digest_is_no_other() -> None:
    here = rerun(origin=Verification(of=ID, runs=5, image="docker://mirror"), runtime="apptainer")
    assert diff.compare(original(), here).changes == ()


def test_an_image_where_the_original_had_none_is_named() -> None:
    there = original(image=False)
    here = dataclasses.replace(rerun(), manifest=there.manifest)
    (note,) = diff.compare(there, here).changes
    assert note.sentence == "a re-run in an image, an original without an image"


def test_a_note_of_both_sides_is_told_once() -> None:
    differences = diff.compare(
        original(notes=noted("one", "two")), rerun(notes=noted("two", "three"))
    )
    assert [note.sentence for note in differences.notes] == [
        "original: workloads could reach the network: one",
        "both sides: workloads could reach the network: two",
        "re-run: workloads could reach the network: three",
    ]


# facts


def test_the_name_of_a_run_is_no_difference() -> None:
    sides = [{"variables": {"CAPSULE_RUN": name}, "threads": 2} for name in ("a", "b")]
    differences = diff.compare(original(environment=sides[0]), rerun(environment=sides[1]))
    assert differences.facts == ()


def test_what_follows_from_a_seed_is_no_difference() -> None:
    sides = [{"torch": {"variables": {"PYTHONHASHSEED": seed}}} for seed in ("17", "101")]
    assert diff.compare(original(software=sides[0]), rerun(software=sides[1])).facts == ()


def test_the_number_of_runs_is_no_difference_but_what_was_planned_is() -> None:
    more = rerun(seeds=(*FRESH, 106), fresh=(*FRESH, 106))
    assert diff.compare(original(), more).facts == ()
    document = json.loads(json.dumps(more.plan).replace("default", "small"))
    facts = diff.compare(original(), dataclasses.replace(more, plan=document)).facts
    assert [(fact.topic, fact.pointer, fact.original) for fact in facts] == [
        ("plan", "/train~1default~1command", "planned"),
        ("plan", "/train~1small~1command", None),
    ]


@pytest.mark.parametrize(("size", "facts"), [(8_400_000_000, 0), (4 << 30, 1)])
def test_the_memory_that_a_hypervisor_lends_is_no_difference(size: int, facts: int) -> None:
    node = make_node()
    assert node["class"]["memory"]["total_bytes"] == 8 << 30
    node["class"] = {**node["class"], "memory": {"total_bytes": size}}
    comparison = diff.compare(original(), rerun(nodes=(node,)))
    assert len(comparison.facts) == facts


@pytest.mark.parametrize("empty", ["empty_call_ns", "empty_range_ns"])
def test_the_time_of_what_is_empty_is_no_difference(empty: str) -> None:
    sides = [{"effective": {"torch": {empty: time}}, "threads": 2} for time in (70, 80)]
    comparison = diff.compare(original(environment=sides[0]), rerun(environment=sides[1]))
    assert comparison.facts == ()


@pytest.mark.parametrize(
    ("changes", "topic", "pointer", "values"),
    [
        (
            {"software": {"python": "3.11.2", "distributions": {"numpy": "2.2.0"}}},
            "software",
            "/distributions/numpy",
            ("2.1.0", "2.2.0"),
        ),
        (
            {"environment": {"variables": {"PYTHONHASHSEED": "0", "A/B": "1"}, "threads": 2}},
            "environment",
            "/variables/A~1B",
            (None, "1"),
        ),
        (
            {"environment": {"variables": {"PYTHONHASHSEED": "0"}, "threads": 2.5}},
            "environment",
            "/threads",
            (2, 2.5),
        ),
        ({"datasets": ()}, "dataset", "/ramp", (f"sha256:{'5' * 64}", None)),
        ({"runtime": "apptainer"}, "runtime", "/runtime", ("docker", "apptainer")),
    ],
)
def test_a_difference_is_a_fact(
    changes: Mapping[str, Any], topic: str, pointer: str, values: tuple[Leaf, Leaf]
) -> None:
    (fact,) = diff.compare(original(), rerun(**changes)).facts
    assert (fact.topic, fact.pointer) == (topic, pointer)
    assert (fact.original, fact.rerun) == values


def test_nodes_are_compared_by_class_and_state_never_by_identity() -> None:
    node = make_node()
    node["identity"] = {"host": "another"}
    node["class"] = {**node["class"], "cpu": {"model": "Other CPU", "sockets": 1, "cores": 2}}
    (fact,) = diff.compare(original(), rerun(nodes=(node,))).facts
    assert (fact.topic, fact.pointer) == ("node class", "/0/cpu/model")
    assert (fact.original, fact.rerun) == ("Example CPU", "Other CPU")


def test_another_number_of_nodes_is_a_fact() -> None:
    (fact,) = diff.compare(original(), rerun(nodes=(make_node(), make_node()))).facts
    assert (fact.topic, fact.pointer, fact.original, fact.rerun) == ("node class", "/count", 1, 2)


def test_another_manifest_is_compared_field_by_field() -> None:
    here = rerun()
    document = json.loads(here.manifest.source)
    document["title"] = "Another"
    changed = dataclasses.replace(here.manifest, source=json.dumps(document).encode())
    (fact,) = diff.compare(original(), dataclasses.replace(here, manifest=changed)).facts
    assert (fact.topic, fact.pointer, fact.rerun) == ("manifest", "/title", "Another")


def test_claims_of_an_older_rule_are_judged_by_todays_and_the_report_says_so() -> None:
    differences = diff.compare(original(judge_rule=1), rerun())
    (note,) = (note for note in differences.notes if note.code == "older-rule")
    assert "judges them by the current version, 3" in note.sentence
    assert "older-rule" not in codes(diff.compare(original(), rerun()))
