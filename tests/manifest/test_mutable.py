"""What whoever verifies may set, why the rest is fixed, and rules that say both."""

import json
from typing import Any

import pytest

from capsule import manifest, plan
from capsule.errors import ManifestError, UsageError
from capsule.manifest import Manifest, Recipe, mutable
from capsule.manifest.kinds import Settings
from tests.manifest.test_recipes import ENTRY, WHOLE

COSMOFLOW: dict[str, Any] = {
    **ENTRY,
    "id": "cosmoflow",
    "network": "cosmoflow",
    "datasets": ["universe"],
    "frameworks": ["torch"],
    "optimizer": {"name": "sgd", "lr": 0.004, "momentum": 0.9},
    "schedule": {"name": "step", "every": 16},
    "target": {"metric": "mean_absolute_error", "at_most": 0.124, "stop": True},
    "rules": "mlperf-hpc-closed",
}
DEEPCAM: dict[str, Any] = {
    **COSMOFLOW,
    "id": "deepcam",
    "network": "deepcam",
    "datasets": ["storms"],
    "optimizer": {"name": "adamw", "lr": 0.001, "epsilon": 1e-6},
    "schedule": {"name": "cosine"},
    "target": {"metric": "mean_iou", "at_least": 0.82},
}
EVERY = ("resources", "batch", "epochs", "optimizer", "schedule", "workers", "augmentation")


def read(*mutable_fields: str, entry: dict[str, Any] = ENTRY, **fields: Any) -> Manifest:
    whole = {
        **WHOLE,
        "seeds": list(range(10)),
        "datasets": {
            "glyphs": {"generator": "glyphs"},
            "universe": {"generator": "universe"},
            "storms": {"generator": "storms"},
        },
        "resources": {"cpus_per_rank": 2},
        "mutable": list(mutable_fields),
        "benchmarks": [entry],
        **fields,
    }
    return manifest.read(json.dumps(whole).encode(), where="manifest.json", folder=None)


def put(made: Manifest, changed: dict[str, Any]) -> Manifest:
    return manifest.change(made, changed, plan.subjects_to_json(made))


def settings(made: Manifest) -> Settings:
    (benchmark,) = made.benchmarks
    assert isinstance(benchmark.subject, Recipe)
    (only,) = benchmark.subject.settings.values()
    return only


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("/benchmarks/0/batch=64", "/benchmarks/0/batch", 64),
        ("benchmarks/0/optimizer/lr=1e-3", "/benchmarks/0/optimizer/lr", 0.001),
        ("/resources/walltime=01:00:00", "/resources/walltime", "01:00:00"),
        ("/a=true", "/a", True),
        ("/a=NaN", "/a", "NaN"),
        ("/a=b=c", "/a", "b=c"),
    ],
)
def test_a_field_and_its_value_are_typed_in_one_word(words: str, field: str, value: object) -> None:
    assert mutable.parse(words) == (field, value)


@pytest.mark.parametrize("words", ["", "/a", "=3", "/=3", "/a="])
def test_other_words_are_no_setting(words: str) -> None:
    with pytest.raises(ValueError, match="is not FIELD=VALUE"):
        mutable.parse(words)


@pytest.mark.parametrize("value", ["[1]", "null"])
def test_other_values_are_no_setting(value: str) -> None:
    with pytest.raises(ValueError, match="expected a number, true, false or a text"):
        mutable.parse(f"/a={value}")


