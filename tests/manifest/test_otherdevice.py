"""A capsule's manifest on another device than its author's: resources, and what cannot run."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capsule import manifest, plan
from capsule.errors import ManifestError, UsageError
from capsule.levels import catalog
from capsule.levels.catalog import MetricFacts
from capsule.manifest import Benchmark, Manifest, otherdevice, recipes
from capsule.manifest.facts import metric_of
from capsule.manifest.problems import Problems
from tests.manifest import test_collectives, test_readings, test_recipes, test_schemes

MANIFESTS = Path(__file__).parents[2] / "manifests"
OPERATOR: dict[str, Any] = {"id": "one", "level": 0, "operator": "gemm", "frameworks": ["torch"]}
COMMAND: dict[str, Any] = {
    "id": "one",
    "command": ["python3", "train.py"],
    "metrics": {"loss": {"direction": "lower"}, "repeatable": {"direction": "higher"}},
}
GLYPHS: dict[str, Any] = {"generator": "glyphs", "samples": 100}


def read(entry: dict[str, Any], gpus: int, **fields: Any) -> Manifest:
    """The manifest of one benchmark, as its author's capsule has it."""
    whole = {
        "name": "one",
        "title": "One benchmark",
        "authors": [{"name": "A"}],
        "license": "CC0-1.0",
        "seeds": [1, 2],
        "benchmarks": [entry],
        **({"datasets": {"glyphs": GLYPHS}} if "datasets" in entry else {}),
        **fields,
        "resources": {"gpus_per_rank": gpus, **fields.get("resources", {})},
    }
    return manifest.read(json.dumps(whole).encode(), where="manifest.json", folder=None)


def move(made: Manifest, device: str | None, **changed: Any) -> Manifest:
    return manifest.change(made, changed, plan.subjects_to_json(made), device)


def refusals(entry: dict[str, Any], device: str, **fields: Any) -> dict[str, str]:
    """Return the refusals on a device of an entry from the other one."""
    moved = move(read(entry, int(device == "cpu"), **fields), device)
    (benchmark,) = moved.benchmarks
    return dict(benchmark.refusals)


def trials(made: Manifest, runs: int = 2) -> set[tuple[str, str]]:
    """Framework and source of the seed of each trial of a verification."""
    planned = plan.make(made, verifies="0" * 64, runs=runs)
    return {(one.framework, one.seed_source) for group in planned.groups for one in group.trials}


# which device, and how many of them


@pytest.mark.parametrize("gpus", [0, 1, 2])
def test_the_authors_device_changes_nothing(gpus: int) -> None:
    made = read(OPERATOR, gpus)
    assert move(made, "cuda" if gpus else "cpu") is made
    assert move(made, None) is made


@pytest.mark.parametrize(("gpus", "there", "back"), [(0, "cuda", "cpu"), (2, "cpu", "cuda")])
def test_a_rank_has_no_gpu_or_one_and_all_of_them_again_on_the_way_back(
    gpus: int, there: str, back: str
) -> None:
    entry = {**test_collectives.ENTRY, "frameworks": ["torch"]}
    made = read(entry, gpus, resources={"ranks_per_node": 3})
    moved = move(made, there)
    assert (moved.other_device, moved.resources.device) == (there, there)
    assert moved.resources == replace(made.resources, gpus_per_rank=int(there == "cuda"))
    assert moved.source == made.source
    assert move(moved, None) is moved
    assert move(moved, there) is moved
    again = move(moved, back)
    assert again == made


def test_the_plan_says_the_device_and_reading_it_again_gives_the_same() -> None:
    moved = move(read({**OPERATOR, "dtype": "tf32"}, 1), "cpu")
    document = plan.to_json(plan.make(moved, verifies="0" * 64))
    assert document["device"] == "cpu"
    again = manifest.read(
        moved.source,
        where="m",
        folder=None,
        subjects=document["subjects"],
        device="cpu",
    )
    assert again == moved


