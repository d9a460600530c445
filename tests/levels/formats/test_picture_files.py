"""One picture a file."""

import io
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from numpy.typing import NDArray

from capsule.levels.data.formats import pictures
from capsule.levels.data.formats.files import FormatError
from tests.support.damage import damaged, read_or_refuse
from tests.support.properties import examples

FIXTURES = (HealthCheck.function_scoped_fixture,)
shades = st.sampled_from((1, 3)).flatmap(
    lambda channels: arrays_of.arrays(
        "uint8", st.tuples(st.just(channels), st.integers(1, 6), st.integers(1, 6))
    )
)


def image() -> Any:
    return pytest.importorskip("PIL.Image", reason="PNG and JPEG are read with Pillow")


@examples(60, allowed=FIXTURES)
@given(shades, st.data())
def test_a_picture_is_read_again(tmp_path: Path, shown: NDArray[Any], data: st.DataObject) -> None:
    path = tmp_path / "a.ppm"
    pictures.write(shown, path)
    numpy.testing.assert_array_equal(pictures.read(path, len(shown)), shown)
    if len(shown) == 1:
        numpy.testing.assert_array_equal(pictures.read(path, 3), numpy.repeat(shown, 3, 0))
    path.write_bytes(data.draw(damaged(path.read_bytes())))
    read_or_refuse(lambda changed: pictures.read(changed, 3), path)


@examples(30, allowed=FIXTURES)
@given(shades)
def test_pillow_reads_the_same(tmp_path: Path, shown: NDArray[Any]) -> None:
    path = tmp_path / "a.ppm"
    pictures.write(shown, path)
    with image().open(path) as theirs:
        numpy.testing.assert_array_equal(
            numpy.asarray(theirs).reshape(*shown.shape[1:], len(shown)).transpose(2, 0, 1), shown
        )


@pytest.mark.parametrize("mode", ["1", "L", "RGB", "P", "RGBA", "CMYK"])
@pytest.mark.parametrize("ending", ["png", "jpg", "bmp"])
def test_pillow_reads_what_we_do_not(tmp_path: Path, mode: str, ending: str) -> None:
    if (mode, ending) in {("P", "jpg"), ("RGBA", "jpg"), ("CMYK", "png"), ("CMYK", "bmp")}:
        pytest.skip(f"{ending} has no {mode}")
    picture = image().linear_gradient("L").resize((9, 7)).convert(mode)
    path = tmp_path / f"a.{ending}"
    picture.save(path)
    with image().open(path) as theirs:
        due = numpy.asarray(theirs.convert("RGB")).transpose(2, 0, 1)
    numpy.testing.assert_array_equal(pictures.read(path, 3), due)
    if mode == "RGB":
        with pytest.raises(FormatError, match="has 3 channels, expected 1"):
            pictures.read(path, 1)


@examples(100, allowed=FIXTURES)
@given(st.sampled_from(("PNG", "JPEG", "BMP")), st.data())
def test_a_damaged_picture_is_refused_or_another(
    tmp_path: Path, kind: str, data: st.DataObject
) -> None:
    whole = io.BytesIO()
    image().linear_gradient("L").resize((9, 7)).convert("RGB").save(whole, kind)
    path = tmp_path / "a.png"
    path.write_bytes(data.draw(damaged(whole.getvalue())))
    read_or_refuse(lambda changed: pictures.read(changed, 3), path)


def _png(width: int, height: int, data: bytes) -> bytes:
    parts = [b"\x89PNG\r\n\x1a\n"]
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    for name, content in ((b"IHDR", head), (b"IDAT", data), (b"IEND", b"")):
        parts += [struct.pack(">I", len(content)), name, content]
        parts.append(struct.pack(">I", zlib.crc32(name + content)))
    return b"".join(parts)


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("a.ppm", b"", "begins with b'', expected a binary PGM or PPM with 255 shades"),
        ("a.ppm", b"P3 1 1 255 0 0 0", "expected a binary PGM or PPM"),
        ("a.pgm", b"P5 1 1 65535 aa", "expected a binary PGM or PPM"),
        ("a.pgm", b"P5 999999999 999999999 255 a", "has 1 bytes of pixels, expected 99999999800"),
        ("a.pgm", b"P5 0 5 255 ", "has 0 bytes of pixels, expected 0"),
    ],
)
def test_what_is_wrong_with_a_picture_is_said(
    tmp_path: Path, name: str, data: bytes, says: str
) -> None:
    path = tmp_path / name
    with pytest.raises(FormatError, match="is missing, or not a file"):
        pictures.read(path, 1)
    path.write_bytes(data)
    with pytest.raises(FormatError, match=says):
        pictures.read(path, 1)


def test_comments_stand_in_a_head(tmp_path: Path) -> None:
    path = tmp_path / "a.pgm"
    path.write_bytes(b"P5 # by hand\n#\n2\t1 # wide\n255\nab")
    assert pictures.read(path, 1).tolist() == [[[97, 98]]]


def test_a_picture_larger_than_its_file_is_not_unpacked(tmp_path: Path) -> None:
    image()
    path = tmp_path / "a.png"
    path.write_bytes(_png(9000, 9000, zlib.compress(bytes(100))))
    assert read_or_refuse(lambda claims: pictures.read(claims, 3), path) is None
    with pytest.raises(FormatError, match="claims 9000 x 9000 pixels"):
        pictures.read(path, 3)
    path.write_bytes(b"GIF89a" + bytes(20))
    with pytest.raises(FormatError, match="cannot be read as a picture"):
        pictures.read(path, 3)


def test_without_pillow_it_is_said_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG")
    program = (
        "import sys; sys.modules['PIL'] = None\n"
        "from pathlib import Path\n"
        "from capsule.levels.data.formats import pictures\n"
        "try:\n    pictures.read(Path(sys.argv[1]), 3)\n"
        "except ModuleNotFoundError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "a.png")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "pip install pillow" in done.stdout
