"""The peak of this process's memory, as trials on a CPU report it."""

import numpy
import pytest

from capsule.levels import frameworks, level0
from capsule.levels.instruments import memory

MIB = 2**20


def touched(mebibytes):
    """An array of that many MiB whose pages are there."""
    return numpy.ones(mebibytes * MIB, dtype="uint8")


def test_the_peak_is_what_was_there_at_once_also_if_it_is_gone():
    watch = memory.Resident()
    before = touched(32)
    watch.reset_peak()
    for mebibytes in (64, 4):
        touched(mebibytes)
    assert 63 * MIB <= watch.peak() < 72 * MIB
    watch.reset_peak()
    assert watch.peak() < 4 * MIB
    assert before.all()


def test_a_kernel_without_a_reset_leaves_the_growth_of_the_highest_peak(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "_CLEAR_REFS", tmp_path / "absent" / "clear_refs")
    watch = memory.Resident()
    for most in (512, 640):  # the first one is above whatever the process had before
        watch.reset_peak()
        touched(most)
        found = watch.peak()
    assert 0 < found <= 136 * MIB
    watch.reset_peak()
    touched(64)
    assert watch.peak() < 4 * MIB  # below the highest peak it is not seen


@pytest.mark.parametrize("n", [1_000_000, 16_000_000])
def test_a_trial_on_a_cpu_reports_its_result_at_least(n):
    trial = {
        "operator": "relu",
        "dtype": "float32",
        "parameters": {"n": n},
        "repetitions": 2,
        "warmup": 1,
    }
    framework = frameworks.load("numpy", "cpu", None, "default")
    found = {each.metric: each for each in level0.measure(trial, framework, 17)}
    series = found["peak_memory_bytes"]
    assert series.warmup == 0
    (peak,) = series.values
    assert 4 * n - MIB <= peak < 4 * n + 8 * MIB


def test_a_device_that_keeps_count_is_asked():
    class Counting:
        def free(self):
            return 2**40

        def reset_peak(self):
            pass

        def peak(self):
            return 12345

    framework = frameworks.load("numpy", "cpu", None, "default")
    framework.memory = Counting()
    trial = {
        "operator": "relu",
        "dtype": "float32",
        "parameters": {"n": 9},
        "repetitions": 1,
        "warmup": 0,
    }
    found = {each.metric: each.values for each in level0.measure(trial, framework, 17)}
    assert found["peak_memory_bytes"] == (12345.0,)
