"""The plan: who runs when, under which seed, and that it never changes by itself."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsule import digest, manifest, plan
from capsule.errors import UsageError
from capsule.levels import catalog
from capsule.manifest.model import Manifest

ID = "ab" * 32
OTHER = "cd" * 32
SEEDS = [17, 18, 19, 20]
GEMM = {
    "id": "gemm",
    "level": 0,
    "operator": "gemm",
    "cases": {"m": [1, 2, 3, 4], "n": [1], "k": [1]},
    "frameworks": ["torch", "numpy"],
}
RELU = {"id": "relu", "level": 0, "operator": "relu", "cases": "quick", "frameworks": ["torch"]}
TRAIN = {"id": "train", "command": ["true"], "metrics": {"loss": {}, "steps": {}}}


def manifest_of(
    benchmarks: Sequence[Mapping[str, Any]],
    claims: Sequence[Mapping[str, Any] | tuple[str, str]] = (),
    seeds: Sequence[int] = SEEDS,
    **fields: object,
) -> Manifest:
    document = {
        "name": "small",
        "title": "Small",
        "authors": [{"name": "Ada"}],
        "license": "MIT",
        "seeds": seeds,
        "benchmarks": benchmarks,
        "claims": [
            claim
            if isinstance(claim, Mapping)
            else {
                "metric": claim[0],
                "type": claim[1],
                **({"at_most": 1} if claim[1] == "threshold" else {}),
            }
            for claim in claims
        ],
        **fields,
    }
    return manifest.read(json.dumps(document).encode(), where="m.json", folder=None)


def trials(made: plan.Plan) -> list[plan.Trial]:
    return [trial for group in made.groups for trial in group.trials]


def test_fresh_seeds_are_those_of_the_published_rule() -> None:
    assert plan.fresh_seeds(ID, [17, 18, 19]) == (303869571, 1523094218, 552849985)
    assert plan.fresh_seeds("0" * 64, [17, 18]) == (783472872, 1128986798)
    narrow = plan.fresh_seeds(ID, [17, 18, 19], within=(0, 4_000_000))
    assert narrow == (884860, 3170128, 2765442)


def test_a_fresh_seed_never_repeats_one_of_the_original() -> None:
    first, second, third = plan.fresh_seeds(ID, [1, 2, 3])
    assert plan.fresh_seeds(ID, [first, 2]) == (second, third)


@given(st.lists(st.integers(0, 2**32 - 1), max_size=20, unique=True), st.integers(0, 30))
def test_fresh_seeds_are_as_many_as_asked_for_and_all_different(
    originals: Sequence[int], count: int
) -> None:
    fresh = plan.fresh_seeds(OTHER, originals, count=count)
    assert len({*fresh, *originals}) == count + len(originals)
    assert all(0 <= seed < 2**31 for seed in fresh)


def test_fresh_seeds_keep_to_the_range_that_the_manifest_tells() -> None:
    low, high = 5000, 14_999
    ranged = manifest_of([RELU], seeds=[low, high], seed_range=[low, high])
    made = plan.make(ranged, verifies=ID, runs=500)
    fresh = [trial.seed for trial in trials(made)]
    assert all(low <= seed <= high for seed in fresh)
    assert len({*fresh, low, high}) > 500


def test_more_fresh_seeds_than_there_are_is_an_error() -> None:
    assert set(plan.fresh_seeds(ID, [1], count=3, within=(0, 3))) == {0, 2, 3}
    with pytest.raises(UsageError, match="seed_range 0 to 3 has 3 left"):
        plan.fresh_seeds(ID, [1, 9], count=4, within=(0, 3))


def test_every_trial_is_planned_once() -> None:
    made = plan.make(manifest_of([GEMM, RELU, TRAIN]))
    expected = {
        f"{benchmark.id}/{case.name}/{framework}/{seed}"
        for benchmark in made.manifest.benchmarks
        for case in benchmark.cases
        for framework in benchmark.frameworks
        for seed in SEEDS
    }
    assert sorted(trial.id for trial in trials(made)) == sorted(expected)
    assert {trial.seed_source for trial in trials(made)} == {"manifest"}


def test_a_process_holds_one_framework_and_seed_and_a_command_is_alone() -> None:
    made = plan.make(manifest_of([GEMM, RELU, TRAIN]))
    sizes = Counter((group.framework, len(group.trials)) for group in made.groups)
    assert sizes == {("torch", 7): 4, ("numpy", 4): 4, ("command", 1): 4}
    for group in made.groups:
        assert {(trial.framework, trial.seed) for trial in group.trials} == {
            (group.framework, group.seed)
        }


def test_isolated_trials_have_a_process_each() -> None:
    made = plan.make(manifest_of([{**GEMM, "isolation": "trial"}, RELU]))
    sizes = Counter((group.framework, len(group.trials)) for group in made.groups)
    assert sizes == {("torch", 1): 16, ("numpy", 1): 16, ("torch", 3): 4}


def test_group_ids_are_unique_and_fit_for_file_names() -> None:
    ids = [group.id for group in plan.make(manifest_of([GEMM, RELU, TRAIN])).groups]
    assert len(set(ids)) == len(ids)
    assert sorted(ids) == ids
    assert ids[0] == "0001-torch-17"


def test_seeds_follow_each_other_and_frameworks_take_turns() -> None:
    made = plan.make(manifest_of([GEMM, TRAIN]))
    assert [(group.seed, group.framework) for group in made.groups] == [
        (17, "torch"),
        (17, "numpy"),
        (17, "command"),
        (18, "numpy"),
        (18, "command"),
        (18, "torch"),
        (19, "command"),
        (19, "torch"),
        (19, "numpy"),
        (20, "torch"),
        (20, "numpy"),
        (20, "command"),
    ]


def test_the_order_of_cases_differs_between_seeds() -> None:
    made = plan.make(manifest_of([GEMM], seeds=list(range(8))))
    orders = {
        tuple(trial.case.name for trial in group.trials)
        for group in made.groups
        if group.framework == "numpy"
    }
    assert len(orders) > 3


def test_a_verification_draws_fresh_seeds() -> None:
    made = plan.make(manifest_of([RELU]), verifies=ID)
    assert {(trial.seed, trial.seed_source) for trial in trials(made)} == {
        (seed, "fresh") for seed in plan.fresh_seeds(ID, SEEDS)
    }


@pytest.mark.parametrize(
    ("claims", "sources"),
    [
        ([], {"fresh"}),
        ([("relu/*/torch/l2_error", "equivalence")], {"fresh"}),
        ([("relu/*/torch/l2_error", "ratio")], {"fresh"}),
        ([("*/*/*/l2_error", "exact")], {"manifest"}),
        ([("*/*/*/l2_error", "exact"), ("relu/*/*/l1_error", "threshold")], {"manifest", "fresh"}),
        ([("train/*/*/loss", "exact")], {"fresh"}),
    ],
)
def test_exact_claims_take_the_author_s_seeds_again(
    claims: Sequence[tuple[str, str]], sources: set[str]
) -> None:
    train = {**TRAIN, "metrics": {"loss": {}, "l2_error": {}}}
    made = plan.make(manifest_of([RELU, train], claims), verifies=ID)
    relu = [trial for trial in trials(made) if trial.benchmark.id == "relu"]
    assert {trial.seed_source for trial in relu} == sources
    for trial in relu:
        assert (trial.seed in SEEDS) == (trial.seed_source == "manifest")
    assert len(relu) == 3 * len(SEEDS) * len(sources)
    assert len({trial.id for trial in trials(made)}) == len(trials(made))


@pytest.mark.parametrize(
    "others",
    [
        [],
        [{"type": "exact"}],
        [{"type": "ratio"}],
        [{"type": "equivalence"}],
    ],
)
def test_paired_claims_take_the_author_s_seeds_again_and_fresh_ones_beside(
    others: Sequence[Mapping[str, str]],
) -> None:
    claims: list[Mapping[str, Any]] = [
        {"metric": "relu/*/*/l2_error", "type": "equivalence", "paired": True},
        *({"metric": "relu/*/*/l1_error", **claim} for claim in others),
    ]
    made = plan.make(manifest_of([RELU], claims), verifies=ID)
    assert {trial.seed_source for trial in trials(made)} == {"manifest", "fresh"}
    again = {trial.seed for trial in trials(made) if trial.seed_source == "manifest"}
    assert again == set(SEEDS)


def test_a_verification_of_a_verification_repeats_no_seed() -> None:
    first = plan.make(manifest_of([RELU]), verifies=ID)
    used = tuple(dict.fromkeys(trial.seed for trial in trials(first)))
    second = plan.make(manifest_of([RELU]), verifies=OTHER, original_seeds=used)
    seeds = {trial.seed for trial in trials(second)}
    assert len(seeds) == len(SEEDS)
    assert not seeds & {*used, *SEEDS}


def test_the_number_of_fresh_runs_can_be_given() -> None:
    made = plan.make(manifest_of([RELU]), verifies=ID, runs=6)
    assert len({trial.seed for trial in trials(made)}) == 6


def test_the_digest_names_the_json() -> None:
    made = plan.make(manifest_of([GEMM, TRAIN]))
    assert made.digest == digest.of_json(plan.to_json(made))
    assert made.digest == plan.make(manifest_of([GEMM, TRAIN])).digest
    assert made.digest != plan.make(manifest_of([GEMM, TRAIN], seeds=[1])).digest
    assert made.digest != plan.make(manifest_of([GEMM, TRAIN]), verifies=ID).digest


def test_the_json_says_what_levels_needs() -> None:
    document = plan.to_json(plan.make(manifest_of([{**GEMM, "cases": [{"m": 1, "n": 2, "k": 3}]}])))
    assert document["groups"][0]["trials"] == [
        {
            "id": "gemm/m1n2k3/torch/17",
            "benchmark": "gemm",
            "level": 0,
            "operator": "gemm",
            "dtype": "float32",
            "case": "m1n2k3",
            "parameters": {"m": 1, "n": 2, "k": 3},
            "framework": "torch",
            "seed": 17,
            "seed_source": "manifest",
            "repetitions": 30,
            "warmup": 3,
        }
    ]


def test_metric_paths_name_every_number() -> None:
    paths = dict(plan.metric_paths(manifest_of([RELU, TRAIN])))
    assert paths["train/default/command/loss"].kind == "portable"
    # and the energy of each of the four subjects
    assert len(paths) == 3 * len(catalog.due(catalog.OPERATORS["relu"], "torch", "cpu")) + 2 + 4
    assert all(path.count("/") == 3 for path in paths)


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("a/b/c/d", "a/b/c/d", True),
        ("*/*/*/*", "a/b/c/d", True),
        ("a/*/c/d", "a/b.x/c/d", True),
        ("a/b/c/*", "a/b/c/d/e", False),
        ("*", "a/b/c/d", False),
        ("a/b/c/d*", "a/b/c/dd", False),
        ("a/./c/d", "a/b/c/d", False),
    ],
)
def test_a_pattern_matches_whole_segments(pattern: str, path: str, expected: bool) -> None:
    assert plan.match(pattern, path) is expected


@given(
    only=st.sets(st.sampled_from(["gemm", "relu", "train", "alone"])),
    exact=st.sets(st.sampled_from(["gemm", "relu", "train"])),
    runs=st.integers(1, 4),
)
def test_a_part_has_the_trials_and_the_order_of_the_whole(
    only: set[str], exact: set[str], runs: int
) -> None:
    alone = {**RELU, "id": "alone", "isolation": "trial"}
    claims = [(f"{name}/*/*/*", "exact") for name in sorted(exact)]
    manifest = manifest_of([GEMM, RELU, TRAIN, alone], claims, seeds=SEEDS[:2])
    whole = plan.make(manifest, verifies=ID, runs=runs)
    part = plan.make(manifest, verifies=ID, runs=runs, only=only)
    assert trials(part) == [trial for trial in trials(whole) if trial.benchmark.id in only]
    starts = [[one for one in group.trials if one.benchmark.id in only] for group in whole.groups]
    assert [list(group.trials) for group in part.groups] == [start for start in starts if start]
    ids = [group.id for group in part.groups]
    assert [name.partition("-")[0] for name in ids] == [f"{n + 1:04d}" for n in range(len(ids))]
    # a look is a part of a part, and the other way about
    look = plan.first(part, 1)
    assert [one.id for one in trials(look)] == [
        one.id for one in trials(plan.first(whole, 1)) if one.benchmark.id in only
    ]


def test_a_look_is_the_beginning_of_the_whole_plan() -> None:
    whole = plan.make(manifest_of([GEMM]), verifies="0" * 64, runs=6)
    looks = [plan.first(whole, runs) for runs in (2, 4, 6)]
    seeds = [{group.seed for group in look.groups} for look in looks]
    assert [len(own) for own in seeds] == [2, 4, 6]
    assert seeds[0] < seeds[1] < seeds[2]
    assert [group.id for group in looks[2].groups] == [group.id for group in whole.groups]
    assert looks[2].digest == whole.digest
    assert all(group in looks[1].groups for group in looks[0].groups)


def test_controls_come_last_and_leave_a_look_s_own_groups_alone() -> None:
    whole = plan.make(manifest_of([GEMM]), verifies="0" * 64, runs=4)
    first = whole.groups[0].trials[0]
    control = f"{first.id.rpartition('/')[0]}/{SEEDS[0]}"
    grown = plan.add_controls(whole, [control])
    assert grown.groups[: len(whole.groups)] == whole.groups
    (start,) = grown.groups[len(whole.groups) :]
    (trial,) = start.trials
    assert (trial.id, trial.seed, trial.seed_source) == (control, SEEDS[0], "control")
    assert (trial.case, trial.benchmark) == (first.case, first.benchmark)
    assert grown.digest != whole.digest
    # added again it is the same, and so is what a shorter look makes of it
    assert plan.add_controls(grown, [control]) == grown
    assert plan.first(grown, 2) == plan.add_controls(plan.first(whole, 2), [control])


def test_controls_of_one_process_start_share_one() -> None:
    whole = plan.make(manifest_of([GEMM]), verifies="0" * 64, runs=2)
    together = whole.groups[0]
    ids = [f"{trial.id.rpartition('/')[0]}/{SEEDS[0]}" for trial in together.trials]
    (start,) = plan.add_controls(whole, ids).groups[len(whole.groups) :]
    assert sorted(trial.id for trial in start.trials) == sorted(ids)
