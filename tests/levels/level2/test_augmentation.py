"""Pictures that are shifted, mirrored and covered: by what, and that nothing else depends on it."""

from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsule.levels import frameworks
from capsule.levels.catalog.training import Augmentation
from capsule.levels.data.augmentation import augment
from tests.support import trainings
from tests.support.properties import examples
from tests.support.trainings import Values, numpy_alone

HOW = {"crop": 2, "flip": True, "cutout": 3}


def number(count: int, height: int = 5, width: int = 7) -> Any:
    """Pictures of two channels in which no two pixels of a picture are equal, and none is 0."""
    size = 2 * height * width
    pixels = numpy.arange(1, size + 1, dtype="float32").reshape(1, 2, height, width)
    return pixels + 1000 * numpy.arange(count, dtype="float32")[:, None, None, None]


def windows(image: Any, crop: int) -> list[Any]:
    """All that may be cut out of a picture, by numpy's own padding."""
    _, height, width = image.shape
    padded = numpy.pad(image, ((0, 0), (crop, crop), (crop, crop)))
    return [
        padded[:, top : top + height, left : left + width]
        for top in range(2 * crop + 1)
        for left in range(2 * crop + 1)
    ]


def index_of(image: Any, choices: list[Any]) -> int:
    """Which one it is; each is another."""
    (index,) = (n for n, one in enumerate(choices) if numpy.array_equal(image, one))
    return index


@pytest.mark.parametrize("crop", [1, 2, 3])
def test_a_crop_is_a_window_of_what_was_padded_and_each_one_is_taken(crop: int) -> None:
    images = number(600)
    taken = [
        index_of(one, windows(image, crop))
        for one, image in zip(
            augment(images, Augmentation(crop=crop), 7, 0, 0), images, strict=True
        )
    ]
    counts = numpy.bincount(taken, minlength=(2 * crop + 1) ** 2)
    expected = len(images) / len(counts)
    # mean and deviation of a sum of so many squares, where all are as likely
    chi_squared = float(((counts - expected) ** 2 / expected).sum())
    assert chi_squared < len(counts) - 1 + 4 * (2 * (len(counts) - 1)) ** 0.5


def test_every_second_one_is_mirrored() -> None:
    images = number(1000)
    mirrored = [
        index_of(one, [image, image[:, :, ::-1]])
        for one, image in zip(
            augment(images, Augmentation(flip=True), 7, 0, 0), images, strict=True
        )
    ]
    assert abs(sum(mirrored) - 500) < 4 * 250**0.5


@pytest.mark.parametrize("side", [1, 2, 3, 4, 100])
def test_a_square_of_zeros_has_its_centre_anywhere(side: int) -> None:
    images = number(500)
    centres = set()
    for one, image in zip(augment(images, Augmentation(cutout=side), 7, 0, 0), images, strict=True):
        assert (one[0] == 0).tolist() == (one[1] == 0).tolist()
        rows, columns = numpy.nonzero(one[0] == 0)
        assert numpy.array_equal(one[one != 0], image[one != 0])
        top, bottom = rows.min(), rows.max()
        left, right = columns.min(), columns.max()
        assert len(rows) == (bottom - top + 1) * (right - left + 1)
        assert bottom - top < side
        assert right - left < side
        centres.add((top, bottom, left, right))
    if side == 1:
        assert len(centres) == 5 * 7


@examples(60)
@given(
    st.builds(
        Augmentation,
        crop=st.integers(0, 12),
        flip=st.booleans(),
        cutout=st.integers(0, 12),
    ),
    st.integers(0, 9),
    st.integers(0, 9),
    st.integers(0, 2**63),
)
def test_a_picture_depends_on_its_own_place_alone(
    how: Augmentation, first: int, epoch: int, seed: int
) -> None:
    images = number(12)
    before = images.copy()
    whole = augment(images, how, seed, epoch, 0)
    assert numpy.array_equal(images, before)
    assert (whole.dtype, whole.shape) == (images.dtype, images.shape)
    part = augment(images[first : first + 2], how, seed, epoch, first)
    assert numpy.array_equal(part, whole[first : first + 2])
    if not any(how):
        assert numpy.array_equal(whole, images)


def train(folder: Path, framework: str = "numpy", **recipe: Any) -> Values:
    if framework == "numpy":
        return trainings.measure(numpy_alone(), folder, **recipe)
    loaded = frameworks.load(framework, "cpu", 1, "strict")
    return trainings.measure(loaded, folder, **recipe)


CURVES = ("train_loss", "loss", "accuracy")


def test_what_is_trained_on_changes_and_what_is_judged_by_does_not(glyphs: Path) -> None:
    plain, seen = train(glyphs), train(glyphs, augmentation=HOW)
    for name in ("order_fingerprint", "test_fingerprint", "class_counts", "evaluation_error"):
        assert seen[name] == plain[name]
    assert not set(seen["train_loss"]) & set(plain["train_loss"])
    nothing = {"crop": 0, "flip": False, "cutout": 0}
    same = train(glyphs, augmentation=nothing)
    assert [same[name] for name in CURVES] == [plain[name] for name in CURVES]


def test_micro_batches_and_workers_take_the_same_pictures(glyphs: Path) -> None:
    due = train(glyphs, augmentation=HOW)
    ahead = train(glyphs, augmentation=HOW, workers=3)
    assert [ahead[name] for name in CURVES] == [due[name] for name in CURVES]
    parts = train(glyphs, augmentation=HOW, accumulate=4)
    assert parts["train_loss"] == pytest.approx(due["train_loss"], rel=1e-5)


def test_frameworks_take_the_same_pictures(glyphs: Path) -> None:
    pytest.importorskip("torch")
    due, seen = (train(glyphs, name, augmentation=HOW) for name in ("numpy", "torch"))
    assert seen["train_loss"] == pytest.approx(due["train_loss"], rel=1e-4)
