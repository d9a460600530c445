"""IDX and CIFAR's binary version: what is written is read again, and nothing else is."""

import gzip
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from numpy.typing import NDArray

from capsule.levels.data.formats import cifar, idx
from capsule.levels.data.formats.files import FormatError
from tests.support.damage import damaged, read_or_refuse
from tests.support.properties import examples

FIXTURES = (HealthCheck.function_scoped_fixture,)
idx_arrays = arrays_of.arrays(
    st.sampled_from(sorted(idx.TYPES.values())),
    arrays_of.array_shapes(min_dims=1, max_dims=8, max_side=4),
)


@examples(100, allowed=FIXTURES)
@given(idx_arrays, st.booleans())
def test_an_idx_array_is_read_again(tmp_path: Path, array: NDArray[Any], packed: bool) -> None:
    path = tmp_path / "array"
    path.with_name("array.gz").unlink(missing_ok=True)
    idx.write(array, path)
    if packed:
        path.with_name("array.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    read = idx.read(path)
    assert read.dtype == array.dtype
    numpy.testing.assert_array_equal(read, array)


def test_idx_is_as_it_is_published(tmp_path: Path) -> None:
    # the head of MNIST's train-images-idx3-ubyte, which begins with 2051, for two pictures
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(struct.pack(">iiii", 2051, 2, 2, 3) + bytes(range(12)))
    read = idx.read(path)
    assert read.dtype == "uint8"
    assert read.tolist() == [[[0, 1, 2], [3, 4, 5]], [[6, 7, 8], [9, 10, 11]]]
    again = tmp_path / "again"
    idx.write(read, again)
    assert again.read_bytes() == path.read_bytes()


_IDX = struct.pack(">iii", 2050, 3, 5) + bytes(range(15))


@examples(150, allowed=FIXTURES)
@given(damaged(_IDX))
def test_a_damaged_idx_file_is_refused_or_another_array(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "array"
    path.write_bytes(data)
    read = read_or_refuse(idx.read, path)
    assert read is None or read.nbytes < len(data)


@examples(100, allowed=FIXTURES)
@given(damaged(gzip.compress(_IDX, mtime=0)))
def test_a_damaged_gzip_file_is_refused_or_another_array(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "array.gz"
    path.write_bytes(data)

    def read(packed: Path) -> object:
        try:
            return idx.read(packed.with_suffix(""))
        except FormatError as error:
            raise FormatError(packed, str(error)) from None

    read_or_refuse(read, path)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "begins with no bytes, expected an IDX file"),
        (b"\x89PNG", "begins with 89504e47"),
        (bytes((0, 0, 9, 0)), "has 0 axes, expected 1 to 8"),
        (bytes((0, 0, 7, 1)) + bytes(8), "begins with 00000701"),
        (bytes((0, 0, 8, 3)) + bytes(11), "has 15 bytes, expected a header of 16 bytes"),
        (
            struct.pack(">ii", 2049, 5) + bytes(4),
            r"has 4 bytes of elements, expected 5 for the shape \[5\]",
        ),
        (struct.pack(">ii", 2049, 5) + bytes(6), "has 6 bytes of elements, expected 5 for"),
        (struct.pack(">iII", 2050, 2**32 - 1, 2**32 - 1), "expected 18446744065119617025 for"),
        (struct.pack(">iII", 2050, 0, 2**32 - 1), "expected more than 0 for"),
    ],
)
def test_what_is_wrong_with_an_idx_file_is_said(tmp_path: Path, data: bytes, says: str) -> None:
    path = tmp_path / "array"
    path.write_bytes(data)
    with pytest.raises(FormatError, match=says):
        idx.read(path)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (_IDX, "expected a gzip file"),
        (gzip.compress(_IDX)[:-5], "is a damaged gzip file"),
        (gzip.compress(_IDX) + b"more", "is a damaged gzip file: Not a gzipped file"),
        (gzip.compress(bytes(1 << 30)), "unpacks to more than 100 times its size"),
    ],
    ids=["not-packed", "cut", "more", "bomb"],
)
def test_what_is_wrong_with_a_gzip_file_is_said(tmp_path: Path, data: bytes, says: str) -> None:
    (tmp_path / "array.gz").write_bytes(data)
    with pytest.raises(FormatError, match=says):
        idx.read(tmp_path / "array")


def test_arrays_that_idx_does_not_take(tmp_path: Path) -> None:
    for array in (numpy.zeros(3, "uint16"), numpy.zeros(0, "uint8"), numpy.uint8(3)):
        with pytest.raises(ValueError, match="IDX cannot store an array"):
            idx.write(array, tmp_path / "array")
    with pytest.raises(FormatError, match="array is missing, or not a file"):
        idx.read(tmp_path / "array")


def _pictures(
    draw: Callable[[Any], Any], classes: tuple[int, ...]
) -> tuple[NDArray[Any], NDArray[Any]]:
    count, seed = draw(st.integers(1, 4)), draw(st.integers(0, 2**32 - 1))
    random = numpy.random.default_rng(seed)
    images = random.integers(0, 256, (count, 3, 32, 32), "uint8")
    labels = numpy.stack([random.integers(0, most, count, "uint8") for most in classes], axis=1)
    return images, labels


@pytest.mark.parametrize("name", cifar.CLASSES)
@examples(30, allowed=FIXTURES)
@given(st.data())
def test_cifar_pictures_are_read_again(tmp_path: Path, name: str, data: st.DataObject) -> None:
    images, labels = _pictures(data.draw, cifar.CLASSES[name])
    path = tmp_path / "batch.bin"
    cifar.write(images, labels, path)
    read_images, read_labels = cifar.read(path, cifar.CLASSES[name])
    numpy.testing.assert_array_equal(read_images, images)
    numpy.testing.assert_array_equal(read_labels, labels)
    path.write_bytes(data.draw(damaged(path.read_bytes())))
    read_or_refuse(lambda changed: cifar.read(changed, cifar.CLASSES[name]), path)


def test_cifar_is_as_it_is_published(tmp_path: Path) -> None:
    path = tmp_path / "batch.bin"
    planes = b"".join(bytes([colour]) * 1024 for colour in (10, 20, 30))
    path.write_bytes(b"\x07" + planes + b"\x03" + planes[::-1])
    images, labels = cifar.read(path, (10,))
    assert labels.tolist() == [[7], [3]]
    assert images.shape == (2, 3, 32, 32)
    assert images[:, :, 0, 31].tolist() == [[10, 20, 30], [30, 20, 10]]


@pytest.mark.parametrize(
    ("data", "classes", "says"),
    [
        (b"", (10,), "has 0 bytes, expected a positive multiple of 3073"),
        (bytes(3074), (10,), "has 3074 bytes, expected a positive multiple of 3073"),
        (b"\x0a" + bytes(3072), (10,), "has the label 10, expected labels below 10"),
        (b"\x14\x05" + bytes(3072), (20, 100), "has the label 20, expected labels below 20"),
        (b"\x05\x64" + bytes(3072), (20, 100), "has the label 100, expected labels below 100"),
    ],
)
def test_what_is_wrong_with_a_cifar_file_is_said(
    tmp_path: Path, data: bytes, classes: tuple[int, ...], says: str
) -> None:
    path = tmp_path / "batch.bin"
    path.write_bytes(data)
    with pytest.raises(FormatError, match=says):
        cifar.read(path, classes)
