"""JAX in processes of their own: a process has one backend, which starts with one thread count."""

import json
import subprocess
import sys
from importlib import util
from typing import Any

import pytest

from capsule.levels import catalog

pytestmark = pytest.mark.skipif(util.find_spec("jax") is None, reason="JAX is not installed here")

PRELUDE = """
import json
from pathlib import Path

import numpy

from capsule.levels import catalog, frameworks, operators
from capsule.levels.instruments import memory
from tests.support import trials

jax = frameworks.load("jax", "cpu", THREADS, "default")
random = numpy.random.default_rng(17)


def draw(*shape, dtype="float32"):
    return jax.from_numpy(random.random(shape), dtype)


def prepare(name, *tensors, **sizes):
    case = catalog.OPERATORS[name].complete(sizes)
    return jax.operators.operation(operators.load(name), case, tensors)


def differentiate(name, upstream, *tensors, **sizes):
    operator, case = operators.load(name), catalog.OPERATORS[name].complete(sizes)
    return jax.operators.gradient(operator, case, tensors, operator.wrt(case), (upstream,))
"""


def execute(code: str, threads: int = 1) -> Any:
    """What the code puts into `seen`."""
    prelude = PRELUDE.replace("THREADS", str(threads))
    words = [sys.executable, "-c", f"{prelude}\n{code}\nprint(json.dumps(seen))"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_calls_return_when_they_are_done() -> None:
    code = """
x = draw(1500, 1500)
image, weights = draw(4, 32, 64, 64), draw(32, 32, 3, 3)
sizes = {"n": 4, "c": 32, "h": 64, "w": 64, "k": 32, "r": 3, "s": 3}
calls = [
    prepare("gemm", x, x, m=1500, n=1500, k=1500),
    differentiate("gemm", x, x, x, m=1500, n=1500, k=1500),
    prepare("conv2d", image, weights, **sizes),
    prepare("tanh", draw(4_000_000), n=4_000_000),
]
seen = []
for function, operands in calls:
    for _ in range(3):
        seen += [one.is_ready() for one in operators.several(function(*operands))]
"""
    assert execute(code) == [True] * 15


@pytest.mark.parametrize("threads", [1, 2])
def test_as_many_threads_compute_as_the_job_says(threads: int) -> None:
    code = """
tasks = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
seen = [jax.settings()["threads"], tasks.count("tf_XLAEigen")]
"""
    assert execute(code, threads) == [threads, threads]


def test_what_cannot_be_had_is_refused() -> None:
    code = """
seen = []
for device, threads in (("cuda", 1), ("cpu", 2), ("cpu", 1)):
    try:
        frameworks.load("jax", device, threads, "default")
    except frameworks.FrameworkError as error:
        seen.append(str(error))
"""
    assert execute(code) == [
        "jax has no device 'cuda': capsule runs jax on CPUs only",
        "jax started 0 worker threads, expected 2: jax may have started before in this process",
    ]


def test_tensors_have_the_types_that_they_are_given() -> None:
    code = """
words = ("int64", "int8", "uint8", "bool")
seen = [jax.dtype_of(jax.from_numpy(numpy.ones(2, word), "float16")) for word in words]
seen += [jax.dtype_of(draw(2, dtype=word)) for word in ("float64", "float32", "bfloat16")]
seen += [jax.to_numpy(draw(2, dtype="bfloat16")).dtype.name]
"""
    types = ["int64", "int8", "uint8", "bool", "float64", "float32", "bfloat16"]
    assert execute(code) == [*types, "float32"]


def test_tensors_share_no_memory_with_arrays() -> None:
    code = """
seen = []
for place in range(16):
    # JAX takes over memory that lies at a multiple of 64 bytes
    array = numpy.ones(2**12 + 16, "float32")[place:]
    tensor = jax.from_numpy(array, "float32")
    array[:] = 2
    back = jax.to_numpy(tensor)
    seen.append(float(back.max()))
    back[:] = 3
    seen.append(float(jax.to_numpy(tensor).max()))
"""
    assert execute(code) == [1.0] * 32


def test_float64_is_float64() -> None:
    code = """
x = random.random((50, 50))
function, operands = prepare("gemm", *[jax.from_numpy(x, "float64")] * 2, m=50, n=50, k=50)
seen = abs(jax.to_numpy(function(*operands)) - x @ x).max()
"""
    assert execute(code) < 1e-13


def test_operands_are_operands_and_a_gradient_is_the_way_back_alone() -> None:
    code = """
a, b, c, d = (draw(40, 40) for _ in range(4))
forward, operands = prepare("gemm", a, b, m=40, n=40, k=40)
seen = [float(abs(forward(c, d) - numpy.asarray(c) @ numpy.asarray(d)).max())]
backward, kept = differentiate("gemm", c, a, b, m=40, n=40, k=40)
backward(*kept)
for function in (forward, backward):
    text = function.as_text()
    main = text[text.index("ENTRY"):]
    seen += [main.count(" parameter("), text.count(" dot("), text.count(" constant(")]
"""
    assert execute(code) == [pytest.approx(0, abs=1e-4), 2, 1, 0, 3, 2, 0]


def test_memory_is_given_back_so_that_a_peak_shows_it() -> None:
    code = """
seen = []
function, operands = prepare("tanh", draw(8 * 2**20), n=8 * 2**20)
for _ in range(3):
    watch = memory.watch(jax)
    watch.reset_peak()
    function(*operands)
    seen.append(watch.peak() / 2**20)
"""
    # what is kept would make a later peak next to nothing
    peaks = execute(code)
    assert min(peaks) > 24, peaks


NARROW = ("gemm", "conv2d", "layer_norm", "softmax_cross_entropy", "attention", "add")


# all operators in both are among the long ones of `test_frameworks`
@pytest.mark.parametrize(("dtype", "names"), [("bfloat16", NARROW), ("float16", NARROW[:2])])
def test_16_bits_stay_within_their_bounds(dtype: str, names: tuple[str, ...]) -> None:
    code = f"""
seen = {{}}
for name in {names}:
    case, parameters = catalog.OPERATORS[name].cases["quick"][-1]
    how = {{"repetitions": 2, "warmup": 1, "case": case, "parameters": parameters}}
    values = trials.values(jax, operator=name, dtype={dtype!r}, **how)
    seen[name] = max(values[metric][0] for metric in values if metric.endswith("error_ratio"))
"""
    ratios = execute(code)
    assert len(ratios) == len(names)
    assert all(0 < ratio < 1 for ratio in ratios.values()), ratios


def test_what_the_catalogue_calls_inexact_still_is() -> None:
    code = """
attention = {"batch": 1, "heads": 2, "length": 5, "width": 7}
grouped = {"n": 1, "h": 2, "g": 1, "m": 5, "k": 5, "w": 7}
tried = [("attention", "float64", attention), ("grouped_attention", "float64", grouped)]
for dtype, rows, columns in (("bfloat16", 64, 1000), ("float16", 16, 32000)):
    tried.append(("gelu", dtype, {"n": 1000, "approximate": 1}))
    tried.append(("softmax", dtype, {"rows": rows, "columns": columns}))


def differ(name, dtype, sizes, inputs, upstream):
    tensors = [jax.from_numpy(array, dtype) for array in inputs]
    function, operands = differentiate(name, jax.from_numpy(upstream, dtype), *tensors, **sizes)
    due = operators.due_gradients(operators.load(name), sizes, inputs, (upstream,), dtype)
    pairs = zip(map(jax.to_numpy, function(*operands)), due)
    return max(float((abs(result - one.value) / one.error).max()) for result, one in pairs)


seen = []
for name, dtype, point in tried:
    operator, sizes = operators.load(name), catalog.OPERATORS[name].complete(point)
    ratios = []
    for seed in (17, 18, 19):
        (upstream,) = operator.upstream(sizes, dtype, seed)
        for inputs in (operator.inputs, operator.hard_inputs):
            ratios.append(differ(name, dtype, sizes, inputs(sizes, dtype, seed), upstream))
    seen.append([name, dtype, max(ratios)])
"""
    seen = execute(code)
    inexact = catalog.FRAMEWORKS["jax"].inexact
    assert [[name, dtype] for name, dtype, _ in seen] == [
        [name, dtype] for dtype, names in inexact.items() for name in names
    ]
    for name, dtype, ratio in seen:
        assert ratio > 1, (name, dtype, ratio)
