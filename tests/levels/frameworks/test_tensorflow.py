"""Networks in TensorFlow and in XLA, through the real program; see `support.programs`."""

import json
import shutil
from pathlib import Path

import pytest

from capsule.levels import catalog
from tests.support.programs import PROGRAMS, run

FRAMEWORKS = ("tensorflow", "tensorflow-xla")
RATIOS = ("l2_error_ratio", "grad_l2_error_ratio", "gradient_check")


@pytest.fixture(scope="module", params=PROGRAMS)
def program(request):
    return request.param


def trial(framework, name, dtype="float32"):
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


def seen(program, folder, framework, *words):
    """What `support/execute_networks.py` prints."""
    shutil.copy(Path(__file__).parents[2] / "support" / "execute_networks.py", folder)
    done = program.python(folder, "execute_networks.py", framework, *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def assert_right(found):
    assert 0 < found["outputs"] < 1
    assert 0 < found["training"] < 1
    assert not any(found["unread"])
    assert found["repeated"]
    for results, shapes in zip(found["found"], found["shapes"], strict=True):
        assert results == {"shapes": shapes, "dtypes": ["float32"] * len(shapes)}


@pytest.mark.parametrize("name", catalog.NETWORKS)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_network_stays_within_its_bounds(program, framework, name, tmp_path):
    work = [trial(framework, name)]
    values, _ = run(program, tmp_path, framework, work)
    (found,) = values.values()
    due = catalog.due(catalog.NETWORKS[name], framework, "cpu")
    assert set(found) == {metric.name for metric in due}
    assert found["repeatable"] == [1]
    assert all(0 <= found[metric][0] < 1 for metric in RATIOS), found
    # no framework is compared with itself
    assert found["l2_error"][0] > 0


def test_other_dtypes_stay_within_their_bounds(program, tmp_path):
    work = [trial("tensorflow-xla", "lenet", dtype) for dtype in ("bfloat16", "float16")]
    values, _ = run(program, tmp_path, "tensorflow-xla", work)
    assert len(values) == 2
    for found in values.values():
        assert found["repeatable"] == [1]
        assert all(0 < found[metric][0] < 1 for metric in RATIOS), found


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_layouts_are_undone_wherever_the_order_of_axes_is_read(program, framework, tmp_path):
    assert_right(seen(program, tmp_path, framework, "everything", "float32"))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_network_that_was_an_onnx_file_runs(program, framework, tmp_path):
    assert_right(seen(program, tmp_path, framework, "exchanged"))


FAULTS = {
    "a lost bias": (
        "import tensorflow as tf\n"
        "right = tf.nn.bias_add\n"
        "tf.nn.bias_add = lambda x, b: right(x, b * 0)\n",
        "l2_error_ratio",
    ),
    "gradients too long by a thousandth": (
        "import tensorflow as tf\n"
        "right = tf.GradientTape.gradient\n"
        "def gradient(*given, **how):\n"
        "    return [each * 1.001 for each in right(*given, **how)]\n"
        "tf.GradientTape.gradient = gradient\n",
        "grad_l2_error_ratio",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_planted_fault_exceeds_its_bound(program, framework, fault, tmp_path):
    plant, metric = FAULTS[fault]
    values, _ = run(program, tmp_path, framework, [trial(framework, "lenet")], plant)
    (found,) = values.values()
    assert found[metric][0] > 10 or found["gradient_check"][0] > 10, found
    assert found[metric][0] > 1


def test_what_is_not_there_is_refused_by_name(program, tmp_path):
    told = seen(program, tmp_path, "tensorflow", "refused")
    assert told == {
        "operator": "tensorflow has no operator spin for y",
        "dtype": "tensorflow runs networks in float64, float32, not in float16",
    }


def test_memory_is_that_of_living_activations_and_no_tape_stays(program, tmp_path):
    found = seen(program, tmp_path, "tensorflow", "peaks")
    activation, kept = found["activation"], found["length"] * found["activation"]
    # one that is read, one that is made, and what the kernels use; none that was read before
    assert activation <= found["inference"] <= 6 * activation
    # a tape keeps each of them
    assert 0.5 * kept <= found["training"] <= 2 * kept
    assert found["again"] <= found["training"] + 3 * activation
