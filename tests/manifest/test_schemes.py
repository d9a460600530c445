"""Level 3 in a manifest: a recipe with a scheme, and how many ranks train by it."""

import json
from typing import Any

import pytest

from capsule import manifest, plan
from capsule.errors import ManifestError
from capsule.levels.catalog import NETWORKS
from capsule.levels.catalog.schemes import NORMALIZING
from capsule.levels.graphs import statistics
from capsule.levels.networks import build
from capsule.manifest import Manifest, Recipe
from capsule.manifest.kinds import Scheme

ENTRY: dict[str, Any] = {
    "id": "together",
    "level": 3,
    "network": "lenet",
    "datasets": ["glyphs"],
    "frameworks": ["torch"],
    "batch": 20,
    "epochs": 3,
    "optimizer": {"name": "sgd", "lr": 0.1},
    "scheme": {"name": "local-sgd", "period": 4},
}

GROUPED: dict[str, Any] = {"network": "resnet9", "batch_norm_group": 2}


def read(
    subjects: list[dict[str, Any]] | None = None, ranks: int = 2, gpus: int = 0, **fields: Any
) -> Manifest:
    entry = {name: value for name, value in {**ENTRY, **fields}.items() if value is not None}
    document = {
        "name": "together",
        "title": "Together",
        "authors": [{"name": "Ada Author"}],
        "license": "CC0-1.0",
        "resources": {"ranks_per_node": ranks, "gpus_per_rank": gpus},
        "seeds": [1, 2],
        "datasets": {"glyphs": {"generator": "glyphs", "samples": 90, "test_samples": 30}},
        "benchmarks": [entry],
    }
    data = json.dumps(document, indent=1).encode()
    return manifest.read(data, where="manifest.json", folder=None, subjects=subjects)


def test_a_scheme_has_its_numbers_and_adds_what_each_rank_reports() -> None:
    read_back = read()
    (benchmark,) = read_back.benchmarks
    assert isinstance(benchmark.subject, Recipe)
    assert benchmark.subject.level == 3
    assert benchmark.subject.settings["default"].scheme == Scheme("local-sgd", {"period": 4})
    per_rank = {one.name for one in benchmark.metrics if one.per == "rank"}
    assert {"world_size", "bytes_sent", "bytes_received", "step_time"} <= per_rank
    assert {group.ranks for group in plan.make(read_back).groups} == {2}


def test_a_plan_with_a_scheme_is_read_as_it_was_made() -> None:
    subjects = plan.subjects_to_json(read())
    assert read(subjects) == read()
    subjects[0]["recipes"]["default"]["scheme"]["period"] = 5
    with pytest.raises(ManifestError, match="the plan's training of the case default differs"):
        read(subjects)


@pytest.mark.parametrize(
    "fields",
    [
        {"scheme": None},
        {"level": 2},
        {"scheme": {"name": "gossip"}},
        {"dtype": "float16-mixed"},
        {"optimizer": {"name": "lbfgs", "lr": 1}},
    ],
)
def test_a_sealed_plan_has_no_other_scheme_either(fields: dict[str, Any]) -> None:
    subjects = plan.subjects_to_json(read())
    with pytest.raises(ManifestError):
        read(subjects, **fields)


