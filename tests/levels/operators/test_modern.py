"""The operators of today's models: what defines them, odd shapes, and other right algorithms."""

from collections.abc import Callable, Mapping
from importlib import util
from math import sqrt
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
from numpy.typing import NDArray

from capsule.levels import catalog, frameworks, operators
from capsule.levels.frameworks import Framework
from capsule.levels.instruments import errors
from capsule.levels.operators.quantized import decode
from tests.support.capabilities import gradient, operation

Array = NDArray[Any]
Arrays = tuple[Array, ...]

needs_torch = pytest.mark.skipif(
    util.find_spec("torch") is None, reason="torch is not installed here"
)


def make(
    name: str, dtype: str, **parameters: int
) -> tuple[operators.Operator, Mapping[str, int], Arrays]:
    operator, sizes = operators.load(name), catalog.OPERATORS[name].complete(parameters)
    return operator, sizes, operator.inputs(sizes, dtype, 17)


def formula(name: str, inputs: Arrays, **parameters: int) -> Array:
    """The operator's one result, in the dtype of its inputs."""
    operator, sizes, _ = make(name, "float64", **parameters)
    result: Array = operator.forward(operators.EXACT, sizes, *inputs)
    return result


def ratio(name: str, dtype: str, result: Array, **parameters: int) -> float:
    """The largest error of an element over its bound."""
    operator, sizes, inputs = make(name, dtype, **parameters)
    return errors.worst_element((result,), operators.due(operator, sizes, inputs, dtype))


def attend(sizes: Mapping[str, int], q: Array, k: Array, v: Array, *hiding: Array) -> Array:
    """Query by query, as the docstring has it."""
    result, length = numpy.zeros_like(q), sizes["m"]
    for batch, head, place in numpy.ndindex(q.shape[:3]):
        end = int(hiding[0][batch]) if sizes["lengths"] else sizes["k"]
        position = end - length + place
        seen = [
            key
            for key in range(end)
            if (not sizes["causal"] or key <= position)
            and (not sizes["window"] or position - key < sizes["window"])
            and (not sizes["mask"] or hiding[-1][batch, place, key])
        ]
        group = head // (sizes["h"] // sizes["g"])
        e = numpy.exp(k[batch, group, seen] @ q[batch, head, place] / sqrt(sizes["w"]))
        result[batch, head, place] = e @ v[batch, group, seen] / e.sum()
    return result


SMALL = {"n": 3, "h": 6, "g": 2, "m": 4, "k": 9, "w": 5}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"lengths": 1},
        {"mask": 1},
        {"causal": 1},
        {"causal": 1, "window": 3},
        {"causal": 1, "window": 3, "lengths": 1, "mask": 1},
    ],
)
def test_attention_sees_what_it_is_to_see(options: dict[str, int]) -> None:
    _, sizes, inputs = make("grouped_attention", "float64", **SMALL, **options)
    result = formula("grouped_attention", inputs, **SMALL, **options)
    assert numpy.allclose(result, attend(sizes, *inputs), rtol=0, atol=1e-13)


def test_a_step_with_a_cache_is_the_last_row_of_the_whole() -> None:
    shape = {"batch": 2, "heads": 3, "length": 8, "width": 4}
    _, _, (q, k, v) = make("attention", "float64", **shape, causal=1)
    whole = formula("attention", (q, k, v), **shape, causal=1)
    grouped = {"n": 2, "h": 3, "g": 3, "m": 8, "k": 8, "w": 4, "causal": 1}
    assert numpy.array_equal(formula("grouped_attention", (q, k, v), **grouped), whole)
    step = (numpy.ascontiguousarray(q[:, :, -1:]), k, v)
    last = formula("grouped_attention", step, **{**grouped, "m": 1})
    assert numpy.allclose(last, whole[:, :, -1:], rtol=0, atol=1e-14)


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_keeps_lengths_and_its_gradient_turns_back(interleaved: int) -> None:
    shape = {"batch": 2, "heads": 3, "length": 5, "pairs": 3, "interleaved": interleaved}
    operator, sizes, (x, cos, sin) = make("rotary", "float64", **shape)
    turned = formula("rotary", (x, cos, sin), **shape)
    assert numpy.allclose((turned**2).sum(-1), (x**2).sum(-1))
    assert abs(turned - x).max() > 0.5
    (back,) = operator.backward(operators.EXACT, sizes, turned, x, cos, sin)
    assert numpy.allclose(back, x)