def test_what_is_mutable_is_set_and_the_text_stays() -> None:
    made = read(*EVERY, entry={**ENTRY, "schedule": {"name": "cosine"}})
    changed = {
        "/resources/cpus_per_rank": 8,
        "/benchmarks/0/batch": 64,
        "/benchmarks/0/optimizer/lr": 0.3,
        "/benchmarks/0/optimizer/momentum": 0.9,
        "/benchmarks/0/schedule/warmup_epochs": 2,
        "/benchmarks/0/workers": 3,
        "/benchmarks/0/augmentation/crop": 2,
        "/benchmarks/0/augmentation/flip": True,
    }
    new = put(made, changed)
    assert new.source == made.source
    assert new.changed == changed
    assert made.changed == {}
    assert new.resources.cpus_per_rank == 8
    assert (settings(new).batch, settings(new).epochs) == (64, 3)
    assert settings(new).numbers["lr"] == 0.3
    assert settings(new).schedule_numbers["warmup_epochs"] == 2
    assert (settings(made).workers, settings(new).workers) == (0, 3)
    assert settings(new).augmentation == (2, True, 0)
    assert plan.make(new).digest != plan.make(made).digest
    # the plan says what was set, and reading it again gives the same
    document = plan.to_json(plan.make(new))
    assert document["set"] == changed
    again = manifest.read(
        new.source, where="m", folder=None, subjects=document["subjects"], changed=changed
    )
    assert again == new
    # without it, the plan trains otherwise
    with pytest.raises(ManifestError, match="the plan's training of the case default differs"):
        manifest.read(new.source, where="m", folder=None, subjects=document["subjects"])


FIXED = [
    ("/benchmarks/0/dtype", "tf32", "precision of matrix products"),
    ("/benchmarks/0/target/at_least", 0.1, "the claim is about the target"),
    ("/benchmarks/0/network", "alexnet", "another experiment"),
    ("/benchmarks/0/id", "x", "only these fields of a training can be mutable: batch, epochs"),
    ("/benchmarks/1/batch", 3, "not a field of a benchmark"),
    ("/benchmarks/-1/batch", 3, "not a field of a benchmark"),
    ("/benchmarks/0", 3, "not a field of a benchmark"),
    ("/benchmarks/0/optimizer", 3, "expected one number"),
    ("/benchmarks/0/batch/0", 3, "expected one number"),
    ("/benchmarks/0/optimizer/lr/0", 3, "expected one number"),
    ("/resources", 3, "not a field of the resources"),
    ("/resources/gpus_per_rank", 1, "choose the device with --device"),
    ("/seeds/0", 3, "it is fixed"),
    ("/claims/0/margin", 3, "it is fixed"),
    ("/mutable/0", "resources", "it is fixed"),
    ("/determinism", "strict", "it is fixed"),
    ("/benchmarks/0/batch", 20, "it already is 20"),
]


@pytest.mark.parametrize(("field", "value", "reason"), FIXED)
def test_the_rest_is_fixed_for_a_reason(field: str, value: Any, reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as caught:
        put(read(*EVERY), {field: value})
    assert f"--set {field}: " in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("/resources/cpus_per_rank", 4),
        ("/benchmarks/0/batch", 4),
        ("/benchmarks/0/epochs", 4),
        ("/benchmarks/0/optimizer/lr", 0.5),
        ("/benchmarks/0/schedule/end", 0.5),
        ("/benchmarks/0/workers", 1),
    ],
)
def test_nothing_is_mutable_that_its_author_does_not_list(field: str, value: Any) -> None:
    for there in ((), tuple(name for name in EVERY if name not in field)):
        with pytest.raises(UsageError, match="the author did not declare"):
            put(read(*there), {field: value})


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("/benchmarks/0/batch", "many", "is not"),
        ("/benchmarks/0/batch", 0, "below the minimum"),
        ("/benchmarks/0/batch", 1.5, "is not"),
        ("/benchmarks/0/workers", 65, "above the maximum"),
        ("/benchmarks/0/workers", -1, "below the minimum"),
        ("/benchmarks/0/optimizer/lr", -1, "lr is -1"),
        ("/benchmarks/0/optimizer/lr", True, "is not a number"),
        ("/benchmarks/0/optimizer/rate", 1, "sgd does not accept"),
        ("/benchmarks/0/optimizer/name", "sdg", "did you mean 'sgd'"),
        ("/benchmarks/0/schedule/end", 0, "the field 'name' is missing"),
        ("/resources/cpus", 3, "unknown field"),
    ],
)
def test_what_makes_no_valid_manifest_is_told_at_its_place(
    field: str, value: Any, complaint: str
) -> None:
    with pytest.raises(ManifestError, match=complaint):
        put(read(*EVERY), {field: value})


