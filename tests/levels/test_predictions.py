"""The file of what a network predicted: what comes back from it, and what is none."""

from contextlib import suppress
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from capsule.levels.data import predictions
from capsule.levels.data.generators import npy_header
from capsule.levels.data.predictions import Evaluation, decode, encode, qualities

SIZES = st.integers(1, 6)


def evaluate(quality: str, outputs: Any, due: Any, samples: int, batch: int) -> Evaluation:
    """In batches, of which the last may be smaller."""
    evaluation = Evaluation(quality)
    rows = len(outputs) // samples
    name = "label" if quality in ("accuracy", "mean_iou", "auc") else "target"
    name = "map" if quality == "spectrum_distance" else name
    per = len(due) // samples
    for start in range(0, samples, batch):
        end = min(start + batch, samples)
        part = {name: due[start * per : end * per]}
        evaluation.add(outputs[start * rows : end * rows], part, end - start)
    return evaluation


def make(quality: str, samples: int, seed: int, classes: int) -> tuple[Any, Any]:
    """Outputs of a network and what was due, three rows of each sample."""
    random = numpy.random.default_rng(seed)
    if quality == "mean_absolute_error":
        outputs, due = random.normal(size=(2, samples, 4))
        return outputs.astype("float32"), due.astype("float32")
    if quality == "mean_average_precision":
        # halves, so that some are equal
        scores = random.integers(0, 5, (samples, 4)) / 2
        due = random.integers(0, 2, (samples, 4))
        due[0, 0] = 1
        return scores.astype("float32"), due.astype("float32")
    if quality == "spectrum_distance":
        maps, due = random.normal(size=(2, samples, 1, 6, 6))
        return maps.astype("float32"), due.astype("float32")
    if quality == "auc":
        scores = random.integers(0, 5, (samples, 2)) / 2
        return scores.astype("float32"), numpy.arange(samples) % 2
    scores = random.normal(size=(3 * samples, classes)).astype("float32")
    return scores, random.integers(0, classes, 3 * samples)


@given(
    st.sampled_from(
        [
            *("accuracy", "mean_absolute_error", "mean_iou", "auc", "mean_average_precision"),
            "spectrum_distance",
        ]
    ),
    st.integers(2, 6),
    SIZES,
    st.integers(1, 3),
    st.integers(0, 999),
    st.sampled_from([3, 300, 70_000]),
)
def test_its_qualities_are_those_that_were_reported(
    quality: str, samples: int, batch: int, count: int, seed: int, classes: int
) -> None:
    classes = 3 if quality == "mean_iou" else classes
    _, due = make(quality, samples, seed, classes)
    evaluations = [
        evaluate(quality, make(quality, samples, seed + number, classes)[0], due, samples, batch)
        for number in range(count)
    ]
    data = encode([one.rows() for one in evaluations])
    assert data is not None
    array = decode(data)
    width = {"mean_absolute_error": 4, "mean_average_precision": 4, "auc": 1}.get(quality, 3)
    assert array.shape == (1 + count, samples, width)
    if quality != "spectrum_distance":
        assert (array[0].reshape(-1) == due.reshape(-1)).all()
    assert qualities(quality, array) == pytest.approx([one.value() for one in evaluations])


def test_it_holds_so_much_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, labels = make("accuracy", 5, 0, 3)
    monkeypatch.setattr(predictions, "MOST_VALUES", 30)
    data = encode([evaluate("accuracy", scores, labels, 5, 2).rows()])
    assert data is not None
    monkeypatch.setattr(predictions, "MOST_VALUES", 29)
    assert encode([evaluate("accuracy", scores, labels, 5, 2).rows()]) is None
    with pytest.raises(ValueError, match="do not fit shape"):
        decode(data)


