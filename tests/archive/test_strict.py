"""The quick ways of reading and writing JSON take and refuse what the slow ones do."""

import dataclasses
import json
import math
import tracemalloc
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsule import digest, schema
from capsule.archive import bag, codec, columns, indented, lines, strict
from capsule.archive.container import Zip
from capsule.errors import DamagedError
from capsule.record import Samples
from tests.support.capsules import seal
from tests.support.records import make_record

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from([0.0, -0.0, 1e-5, 1e16, 1e22, 5e-324, 1.7e308, "\x7f\u2028", "\ud800"]),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=12,
)
AWKWARD = [
    b"",
    b"null\n",
    b'"a"',
    b'{"a":1,"a":1}',
    b'{"a":1,"a":2}',
    b'{\n  "a": 1,\n  "a": 2\n}\n',
    b'{"b":1,"a":2}',
    b"\xef\xbb\xbf{}",
    b'{"a":"\\ud800"}',
    b'{"a":"\\ud83d\\ude00"}',
    b'{"a":"\xff"}',
    b"[NaN]",
    b"[1e999]",
    b"[-0]",
    b"[12345678901234567890123]",
    b"[-9223372036854775809]",
    b"[18446744073709551615]",
    b"[1.50]",
    b"[1E5]",
    b"[01]",
    b"[1,]",
    b"[1] [2]",
]


def outcome(read: Callable[[], object]) -> str | None:
    """What a reader made of it, exact to the sign of a zero; None where it refused."""
    try:
        return repr(read())
    except DamagedError:
        return None


def parse_slowly(data: bytes) -> object:
    value: object = schema.parse(data, where="it")
    try:
        digest.canonical_json(value)
    except UnicodeEncodeError:
        raise DamagedError("half a surrogate pair") from None
    return value


def agrees(data: bytes) -> None:
    expected = outcome(lambda: parse_slowly(data))
    assert outcome(lambda: strict.parse(data, where="it")) == expected
    assert outcome(lambda: strict.parse_line(data, where="it")) == expected


def indent(value: object) -> str:
    return json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)


@given(VALUES, st.booleans(), st.sampled_from([None, 2]))
def test_both_readers_take_and_refuse_the_same(
    value: object, ascii_only: bool, spaces: int | None
) -> None:
    text = json.dumps(
        value, sort_keys=True, ensure_ascii=ascii_only, indent=spaces, separators=(",", ":")
    )
    agrees(text.encode("utf-8", "surrogatepass"))
    agrees(text.encode("utf-8", "surrogatepass") + b"\n")


@given(VALUES, st.binary(min_size=1, max_size=3), st.floats(0, 1))
def test_documents_in_our_own_form_are_taken_and_refused_alike(
    value: object, other: bytes, place: float
) -> None:
    document = {"many": [value] * 3, "one": value}
    text = json.dumps(document, sort_keys=True, indent=2, ensure_ascii=False)
    data = text.encode("utf-8", "surrogatepass") + b"\n"
    agrees(data)
    start = int(place * len(data))
    agrees(data[:start] + other + data[start + len(other) :])


@pytest.mark.parametrize("place", [0, 999, 1000, 2499])
def test_long_lists_are_taken_whole_and_refused_for_any_item(place: int) -> None:
    items = [{"lower": n * 1e-5, "upper": n * 1e15, "name": ": 0.00001"} for n in range(2500)]
    data = indented.pretty({"items": items})
    assert strict.parse(data, where="it") == {"items": items}
    doubled = data.replace(
        indented.pretty(items[place]["upper"]).strip() + b"\n",
        indented.pretty(items[place]["upper"]).strip() + b',\n      "upper": 1.0\n',
    )
    assert doubled != data
    with pytest.raises(DamagedError, match="upper"):
        strict.parse(doubled, where="it")


@pytest.mark.parametrize("data", AWKWARD)
def test_awkward_texts_are_taken_and_refused_alike(data: bytes) -> None:
    agrees(data)


@pytest.mark.parametrize("depth", [1, 62, 63, 64, 65, 66, 100, 200, 2000])
@pytest.mark.parametrize("inmost", [[], [1], {}, {"a": 1}])
def test_no_reader_goes_deeper_than_another(depth: int, inmost: object) -> None:
    for pad, newline in (("  ", "\n"), ("", "")):
        text = json.dumps(inmost)
        for level in reversed(range(depth)):
            text = f"[{newline}{pad * (level + 1)}{text}{newline}{pad * level}]"
        agrees(text.encode() + newline.encode())


@given(VALUES)
def test_pretty_is_what_the_json_module_writes(value: object) -> None:
    try:
        expected = indent(value).encode() + b"\n"
    except ValueError as error:
        with pytest.raises(type(error)):
            indented.pretty(value)
    else:
        assert indented.pretty(value) == expected


# values


def one_by_one() -> AbstractContextManager[object]:
    """Lines are read by themselves, never together."""
    return mock.patch.object(columns, "PIECE", 0)


def line_of(values: bytes) -> bytes:
    [line] = make_record().samples[:1]
    written = lines.write_samples(dataclasses.replace(line, values=(1.0,)))
    return written.replace(b'"values":[1.0]', b'"values":' + values)


def number_by_number(values: bytes) -> tuple[float, ...]:
    """Values as they were read before anything was quick."""
    names = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
    try:
        numbers = json.loads(values.decode(), parse_constant=lambda name: [])
    except ValueError:
        raise DamagedError("no JSON") from None
    for value in numbers:
        finite = isinstance(value, float) and math.isfinite(value)
        if not finite and not (isinstance(value, str) and value in names):
            raise DamagedError("no value")
    return tuple(names[value] if isinstance(value, str) else value for value in numbers)