@pytest.mark.parametrize("n", [1, 2, 3, 16, 97])
def test_a_transform_is_numpys(n: int) -> None:
    _, _, (x,) = make("rfft", "float64", rows=2, n=n)
    y = numpy.fft.rfft(x)
    result = formula("rfft", (x,), rows=2, n=n)
    assert numpy.allclose(result, numpy.stack((y.real, y.imag), -1), rtol=0, atol=1e-12)


@pytest.mark.torch
@needs_torch
def test_the_bits_of_float8_are_torchs() -> None:
    import torch

    codes = numpy.arange(256, dtype="uint8")
    right = torch.from_numpy(codes).view(torch.float8_e4m3fn).double().numpy()
    assert numpy.array_equal(decode(codes), right, equal_nan=True)
    assert numpy.isnan(right).sum() == 2
    _, _, (a, b, *_) = make("fp8_matmul", "float32", m=64, n=64, k=64)
    for array in (a, b):
        assert numpy.isfinite(decode(array)).all()
        assert decode(array).min() < -3 < 11 < decode(array).max()


# of one element, odd, prime, with fewer or more than what is taken from
ODD: list[tuple[str, tuple[int, ...]]] = [
    ("grouped_attention", (1, 1, 1, 1, 1, 1, 0, 0, 0, 0)),
    ("grouped_attention", (2, 8, 1, 1, 65, 16, 1, 0, 1, 0)),
    ("grouped_attention", (3, 3, 3, 7, 7, 5, 0, 0, 1, 1)),
    ("grouped_attention", (1, 4, 2, 13, 13, 8, 1, 1, 0, 0)),
    ("grouped_attention", (1, 2, 2, 5, 11, 64, 1, 99, 0, 0)),
    ("rotary", (1, 1, 1, 1)),
    ("rms_norm", (1, 1)),
    ("rms_norm", (5, 1)),
    ("rms_norm", (1, 1009)),
    ("rms_norm", (257, 3)),
    ("swiglu", (1, 1, 1)),
    ("swiglu", (2, 509, 3)),
    ("top_k", (1, 1, 1)),
    ("top_k", (3, 1000, 300)),
    ("gather", (1, 1, 1)),
    ("gather", (2, 3, 1000)),
    ("scatter_add", (1, 1, 1)),
    ("scatter_add", (2, 3, 1000)),
    ("einsum", (1, 1, 1, 1, 1)),
    ("einsum", (1, 3, 509, 2, 5)),
    ("rfft", (1, 1)),
    ("rfft", (1, 2)),
    ("rfft", (2, 509)),
    ("int8_matmul", (1, 1, 1)),
    ("int8_matmul", (17, 3, 1031)),
    ("fp8_matmul", (1, 1, 1)),
    ("fp8_matmul", (17, 3, 1031)),
]


@pytest.fixture(scope="module")
def torch_framework() -> Framework:
    return frameworks.load("torch", "cpu", 1, "default")


def worst(framework: Framework, name: str, dtype: str, seed: int, **parameters: int) -> float:
    """The largest of an operator's ratios to bounds: forward, backward, norms and elements."""
    operator, sizes, _ = make(name, dtype, **parameters)
    inputs = operator.inputs(sizes, dtype, seed)
    upstream = operator.upstream(sizes, dtype, seed)
    tensors, arriving = (
        tuple(framework.from_numpy(array.copy(), dtype) for array in arrays)
        for arrays in (inputs, upstream)
    )
    function, operands = operation(framework, operator, sizes, tensors)
    backward, again = gradient(framework, operator, sizes, tensors, arriving)
    results, gradients = (
        tuple(map(framework.to_numpy, operators.several(call(*of))))
        for call, of in ((function, operands), (backward, again))
    )
    given = (operator, sizes, inputs)
    bounds = operators.gradient_bounds(*given, upstream, dtype)
    ratios = (
        errors.worst_element(results, operators.due(*given, dtype)),
        errors.worst_element(gradients, operators.due_gradients(*given, upstream, dtype)),
        errors.worst_ratio(
            results, operators.reference(*given, dtype), operators.bounds(*given, dtype)
        ),
        errors.worst_ratio(
            gradients, operators.reference_gradients(*given, upstream, dtype), bounds
        ),
        errors.directional(*given, upstream, gradients, bounds, seed),
    )
    return float(numpy.array(ratios).max())


@pytest.mark.torch
@needs_torch
@pytest.mark.parametrize(("name", "numbers"), ODD)
def test_odd_shapes_stay_within(
    torch_framework: Framework, name: str, numbers: tuple[int, ...]
) -> None:
    entry = catalog.OPERATORS[name]
    names = (*entry.parameters, *(option.name for option in entry.options))
    parameters = dict(zip(names, numbers, strict=False))
    for seed, dtype in enumerate(("float64", "float32", "bfloat16", "float16"), 17):
        if catalog.refusal(entry, "torch", dtype, "cpu") is None:
            assert 0 <= worst(torch_framework, name, dtype, seed, **parameters) < 1, dtype


