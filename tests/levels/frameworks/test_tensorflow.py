"""Networks in TensorFlow, in XLA and in JAX, through the real program; see `support.programs`."""

import itertools
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from capsule.levels import catalog
from tests.support.programs import PROGRAMS, Program, execute_networks, run
from tests.support.trials import Entry

FRAMEWORKS = ("tensorflow", "tensorflow-xla", "jax")
RATIOS = ("l2_error_ratio", "grad_l2_error_ratio", "gradient_check")


@pytest.fixture(scope="module", params=PROGRAMS)
def program(request: pytest.FixtureRequest) -> Program:
    chosen: Program = request.param
    return chosen


def trial(framework: str, name: str, dtype: str = "float32") -> Entry:
    ((case, parameters), *_) = catalog.NETWORKS[name].cases["quick"]
    return {
        "id": f"{name}/{dtype}/{framework}/17",
        "benchmark": name,
        "level": 1,
        "network": name,
        "dtype": dtype,
        "case": case,
        "parameters": parameters,
        "repetitions": 2,
        "warmup": 1,
    }


def assert_right(checks: dict[str, Any]) -> None:
    assert 0 < checks["outputs"] < 1
    assert 0 < checks["training"] < 1
    assert not any(checks["unread"])
    assert checks["repeated"]
    for results, shapes in zip(checks["results"], checks["shapes"], strict=True):
        assert results == {"shapes": shapes, "dtypes": ["float32"] * len(shapes)}


# the others take five seconds to a minute and more each, compiled or not, and hold what these hold
# or what is in "everything"
SHORT = ("lenet", "cosmoflow", "cosmogan", "transformer")
PAIRS = [
    pytest.param(framework, name, marks=[] if name in SHORT else [pytest.mark.long])
    for framework, name in itertools.product(FRAMEWORKS, catalog.NETWORKS)
]
COMPILED = ("tensorflow-xla", "jax")
SIXTEEN_BITS = ("bfloat16", "float16")

ByFramework = Callable[[str], Mapping[str, Any]]


@pytest.fixture(scope="module")
def started_once(program: Program, tmp_path_factory: pytest.TempPathFactory) -> ByFramework:
    """Run the short trials of a framework in one process; return their results by trial."""

    @cache
    def execute(framework: str) -> Mapping[str, Any]:
        work = [trial(framework, name) for name in SHORT]
        if framework in COMPILED:
            work += [trial(framework, "lenet", dtype) for dtype in SIXTEEN_BITS]
        values, _ = run(program, tmp_path_factory.mktemp(framework), framework, work)
        return values

    return execute


@pytest.fixture(scope="module")
def seen(program: Program, tmp_path_factory: pytest.TempPathFactory) -> ByFramework:
    """What `execute_networks.py` sees in one process of a framework, but peaks of memory."""

    @cache
    def execute(framework: str) -> Mapping[str, Any]:
        names = ["everything", "exchanged"]
        if framework != "jax":
            names += ["statistics"]
        if framework == "tensorflow":
            names += ["nodes", "refused"]
        return execute_networks(program, tmp_path_factory.mktemp(framework), framework, *names)

    return execute


@pytest.mark.parametrize(("framework", "name"), PAIRS)
def test_every_network_stays_within_its_bounds(
    program: Program, started_once: ByFramework, framework: str, name: str, tmp_path: Path
) -> None:
    entry = trial(framework, name)
    if name in SHORT:
        samples = started_once(framework)[entry["id"]]
    else:
        samples = run(program, tmp_path, framework, [entry])[0][entry["id"]]
    due = catalog.due(catalog.NETWORKS[name], framework, "cpu")
    assert set(samples) == {metric.name for metric in due}
    assert samples["repeatable"] == [1]
    assert all(0 <= samples[metric][0] < 1 for metric in RATIOS), samples
    # no framework is compared with itself
    assert samples["l2_error"][0] > 0


@pytest.mark.parametrize("dtype", SIXTEEN_BITS)
@pytest.mark.parametrize("framework", COMPILED)
def test_other_dtypes_stay_within_their_bounds(
    started_once: ByFramework, framework: str, dtype: str
) -> None:
    samples = started_once(framework)[trial(framework, "lenet", dtype)["id"]]
    assert samples["repeatable"] == [1]
    assert all(0 < samples[metric][0] < 1 for metric in RATIOS), samples


