"""The machine's roofline, and rates that it rules out."""

from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any

import pytest

from capsule.levels import operators, run
from capsule.levels.catalog import OPERATORS
from capsule.levels.frameworks.base import Call
from capsule.levels.frameworks.numpy import Numpy
from capsule.levels.frameworks.numpy.operators import NumpyOperators
from capsule.levels.instruments import roofs
from capsule.levels.journal import Samples
from capsule.levels.operators import Operator
from capsule.levels.report import Report
from tests.support import trials

GEMM = {"m": 192, "n": 192, "k": 192}


class Remembering(NumpyOperators):
    """Products of the same numbers are looked up."""

    def operation(
        self, operator: Operator, sizes: Mapping[str, int], tensors: tuple[Any, ...]
    ) -> Call:
        call, operands = super().operation(operator, sizes, tensors)
        results: dict[tuple[float, float], Any] = {}

        def remember(a: Any, b: Any) -> Any:
            key = a[0, 0], b[0, 0]
            if key not in results:
                results[key] = call(a, b)
            return results[key]

        return remember, operands


def test_results_that_are_kept_are_faster_than_the_machine() -> None:
    framework = Numpy()
    framework.operators = Remembering()
    lines: list[Samples] = []
    trial = trials.make(operator="gemm", parameters=GEMM)
    with pytest.raises(roofs.ImpossibleRateError, match=r"gemm reached .* FLOP/s, more than"):
        run.load_level(0)(trial, framework, Report(lines.append))
    values = {line.metric: line.values for line in lines}
    # what it is caught by is this alone: its results are right, whatever the operands hold
    assert values["element_error_ratio"][0] <= 1
    assert values["repeatable"] == (1.0,)
    assert len(values["forward_time"]) == 6


def test_a_share_is_the_time_that_the_roofs_leave_least() -> None:
    shown = trials.measure(Numpy(), operator="gemm", parameters=GEMM, roofline=True)
    products, copies, share = (
        shown[name].values
        for name in ("machine_flops_per_second", "machine_bytes_per_second", "roofline_share")
    )
    assert 5 <= len(products) <= 50
    assert len(copies) == 10
    line = shown["forward_time"]
    seconds = median(line.values[line.warmup :])
    least = max(2 * 192**3 / max(products), 3 * 4 * 192**2 / max(copies))
    assert share[0] == pytest.approx(least / seconds)
    # the machine is asked once: another operator of the process has the same roofs
    other = trials.measure(shown_by := Numpy(), operator="relu", parameters={"n": 9}, roofline=True)
    again = trials.measure(shown_by, operator="reshape", parameters=BATCH, roofline=True)
    assert other["machine_bytes_per_second"].values == again["machine_bytes_per_second"].values
    assert again["roofline_share"].values[0] > 0


BATCH = {"n": 2, "c": 3, "h": 4, "w": 5}


@pytest.mark.parametrize(
    ("dtype", "measured"), [("float32", ["float32"]), ("bfloat16", ["bfloat16", "float32"])]
)
def test_products_are_measured_once_and_only_if_a_rate_is_doubted(
    monkeypatch: pytest.MonkeyPatch, dtype: str, measured: list[str]
) -> None:
    rates = {"float32": (3e10, 7e10), "bfloat16": (1e10,)}
    asked = []

    def products(framework: Any, word: str) -> Iterator[tuple[float, ...]]:
        asked.append(word)
        yield from ((rate,) for rate in rates[word])

    monkeypatch.setattr(roofs, "_products", products)
    framework = Numpy()

    def check(rate: float) -> None:
        roofs.require_possible(framework, "gemm", dtype, rate, 1.0)

    check(roofs.BELIEVED)
    assert not asked
    check(7e11)
    with pytest.raises(roofs.ImpossibleRateError, match=r"more than 10 times .*, 7e\+10 FLOP/s"):
        check(7.1e11)
    assert sorted(asked) == measured


def test_a_device_without_memory_for_a_product_doubts_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(roofs, "_products", lambda *_: iter(()))
    roofs.require_possible(Numpy(), "gemm", "float32", 1e20, 1.0)


@pytest.mark.parametrize(
    ("name", "point", "saving"),
    [
        ("gemm", GEMM, 1),
        ("conv2d", {"n": 1, "c": 2, "h": 9, "w": 9, "k": 2, "r": 3, "s": 5}, 15),
        ("conv1d", {"n": 1, "c": 2, "w": 9, "k": 2, "s": 3}, 3),
        ("attention", {"batch": 1, "heads": 1, "length": 4, "width": 2, "causal": 1}, 1),
    ],
)
def test_an_algorithm_that_needs_fewer_operations_is_no_impossible_rate(
    name: str, point: dict[str, int], saving: int
) -> None:
    sizes = OPERATORS[name].complete(point)
    operator = operators.load(name)
    assert roofs.fewest(operator, sizes) == pytest.approx(operator.flops(sizes) / saving)


def test_what_has_products_of_another_type_is_not_doubted() -> None:
    """Units for 8 bits are many times as fast as those for the type of the result."""
    operator, sizes = operators.load("int8_matmul"), dict.fromkeys("mnk", 2048)
    assert operator.flops(sizes) > roofs.BELIEVED / 10
    assert roofs.fewest(operator, sizes) == 0