def test_an_evaluation_that_is_too_large_keeps_nothing_and_has_its_quality(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scores, labels = make("accuracy", 5, 0, 3)
    whole = evaluate("accuracy", scores, labels, 5, 2)
    monkeypatch.setattr(predictions, "MOST_VALUES", 10)
    large = evaluate("accuracy", scores, labels, 5, 2)
    assert (large.rows(), large.value()) == (None, whole.value())
    assert encode([whole.rows(), large.rows()]) is None


@given(st.binary(max_size=200), st.integers(0, 160), st.booleans())
def test_other_bytes_are_refused_or_are_an_array(noise: bytes, place: int, cut: bool) -> None:
    scores, labels = make("accuracy", 2, 1, 3)
    data = encode([evaluate("accuracy", scores, labels, 2, 2).rows()])
    assert data is not None
    changed = data[:place] + noise + (b"" if cut else data[place + len(noise) :])
    for one in (noise, changed):
        with suppress(ValueError):
            assert qualities("accuracy", decode(one))


@pytest.mark.parametrize(
    "shape", [(999_999_999, 999_999_999, 999_999_999), (0, 1, 1), (2, 0, 1), (1, 1, 999_999_999)]
)
def test_a_shape_is_held_to_the_bytes_that_are_there(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="do not fit shape"):
        decode(npy_header("|u1", shape))


@given(st.integers(2, 40), st.integers(1, 5), st.integers(1, 9), st.integers(0, 999))
def test_ranks_are_judged_as_others_define_them(
    samples: int, classes: int, steps: int, seed: int
) -> None:
    """Pair by pair, and threshold by threshold, with ties."""
    random = numpy.random.default_rng(seed)
    scores = random.integers(0, steps, (samples, classes)).astype("float32")
    due = (random.random((samples, classes)) < 0.4).astype("float32")
    due[0] = 1
    precisions = [average_precision(scores[:, one], due[:, one]) for one in range(classes)]
    value = evaluate("mean_average_precision", scores, due, samples, 7).value()
    assert value == pytest.approx(sum(precisions) / classes, rel=1e-12)
    label = (due[:, 0] == 1).astype("int64")
    label[1] = 0
    both = numpy.stack([0 * scores[:, 0], scores[:, 0]], axis=1)
    value = evaluate("auc", both, label, samples, 7).value()
    high, low = scores[label == 1, 0], scores[label == 0, 0]
    wins = (high[:, None] > low).sum() + 0.5 * (high[:, None] == low).sum()
    assert value == pytest.approx(wins / (len(high) * len(low)), rel=1e-15)
    # scipy's U is of the same ranks
    statistic = stats.mannwhitneyu(high, low).statistic
    assert value == pytest.approx(statistic / (len(high) * len(low)), rel=1e-12)


def average_precision(scores: Any, due: Any) -> float:
    """The area below steps of precision over recall, one for each score as a threshold."""
    area, before, due = 0.0, 0.0, due.astype("float64")
    for threshold in sorted(set(scores), reverse=True):
        taken = scores >= threshold
        recall = due[taken].sum() / due.sum()
        area += (recall - before) * due[taken].mean()
        before = recall
    return area


def test_ranks_of_nothing_are_refused() -> None:
    scores = numpy.zeros((3, 2), "float32")
    with pytest.raises(ValueError, match="auc needs labels of two classes"):
        evaluate("auc", scores, numpy.ones(3, "int64"), 3, 2).value()
    with pytest.raises(ValueError, match="needs at least one label of 1"):
        evaluate("mean_average_precision", scores, scores, 3, 2).value()
    scores[1] = numpy.nan
    assert numpy.isnan(evaluate("auc", scores, numpy.arange(3) % 2, 3, 2).value())
    due = numpy.ones((3, 2), "float32")
    assert numpy.isnan(evaluate("mean_average_precision", scores, due, 3, 2).value())


def test_scores_of_more_samples_than_are_kept_are_judged_all_the_same() -> None:
    count = predictions.MOST_VALUES + 8
    scores = numpy.stack([numpy.zeros(count), numpy.arange(count)], axis=1).astype("float32")
    evaluation = evaluate(
        "auc", scores, (numpy.arange(count) >= count // 2).astype(int), count, 4096
    )
    assert evaluation.value() == 1.0
    assert encode([evaluation.rows()]) is None


def test_what_was_due_of_ranks_is_0_or_1() -> None:
    data = encode([evaluate("auc", numpy.eye(2, dtype="float32"), numpy.arange(2), 2, 2).rows()])
    assert data is not None
    array = decode(data).copy()
    assert qualities("auc", array) == [1.0]
    array[0] = 0.5
    with pytest.raises(ValueError, match="needs labels 0 and 1"):
        qualities("auc", array)


@pytest.mark.parametrize("wrong", [-1e-9, numpy.nan, numpy.inf])
def test_what_was_due_of_spectra_is_powers(wrong: float) -> None:
    maps, due = make("spectrum_distance", 3, 5, 0)
    data = encode([evaluate("spectrum_distance", maps, due, 3, 2).rows()])
    assert data is not None
    array = decode(data).copy()
    (value,) = qualities("spectrum_distance", array)
    assert 0 < value < 2
    array[0, 1, 2] = wrong
    with pytest.raises(ValueError, match="spectrum_distance needs spectra as labels"):
        qualities("spectrum_distance", array)
    with pytest.raises(ValueError, match="spectrum_distance cannot be computed from"):
        qualities("spectrum_distance", numpy.ones((2, 3, 3), "uint8"))


@pytest.mark.parametrize("wrong", [-1.0, 1e308, numpy.inf, -numpy.inf])
def test_spectra_that_nothing_has_are_far_off(wrong: float) -> None:
    array = numpy.full((2, 3, 4), 0.5)
    array[1, :, 2] = wrong
    (value,) = qualities("spectrum_distance", array)
    assert value > 10
    array[1, 0] = numpy.nan
    assert numpy.isnan(qualities("spectrum_distance", array)).all()


def test_the_distance_of_an_infinity_from_itself_is_no_number() -> None:
    array = numpy.full((2, 5, 4), numpy.inf, "float32")
    assert numpy.isnan(qualities("mean_absolute_error", array)).all()
