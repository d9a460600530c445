"""Entries of Level 2: what they become, what each mistake is told, and what a plan may say."""

import json
from copy import deepcopy
from typing import Any

import pytest

from capsule import manifest, plan
from capsule.errors import ManifestError
from capsule.manifest import Manifest, Recipe
from capsule.manifest.kinds import Settings, Target

ENTRY: dict[str, Any] = {
    "id": "digits",
    "level": 2,
    "network": "lenet",
    "datasets": ["glyphs"],
    "frameworks": ["torch", "numpy"],
    "batch": 20,
    "epochs": 3,
    "optimizer": {"name": "sgd", "lr": 0.1},
}
WHOLE: dict[str, Any] = {
    "name": "digits",
    "title": "LeNet on glyphs",
    "authors": [{"name": "A"}],
    "license": "CC0-1.0",
    "seeds": [1, 2],
    "datasets": {"glyphs": {"generator": "glyphs"}},
}


def source(**fields: Any) -> bytes:
    entry = {name: value for name, value in {**ENTRY, **fields}.items() if value is not None}
    return json.dumps({**WHOLE, "benchmarks": [entry]}).encode()


def read(data: bytes, subjects: list[dict[str, Any]] | None = None) -> Manifest:
    return manifest.read(data, where="manifest.json", folder=None, subjects=subjects)


def settings(**fields: Any) -> dict[str, Settings]:
    (benchmark,) = read(source(**fields)).benchmarks
    assert isinstance(benchmark.subject, Recipe)
    assert list(benchmark.subject.settings) == [case.name for case in benchmark.cases]
    return dict(benchmark.subject.settings)


def test_what_is_left_out_has_its_default() -> None:
    assert settings() == {
        "default": Settings(
            sizes={},
            batch=20,
            epochs=3,
            optimizer="sgd",
            numbers={"lr": 0.1, "momentum": 0.0, "nesterov": 0, "weight_decay": 0.0},
            schedule="constant",
            schedule_numbers={"warmup_epochs": 0.0},
            target=None,
        )
    }


def test_a_case_varies_network_optimizer_schedule_batch_and_epochs() -> None:
    made = settings(
        cases=[{"side": 14, "batch": 5, "epochs": 9, "lr": 0.5, "momentum": 0.9, "end": 0.1}],
        schedule={"name": "cosine", "warmup_epochs": 1},
    )
    (name,) = made
    assert name == "side14-batch5-epochs9-lr0.5-momentum0.9-end0.1"
    assert (made[name].sizes, made[name].batch, made[name].epochs) == ({"side": 14}, 5, 9)
    assert made[name].numbers["lr"] == 0.5
    assert made[name].numbers["momentum"] == 0.9
    assert made[name].schedule_numbers == {"warmup_epochs": 1, "end": 0.1}


def test_milestones_may_be_written_with_a_point() -> None:
    schedule = {"name": "multistep", "milestones": [2, 3.0]}
    assert settings(schedule=schedule)["default"].milestones == (2, 3)
    data, subjects = planned(schedule=schedule)
    assert read(data, subjects=subjects) == read(data)
    subjects[0]["recipes"]["default"]["schedule"]["milestones"] = [2, 4]
    with pytest.raises(ManifestError, match="the plan's training of the case default differs"):
        read(data, subjects=subjects)


def test_micro_batches_may_be_varied_and_stand_in_the_plan() -> None:
    made = settings(cases={"accumulate": [2, 4]}, batch=8)
    assert [(one.batch, one.accumulate) for one in made.values()] == [(8, 2), (8, 4)]
    data, subjects = planned(accumulate=2)
    assert read(data, subjects=subjects) == read(data)
    subjects[0]["recipes"]["default"]["accumulate"] = 4
    with pytest.raises(ManifestError, match="the plan's training of the case default differs"):
        read(data, subjects=subjects)
    _, plain = planned()
    assert "accumulate" not in plain[0]["recipes"]["default"]


def test_workers_may_be_varied_and_stand_in_the_plan() -> None:
    made = settings(cases={"workers": [0, 2.0, 64]})
    assert [one.workers for one in made.values()] == [0, 2, 64]
    data, subjects = planned(workers=2)
    assert subjects[0]["recipes"]["default"]["workers"] == 2
    assert read(data, subjects=subjects) == read(data)
    subjects[0]["recipes"]["default"]["workers"] = 3
    with pytest.raises(ManifestError, match="the plan's training of the case default differs"):
        read(data, subjects=subjects)
    for fields in ({}, {"workers": 0}):
        _, plain = planned(**fields)
        assert "workers" not in plain[0]["recipes"]["default"]