@pytest.mark.parametrize("cases", [{"lr": [0.1, 0.2]}, [{"lr": 0.1}]])
def test_what_cases_vary_has_no_one_value(cases: Any) -> None:
    made = read(*EVERY, entry={**ENTRY, "cases": cases})
    with pytest.raises(UsageError, match="the cases vary it"):
        put(made, {"/benchmarks/0/optimizer/lr": 0.3})
    named = read(*EVERY, entry={**ENTRY, "cases": [{"name": "a", "side": 14}]})
    assert settings(put(named, {"/benchmarks/0/optimizer/name": "adam"})).optimizer == "adam"


def test_rules_make_mutable_what_entrants_tune() -> None:
    made = read(entry=COSMOFLOW)
    changed: dict[str, Any] = {
        "/benchmarks/0/batch": 64,
        "/benchmarks/0/optimizer/lr": 0.001,
        "/benchmarks/0/optimizer/weight_decay": 0.01,
        "/benchmarks/0/schedule/every": 32,
        "/benchmarks/0/workers": 4,
    }
    assert settings(put(made, changed)).batch == 64
    assert settings(put(made, changed)).workers == 4
    adam = put(read(entry=DEEPCAM), {"/benchmarks/0/optimizer/name": "adam"})
    assert settings(adam).optimizer == "adam"


@pytest.mark.parametrize(
    ("entry", "field", "value", "reason"),
    [
        (COSMOFLOW, "optimizer/momentum", 0.8, "fixes momentum at 0.9"),
        (COSMOFLOW, "optimizer/name", "adam", "fixes the optimizer, sgd"),
        (COSMOFLOW, "dtype", "tf32", "precision"),
        (DEEPCAM, "optimizer/epsilon", 1e-8, "fixes epsilon at 1e-06"),
    ],
)
def test_rules_fix_whatever_the_author_lists(
    entry: dict[str, Any], field: str, value: Any, reason: str
) -> None:
    with pytest.raises(UsageError, match=reason):
        put(read(*EVERY, entry=entry), {f"/benchmarks/0/{field}": value})


def test_what_is_set_stays_within_the_rules() -> None:
    with pytest.raises(ManifestError, match="expected adam or adamw or lamb"):
        put(read(entry=DEEPCAM), {"/benchmarks/0/optimizer/name": "adagrad"})


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        (
            {"optimizer": {"name": "adam", "lr": 0.1}},
            "expected sgd by mlperf-hpc-closed",
        ),
        ({"optimizer": {"name": "sgd", "lr": 0.1}}, "found momentum 0.0, expected 0.9"),
        (
            {"target": {"metric": "mean_absolute_error", "at_most": 0.13}},
            "found 0.13, expected mean_absolute_error 0.124",
        ),
        ({"schedule": {"name": "cosine"}}, "found cosine, expected constant or step"),
        (
            {"cases": [{"side": 32}]},
            "found cases that vary side, expected the network in full size",
        ),
        ({"rules": "mlperf-hpc-open"}, "did you mean 'mlperf-hpc-closed'"),
        ({"network": "lenet", "datasets": ["glyphs"], "target": None}, "has no rules for lenet"),
    ],
)
def test_a_recipe_by_rules_is_by_them(fields: dict[str, Any], complaint: str) -> None:
    entry = {name: value for name, value in {**COSMOFLOW, **fields}.items() if value is not None}
    with pytest.raises(ManifestError, match=complaint):
        read(entry=entry)


def test_rules_ask_for_so_many_runs() -> None:
    with pytest.raises(ManifestError, match="found 9 seeds, expected 10 or more for cosmoflow"):
        read(entry=COSMOFLOW, seeds=list(range(9)))
    assert read(entry=DEEPCAM, seeds=list(range(5))).seeds == (0, 1, 2, 3, 4)