@pytest.mark.parametrize(
    ("fields", "where", "message"),
    [
        (
            {"scheme": {"name": "independent"}, "checkpoint_epochs": 1},
            "/benchmarks/0/checkpoint_epochs",
            "no common epoch to resume from",
        ),
        (
            {"scheme": {"name": "independent"}, "network": "resnet9", "batch_norm_group": 5},
            "/benchmarks/0",
            "share no batch",
        ),
        ({"scheme": None}, "/benchmarks/0", "level 3 needs a scheme"),
        ({"level": 2}, "/benchmarks/0", "a training of level 2 has no scheme; set level 3"),
        (
            {"scheme": {"name": "all-reduce"}},
            "/benchmarks/0/scheme/name",
            'no scheme "all-reduce"; did you mean',
        ),
        (
            {"scheme": {"name": "allreduce", "period": 3}},
            "/benchmarks/0/scheme/period",
            'allreduce does not accept "period"',
        ),
        ({"scheme": {"name": "local-sgd"}}, "/benchmarks/0", "period is missing"),
        ({"scheme": {"name": "top-k", "density": 1.5}}, "/benchmarks/0", "density is 1.5"),
        ({"scheme": {"name": "bucketed", "bucket_bytes": 4}}, "/benchmarks/0", "bucket_bytes is 4"),
        (
            {"scheme": {"name": "local-sgd", "period": 0}},
            "/benchmarks/0",
            "period is 0, expected a whole number >= 1",
        ),
        (
            {"frameworks": ["numpy"]},
            "/benchmarks/0/frameworks/0",
            "ranks train together in torch, not in numpy",
        ),
        (
            {"scheme": {"name": "independent", "over": "mpi"}},
            "/benchmarks/0/scheme/over",
            'independent ranks exchange nothing: leave out "over"',
        ),
        (
            {"scheme": {"name": "sharded", "over": "mpi"}},
            "/benchmarks/0/scheme/over",
            "sharded ranks exchange only through torch's process group: leave out",
        ),
        ({"scheme": {"name": "allreduce", "over": "ib"}}, "/benchmarks/0/scheme/over", "mpi"),
        ({"optimizer": {"name": "lbfgs", "lr": 1}}, "/benchmarks/0/frameworks/0", "with lbfgs"),
        (
            {"scheme": {"name": "sharded"}, "optimizer": {"name": "lamb", "lr": 0.01}},
            "/benchmarks/0/optimizer",
            "lamb needs norms of whole parameters, and a sharded rank holds only a part",
        ),
        ({"dtype": "float16-mixed"}, "/benchmarks/0/frameworks/0", "float32 or float64"),
        ({"batch": 1}, "/benchmarks/0", "a batch of 1 is too small for 2 ranks"),
        (
            {"accumulate": 4, "batch": 12},
            "/benchmarks/0",
            "not a multiple of 8: 2 ranks times accumulate 4",
        ),
        (
            {"checkpoint_epochs": 1, "scheme": {"name": "asynchronous-parameter-server"}},
            "/benchmarks/0/checkpoint_epochs",
            "the server of asynchronous-parameter-server keeps no checkpoint",
        ),
        ({"scheme": {"name": "spatial", "over": "mpi"}}, "/benchmarks/0/scheme/over", "leave out"),
        (
            {"scheme": {"name": "spatial"}, "network": "transformer"},
            "/benchmarks/0",
            "only networks that begin with a chain of convolutions (alexnet, cos",
        ),
        (
            {"scheme": {"name": "spatial"}, "network": "alexnet"},
            "/benchmarks/0",
            "max_pool2d1 has windows of 3 rows, stride 2 and padding 0; expected",
        ),
        (
            {"scheme": {"name": "spatial"}, "network": "resnet9"},
            "/benchmarks/0",
            "spatial ranks cannot train resnet9, because resnet9 has batch normalization",
        ),
        (
            {"scheme": {"name": "spatial"}, "batch_norm_group": 2},
            "/benchmarks/0",
            "lenet has no batch normalization",
        ),
        (
            {"scheme": {"name": "pipelined"}, "cases": [{"side": 16}], "batch_norm_group": 2},
            "/benchmarks/0",
            "lenet has no batch normalization",
        ),
        (
            {"scheme": {"name": "pipelined"}, "network": "unet"},
            "/benchmarks/0",
            "pipelined splits only these networks into stages: alexnet",
        ),
        (
            {"scheme": {"name": "pipelined"}, "optimizer": {"name": "lamb", "lr": 0.01}},
            "/benchmarks/0/optimizer",
            "and a pipelined rank holds only a part",
        ),
        ({"batch_norm_group": 2}, "/benchmarks/0", "lenet has no batch normalization"),
        ({"network": "resnet9"}, "/benchmarks/0", "set batch_norm_group, the number of samples"),
        ({**GROUPED, "accumulate": 2}, "/benchmarks/0", "leave out accumulate"),
        (
            {**GROUPED, "batch_norm_group": 3},
            "/benchmarks/0",
            "a batch of 20 is not a multiple of batch_norm_group 3",
        ),
        (
            {**GROUPED, "batch_norm_group": 4},
            "/benchmarks/0",
            "a batch of 20 has 5 groups of 4 samples, which 2 ranks cannot share evenly",
        ),
        (
            {**GROUPED, "level": 2, "scheme": None},
            "/benchmarks/0/batch_norm_group",
            "batch_norm_group needs level 3",
        ),
    ],
)
def test_a_mistake_is_told_where_it_stands(
    fields: dict[str, Any], where: str, message: str
) -> None:
    with pytest.raises(ManifestError) as caught:
        read(**fields)
    assert where in str(caught.value)
    assert message in str(caught.value)


def test_what_carries_a_scheme_is_what_a_plan_says_of_it() -> None:
    scheme = {"name": "local-sgd", "over": "mpi", "period": 4}
    subjects = plan.subjects_to_json(read(scheme=scheme))
    assert subjects[0]["recipes"]["default"]["scheme"] == scheme
    assert read(subjects, scheme=scheme) == read(scheme=scheme)
    with pytest.raises(ManifestError, match="the plan's training of the case default differs"):
        read(subjects)


