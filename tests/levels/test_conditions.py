"""What timed calls go by: other values before each, caches emptied before each."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy
import pytest

from capsule.levels import frameworks
from capsule.levels.frameworks.base import Call
from capsule.levels.frameworks.numpy import Numpy
from capsule.levels.instruments import between, timing
from tests.support import trials
from tests.support.changed import change

GEMM: trials.Entry = {
    "operator": "gemm",
    "parameters": {"m": 5, "n": 6, "k": 7},
    "repetitions": 3,
    "warmup": 1,
}
LENET: trials.Entry = {
    "network": "lenet",
    "parameters": {"batch": 1},
    "repetitions": 2,
    "warmup": 1,
}

OWN = """
parameters = ("n",)
def tensors(sizes): return {"x": (sizes["n"],)}
def outputs(sizes): return ((sizes["n"],),)
def flops(sizes): return sizes["n"]
def forward(c, sizes, x): return c.store(x * 2)
def backward(c, sizes, upstream, x): return (c.store(upstream * 2),)
"""


def watched(log: dict[str, list[float]]) -> Numpy:
    """numpy that notes what each call yields, by the method that handed it out."""

    def note(way: str, call: Call) -> Call:
        function, arguments = call

        def run(*operands: Any) -> Any:
            results = function(*operands)
            first = results[0] if isinstance(results, tuple) else results
            log.setdefault(way, []).append(float(numpy.sum(first)))
            return results

        return run, arguments

    framework = Numpy()
    change(framework, note)
    return framework


@pytest.mark.parametrize(
    ("work", "ways"),
    [(GEMM, ("operation", "gradient")), (LENET, ("training",))],
    ids=["operator", "network"],
)
def test_each_call_gets_other_values_and_the_first_and_last_those_that_are_held(
    work: trials.Entry, ways: tuple[str, ...]
) -> None:
    calls = work["repetitions"] + work["warmup"]
    logs: dict[bool, dict[str, list[float]]] = {True: {}, False: {}}
    for fresh, log in logs.items():
        values = trials.values(watched(log), fresh=fresh, **work)
        for metric in ("l2_error_ratio", "element_error_ratio", "gradient_check"):
            assert values[metric][0] < 1
        assert values["repeatable"] == (1.0,)
    for way in ways:
        first, *others, last = logs[True][way][:calls]
        assert first == last
        assert len({first, *others}) == calls - 1
        assert set(logs[False][way][:calls]) == {first}


def test_where_values_stay_none_are_put(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    own: trials.Entry = {
        "operator": "own.py",
        "source": str(tmp_path / "own.py"),
        "parameters": {"n": 3},
    }
    framework = frameworks.load("numpy", "cpu", None, "default")
    with pytest.raises(
        ValueError, match=r"own.py is an operator of a file, which may cache results"
    ):
        trials.values(framework, fresh=True, **own)


def test_cold_calls_yield_what_is_due() -> None:
    framework = frameworks.load("numpy", "cpu", None, "default")
    warm, cold = (trials.values(framework, cold=cold, **GEMM) for cold in (False, True))
    assert warm.keys() == cold.keys()
    for metric in ("l2_error_ratio", "element_error_ratio", "gradient_check"):
        assert cold[metric][0] < 1


def test_all_caches_of_these_processors_are_read_through(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    of = {"index0": ("Data", "48K", "{0}"), "index1": ("Instruction", "32K", "{0}"),
          "index3": ("Unified", "32M", "0-1,5")}  # fmt: skip
    monkeypatch.setattr(between, "_CPUS", tmp_path)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    with pytest.raises(ValueError, match="cannot read the sizes of this machine"):
        between.cache_shares()
    for cpu in (0, 1):
        for index, texts in of.items():
            folder = tmp_path / f"cpu{cpu}" / "cache" / index
            folder.mkdir(parents=True)
            for name, text in zip(("type", "size", "shared_cpu_list"), texts, strict=True):
                (folder / name).write_text(text.format(cpu) + "\n")
    assert between.cache_shares() == dict.fromkeys((0, 1), 48 * 2**10 + 16 * 2**20)


def test_what_goes_before_a_call_is_in_no_duration() -> None:
    log: list[Any] = []
    call, wait = (partial(log.append, word) for word in ("call", "wait"))
    nanoseconds, _ = timing.measure_apart(call, (), range(3, 5), log.append, wait)
    assert log == [3, "wait", "call", "wait", 4, "wait", "call", "wait"]
    assert len(nanoseconds) == 2


def test_the_time_to_the_first_result_holds_the_first_call() -> None:
    values = trials.values(frameworks.load("numpy", "cpu", None, "default"), **GEMM)
    (once,) = values["compile_time"]
    assert once >= values["forward_time"][0] + values["backward_time"][0]