def test_what_is_set_stays_on_another_device() -> None:
    made = read(OPERATOR, 1, resources={"cpus_per_rank": 1}, mutable=["resources"])
    changed = {"/resources/cpus_per_rank": 2}
    both = move(made, "cpu", **changed)
    assert (both.resources.cpus_per_rank, both.resources.gpus_per_rank) == (2, 0)
    assert both == move(move(made, None, **changed), "cpu")
    assert move(both, "cuda") == move(made, None, **changed)


def test_the_number_of_gpus_is_no_setting() -> None:
    made = read(OPERATOR, 1, mutable=["resources"])
    with pytest.raises(UsageError, match="choose the device with --device cpu or --device cuda"):
        move(made, None, **{"/resources/gpus_per_rank": 0})


@pytest.mark.parametrize(
    ("device", "stated", "complaint"),
    [
        ("cuda", {}, "the author's device already is cuda"),
        (None, {"torch": "slow"}, "the plan is for another device, but the record names no device"),
        ("cpu", {"jax": "slow"}, 'the plan has the framework "jax", which the benchmark lacks'),
    ],
)
def test_a_plan_that_does_not_follow_is_refused(
    device: str | None, stated: dict[str, str], complaint: str
) -> None:
    made = read(OPERATOR, 1)
    (subject,) = plan.subjects_to_json(made)
    with pytest.raises(ManifestError) as caught:
        manifest.read(
            made.source,
            where="m",
            folder=None,
            subjects=[{**subject, "refusals": stated}],
            device=device,
        )
    assert complaint in str(caught.value)


# what does not run there


@pytest.mark.parametrize(
    "entry",
    [
        OPERATOR,
        {**OPERATOR, "operator": None, "network": "lenet", "level": 1},
        {**test_recipes.ENTRY, "frameworks": ["torch"]},
    ],
)
def test_an_element_type_that_cpus_lack_is_never_replaced(entry: dict[str, Any]) -> None:
    fields = {**entry, "dtype": "tf32"}.items()
    entry = {name: value for name, value in fields if value is not None}
    assert refusals(entry, "cpu") == {"torch": "torch does not support tf32 on cpu"}
    assert trials(move(read(entry, 1), "cpu")) == set()


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_element_types_of_both_devices_run(dtype: str) -> None:
    for device in ("cpu", "cuda"):
        assert refusals({**OPERATOR, "dtype": dtype}, device) == {}


def test_mixed_trainings_run_on_cpus_as_manifests_of_cpus_may() -> None:
    entry = {**test_recipes.ENTRY, "frameworks": ["torch"], "dtype": "bfloat16-mixed"}
    assert refusals(entry, "cpu") == {}


def test_frameworks_without_the_device_are_left_out_and_the_others_run() -> None:
    entry = {**OPERATOR, "frameworks": ["numpy", "torch", "jax"]}
    reasons = {name: f"{name} has no device 'cuda'" for name in ("numpy", "jax")}
    assert refusals(entry, "cuda") == reasons
    moved = move(read(entry, 0), "cuda")
    assert trials(moved) == {("torch", "fresh")}
    assert otherdevice.list_left_out(moved) == tuple(
        f"one: {reason}" for reason in reasons.values()
    )


@pytest.mark.parametrize(
    ("entry", "ranks"),
    [(test_recipes.ENTRY, 1), (test_readings.ENTRY, 1), (test_collectives.ENTRY, 2)],
)
def test_trainings_readings_and_exchanges_of_numpy_stay_on_cpus(
    entry: dict[str, Any], ranks: int
) -> None:
    reasons = refusals(entry, "cuda", resources={"ranks_per_node": ranks})
    assert reasons == {"numpy": "numpy has no device 'cuda'"}


@pytest.mark.parametrize(
    ("scheme", "reason"),
    [
        ({"name": "local-sgd", "period": 4}, None),
        ({"name": "spatial"}, "spatial ranks train on cpu only"),
        (
            {"name": "allreduce", "over": "mpi"},
            "scheme allreduce exchanges over MPI on cpu only, not on cuda",
        ),
    ],
)
def test_a_scheme_of_ranks_that_the_device_lacks_is_left_out(
    scheme: dict[str, Any], reason: str | None
) -> None:
    entry = {**test_schemes.ENTRY, "scheme": scheme}
    expected = {} if reason is None else {"torch": reason}
    assert refusals(entry, "cuda", resources={"ranks_per_node": 2}) == expected


