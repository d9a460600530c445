"""The peak of this process's memory, as trials on a CPU report it."""

from pathlib import Path

import numpy
import pytest
from numpy.typing import NDArray

from capsule.levels import frameworks
from capsule.levels.frameworks.numpy import Numpy
from capsule.levels.instruments import memory
from tests.support import trials

pytestmark = pytest.mark.slow

MIB = 2**20


def touch(mebibytes: int) -> NDArray[numpy.uint8]:
    """An array of that many MiB whose pages are there."""
    return numpy.ones(mebibytes * MIB, dtype="uint8")


def test_the_peak_is_what_was_there_at_once_also_if_it_is_gone() -> None:
    watch = memory.Resident()
    before = touch(32)
    watch.reset_peak()
    for mebibytes in (64, 4):
        touch(mebibytes)
    assert 63 * MIB <= watch.peak() < 72 * MIB
    watch.reset_peak()
    assert watch.peak() < 4 * MIB
    assert before.all()


def test_a_kernel_without_a_reset_leaves_the_growth_of_the_highest_peak(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(memory, "_CLEAR_REFS", tmp_path / "absent" / "clear_refs")
    watch = memory.Resident()
    for most in (512, 640):  # the first one is above whatever the process had before
        watch.reset_peak()
        touch(most)
        peak = watch.peak()
    assert 0 < peak <= 136 * MIB
    watch.reset_peak()
    touch(64)
    assert watch.peak() < 4 * MIB  # below the highest peak it is not seen


@pytest.mark.parametrize("n", [1_000_000, 16_000_000])
def test_a_trial_on_a_cpu_reports_its_result_at_least(n: int) -> None:
    framework = frameworks.load("numpy", "cpu", None, "default")
    samples = trials.measure(framework, operator="relu", parameters={"n": n})
    series = samples["peak_memory_bytes"]
    assert series.warmup == 0
    (peak,) = series.values
    assert 4 * n - MIB <= peak < 4 * n + 8 * MIB


def test_the_memory_of_a_device_is_what_the_device_counts() -> None:
    class Counting:
        def free(self) -> int:
            return 2**40

        def reset_peak(self) -> None:
            pass

        def peak(self) -> int:
            return 12345

    framework = Numpy()
    framework.memory = Counting()
    values = trials.values(framework, operator="relu", parameters={"n": 9})
    assert values["peak_memory_bytes"] == (12345.0,)
