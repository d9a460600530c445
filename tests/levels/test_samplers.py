"""In which order samples are taken, and what each of many ranks takes of it."""

from itertools import pairwise
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsule.levels.catalog import training
from capsule.levels.data import predictions, samplers
from tests.support.properties import examples

counts = st.integers(1, 300)
seeds = st.integers(0, 2**32 - 1)
epochs = st.integers(0, 1000)
batches = st.integers(1, 40)
once = st.sampled_from(sorted(set(training.SAMPLERS) - {"weighted"}))
every = st.sampled_from(sorted(training.SAMPLERS))


def measure(count: int, seed: int) -> Any:
    """Lengths, or weights, many of which are equal and the last of which is not 0."""
    return numpy.append(numpy.random.default_rng(seed).integers(0, 9, count - 1), 5.0)


def order(sampler: str, count: int, seed: int, epoch: int, batch: int) -> Any:
    return samplers.order(
        sampler, count, seed, epoch, batch=batch, measure=measure(count, seed % 1000)
    )


@examples(150)
@given(once, counts, seeds, epochs, batches)
def test_every_sample_is_taken_once_in_an_epoch(
    sampler: str, count: int, seed: int, epoch: int, batch: int
) -> None:
    taken = order(sampler, count, seed, epoch, batch)
    assert taken.dtype == "int64"
    assert sorted(taken.tolist()) == list(range(count))


@examples(60)
@given(every, counts, seeds, epochs, st.sampled_from((1, 7, 64, 4096)))
def test_any_number_of_ranks_takes_the_same_samples_in_the_same_steps(
    sampler: str, count: int, seed: int, epoch: int, batch: int
) -> None:
    count += batch
    whole = order(sampler, count, seed, epoch, batch)
    steps = count // batch
    for ranks in (1, 2, 4, 4096):
        # each rank makes the order by itself
        again = order(sampler, count, seed, epoch, batch)
        shares = [samplers.share(again, batch, rank=one, ranks=ranks) for one in range(ranks)]
        lengths = {share.shape[1] for share in shares}
        assert max(lengths) - min(lengths) <= 1
        joined = numpy.concatenate(shares, axis=1)
        assert joined.reshape(-1).tolist() == whole[: steps * batch].tolist()


@examples(100)
@given(counts, seeds, epochs, batches)
def test_batches_have_samples_of_like_lengths(
    count: int, seed: int, epoch: int, batch: int
) -> None:
    lengths = measure(count, seed % 1000)
    taken = order("bucketed", count, seed, epoch, batch)
    steps = samplers.share(taken, batch)
    spans = sorted((lengths[step].min(), lengths[step].max()) for step in steps)
    for (_, most), (least, _) in pairwise(spans):
        assert most <= least


def test_no_length_is_left_out_more_often_than_another() -> None:
    lengths = numpy.arange(10.0)
    left = [
        int(samplers.order("bucketed", 10, 3, epoch, batch=3, measure=lengths)[-1])
        for epoch in range(2000)
    ]
    assert numpy.bincount(left, minlength=10).min() > 140


@examples(100)
@given(counts, seeds, epochs)
def test_a_sample_without_weight_is_never_taken(count: int, seed: int, epoch: int) -> None:
    weights = measure(count, seed % 1000)
    taken = order("weighted", count, seed, epoch, 1)
    assert taken.shape == (count,)
    assert (weights[taken] > 0).all()


def test_a_sample_is_taken_as_often_as_its_weight_says() -> None:
    weights = numpy.array([1.0, 0, 3, 0.5, 5.5])
    taken = numpy.concatenate(
        [samplers.order("weighted", 5, 1, epoch, batch=1, measure=weights) for epoch in range(4000)]
    )
    shares = numpy.bincount(taken, minlength=5) / len(taken)
    numpy.testing.assert_allclose(shares, weights / 10, atol=0.02)


@pytest.mark.parametrize("sampler", ["shuffled", "bucketed", "weighted"])
def test_epochs_and_seeds_differ(sampler: str) -> None:
    orders = {
        tuple(samplers.order(sampler, 40, seed, epoch, batch=4, measure=numpy.ones(40)).tolist())
        for seed in range(5)
        for epoch in range(5)
    }
    assert len(orders) == 25


def test_an_order_is_the_same_everywhere() -> None:
    lengths = numpy.arange(12.0) % 5
    for sampler, due in GOLDEN.items():
        taken = samplers.order(sampler, 12, 7, 2, batch=5, measure=lengths)
        assert taken.tolist() == due


GOLDEN: dict[str, list[int]] = {
    "shuffled": [1, 2, 8, 9, 3, 10, 6, 4, 7, 5, 11, 0],
    "ordered": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
    "bucketed": [7, 8, 3, 9, 4, 10, 5, 1, 6, 2, 11, 0],
    "weighted": [8, 4, 9, 2, 8, 4, 9, 7, 3, 7, 9, 6],
}


@pytest.mark.parametrize(
    ("array", "says"),
    [
        (numpy.array([1, 2]), r"is int64 \(2,\), expected 3 numbers"),
        (numpy.array(["a"] * 3), "is <U1"),
        (numpy.array([1, -1, 2]), "has -1 for sample 1"),
        (numpy.array([1, numpy.nan, 2]), "has nan for sample 1"),
        (numpy.zeros(3), "has weights with a sum of 0"),
        (numpy.full(3, 1e308), "has weights with a sum of inf"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow")
def test_what_is_no_weight_is_refused(array: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        samplers.check_measure("weighted", array, 3)


def test_what_a_sampler_goes_by_is_kept_to_a_size() -> None:
    weights = samplers.check_measure("weighted", numpy.arange(5, dtype="uint8"), 5)
    kept = samplers.encode(weights)
    assert kept is not None
    assert predictions.decode(kept).tolist() == [[[0, 1, 2, 3, 4]]]
    assert samplers.encode(numpy.ones(predictions.MOST_VALUES + 1)) is None


def test_words_that_are_equal_leave_samples_in_the_order_of_their_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = numpy.array([3, 1] * 200, numpy.uint64)
    monkeypatch.setattr(samplers, "words", lambda _, count: words[:count])
    due = [*range(1, 400, 2), *range(0, 400, 2)]
    assert samplers.shuffle(400, seed=1, epoch=0).tolist() == due