@pytest.mark.parametrize(
    ("scheme", "where", "message"),
    [
        (
            {"name": "stale-synchronous", "staleness": 1},
            "/benchmarks/0/scheme/name",
            "stale-synchronous ranks train on cpu only, because the server exchanges in several",
        ),
        ({"name": "asynchronous-parameter-server"}, "/benchmarks/0/scheme/name", "on cpu only"),
        ({"name": "spatial"}, "/benchmarks/0/scheme/name", "spatial ranks train on cpu only"),
        ({"name": "pipelined"}, "/benchmarks/0/scheme/name", "pipelined ranks train on cpu only"),
        (
            {"name": "allreduce", "over": "mpi"},
            "/benchmarks/0/scheme/over",
            "scheme allreduce exchanges over MPI on cpu only, not on cuda",
        ),
        (
            {"name": "independent", "over": "mpi"},
            "/benchmarks/0/scheme/over",
            "independent ranks exchange nothing",
        ),
    ],
)
def test_what_ranks_on_gpus_cannot_exchange_is_refused(
    scheme: dict[str, Any], where: str, message: str
) -> None:
    with pytest.raises(ManifestError) as caught:
        read(gpus=1, scheme=scheme)
    assert where in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "scheme",
    [
        *({"name": name} for name in ("allreduce", "sharded", "quantized", "parameter-server")),
        *({"name": name} for name in ("model-averaging", "neighbour-averaging", "independent")),
        {"name": "bucketed", "bucket_bytes": 4096},
        {"name": "top-k", "density": 0.1},
        {"name": "local-sgd", "period": 4},
    ],
    ids=lambda one: str(one["name"]),
)
def test_ranks_on_gpus_train_by_the_schemes_that_share_batches(scheme: dict[str, Any]) -> None:
    there, here = read(scheme=scheme), read(gpus=1, scheme=scheme)
    assert (there.resources.device, here.resources.device) == ("cpu", "cuda")
    names = [{one.name for one in each.benchmarks[0].metrics} for each in (there, here)]
    assert names[1] - names[0] == {"copy_time"}
    assert names[0] <= names[1]
    # a plan of either is read as it was made
    subjects = plan.subjects_to_json(here)
    assert read(subjects, gpus=1, scheme=scheme) == here


def test_groups_are_what_a_plan_says_of_them() -> None:
    subjects = plan.subjects_to_json(read(**GROUPED))
    assert subjects[0]["recipes"]["default"]["batch_norm_group"] == 2
    assert read(subjects, **GROUPED) == read(**GROUPED)
    with pytest.raises(ManifestError, match="the plan's training of the case default differs"):
        read(subjects, **{**GROUPED, "batch_norm_group": 5})


def test_another_number_of_ranks_has_the_same_groups_or_is_refused() -> None:
    for ranks in (1, 2, 5, 10):
        assert read(ranks=ranks, **GROUPED).benchmarks
    with pytest.raises(ManifestError, match="10 groups of 2 samples, which 4 ranks cannot share"):
        read(ranks=4, **GROUPED)


def test_ranks_share_a_network_that_has_a_slab_for_each() -> None:
    # one sample is enough for all
    how: dict[str, Any] = {"scheme": {"name": "spatial"}, "network": "cosmoflow", "batch": 1}
    for ranks in (1, 2, 3, 4, 5, 128):
        assert read(ranks=ranks, **how).benchmarks
    message = "an input of 128 rows allows at most 128 slabs$"
    with pytest.raises(ManifestError, match=message):
        read(ranks=129, **how)


def test_ranks_share_a_network_that_has_a_stage_for_each() -> None:
    how: dict[str, Any] = {"scheme": {"name": "pipelined"}, "batch": 2, "accumulate": 2}
    for ranks in (1, 2, 5):
        assert read(ranks=ranks, **how).benchmarks
    with pytest.raises(ManifestError, match=r"6 ranks of pipelined .* at most 5 stages"):
        read(ranks=6, **how)


def test_the_networks_that_normalize_by_batch_are_known() -> None:
    assert {name for name in NETWORKS if statistics.find(build(name, {"batch": 2}))} == NORMALIZING


def test_other_levels_run_in_one_process() -> None:
    with pytest.raises(ManifestError, match="only commands and level 3 have several ranks"):
        read(level=2, scheme=None)
    assert {group.ranks for group in plan.make(read(ranks=1)).groups} == {1}