def test_strict_determinism_is_asked_for_on_the_other_device_too() -> None:
    entry = {**OPERATOR, "operator": "max_pool3d", "frameworks": ["torch", "torch-compile"]}
    reasons = refusals(entry, "cuda", determinism="strict")
    assert set(reasons) == {"torch", "torch-compile"}
    assert "sums in varying order" in reasons["torch"]
    assert "by timing them" in reasons["torch-compile"]
    assert refusals(entry, "cuda") == {}
    assert refusals({**OPERATOR, "operator": "max_pool2d"}, "cuda", determinism="strict") == {}


@pytest.mark.parametrize(
    ("device", "required", "reasons"),
    [
        ("cpu", True, {"command": "the command requires a GPU (gpu_required)"}),
        ("cpu", False, {}),
        ("cuda", True, {}),
    ],
)
def test_a_command_that_requires_a_gpu_runs_on_none(
    device: str, required: bool, reasons: dict[str, str]
) -> None:
    (benchmark,) = read(COMMAND, int(device == "cpu")).benchmarks
    problems = Problems()
    moved = otherdevice.place(
        benchmark,
        {**COMMAND, "gpu_required": required},
        "/benchmarks/0",
        None,
        device,
        problems,
        is_strict=False,
    )
    assert moved.refusals == reasons
    assert not problems.below("")


# metrics that a device alone has

QUEUE = MetricFacts("queue_time", "s", "lower", "machine", 1e-9, "call")
GRAD_QUEUE = MetricFacts("grad_queue_time", "s", "lower", "machine", 1e-9, "call", "gradient")


