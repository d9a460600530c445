"""Sets of cases, counted work, and what a trial is due to report."""

from collections.abc import Mapping
from math import prod

import pytest

from capsule.levels import catalog, operators
from capsule.levels.frameworks.numpy import Numpy
from capsule.levels.instruments import capacity
from tests.support import trials

CASES = [
    (name, set_name, case)
    for name, operator in catalog.OPERATORS.items()
    for set_name, cases in operator.cases.items()
    for case, _ in cases
]

CACHED = {"n": 1, "h": 2, "g": 1, "m": 2, "k": 4, "w": 8, "causal": 1}


def test_deepbench_is_whole() -> None:
    gemm, conv2d = catalog.OPERATORS["gemm"].cases, catalog.OPERATORS["conv2d"].cases
    assert [len(cases["deepbench-train"]) for cases in (gemm, conv2d)] == [160, 94]
    assert [len(cases["deepbench-inference"]) for cases in (gemm, conv2d)] == [75, 107]
    forms = [(p["ta"], p["tb"]) for _, p in gemm["deepbench-train"]]
    assert [forms.count(form) for form in ((0, 0), (1, 0), (0, 1))] == [77, 73, 10]
    work = [
        operators.load("gemm").flops(catalog.OPERATORS["gemm"].complete(p))
        for _, p in gemm["deepbench-train"]
    ]
    assert (min(work), max(work)) == (2 * 512 * 16 * 512, 2 * 8448 * 48000 * 2816)
    batches = {p["n"] for _, p in conv2d["deepbench-train"]}
    windows = {(p["r"], p["s"]) for _, p in conv2d["deepbench-train"]}
    assert batches == {4, 8, 16, 32}
    assert windows == {(1, 1), (3, 3), (5, 5), (7, 7), (5, 10), (5, 20)}


@pytest.mark.parametrize("name", catalog.OPERATORS)
def test_every_case_has_shapes_work_and_traffic(name: str) -> None:
    operator = operators.load(name)
    for cases in catalog.OPERATORS[name].cases.values():
        for _, parameters in cases:
            sizes = catalog.OPERATORS[name].complete(parameters)
            assert all(prod(shape) > 0 for shape in operator.outputs(sizes))
            assert operator.bytes(sizes, "float32") > 0
            computes = any(metric.needs == "flops" for metric in catalog.OPERATORS[name].metrics)
            assert (operator.flops(sizes) > 0) is computes


@pytest.mark.parametrize(
    ("name", "parameters", "flops", "moved"),
    [
        ("gemm", {"m": 2, "n": 3, "k": 4, "bias": 1}, 2 * 2 * 3 * 4 + 6, 4 * (8 + 12 + 3 + 6)),
        ("relu", {"n": 10}, 10, 80),
        (
            "conv2d",
            {"n": 1, "c": 2, "h": 5, "w": 5, "k": 4, "r": 3, "s": 3, "groups": 2},
            2 * (4 * 9) * 9,
            4 * (50 + 36 + 36),
        ),
        ("embedding", {"rows": 100, "width": 8, "count": 3}, 0, 3 * (64 + 8)),
        ("softmax_cross_entropy", {"rows": 2, "columns": 5}, 54, 40 + 16 + 4),
        ("sigmoid_cross_entropy", {"n": 10}, 90, 80 + 4),
        (
            "attention",
            {"batch": 1, "heads": 2, "length": 3, "width": 5, "causal": 1},
            2 * (1 + 2 + 3) * (4 * 5 + 6),
            4 * 4 * 2 * 3 * 5,
        ),
        ("grouped_attention", {**CACHED, "window": 0}, 2 * 7 * 38, 4 * 4 * 32),
        ("grouped_attention", {**CACHED, "window": 2, "mask": 1}, 2 * 4 * 38, 4 * 4 * 32 + 8),
        ("rotary", {"batch": 1, "heads": 2, "length": 3, "pairs": 2}, 72, 4 * (48 + 12)),
        ("swiglu", {"rows": 2, "width": 3, "hidden": 5}, 10 * 18, 4 * (6 + 30 + 10)),
        ("gather", {"rows": 2, "columns": 9, "count": 3}, 0, 6 * (4 + 4 + 8)),
        ("rfft", {"rows": 2, "n": 8}, 2 * 60, 4 * (16 + 2 * 5 * 2)),
        ("int8_matmul", {"m": 2, "n": 3, "k": 4}, 2 * 24 + 2 * 6, 8 + 12 + 4 * (2 + 3 + 6)),
    ],
)
def test_work_and_traffic_are_counted_by_hand(
    name: str, parameters: Mapping[str, int], flops: int, moved: int
) -> None:
    operator, sizes = operators.load(name), catalog.OPERATORS[name].complete(parameters)
    assert (operator.flops(sizes), operator.bytes(sizes, "float32")) == (flops, moved)


