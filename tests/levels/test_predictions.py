"""The file of what a network predicted: what comes back from it, and what is none."""

from contextlib import suppress
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsule.levels.data import predictions
from capsule.levels.data.generators import npy_header
from capsule.levels.data.predictions import Evaluation, decode, encode, qualities

SIZES = st.integers(1, 6)


def evaluate(quality: str, outputs: Any, due: Any, samples: int, batch: int) -> Evaluation:
    """In batches, of which the last may be smaller."""
    evaluation = Evaluation(quality)
    rows = len(outputs) // samples
    name = "target" if quality == "mean_absolute_error" else "label"
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
    scores = random.normal(size=(3 * samples, classes)).astype("float32")
    return scores, random.integers(0, classes, 3 * samples)


@given(
    st.sampled_from(["accuracy", "mean_absolute_error", "mean_iou"]),
    SIZES,
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
    assert array.shape == (1 + count, samples, 4 if quality == "mean_absolute_error" else 3)
    assert (array[0].reshape(-1) == due.reshape(-1)).all()
    assert qualities(quality, array) == pytest.approx([one.value() for one in evaluations])


def test_it_holds_so_much_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, labels = make("accuracy", 5, 0, 3)
    monkeypatch.setattr(predictions, "MOST_VALUES", 30)
    data = encode([evaluate("accuracy", scores, labels, 5, 2).rows()])
    assert data is not None
    monkeypatch.setattr(predictions, "MOST_VALUES", 29)
    assert encode([evaluate("accuracy", scores, labels, 5, 2).rows()]) is None
    with pytest.raises(ValueError, match="not what its shape says"):
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
    with pytest.raises(ValueError, match="not what its shape says"):
        decode(npy_header("|u1", shape))
