"""HDF5 as DeepCAM's data is in it."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from numpy.typing import NDArray

from capsule.levels.data.formats import hdf5
from capsule.levels.data.formats.files import FormatError
from tests.support.damage import damaged, read_or_refuse
from tests.support.properties import examples

FIXTURES = (HealthCheck.function_scoped_fixture,)
plain_arrays = arrays_of.arrays(
    st.sampled_from(("<f4", "<f8", ">f4", "|u1", "<i8")),
    arrays_of.array_shapes(min_dims=1, max_dims=3, max_side=4),
)


@examples(50, allowed=FIXTURES)
@given(plain_arrays, plain_arrays)
def test_datasets_are_read_again(tmp_path: Path, data: NDArray[Any], mask: NDArray[Any]) -> None:
    path = tmp_path / "data.h5"
    hdf5.write({"climate/data": data, "climate/labels_0": mask}, path)
    read = hdf5.read(path, ("climate/data", "climate/labels_0"))
    for one, array in zip(read, (data, mask), strict=True):
        assert one.dtype == array.dtype
        numpy.testing.assert_array_equal(one, array)
    (cut, _) = hdf5.read(path, ("climate/data", "climate/labels_0"), (slice(0, 1),))
    numpy.testing.assert_array_equal(cut, data[:1])
    assert hdf5.shapes(path, ("climate/labels_0",)) == [mask.shape]


@examples(150, allowed=FIXTURES)
@given(st.data())
def test_a_damaged_file_is_refused_or_other_numbers(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "data.h5"
    hdf5.write({"climate/data": numpy.arange(30.0).reshape(5, 6)}, path)
    path.write_bytes(data.draw(damaged(path.read_bytes())))
    read_or_refuse(lambda changed: hdf5.read(changed, ("climate/data",))[0], path)


def _link_out(file: Any) -> None:
    import h5py

    file["climate/data"] = h5py.ExternalLink("other.h5", "/climate/data")


def _link_softly(file: Any) -> None:
    import h5py

    file["climate/data"] = h5py.SoftLink("/elsewhere")


def _store_out(file: Any) -> None:
    file.create_dataset("climate/data", (4,), "u1", external=[("/etc/passwd", 0, 4)])


def _lay_over(file: Any) -> None:
    import h5py

    layout = h5py.VirtualLayout((4,), "u1")
    layout[:] = h5py.VirtualSource("other.h5", "climate/data", (4,), "u1")
    file.create_virtual_dataset("climate/data", layout)


def _claim(file: Any) -> None:
    file.create_dataset("climate/data", (1 << 20, 1 << 20), "f8", chunks=(8, 8))


def _claim_chunk(file: Any) -> None:
    file.create_dataset("climate/data", (1,), "f4", chunks=(1 << 29,), maxshape=(None,))


def _pack(file: Any) -> None:
    file.create_dataset("climate/data", data=numpy.zeros(1 << 27, "u1"), compression="gzip")


def _text(file: Any) -> None:
    file["climate/data"] = ["a", "b"]


def _empty(file: Any) -> None:
    file.create_dataset("climate/data", (0, 3), "f4")


def _group(file: Any) -> None:
    file.create_group("climate/data")


def _elsewhere(file: Any) -> None:
    file["climate"] = numpy.zeros(3)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (_link_out, "has a link as climate/data, which capsule does not follow"),
        (_link_softly, "has a link as climate/data|has no dataset climate/data"),
        (_store_out, "has climate/data in other files, which capsule does not read"),
        (_lay_over, "has climate/data in other files, which capsule does not read"),
        (_claim, "claims 8192.0 GiB for climate/data"),
        (_claim_chunk, "claims 2.0 GiB for climate/data"),
        (_pack, "claims 128.0 MiB for climate/data"),
        (_text, "has climate/data of object .*, expected at least 1 integer or float"),
        (_empty, r"has climate/data of float32 \(0, 3\)"),
        (_group, "has no dataset climate/data"),
        (_elsewhere, "has no dataset climate/data"),
        (lambda file: None, "has no dataset climate/data"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(
    tmp_path: Path, make: Callable[[Any], None], says: str
) -> None:
    import h5py

    hdf5.write({"climate/data": numpy.zeros(4, "uint8")}, tmp_path / "other.h5")
    path = tmp_path / "data.h5"
    with h5py.File(path, "w") as file:
        make(file)
    with pytest.raises(FormatError, match=says):
        hdf5.read(path, ("climate/data",))


def test_what_is_no_hdf5_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data.h5"
    with pytest.raises(FormatError, match="is missing, or not a file"):
        hdf5.read(path, ("climate/data",))
    path.write_bytes(b"CDF\x01 netCDF of another kind")
    with pytest.raises(FormatError, match=r"cannot be read as HDF5: .*file signature not found"):
        hdf5.read(path, ("climate/data",))


def test_without_h5py_it_is_said_what_to_install(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['h5py'] = None\n"
        "from pathlib import Path\n"
        "from capsule.levels.data.formats import hdf5\n"
        "try:\n    hdf5.read(Path('data.h5'), ('a',))\n"
        "except ModuleNotFoundError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "h5py, which reads and writes HDF5, is not installed: pip install h5py" in done.stdout