def test_augmentation_stands_in_the_plan_unless_it_does_nothing() -> None:
    (made,) = settings(augmentation={"crop": 4.0, "flip": True}).values()
    assert made.augmentation == (4, True, 0)
    data, subjects = planned(augmentation={"crop": 4, "flip": True})
    kept = subjects[0]["recipes"]["default"]
    assert kept["augmentation"] == {"crop": 4, "flip": True, "cutout": 0}
    assert read(data, subjects=subjects) == read(data)
    kept["augmentation"] = {**kept["augmentation"], "crop": 5}
    with pytest.raises(ManifestError, match="the plan's training of the case default differs"):
        read(data, subjects=subjects)
    for nothing in ({}, {"crop": 0, "flip": False}):
        _, plain = planned(augmentation=nothing)
        assert "augmentation" not in plain[0]["recipes"]["default"]


def test_tuning_stands_in_the_plan_unless_it_chooses_nothing() -> None:
    chosen = {"channels_last": True, "fused": False, "compile_mode": "max-autotune-no-cudagraphs"}
    how: dict[str, Any] = {"frameworks": ["torch-compile"]}
    (made,) = settings(tuning=chosen, **how).values()
    assert made.tuning == (True, False, "max-autotune-no-cudagraphs", False)
    data, subjects = planned(tuning=chosen, **how)
    kept = subjects[0]["recipes"]["default"]
    del chosen["fused"]
    assert kept["tuning"] == chosen
    assert read(data, subjects=subjects) == read(data)
    kept["tuning"] = {**chosen, "fused": True}
    with pytest.raises(ManifestError, match="the plan's training of the case default differs"):
        read(data, subjects=subjects)
    for nothing in ({}, {"fused": False}):
        _, plain = planned(tuning=nothing)
        assert "tuning" not in plain[0]["recipes"]["default"]


def test_copies_are_measured_on_a_gpu_alone() -> None:
    def names(**resources: int) -> set[str]:
        whole = json.loads(source(frameworks=["torch"]))
        data = json.dumps({**whole, "resources": resources}).encode()
        (benchmark,) = read(data).benchmarks
        return {metric.name for metric in benchmark.metrics}

    assert names(gpus_per_rank=1) - names(gpus_per_rank=0) == {"copy_time"}
    assert not names() - names(gpus_per_rank=1)


def test_a_grid_is_every_combination() -> None:
    made = settings(cases={"lr": [0.1, 0.01], "batch": [10, 20]})
    assert [(one.numbers["lr"], one.batch) for one in made.values()] == [
        (0.1, 10),
        (0.1, 20),
        (0.01, 10),
        (0.01, 20),
    ]


def test_a_target_has_metrics_and_one_that_stops_no_final_quality() -> None:
    def names(**target: Any) -> set[str]:
        wanted = {"metric": "accuracy", "at_least": 0.9, **target}
        (benchmark,) = read(source(target=wanted)).benchmarks
        assert isinstance(benchmark.subject, Recipe)
        assert benchmark.subject.settings["default"].target == Target(
            value=0.9, stop=target.get("stop", False)
        )
        return {metric.name for metric in benchmark.metrics}

    assert {"epochs_to_target", "time_to_target", "final_accuracy"} <= names()
    assert names() - names(stop=True) == {"final_accuracy", "best_accuracy"}