def test_a_gradient_goes_to_the_largest_element_and_to_none_that_is_nearly_so(
    program: Program, tmp_path: Path
) -> None:
    # under this seed two elements of one window are less than 1e-5 apart
    parameters = {"n": 2, "c": 4, "d": 16, "h": 16, "w": 16, "q": 2, "r": 2, "s": 2, "stride": 2}
    entry = {
        **{"id": "max_pool3d/float32/tensorflow/20", "benchmark": "max_pool3d", "level": 0},
        **{"operator": "max_pool3d", "case": "near", "parameters": parameters},
        **{"dtype": "float32", "repetitions": 2, "warmup": 1},
    }
    ((_, samples),) = run(program, tmp_path, "tensorflow", [entry], seed=20)[0].items()
    for metric in ("grad_l2_error_ratio", "grad_element_error_ratio", "gradient_check"):
        assert samples[metric][0] < 1, samples


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_layouts_are_undone_wherever_the_order_of_axes_is_read(
    seen: ByFramework, framework: str
) -> None:
    assert_right(seen(framework)["everything"])


def test_what_is_timed_of_a_node_backward_are_its_gradients(seen: ByFramework) -> None:
    nodes = seen("tensorflow")["nodes"]
    assert nodes["nodes"] > 10
    assert 0 < nodes["deviation"] < 1e-12


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_network_that_was_an_onnx_file_runs(seen: ByFramework, framework: str) -> None:
    assert_right(seen(framework)["exchanged"])


@pytest.mark.parametrize("framework", ["tensorflow", "tensorflow-xla"])
def test_statistics_of_batches_go_the_way_of_the_reference(
    seen: ByFramework, framework: str
) -> None:
    errors = seen(framework)["statistics"]
    assert errors["moved"] == 4
    assert 0 < errors["steps"] < 1e-5
    assert 0 < errors["evaluation"] < 1e-5


IN_TENSORFLOW = {
    "a lost bias": (
        "import tensorflow as tf\n"
        "right = tf.nn.bias_add\n"
        "tf.nn.bias_add = lambda x, b: right(x, b * 0)\n"
    ),
    "gradients too long by a thousandth": (
        "import tensorflow as tf\n"
        "right = tf.GradientTape.gradient\n"
        "def gradient(*arguments, **how):\n"
        "    return [tensor * 1.001 for tensor in right(*arguments, **how)]\n"
        "tf.GradientTape.gradient = gradient\n"
    ),
}
IN_JAX = {
    "a lost bias": "import jax\njax.numpy.add = lambda x, b: x\n",
    "gradients too long by a thousandth": (
        "import jax\n"
        "right = jax.value_and_grad\n"
        "def value_and_grad(function):\n"
        "    def step(*arguments):\n"
        "        loss, gradients = right(function)(*arguments)\n"
        "        return loss, {name: one * 1.001 for name, one in gradients.items()}\n"
        "    return step\n"
        "jax.value_and_grad = value_and_grad\n"
    ),
}
FAULTS = {
    "a lost bias": "l2_error_ratio",
    "gradients too long by a thousandth": "grad_l2_error_ratio",
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    "framework", ["tensorflow", pytest.param("tensorflow-xla", marks=pytest.mark.long), "jax"]
)
def test_a_planted_fault_exceeds_its_bound(
    program: Program, framework: str, fault: str, tmp_path: Path
) -> None:
    plant, metric = (IN_JAX if framework == "jax" else IN_TENSORFLOW)[fault], FAULTS[fault]
    values, _ = run(program, tmp_path, framework, [trial(framework, "lenet")], plant)
    (samples,) = values.values()
    assert samples[metric][0] > 10 or samples["gradient_check"][0] > 10, samples
    assert samples[metric][0] > 1


def test_what_is_not_there_is_refused_by_name(seen: ByFramework) -> None:
    assert seen("tensorflow")["refused"] == {
        "operator": "tensorflow has no operator spin for y",
        "dtype": "tensorflow does not run networks in float16, only in float64, float32",
    }


def test_memory_is_that_of_living_activations_and_no_tape_stays(
    program: Program, tmp_path: Path
) -> None:
    peaks = execute_networks(program, tmp_path, "tensorflow", "peaks")["peaks"]
    activation, kept = peaks["activation"], peaks["length"] * peaks["activation"]
    # one that is read, one that is made, and what the kernels use (up to 10 on processors whose
    # kernels change the layout); a third of what a tape would keep
    assert activation <= peaks["inference"] <= kept / 3
    # a tape keeps each of them
    assert 0.5 * kept <= peaks["training"] <= 4 * kept
    assert peaks["again"] <= peaks["training"] + 3 * activation
