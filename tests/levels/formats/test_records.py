"""TFRecord and tf.train.Example: ours beside those of others, and what is refused."""

import gzip
import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import google_crc32c
import numpy
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from capsule.levels.data.formats import checksums, records
from capsule.levels.data.formats.files import FormatError
from tests.support.damage import damaged, read_all, read_or_refuse
from tests.support.programs import PROGRAMS, Program
from tests.support.properties import examples

FIXTURES = (HealthCheck.function_scoped_fixture,)
floats = st.lists(st.floats(width=32), max_size=5).map(lambda one: numpy.array(one, "float32"))
integers = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5).map(
    lambda one: numpy.array(one, "int64")
)
features = st.one_of(st.lists(st.binary(max_size=300), max_size=3), floats, integers)
messages = st.dictionaries(st.text(max_size=4), features, max_size=4)


def are_equal(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether features are the same, numbers by their bits."""
    return one.keys() == other.keys() and all(
        value == other[name]
        if isinstance(value, list)
        else value.dtype == other[name].dtype and value.tobytes() == other[name].tobytes()
        for name, value in one.items()
    )


@examples(60)
@given(st.binary(min_size=0, max_size=5000))
def test_a_checksum_is_that_of_every_other_program(data: bytes) -> None:
    assert checksums.crc32c(data) == google_crc32c.value(data)


@examples(40)
@given(st.integers(0, 3000), st.integers(0, 255))
def test_the_checksum_of_many_lanes_is_that_of_one(length: int, seed: int) -> None:
    data = numpy.random.default_rng(seed).bytes(length)
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    assert checksums.crc32c(data) == crc ^ 0xFFFFFFFF


def test_checksums_are_those_of_the_standard() -> None:
    # RFC 3720, appendix B.4
    assert checksums.crc32c(bytes(32)) == 0x8A9136AA
    assert checksums.crc32c(b"\xff" * 32) == 0x62A8AB43
    assert checksums.crc32c(bytes(range(32))) == 0x46DD794E


@examples(100, allowed=FIXTURES)
@given(st.lists(messages, min_size=1, max_size=3), st.booleans())
def test_examples_are_read_again(
    tmp_path: Path, samples: list[dict[str, Any]], packed: bool
) -> None:
    path = tmp_path / "a.tfrecord"
    records.write([records.serialize(one) for one in samples], path)
    if packed:
        path.write_bytes(gzip.compress(path.read_bytes()))
    read = [records.parse(record, path) for record in read_all(path)]
    assert len(read) == len(samples)
    assert all(map(are_equal, read, samples))


@examples(60)
@given(messages)
def test_an_example_is_that_of_protocol_buffers(sample: dict[str, Any]) -> None:
    from tfrecord import example_pb2

    message = example_pb2.Example()
    for name, value in sample.items():
        feature = message.features.feature[name]
        if isinstance(value, list):
            feature.bytes_list.value.extend(value)
        elif value.dtype == "float32":
            feature.float_list.value.extend(value.tolist())
        else:
            feature.int64_list.value.extend(value.tolist())
        feature.SetInParent()
    theirs = memoryview(message.SerializeToString())
    # an empty list leaves no trace of its kind
    full = {name: value for name, value in sample.items() if len(value)}
    parsed = records.parse(theirs, Path("folder/file"))
    assert are_equal({name: parsed[name] for name in full}, full)
    again = example_pb2.Example()
    again.ParseFromString(records.serialize(full))
    assert are_equal(records.parse(memoryview(again.SerializeToString()), Path("a/b")), full)


def test_a_file_is_that_of_the_package_tfrecord(tmp_path: Path) -> None:
    import tfrecord

    path = tmp_path / "theirs.tfrecord"
    writer = tfrecord.TFRecordWriter(str(path))
    volume = numpy.arange(4000, dtype="<i2")
    writer.write({"x": (volume.tobytes(), "byte"), "y": ([0.5, -1.0], "float")})
    writer.write({"n": ([-(2**63), 2**63 - 1, 0], "int")})
    writer.close()
    first, second = (records.parse(record, path) for record in read_all(path))
    assert are_equal(first, {"x": [volume.tobytes()], "y": numpy.array([0.5, -1], "float32")})
    assert are_equal(second, {"n": numpy.array([-(2**63), 2**63 - 1, 0])})
    ours = tmp_path / "ours.tfrecord"
    records.write([records.serialize(first)], ours)
    (again,) = tfrecord.tfrecord_loader(str(ours), None, {"x": "byte", "y": "float"})
    assert bytes(again["x"]) == volume.tobytes()
    assert again["y"].tolist() == [0.5, -1]


JUDGE = """
import json
import tensorflow as tf

whole = [one.numpy() for one in tf.data.TFRecordDataset("a.tfrecord")]
features = tf.train.Example.FromString(whole[0]).features.feature
options = tf.io.TFRecordOptions(compression_type="GZIP")
with tf.io.TFRecordWriter("b.tfrecord", options) as writer:
    writer.write(tf.train.Example.FromString(whole[0]).SerializeToString())
print(json.dumps({
    "records": [one.hex() for one in whole],
    "x": [one.hex() for one in features["x"].bytes_list.value],
    "y": list(features["y"].float_list.value),
    "n": list(features["n"].int64_list.value),
}))
"""


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_file_is_that_of_tensorflow(program: Program, tmp_path: Path) -> None:
    volumes = [numpy.arange(40000, dtype="<i2").tobytes(), b""]
    sample = {
        "x": volumes,
        "y": numpy.array([0.5, -3.25], "float32"),
        "n": numpy.array([-1, 2**40]),
    }
    records.write([records.serialize(sample), b""], tmp_path / "a.tfrecord")
    (tmp_path / "judge.py").write_text(JUDGE)
    done = program.python(tmp_path, "judge.py")
    assert done.returncode == 0, done.stderr
    judged = json.loads(done.stdout.splitlines()[-1])
    assert judged == {
        "records": [records.serialize(sample).hex(), ""],
        "x": [one.hex() for one in volumes],
        "y": [0.5, -3.25],
        "n": [-1, 2**40],
    }
    packed = tmp_path / "b.tfrecord"
    (record,) = read_all(packed)
    assert are_equal(records.parse(record, packed), sample)


_SAMPLE = {"x": [b"abcdef" * 60], "y": numpy.array([0.5, 1.0], "float32"), "n": numpy.array([3])}
_RECORD = records.serialize(_SAMPLE)


def write_bytes(path: Path, *payloads: bytes) -> bytes:
    records.write(list(payloads), path)
    return path.read_bytes()


@examples(150, allowed=FIXTURES)
@given(st.data())
def test_a_damaged_file_is_refused_or_other_records(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "a.tfrecord"
    whole = write_bytes(path, _RECORD, b"", _RECORD[:7])
    if data.draw(st.booleans()):
        whole = gzip.compress(whole, mtime=0)
    path.write_bytes(data.draw(damaged(whole)))
    read_or_refuse(read_all, path)


@examples(60, allowed=FIXTURES)
@given(st.integers(0, 2**31), st.integers(1, 255))
def test_one_changed_byte_is_never_taken(tmp_path: Path, place: int, change: int) -> None:
    path = tmp_path / "a.tfrecord"
    whole = bytearray(write_bytes(path, _RECORD))
    whole[place % len(whole)] ^= change
    path.write_bytes(whole)
    assert read_or_refuse(read_all, path) is None


@examples(200)
@given(damaged(_RECORD))
def test_a_damaged_example_is_refused_or_another(data: bytes) -> None:
    try:
        example = records.parse(memoryview(data), Path("folder/file"))
    except FormatError as error:
        assert str(error).startswith("folder/file has a record that is not a tf.train.Example: ")
        return
    for value in example.values():
        length = sum(map(len, value)) if isinstance(value, list) else value.nbytes
        assert length <= 8 * len(data)


def guard(data: bytes) -> bytes:
    return data + struct.pack("<I", checksums.mask(checksums.crc32c(data)))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "has no record"),
        (b"x" * 11, "has a wrong checksum of the record length at byte 0"),
        (b"x" * 12, "has a wrong checksum of the record length at byte 0"),
        (guard(bytes(8)), "found 12 bytes, expected at least 16"),
        (guard(b"\xff" * 8) + bytes(8), "expected at least 18446744073709551631"),
        (guard(bytes(8)) + b"abcd", "has a wrong checksum of the record that ends at byte 16"),
        (gzip.compress(guard(bytes(8))), "found 12 bytes, expected at least 16"),
        (gzip.compress(bytes(1 << 28)), "unpacks to more than 100 times its size"),
    ],
    ids=["empty", "short", "text", "cut", "claim", "changed", "packed", "bomb"],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, data: bytes, says: str) -> None:
    path = tmp_path / "a.tfrecord"
    path.write_bytes(data)
    with pytest.raises(FormatError, match=says):
        read_all(path)


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (b"\x0a\xff", "the record is truncated within an integer"),
        (b"\x0a\x05ab", "the record is truncated within field 1"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "the record is truncated within field 1"),
        (
            b"\xff" * 11,
            "the record is truncated within an integer, or has an integer of more than 64 bits",
        ),
        (b"\x0b", "field 1 has the unknown wire type 3"),
        (b"\x08\x01", "found the integer 1, expected a message"),
        (b"\x0a\x05\x0a\x03\x0a\x01\xff", "expected the name of a feature in UTF-8, found"),
        (
            b"\x0a\x0b\x0a\x09\x12\x07\x12\x05\x0a\x03abc",
            "a list of floats has 3 bytes, expected a multiple of 4",
        ),
    ],
)
def test_what_is_wrong_with_an_example_is_said(message: bytes, says: str) -> None:
    with pytest.raises(
        FormatError, match=f"a/b has a record that is not a tf.train.Example: {says}"
    ):
        records.parse(memoryview(message), Path("a/b"))


def test_numbers_need_not_be_packed() -> None:
    # as writers before proto3 did: a float and an integer each with a key of its own
    entry = b"\x0a\x01y\x12\x0c\x12\x0a" + b"\x0d" + struct.pack("<f", 1.5) + b"\x0d" + bytes(4)
    other = b"\x0a\x01n\x12\x06\x1a\x04\x08\x05\x08\x07"
    message = b"".join(b"\x0a" + bytes([len(one)]) + one for one in (entry, other))
    example = records.parse(memoryview(b"\x0a" + bytes([len(message)]) + message), Path("a/b"))
    assert are_equal(example, {"y": numpy.array([1.5, 0], "float32"), "n": numpy.array([5, 7])})


def test_a_record_as_long_as_gzip_begins_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    assert write_bytes(path, bytes(0x088B1F))[:3] == b"\x1f\x8b\x08"
    (record,) = read_all(path)
    assert len(record) == 0x088B1F