@pytest.mark.parametrize(
    ("fields", "where", "message"),
    [
        ({"network": "lenett"}, "/network", "did you mean 'lenet'"),
        ({"frameworks": ["onnxruntime"]}, "/frameworks/0", "does not train"),
        ({"frameworks": ["toch"]}, "/frameworks/0", "did you mean 'torch'"),
        ({"dtype": "float64"}, "/dtype", 'training in "float64"'),
        ({"dtype": "tf32"}, "/dtype", "on cpu"),
        ({"dtype": "bfloat16-mixed"}, "/frameworks/1", "numpy does not train in bfloat16-mixed"),
        ({"optimizer": {"name": "sdg", "lr": 1}}, "/optimizer/name", "did you mean 'sgd'"),
        ({"optimizer": {"name": "sgd", "lr": 1, "momentun": 1}}, "/optimizer/momentun", "momentum"),
        (
            {"optimizer": {"name": "sgd", "lr": 1, "beta1": 1}},
            "/optimizer/beta1",
            "does not accept",
        ),
        ({"optimizer": {"name": "sgd", "lr": 0}}, "", "lr is 0"),
        ({"optimizer": {"name": "sgd"}}, "/optimizer", "'lr' is missing"),
        ({"optimizer": {"name": "adam", "lr": 1, "beta1": 1}}, "", "beta1 is 1"),
        ({"schedule": {"name": "cosin"}}, "/schedule/name", "did you mean 'cosine'"),
        ({"schedule": {"name": "cosine", "every": 1}}, "/schedule/every", "does not accept"),
        ({"schedule": {"name": "step"}}, "", "every is missing"),
        ({"schedule": {"name": "multistep"}}, "", "milestones is missing"),
        ({"schedule": {"name": "multistep", "milestones": [2, 2]}}, "", "increasing whole numbers"),
        ({"schedule": {"name": "multistep", "milestones": [1.5]}}, "/schedule", "1.5"),
        ({"schedule": {"name": "cosine", "milestones": [2]}}, "", "cosine has no milestones"),
        ({"optimizer": {"name": "lamp", "lr": 1}}, "/optimizer/name", "did you mean 'lamb'"),
        (
            {"optimizer": {"name": "lamb", "lr": 1, "max_norm": 1}},
            "/optimizer/max_norm",
            "does not accept",
        ),
        (
            {"network": "cosmogan", "optimizer": {"name": "lamb-nvidia", "lr": 1}},
            "/optimizer/name",
            "lamb-nvidia cannot train two networks against each other, because its steps depend on"
            " the gradients of all parameters; use one of sgd, adam, adamw",
        ),
        (
            {
                "network": "cosmogan",
                "target": {"metric": "spectrum_distance", "at_least": 0.1},
            },
            "/target",
            "a lower spectrum_distance is better: write at_most",
        ),
        (
            {"optimizer": {"name": "lbfgs", "lr": 1}, "frameworks": ["numpy", "tensorflow"]},
            "/frameworks/1",
            "tensorflow cannot train with lbfgs",
        ),
        ({"target": {"metric": "loss", "at_most": 1}}, "/target", "the quality of lenet"),
        ({"target": {"metric": "accuracy", "at_most": 1}}, "/target", "write at_least"),
        ({"target": {"metric": "accuracy"}}, "/target", "exactly one of at_least and at_most"),
        ({"batch": 0}, "/batch", "0"),
        ({"epochs": 1.5}, "/epochs", "1.5"),
        ({"accumulate": 3}, "", "accumulate 3 does not divide batch 20"),
        ({"accumulate": 0}, "/accumulate", "0"),
        ({"workers": 65}, "/workers", "65"),
        ({"augmentation": {"crop": -1}}, "/augmentation/crop", "-1"),
        ({"augmentation": {"flip": 1}}, "/augmentation/flip", "1"),
        ({"augmentation": {"rotate": 90}}, "/augmentation", "rotate"),
        ({"tuning": {"fused": 1}}, "/tuning/fused", "1"),
        ({"tuning": {"compile_mode": "fast"}}, "/tuning/compile_mode", "fast"),
        ({"tuning": {"foreach": True}}, "/tuning", "foreach"),
        ({"tuning": {"fused": True}}, "/tuning", "numpy does not support fused"),
        (
            {
                "frameworks": ["torch"],
                "optimizer": {"name": "lamb", "lr": 1},
                "tuning": {"fused": True},
            },
            "/tuning",
            "torch has no fused kernel for lamb",
        ),
        (
            {"frameworks": ["torch-compile"], "tuning": {"compile_mode": "max-autotune"}},
            "/tuning",
            "max-autotune replays CUDA graphs, which need a GPU",
        ),
        (
            {
                "level": 3,
                "frameworks": ["torch"],
                "scheme": {"name": "allreduce"},
                "tuning": {"fused": True},
            },
            "/tuning",
            "ranks cannot train together with tuning",
        ),
        (
            {"network": "unet", "augmentation": {"flip": True}},
            "",
            "multilabel), found unet",
        ),
        (
            {"cases": {"workers": [-1]}},
            "/cases",
            "workers is -1, expected a whole number from 0 to 64",
        ),
        (
            {"cases": [{"accumulate": 2}, {"accumulate": 8}]},
            "/cases/1",
            "accumulate 8 does not divide",
        ),
        ({"cases": {"bacth": [1]}}, "/cases/bacth", "did you mean 'batch'"),
        ({"cases": {"limit_mib": [1]}}, "/cases/limit_mib", "a case cannot vary"),
        ({"cases": {"batch": [1.5]}}, "/cases", "batch is 1.5"),
        ({"cases": [{"lr": 0.1}, {"lr": -1}]}, "/cases/1", "lr is -1"),
        ({"cases": {"side": [3]}}, "/cases", "side of lenet is 3"),
        ({"datasets": ["glyps"]}, "/datasets/0", "did you mean 'glyphs'"),
        ({"datasets": ["glyphs", "glyphs"]}, "/datasets", ""),
        ({"datasets": None}, "", "'datasets' is missing"),
        ({"repetitions": 3}, "/repetitions", "repetitions"),
    ],
)
def test_a_mistake_is_told_where_it_stands(
    fields: dict[str, Any], where: str, message: str
) -> None:
    with pytest.raises(ManifestError) as error:
        read(source(**fields))
    assert f"/benchmarks/0{where}" in str(error.value)
    assert message in str(error.value)