def butterflies(x: Array) -> Array:
    """Cooley and Tukey, 1965, in complex64 throughout."""
    n = x.shape[-1]
    if n == 1:
        return x.astype("complex64")
    even, odd = butterflies(x[..., ::2]), butterflies(x[..., 1::2])
    turned = numpy.exp(-2j * numpy.pi * numpy.arange(n // 2) / n).astype("complex64") * odd
    return numpy.concatenate((even + turned, even - turned), -1)


def bluestein(x: Array) -> Array:
    """As a convolution with a chirp, for lengths that do not divide."""
    n = x.shape[-1]
    chirp = numpy.exp(-1j * numpy.pi * (numpy.arange(n) ** 2 % (2 * n)) / n).astype("complex64")
    size = 2 ** (2 * n).bit_length()
    kernel = numpy.zeros(size, "complex64")
    kernel[:n], kernel[1 - n :] = chirp.conj(), chirp[1:][::-1].conj()
    padded = numpy.zeros((len(x), size), "complex64")
    padded[:, :n] = x * chirp
    product = butterflies(padded) * butterflies(kernel)
    inverse = butterflies(product.conj()).conj() / numpy.float32(size)
    result: Array = inverse[:, :n] * chirp
    return result


def table(x: Array) -> Array:
    """By a matrix of float32."""
    n = x.shape[-1]
    whole = numpy.fft.fft(numpy.eye(n)).astype("complex64")
    result: Array = (x @ whole.real + 1j * (x @ whole.imag)).astype("complex64")
    return result


@pytest.mark.parametrize(
    ("transform", "n"), [(butterflies, 256), (bluestein, 251), (table, 251), (table, 256)]
)
def test_other_right_transforms_stay_within(transform: Callable[[Array], Array], n: int) -> None:
    _, _, (x,) = make("rfft", "float32", rows=16, n=n)
    y = transform(x)[:, : n // 2 + 1]
    assert y.dtype == numpy.complex64
    parts = numpy.stack((y.real, y.imag), -1)
    assert 0 < ratio("rfft", "float32", parts, rows=16, n=n) < 1
    parts[3, 7, 1] += 1e-3
    assert ratio("rfft", "float32", parts, rows=16, n=n) > 1


def test_attention_by_blocks_of_keys_stays_within() -> None:
    """Milakov and Gimelshein, 2018, as flash attention has it."""
    shape = {"n": 1, "h": 4, "g": 2, "m": 8, "k": 40, "w": 16}
    _, _, (q, k, v) = make("grouped_attention", "float32", **shape)
    k, v = (numpy.repeat(x, 2, axis=1) for x in (k, v))
    most = numpy.full((1, 4, 8, 1), -numpy.inf, "float32")
    total, mean = numpy.zeros_like(most), numpy.zeros_like(q)
    for keys, values in zip(numpy.split(k, 5, 2), numpy.split(v, 5, 2), strict=True):
        scores = q @ keys.swapaxes(2, 3) * numpy.float32(0.25)
        new = numpy.maximum(most, scores.max(-1, keepdims=True))
        shares, kept = numpy.exp(scores - new), numpy.exp(most - new)
        total, mean = total * kept + shares.sum(-1, keepdims=True), mean * kept + shares @ values
        most = new
    assert 0 < ratio("grouped_attention", "float32", mean / total, **shape) < 1


def test_a_norm_that_is_stored_before_its_weight_stays_within() -> None:
    _, _, (x, w) = make("rms_norm", "float16", rows=64, columns=256)
    wide = x.astype("float32")
    scale = 1 / numpy.sqrt((wide**2).mean(1, keepdims=True) + numpy.float32(1e-5))
    result = (wide * scale).astype("float16") * w
    assert 0 < ratio("rms_norm", "float16", result, rows=64, columns=256) < 1


def test_additions_in_another_order_in_memory_stay_within_and_one_left_out_does_not() -> None:
    shape = {"rows": 3, "columns": 7, "count": 60}
    _, _, (x, index, source) = make("scatter_add", "float16", **shape)
    result = x.copy()
    for place in range(59, -1, -1):
        result[range(3), index[:, place]] += source[:, place]
    assert 0 < ratio("scatter_add", "float16", result, **shape) < 1
    assert {0, 6} <= set(index[0])
    result[1, index[1, 5]] -= source[1, 5]
    assert ratio("scatter_add", "float16", result, **shape) > 1


def test_a_gate_by_tanh_stays_within() -> None:
    shape = {"rows": 64, "width": 64, "hidden": 96}
    _, _, (x, g, u) = make("swiglu", "float32", **shape)
    gate, half = x @ g.T, numpy.float32(0.5)
    result = gate * (numpy.tanh(gate * half) + 1) * half * (x @ u.T)
    assert 0 < ratio("swiglu", "float32", result, **shape) < 1


def test_an_operator_that_a_framework_lacks_is_refused_with_the_reason() -> None:
    refusal = catalog.refusal(catalog.OPERATORS["fp8_matmul"], "onnxruntime", "float32", "cpu")
    assert refusal is not None
    assert refusal.startswith("onnxruntime has no operator fp8_matmul: ")


@needs_torch
@pytest.mark.parametrize("m", [1, 16, 17, 32, 40])
@pytest.mark.parametrize(("k", "n"), [(8, 16), (7, 33), (31, 67), (1, 1)])
def test_int8_products_of_any_size_fit_what_cuda_takes(
    monkeypatch: pytest.MonkeyPatch, m: int, k: int, n: int
) -> None:
    import torch

    from capsule.levels.frameworks.torch import modern

    product = torch._int_mm

    def multiply(a: Any, b: Any) -> Any:
        """CUDA's conditions, as `at::native::_int_mm_cuda` states them, and those of cuBLAS."""
        rows, is_row_major = a.shape[0], b.is_contiguous()
        if rows <= 16 or a.shape[1] % 8 or b.shape[1] % 8 or (is_row_major and rows % 32):
            raise RuntimeError(f"sizes {tuple(a.shape)} and {tuple(b.shape)}")
        return product(a, b)

    monkeypatch.setattr(torch, "_int_mm", multiply)
    generator = torch.Generator().manual_seed(m * k * n)
    a, b = (
        torch.randint(-128, 128, shape, generator=generator, dtype=torch.int8)
        for shape in ((m, k), (k, n))
    )
    assert torch.equal(modern._padded_int_mm(a, b), a.to(torch.int32) @ b.to(torch.int32))


def placed(name: str) -> Any:
    """Device of a tensor, which an operation reads before it is called."""
    import torch

    return SimpleNamespace(device=torch.device(name))


@needs_torch
@pytest.mark.parametrize(
    ("device", "shapes"), [("cpu", ((5, 7), (7, 33))), ("cuda", ((17, 8), (8, 40)))]
)
def test_int8_products_are_padded_on_cuda_alone(
    monkeypatch: pytest.MonkeyPatch, device: str, shapes: tuple[tuple[int, ...], ...]
) -> None:
    import torch

    from capsule.levels.frameworks.torch import modern

    product, seen = torch._int_mm, []

    def multiply(a: Any, b: Any) -> Any:
        seen.append((tuple(a.shape), tuple(b.shape)))
        return product(a, b)

    monkeypatch.setattr(torch, "_int_mm", multiply)
    _, _, inputs = make("int8_matmul", "float32", m=5, n=33, k=7)
    a, b, row, column = map(torch.from_numpy, inputs)
    call, _ = modern.OPERATIONS["int8_matmul"]({}, placed(device), b, row, column)
    result = call(a, b, row, column).numpy()
    assert seen == [shapes]
    assert ratio("int8_matmul", "float32", result, m=5, n=33, k=7) < 1


def on_tensor_cores(a: Any, b: Any) -> Any:
    """A product of which each instruction keeps 14 bits of 32 products and the sum before them.

    Sums of four instructions are added up in float32, as without fast accumulation.
    """
    import torch

    total = torch.zeros(a.shape[0], b.shape[1], dtype=torch.float32)
    for first in range(0, a.shape[1], 128):
        own = torch.zeros(total.shape, dtype=torch.float64)
        for place in range(first, min(first + 128, a.shape[1]), 32):
            products = a[:, place : place + 32, None] * b[None, place : place + 32]
            addends = torch.cat((own[:, None], products), 1)
            _, exponent = torch.frexp(abs(addends).amax(1, keepdim=True))
            unit = torch.ldexp(torch.ones_like(addends[:, :1]), exponent - 14)
            own = (torch.trunc(addends / unit) * unit).sum(1)
        total += own.float()
    return total


def strict_scaled_mm(seen: list[Any], multiply: Callable[[Any, Any], Any]) -> Any:
    """`torch._scaled_mm` with the conditions of CUDA, as its meta function states them."""
    import torch

    def scaled_mm(a: Any, b: Any, scale_a: Any, scale_b: Any, *, out_dtype: Any) -> Any:
        seen.append(a.shape)
        assert {a.dtype, b.dtype} == {torch.float8_e4m3fn}
        is_row_major = a.stride(1) == 1 and a.stride(0) > 1
        is_column_major = b.stride(0) == 1 and b.stride(1) > 1
        if not (is_row_major and is_column_major):
            raise RuntimeError(f"strides {a.stride()} and {b.stride()}")
        if any(size % 16 for size in (a.shape[1], *b.shape)):
            raise RuntimeError(f"sizes {tuple(a.shape)} and {tuple(b.shape)}")
        assert all(one.numel() == 1 and one.dtype == torch.float32 for one in (scale_a, scale_b))
        return (multiply(a.double(), b.double()) * scale_a * scale_b).to(out_dtype)

    return scaled_mm


@needs_torch
@pytest.mark.parametrize("m", [1, 16, 17, 40])
@pytest.mark.parametrize(("k", "n"), [(16, 32), (7, 33), (31, 67), (1, 1), (48, 5)])
def test_fp8_products_of_any_size_fit_what_cuda_takes(
    monkeypatch: pytest.MonkeyPatch, m: int, k: int, n: int
) -> None:
    import torch

    from capsule.levels.frameworks.torch import modern

    monkeypatch.setattr(torch, "_scaled_mm", strict_scaled_mm([], torch.matmul))
    _, _, (a, b, *_) = make("fp8_matmul", "float32", m=m, n=n, k=k)
    result = modern._scaled_mm(torch.from_numpy(a), torch.from_numpy(b))
    assert result.shape == (m, n)
    assert torch.equal(result, torch.from_numpy(decode(a) @ decode(b)).float())


@needs_torch
@pytest.mark.parametrize(
    ("device", "dtype", "capability", "hip", "has_tensor_cores"),
    [
        ("cuda", "bfloat16", (8, 9), None, True),
        ("cuda", "bfloat16", (9, 0), None, True),
        ("cuda", "bfloat16", (8, 6), None, False),
        ("cuda", "bfloat16", (9, 4), "6.4", False),
        ("cuda", "float16", (9, 0), None, True),
        ("cuda", "float32", (9, 0), None, False),
        ("cpu", "bfloat16", (9, 0), None, False),
    ],
)
def test_fp8_products_run_on_tensor_cores_where_these_are_and_keep_enough_bits(
    monkeypatch: pytest.MonkeyPatch,
    torch_framework: Framework,
    device: str,
    dtype: str,
    capability: tuple[int, int],
    hip: str | None,
    has_tensor_cores: bool,
) -> None:
    import torch

    from capsule.levels.frameworks.torch import modern

    seen: list[Any] = []
    monkeypatch.setattr(torch, "_scaled_mm", strict_scaled_mm(seen, on_tensor_cores))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    monkeypatch.setattr(torch.version, "hip", hip)
    shape = {"m": 5, "n": 33, "k": 7}
    _, _, inputs = make("fp8_matmul", dtype, **shape)
    a, b, row, column = (torch_framework.from_numpy(array, dtype) for array in inputs)
    call, _ = modern.OPERATIONS["fp8_matmul"]({}, placed(device), b, row, column)
    result = torch_framework.to_numpy(call(a, b, row, column))
    assert len(seen) == has_tensor_cores
    assert 0 < ratio("fp8_matmul", dtype, result, **shape) < 1


@needs_torch
@pytest.mark.parametrize(
    "shape", [(16, 16, 64), (17, 67, 31), (33, 5, 1031), (8, 8, 4096)], ids=str
)
def test_the_bits_that_fp8_tensor_cores_keep_are_enough_in_16_bits_alone(
    monkeypatch: pytest.MonkeyPatch, torch_framework: Framework, shape: tuple[int, ...]
) -> None:
    import torch

    from capsule.levels.frameworks.torch import modern

    monkeypatch.setattr(torch, "_scaled_mm", strict_scaled_mm([], on_tensor_cores))
    monkeypatch.setattr(modern, "_widened_mm", modern._scaled_mm)
    sizes = dict(zip("mnk", shape, strict=True))
    for dtype in ("bfloat16", "float16"):
        assert 0 < worst(torch_framework, "fp8_matmul", dtype, 17, **sizes) < 0.6
    if sizes["k"] < 4096:
        assert worst(torch_framework, "fp8_matmul", "float32", 17, **sizes) > 1
