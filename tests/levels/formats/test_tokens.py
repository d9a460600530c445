"""Files of tokens."""

from pathlib import Path

import numpy
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from capsule.levels.data.formats import tokens
from capsule.levels.data.formats.files import FormatError
from tests.support.damage import bounded, damaged, read_or_refuse
from tests.support.properties import examples


@pytest.mark.parametrize(("kind", "bits"), [("uint8", 8), ("uint16", 16), ("uint32", 32)])
@examples(40, allowed=(HealthCheck.function_scoped_fixture,))
@given(st.data())
def test_tokens_are_read_again(tmp_path: Path, kind: str, bits: int, data: st.DataObject) -> None:
    text = data.draw(st.lists(st.integers(0, 2**bits - 1), min_size=2, max_size=20))
    path = tmp_path / "train.bin"
    tokens.write(numpy.array(text), path, kind)
    assert path.read_bytes() == b"".join(one.to_bytes(bits // 8, "little") for one in text)
    assert tokens.read(path, kind).tolist() == text
    path.write_bytes(data.draw(damaged(path.read_bytes())))
    read_or_refuse(lambda changed: tokens.read(changed, kind), path)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "has 0 tokens, expected at least 2"),
        (b"ab", "has 1 tokens"),
        (b"abc", "has 3 bytes, expected a multiple of 2"),
    ],
)
def test_what_is_wrong_with_a_file_of_tokens_is_said(
    tmp_path: Path, data: bytes, says: str
) -> None:
    path = tmp_path / "train.bin"
    path.write_bytes(data)
    with pytest.raises(FormatError, match=says):
        tokens.read(path, "uint16")


def test_a_large_file_is_not_read_until_it_is_used(tmp_path: Path) -> None:
    path = tmp_path / "train.bin"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    small = tmp_path / "small.bin"
    small.write_bytes(b"")
    with bounded(small):
        text = tokens.read(path, "uint16")
        assert text.shape == (1 << 39,)
        assert text[1 << 38] == 0


def test_tokens_beyond_the_type_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="tokens are 0 to 65536, expected 0 to 65535"):
        tokens.write(numpy.array([0, 65536]), tmp_path / "train.bin", "uint16")
    with pytest.raises(ValueError, match="tokens are -1 to 1, expected 0 to 255"):
        tokens.write(numpy.array([-1, 1]), tmp_path / "train.bin", "uint8")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="is missing, or not a file"):
        tokens.read(tmp_path, "uint8")