def planned(**fields: Any) -> tuple[bytes, list[dict[str, Any]]]:
    data = source(**fields)
    subjects = plan.to_json(plan.make(read(data)))["subjects"]
    return data, json.loads(json.dumps(subjects))


def test_a_plan_is_read_as_it_was_made() -> None:
    target = {"metric": "accuracy", "at_least": 0.9}
    data, subjects = planned(cases={"lr": [0.1, 0.01]}, target=target)
    assert read(data, subjects=subjects) == read(data)


def test_a_plan_of_before_a_number_was_there_is_read_as_it_was() -> None:
    data, subjects = planned()
    del subjects[0]["recipes"]["default"]["optimizer"]["nesterov"]
    assert read(data, subjects=subjects) == read(data)


def test_a_whole_number_may_be_written_with_a_point() -> None:
    (made,) = settings(cases=[{"name": "a", "side": 14.0, "batch": 5.0}], epochs=3.0).values()
    assert (made.sizes, made.batch, made.epochs) == ({"side": 14}, 5, 3)
    assert [type(value) for value in (made.sizes["side"], made.batch, made.epochs)] == [int] * 3


@pytest.mark.parametrize(
    "change",
    [
        {"batch": 21},
        {"epochs": 4},
        {"sizes": {"side": 20}},
        {"optimizer": {"name": "adam", "lr": 0.1}},
        {"optimizer": {"name": "sgd", "lr": 0.2}},
        # of what the manifest leaves to its default
        {"optimizer": {"name": "sgd", "lr": 0.1, "momentum": 0.5}},
        {"optimizer": {"name": "sgd", "lr": 0.1, "beta1": 0.5}},
        {"schedule": {"name": "constant", "warmup_epochs": 1}},
        {"schedule": {"name": "cosine"}},
        {"schedule": {"name": "constant", "milestones": [1]}},
        {"target": {"value": 0.5, "stop": False}},
    ],
)
def test_a_plan_that_trains_otherwise_is_no_plan_of_the_manifest(change: dict[str, Any]) -> None:
    data, subjects = planned()
    wrong = deepcopy(subjects)
    wrong[0]["recipes"]["default"].update(change)
    with pytest.raises(ManifestError, match="the plan's training of the case default differs"):
        read(data, subjects=wrong)


def test_a_plan_without_the_recipe_is_refused() -> None:
    data, subjects = planned()
    del subjects[0]["recipes"]
    with pytest.raises(ManifestError, match="lacks the training of the case default"):
        read(data, subjects=subjects)


@pytest.mark.parametrize("cases", [None, {"lr": [0.1, 0.2]}, [{"name": "a", "lr": 0.1}]])
def test_a_plan_with_other_cases_is_refused(cases: Any) -> None:
    data, subjects = planned(cases=cases)
    first = subjects[0]["cases"][0]
    subjects[0]["cases"][0] = {**first, "parameters": {**first["parameters"], "batch": 7}}
    with pytest.raises(ManifestError, match="the plan has the cases"):
        read(data, subjects=subjects)


def test_a_plan_of_a_network_that_is_not_there_is_refused() -> None:
    _, subjects = planned()
    target = {"metric": "accuracy", "at_least": 0.9}
    with pytest.raises(ManifestError, match=r"/benchmarks/0/network: .*lenett"):
        read(source(network="lenett", target=target), subjects=subjects)