TOKENS = (
    *(b"1.5", b"-0.0", b"0.0", b"1e-05", b"1E5", b"1.0e3", b"1e+16", b"5e-324", b"1e-400", b"2.50"),
    *(b"0", b"-0", b"7", b"12345678901234567890123", b"-9223372036854775809", b"1e999", b"1.5e999"),
    *(b"1.", b".5", b"+1.0", b"01.0", b"NaN", b"Infinity", b"null", b"true", b" 1.5", b"1.5 "),
    *(
        b'"NaN"',
        b'"-Infinity"',
        b'"1.5"',
        b'"."',
        b'"a.b.c"',
        b'"\\u004eaN"',
        b"\xff",
        b"1.5.5",
        b"",
    ),
)


@given(st.lists(st.sampled_from(TOKENS), max_size=5))
def test_values_are_taken_and_refused_as_one_by_one(tokens: Sequence[bytes]) -> None:
    values = b"[" + b",".join(tokens) + b"]"
    quick = outcome(lambda: tuple(lines.read_samples([line_of(values)], where="it")[0].values))
    assert quick == outcome(lambda: number_by_number(values))


@given(st.lists(st.sampled_from((*TOKENS[:10], *TOKENS)), max_size=30), st.integers(2, 40))
def test_long_series_are_read_in_pieces_as_in_one(tokens: Sequence[bytes], longest: int) -> None:
    values = b"[" + b",".join(tokens) + b"]"
    with mock.patch.object(lines, "_LONGEST_PIECE", longest), one_by_one():
        pieces = outcome(lambda: tuple(lines.read_samples([line_of(values)], where="it")[0].values))
    assert pieces == outcome(lambda: number_by_number(values))


def test_a_number_longer_than_a_piece_is_no_crash() -> None:
    with pytest.raises(DamagedError):
        lines.read_samples([line_of(b"[" + b"1" * (3 << 20) + b"]")], where="it")


def test_a_long_series_takes_eight_bytes_a_value() -> None:
    values = tuple(number / 7 for number in range(200_000))
    data = line_of(json.dumps(values, separators=(",", ":")).encode())
    tracemalloc.start()
    try:
        (read,) = lines.read_samples([data], where="it")
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert read.values == values
    assert values == read.values
    assert read.values != values[1:]
    assert kept < 9 * len(values)
    assert peak < 3 * len(data)


NUMBERS = st.floats() | st.sampled_from([0.5, -0.0, 1e-05, 1e16])
SERIES = st.lists(
    st.builds(
        lambda values, curve, warmup, names: dataclasses.replace(
            make_record().samples[0],
            **names,
            values=tuple(values),
            warmup=warmup,
            steps=tuple(range(len(values))) if curve else None,
        ),
        values=st.lists(NUMBERS, max_size=20),
        curve=st.sampled_from([False, False, False, True]),
        warmup=st.integers(0, 2),
        names=st.fixed_dictionaries(
            {
                "metric": st.sampled_from(["a/b/c/d", "a/b/c/e"]),
                "seed": st.sampled_from([0, 7, 2**32 - 1, 2**32]),
                "unit": st.sampled_from(["s", '",\\"values\\":[', "]"]),
            }
        ),
    ),
    min_size=1,
    max_size=6,
)
ODD = (
    *(
        b"",
        b" ",
        b"\n",
        b"[",
        b"]",
        b"],[",
        b'"',
        b"{}",
        b"0",
        b".",
        b"\xff",
        b"null",
        b"[1.0,\n2.0]",
    ),
    *(b',"seed":', b',"values":[', b',"values":[0.5],"wall":null,"warmup":0}\n', b'{"active":'),
)


@given(SERIES, st.data())
def test_lines_are_taken_and_refused_together_as_one_by_one(
    samples: Sequence[Samples], data: st.DataObject
) -> None:
    written = b"".join(map(lines.write_samples, samples))
    for _ in range(data.draw(st.integers(0, 3))):
        start = data.draw(st.integers(0, len(written)))
        end = start + data.draw(st.sampled_from([0, 0, 1, 2, 40]))
        written = written[:start] + data.draw(st.sampled_from(ODD)) + written[end:]
    together = said(written)
    with one_by_one():
        assert together == said(written)


@pytest.mark.parametrize("mark", [b"{", b',"seed":', b',"values":[', b"]", b"}", b"\n"])
def test_odd_marks_between_lines_are_refused_together_as_one_by_one(mark: bytes) -> None:
    line = line_of(b"[0.5]")
    for odd in ODD:
        for place in (mark + odd, odd + mark):
            for written in (line + line.replace(mark, place), line.replace(mark, place) + line):
                together = said(written)
                with one_by_one():
                    assert together == said(written)


def said(data: bytes) -> tuple[Samples, ...] | str:
    """What is read of some lines, or what is said of them."""
    try:
        return lines.read_samples([data], where="it")
    except DamagedError as error:
        return str(error)


@pytest.mark.parametrize(
    "values",
    [
        b"[[1.5]]",
        b"[1.5,[2.5]]",
        b'[{"a":1.5}]',
        b"[{}]",
        b"[" * 100_000 + b"]",
        b'[1.5],"values":[1.5]',
        b'["a]b"]',
        b"1.5",
        b"[1.5",
        b"",
    ],
)
def test_values_that_are_no_flat_list_are_refused(values: bytes) -> None:
    with pytest.raises(DamagedError):
        lines.read_samples([line_of(values)], where="it")


# files


def test_what_is_kept_is_what_was_hashed(tmp_path: Path) -> None:
    source = Zip(seal(tmp_path))
    name = f"data/{codec.SAMPLES}"
    digests, kept = bag.verify(source, where="it", keep={name})
    assert set(kept) == {name}
    assert digest.of_bytes(kept[name]) == digests[name]
    source.close()
