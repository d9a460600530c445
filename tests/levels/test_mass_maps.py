"""Mass maps: their power spectrum is the one that the generator states."""

import numpy
import pytest
from numpy.typing import NDArray

from capsule.levels.data import generators
from capsule.levels.data.predictions import Evaluation

Array = NDArray[numpy.float64]


def state_spectrum(side: int) -> Array:
    """Mean of |c|**2 of each wave, (side, side), from the words of the generator."""
    numbers = numpy.arange(side)
    amplitude = numpy.full((side, side), 0.25)
    left = numpy.ones((side, side))
    for n in range(20):
        if 2**n > side / 8:
            break
        along = numpy.cos(2**n * numpy.pi * numbers / side) ** 2
        left = left * numpy.multiply.outer(along, along)
        amplitude += 2**n * left
    field = amplitude**2
    correlation = numpy.fft.ifft2(field / field.mean()).real
    return numpy.fft.fft2(correlation + correlation**2 / 8).real / side**2 / 6**2


@pytest.mark.parametrize(("side", "samples"), [(16, 600), (21, 400), (32, 300), (70, 60)])
def test_their_spectrum_is_known(side: int, samples: int) -> None:
    made = generators.generate("mass-maps", {"samples": samples, "test_samples": 1, "side": side})
    maps = made["map"][:, 0].astype("float64")
    power = (numpy.abs(numpy.fft.fft2(maps) / side**2) ** 2).mean(axis=0)
    due = state_spectrum(side)
    # the mean of exponential numbers, and of pixels that are cut off at 1
    ratios = (power / due).reshape(-1)[1:]
    assert abs(ratios.mean() - 1) < 0.02
    assert numpy.abs(ratios - 1).max() < 7 / samples**0.5
    assert abs(maps.mean()) < 0.01


def test_few_places_are_far_above_the_mean_and_none_is_far_below() -> None:
    maps = generators.generate("mass-maps", {"samples": 200})["map"]
    deviation = maps.std()
    assert maps.min() > -1.3 * deviation
    assert 5 * deviation < maps.max() <= 1
    assert 0 < (maps == 1).mean() < 1e-3
    assert 1.2 < (((maps - maps.mean()) / deviation) ** 3).mean() < 1.5


def test_maps_of_a_larger_set_begin_with_those_of_a_smaller_one() -> None:
    few = generators.generate("mass-maps", {"samples": 3, "test_samples": 2, "side": 16})
    more = generators.generate("mass-maps", {"samples": 5, "test_samples": 4, "side": 16})
    assert all((more[name][: len(few[name])] == few[name]).all() for name in few)
    assert (few["map"][:2] != few["test_map"]).any(axis=(1, 2, 3)).all()


def judge(made: Array, due: Array, batch: int) -> Evaluation:
    evaluation = Evaluation("spectrum_distance")
    for start in range(0, len(due), batch):
        part = slice(start, start + batch)
        evaluation.add(made[part], {"map": due[part]}, len(due[part]))
    return evaluation


def waves(side: int, down: int, right: int, amplitude: float) -> Array:
    places = numpy.arange(side) * 2 * numpy.pi / side
    wave: Array = amplitude * numpy.cos(down * places[:, None] + right * places)
    return wave[None, None]


@pytest.mark.parametrize(("side", "down", "right"), [(16, 3, 4), (16, 0, 8), (15, 7, 0), (2, 1, 0)])
def test_a_wave_has_its_power_at_its_own_number(side: int, down: int, right: int) -> None:
    wave = waves(side, down, right, 0.5)
    rows = judge(wave, 0 * wave, 1).rows()
    assert rows is not None
    due, spectrum = rows
    assert spectrum.shape == due.shape == (1, side // 2)
    assert not due.any()
    number = round((down**2 + right**2) ** 0.5)
    strongest = spectrum[0].argmax() + 1
    assert strongest == number
    assert spectrum[0].sum() == pytest.approx(spectrum[0, number - 1], rel=1e-6)


def test_the_distance_is_that_of_logarithms_of_mean_spectra() -> None:
    random = numpy.random.default_rng(3)
    due = random.normal(size=(12, 1, 10, 10))
    assert judge(due, due, 5).value() == 0
    # in the order of no map, and whatever the sign
    assert judge(-due[::-1], due, 5).value() == pytest.approx(0, abs=1e-6)
    for factor in (3, 1 / 3):
        value = judge(factor * due, due, 4).value()
        assert value == pytest.approx(2 * numpy.log(3), rel=1e-6)
    # neither a shift in space nor one of the mean is seen
    moved = numpy.roll(due, (3, 1), (2, 3)) + 5
    assert judge(moved, due, 12).value() == pytest.approx(0, abs=1e-6)
    louder = due * numpy.linspace(0.5, 1.5, 12)[:, None, None, None]
    assert judge(louder, due, 12).value() > 0


def test_maps_of_one_value_are_far_off_and_those_of_none_have_no_distance() -> None:
    due = numpy.random.default_rng(3).normal(size=(4, 1, 8, 8))
    assert 50 < judge(0 * due, due, 4).value() < 100
    lost = due.copy()
    lost[2, 0, 3, 3] = numpy.nan
    assert numpy.isnan(judge(lost, due, 4).value())
