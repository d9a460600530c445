"""TensorFlow, XLA and ONNX Runtime through the real program: on this machine where they are
installed, and always in the image of `images/tensorflow`."""

import json
import math

import pytest

from capsule.levels import catalog
from tests.support.programs import PROGRAMS, run

FRAMEWORKS = ("tensorflow", "tensorflow-xla", "onnxruntime")
# XLA compiles each case twice, about a second: a test run affords two of its dtypes
DTYPES = {"tensorflow-xla": ("float32", "bfloat16")}


@pytest.fixture(scope="module", params=PROGRAMS)
def program(request):
    return request.param


def trials(framework, names=tuple(catalog.OPERATORS)):
    """The last quick case of each operator, which is the one with the most options."""
    found = []
    for name in names:
        operator = catalog.OPERATORS[name]
        case, parameters = operator.cases["quick"][-1]
        for dtype in DTYPES.get(framework, operator.dtypes):
            if catalog.refusal(catalog.OPERATORS[name], framework, dtype, "cpu") is None:
                found.append(
                    {
                        "id": f"{name}/{dtype}/{framework}/17",
                        "benchmark": name,
                        "level": 0,
                        "operator": name,
                        "dtype": dtype,
                        "case": case,
                        "parameters": parameters,
                        "repetitions": 2,
                        "warmup": 1,
                    }
                )
    return found


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_operator_and_dtype_stays_within_its_bounds(program, framework, tmp_path):
    work = trials(framework)
    assert {each["operator"] for each in work} == set(catalog.OPERATORS)
    values, _ = run(program, tmp_path, framework, work)
    for each in work:
        found = values[each["id"]]
        due = catalog.due(catalog.OPERATORS[each["operator"]], framework, "cpu")
        assert set(found) == {metric.name for metric in due}
        assert found["repeatable"] == [1]
        for metric in {"l2_error_ratio", "grad_l2_error_ratio", "gradient_check"} & set(found):
            assert all(0 <= value < 1 for value in found[metric]), (each["id"], metric)
    # no framework is compared with itself
    assert values[f"gemm/float32/{framework}/17"]["l2_error"][0] > 0


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("determinism", ["default", "strict"])
def test_settings_tell_the_threads_and_the_determinism(program, framework, determinism, tmp_path):
    work = trials(framework, ["relu"])[:1]
    _, hello = run(program, tmp_path, framework, work, threads=2, determinism=determinism)
    settings = hello["environment"]["settings"]
    assert settings["threads"] == 2
    assert settings["deterministic_algorithms"] is (determinism == "strict")
    assert (settings.get("compiler") == "XLA") is (framework == "tensorflow-xla")
    assert set(hello["software"]["frameworks"]) == {"numpy", framework}


FAULTS = {
    "tensorflow": (
        "import tensorflow as tf\n"
        "softmax, add = tf.nn.softmax, tf.nn.bias_add\n"
        "tf.nn.softmax = lambda x: softmax(x, 0)\n"
        "tf.nn.bias_add = lambda x, b: add(x, b * 0)\n"
    ),
    "onnxruntime": (
        "import onnx\n"
        "right = onnx.helper.make_node\n"
        "def make_node(kind, inputs, outputs, **attributes):\n"
        "    if kind == 'Softmax':\n        attributes['axis'] = 0\n"
        "    return right(kind, inputs[:2] if kind == 'Conv' else inputs, outputs, **attributes)\n"
        "onnx.helper.make_node = make_node\n"
    ),
}


@pytest.mark.parametrize("framework", FAULTS)
def test_a_wrong_axis_and_a_lost_bias_exceed_their_bounds(program, framework, tmp_path):
    work = [
        each
        for each in trials(framework, ["softmax", "conv2d", "relu"])
        if each["dtype"] == "float32"
    ]
    assert catalog.OPERATORS["conv2d"].complete(work[1]["parameters"])["bias"] == 1
    values, _ = run(program, tmp_path, framework, work, FAULTS[framework])
    for each in work:
        (ratio,) = values[each["id"]]["l2_error_ratio"]
        assert ratio == 0 if each["operator"] == "relu" else ratio > 10


def test_the_probe_lists_the_frameworks_of_the_image(program, tmp_path):
    done = program.levels(tmp_path, "probe")
    found = json.loads(done.stdout)
    assert {"numpy", *FRAMEWORKS} <= set(found["frameworks"])
    assert found["frameworks"]["tensorflow"]["version"] == found["distributions"]["tensorflow_cpu"]
    assert found["frameworks"]["onnxruntime"]["version"] == found["distributions"]["onnxruntime"]
    assert found["missing"].get("frameworks.tensorflow.version") is None


def test_times_are_those_of_single_calls(program, tmp_path):
    work = trials("onnxruntime", ["relu"])[:1]
    values, _ = run(program, tmp_path, "onnxruntime", work)
    (found,) = values.values()
    assert len(found["forward_time"]) == 3
    assert all(0 < value < 60 and math.isfinite(value) for value in found["forward_time"])


INEXACT = """
import numpy
from capsule.levels import catalog, frameworks, operators
framework = frameworks.load({framework!r}, "cpu", 1, "default")
operator = operators.load("gelu")
sizes = catalog.OPERATORS["gelu"].complete({{"n": 1000}})
inputs = operator.inputs(sizes, "float64", 17)
tensors = tuple(framework.from_numpy(each, "float64") for each in inputs)
call, arguments = framework.operators.operation(operator, sizes, tensors)
result = framework.to_numpy(call(*arguments))
(reference,) = operators.reference(operator, sizes, inputs, "float64")
(bound,) = operators.bounds(operator, sizes, inputs, "float64")
print(float(numpy.linalg.norm((result - reference).astype(float))) / bound)
"""


@pytest.mark.parametrize("framework", ["tensorflow", "tensorflow-xla"])
def test_what_the_catalogue_calls_inexact_still_is(program, framework, tmp_path):
    done = program.python(tmp_path, "-c", INEXACT.format(framework=framework))
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) > 1000