def test_options_are_in_a_name_where_they_differ_from_their_default() -> None:
    sizes = {"n": 1, "c": 2, "w": 9, "k": 4, "s": 3}
    assert catalog.OPERATORS["conv1d"].name_case({**sizes, "padding": 0}) == "n1c2w9k4s3"
    assert catalog.OPERATORS["conv1d"].name_case({**sizes, "padding": 1}) == "n1c2w9k4s3padding1"


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        (
            "gemm",
            {"m": 1, "n": 1, "k": 1, "ta": 2},
            "ta of gemm is 2, expected a whole number >= 0 and",
        ),
        ("gemm", {"m": 1, "n": 1}, "needs the parameters m, n, k and allows ta, tb, bias"),
        ("conv1d", {"n": 1, "c": 1, "w": 1, "k": 1, "s": 1, "stride": 0}, "stride of conv1d is 0"),
    ],
)
def test_wrong_options_are_named(name: str, parameters: Mapping[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        catalog.OPERATORS[name].complete(parameters)


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        (
            "conv1d",
            {"n": 1, "c": 3, "w": 9, "k": 4, "s": 3, "groups": 2},
            "c is 3 and k is 4, expected multiples of groups 2",
        ),
        (
            "conv1d",
            {"n": 1, "c": 3, "w": 2, "k": 4, "s": 3},
            r"the window \(3,\) does not fit into \(2,\)",
        ),
        (
            "conv_transpose1d",
            {"n": 1, "c": 1, "w": 3, "k": 1, "s": 3, "stride": 2, "output_padding": 2},
            "output_padding is 2, expected less than the stride 2",
        ),
        (
            "max_pool2d",
            {"n": 1, "c": 1, "h": 9, "w": 9, "r": 2, "s": 2, "padding": 2},
            "padding is 2, expected at most 1, half a window",
        ),
        ("grouped_attention", {**CACHED, "g": 3}, "2 heads .* not a multiple of 3 groups"),
        ("grouped_attention", {**CACHED, "k": 1}, "2 queries .* exceed 1 keys"),
        ("grouped_attention", {**CACHED, "causal": 0, "window": 1}, "window 1 needs causal 1"),
        (
            "top_k",
            {"rows": 1, "columns": 3, "k": 4},
            "k is 4, expected at most 3, the number of columns",
        ),
    ],
)
def test_sizes_that_do_not_go_together_fail_the_trial(
    name: str, parameters: Mapping[str, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        trials.values(Numpy(), operator=name, parameters=parameters)


def test_gradients_are_due_where_a_framework_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        catalog.FRAMEWORKS,
        "still",
        catalog.FrameworkFacts(
            package="still", module="still", dtypes=("float32",), differentiates=False
        ),
    )
    gemm = catalog.OPERATORS["gemm"]
    names = [metric.name for metric in catalog.due(gemm, "still", "cpu")]
    assert "forward_time" in names
    assert not {"backward_time", "grad_l2_error_ratio", "gradient_check"} & set(names)


@pytest.mark.parametrize(
    ("framework", "dtype", "device", "message"),
    [
        ("torch", "tf32", "cpu", "torch does not support tf32 on cpu"),
        (
            "numpy",
            "bfloat16",
            "cpu",
            "numpy does not support bfloat16 on cpu; use float64 or float32",
        ),
        ("numpy", "float32", "cuda", "numpy has no device 'cuda'"),
        ("torch", "tf32", "cuda", None),
    ],
)
def test_what_a_framework_cannot_run_is_told(
    framework: str, dtype: str, device: str, message: str | None
) -> None:
    refusal = catalog.refusal(catalog.OPERATORS["gemm"], framework, dtype, device)
    if message is None:
        assert refusal is None
    else:
        assert refusal is not None
        assert refusal.startswith(message)


class _Card:
    """A device with a given amount of memory."""

    def __init__(self, free: int) -> None:
        self._free = free

    def free(self) -> int:
        return self._free

    def reset_peak(self) -> None:
        raise AssertionError("nothing is measured")

    def peak(self) -> int:
        raise AssertionError("nothing is measured")


@pytest.mark.parametrize(("free", "fits"), [(2**20, True), (1000, False)])
def test_a_trial_that_the_device_cannot_hold_is_refused(free: int, fits: bool) -> None:
    framework = Numpy()
    framework.memory = _Card(free)
    operator, sizes = operators.load("relu"), catalog.OPERATORS["relu"].complete({"n": 1000})
    if fits:
        capacity.fits(operator, sizes, "float32", framework, True)
        return
    with pytest.raises(MemoryError, match=r"needs 0\.0 GiB, the device has 0\.0 GiB free"):
        capacity.fits(operator, sizes, "float32", framework, True)