@pytest.fixture
def queues(monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalogue in which GPUs have metrics of their own, and lack one of CPUs."""
    real = catalog.due

    def due(subject: catalog.Subject, framework: str, device: str) -> tuple[MetricFacts, ...]:
        known = real(subject, framework, device)
        if device == "cpu":
            return known
        rest = tuple(one for one in known if one.name != "compile_time")
        has_gradient = any(one.needs == "gradient" for one in known)
        return (*rest, QUEUE, *((GRAD_QUEUE,) if has_gradient else ()))

    monkeypatch.setattr(catalog, "due", due)


def due_names(made: Manifest) -> set[str]:
    (benchmark,) = made.benchmarks
    return {one.name for one in benchmark.due("torch")}


@pytest.mark.usefixtures("queues")
@pytest.mark.parametrize(("gpus", "device"), [(1, "cpu"), (0, "cuda")])
def test_trials_yield_what_the_device_yields_and_claims_stay_the_authors(
    gpus: int, device: str
) -> None:
    name = "queue_time" if gpus else "compile_time"
    claims = [{"metric": f"one/*/torch/{name}", "type": "ratio"}]
    made = read(OPERATOR, gpus, claims=claims)
    assert name in due_names(made)
    moved = move(made, device)
    assert name not in due_names(moved)
    there = read(OPERATOR, 1 - gpus)
    assert due_names(moved) == due_names(there)
    kinds = {one.name: one for one in there.benchmarks[0].metrics}
    assert all(kinds[one.name] == one for one in moved.benchmarks[0].due("torch"))
    assert otherdevice.restore_all(moved).benchmarks == made.benchmarks
    assert move(moved, "cuda" if gpus else "cpu") == made
    document = plan.to_json(plan.make(moved, verifies="0" * 64))
    again = manifest.read(
        moved.source, where="m", folder=None, subjects=document["subjects"], device=device
    )
    assert again == moved


@pytest.mark.parametrize(("gpus", "device"), [(1, "cpu"), (0, "cuda")])
def test_a_training_has_the_metrics_of_its_device(
    monkeypatch: pytest.MonkeyPatch, gpus: int, device: str
) -> None:
    real = recipes.read

    def read_recipe(
        raw: Any, here: str, device: str, files: Any, problems: Problems
    ) -> Benchmark | None:
        made = real(raw, here, device, files, problems)
        if made is None or device == "cpu":
            return made
        return replace(made, metrics=(*made.metrics, metric_of(QUEUE)))

    monkeypatch.setattr(recipes, "read", read_recipe)
    entry = {**test_recipes.ENTRY, "frameworks": ["torch"]}
    made = read(entry, gpus)
    moved = move(made, device)
    assert ("queue_time" in due_names(made), "queue_time" in due_names(moved)) == (
        bool(gpus),
        not gpus,
    )
    assert move(moved, "cuda" if gpus else "cpu") == made


@pytest.mark.usefixtures("queues")
@pytest.mark.parametrize("name", ["own-operator", "own-network"])
def test_files_of_users_run_on_both_devices_with_the_metrics_of_each(name: str) -> None:
    path = MANIFESTS / f"{name}.json"
    data = json.loads(path.read_text())
    del data["$schema"]
    data.pop("image", None)
    data["benchmarks"] = [{**data["benchmarks"][0], "frameworks": ["torch"]}]
    data["claims"] = []
    made = manifest.read(json.dumps(data).encode(), where=name, folder=MANIFESTS)
    moved = move(made, "cuda")
    assert moved.benchmarks[0].refusals == {}
    assert due_names(made) <= due_names(moved) | {"compile_time"}
    assert ("queue_time" in due_names(moved)) == (name == "own-operator")
    assert move(moved, "cpu").benchmarks == made.benchmarks


@pytest.mark.usefixtures("queues")
def test_a_framework_without_gradients_gains_none() -> None:
    entry = {**OPERATOR, "frameworks": ["torch", "onnxruntime"]}
    (benchmark,) = move(read(entry, 0), "cuda").benchmarks
    assert set(benchmark.refusals) == {"onnxruntime"}
    own = {one.name for one in benchmark.due("onnxruntime")}
    assert own.isdisjoint({"queue_time", "grad_queue_time"})
    assert {"queue_time", "grad_queue_time"} <= {one.name for one in benchmark.due("torch")}


# claims about equal bits

EXACT: dict[str, Any] = {"metric": "one/*/*/l2_error", "type": "exact"}
REPEATABLE: dict[str, Any] = {"metric": "one/*/*/repeatable", "type": "bound", "at_least": 1}
ERROR: dict[str, Any] = {"metric": "one/*/*/l2_error_ratio", "type": "bound", "at_most": 1}
PAIRED: dict[str, Any] = {
    "metric": "one/*/*/l2_error",
    "type": "equivalence",
    "paired": True,
    "margin": {"absolute": 1},
}


@pytest.mark.parametrize(
    ("claims", "there", "here"),
    [
        ([EXACT], {"manifest"}, set()),
        ([REPEATABLE], {"fresh"}, set()),
        ([EXACT, REPEATABLE], {"manifest", "fresh"}, set()),
        ([EXACT, ERROR], {"manifest", "fresh"}, {"fresh"}),
        ([EXACT, PAIRED], {"manifest", "fresh"}, {"manifest", "fresh"}),
        ([], {"fresh"}, {"fresh"}),
    ],
)
def test_nothing_runs_for_claims_about_equal_bits_alone(
    claims: list[dict[str, Any]], there: set[str], here: set[str]
) -> None:
    made = read(OPERATOR, 1, claims=claims)
    assert {source for _, source in trials(made)} == there
    moved = move(made, "cpu")
    assert {source for _, source in trials(moved)} == here
    named = [one["metric"] for one in claims if one in (EXACT, REPEATABLE)]
    due = (f"{', '.join(named)}: {otherdevice.EQUAL_BITS}",) if named else ()
    assert otherdevice.list_left_out(moved) == due
    assert otherdevice.list_left_out(made) == ()


def test_a_command_may_call_its_metric_as_it_likes() -> None:
    claim = {"metric": "one/*/command/repeatable", "type": "bound", "at_least": 1}
    moved = move(read(COMMAND, 1, claims=[claim]), "cpu")
    assert trials(moved) == {("command", "fresh")}
    assert otherdevice.list_left_out(moved) == ()
