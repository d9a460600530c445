"""What generators make in the files in which others publish data, read again."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy
import pytest

from capsule.levels.data import generators, tasks
from capsule.levels.data.formats import layouts, writers
from capsule.levels.level2 import samples
from capsule.levels.networks import build

COUNTS = {"samples": 7, "test_samples": 3}
COLOURED = {"side": 32, "channels": 3}
DEEPCAM = {"height": 16, "width": 32}
MADE: list[tuple[str, str, dict[str, int], str, dict[str, int]]] = [
    ("glyphs", "idx", {"side": 12, "classes": 3}, "lenet", {"side": 12, "classes": 3}),
    ("glyphs", "cifar10", COLOURED, "resnet44", {}),
    ("glyphs", "cifar100", {**COLOURED, "classes": 100}, "resnet44", {"classes": 100}),
    ("glyphs", "image-folder", {"side": 12, "classes": 2}, "lenet", {"side": 12, "classes": 2}),
    ("universe", "cosmoflow-tfrecord", {"side": 8}, "cosmoflow", {"side": 8, "width": 1}),
    ("universe", "cosmoflow-hdf5", {"side": 8}, "cosmoflow", {"side": 8, "width": 1}),
    ("storms", "deepcam-hdf5", DEEPCAM, "deepcam", {**DEEPCAM, "divisor": 32, "middle": 1}),
    *(
        ("markov", f"tokens-{kind}", sizes, "transformer", sizes)
        for kind in ("uint8", "uint16", "uint32")
        for sizes in ({"length": 5, "vocabulary": 9},)
    ),
]
IDS = [form for _, form, *_ in MADE]


def write(form: str, generator: str, sizes: Mapping[str, int], folder: Path) -> None:
    folder.mkdir()
    numbers = generators.complete(generator, {**COUNTS, **sizes})
    writers.write(form, generator, numbers, folder)


def digest(folder: Path) -> str:
    """Of the names and bytes of all files."""
    state = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        state.update(f"{path.relative_to(folder)} {path.stat().st_size}\n".encode())
        state.update(path.read_bytes())
    return state.hexdigest()[:16]


def test_every_format_is_written() -> None:
    assert {form for forms in writers.WRITERS.values() for form in forms} == set(layouts.FORMATS)
    assert set(IDS) == set(layouts.FORMATS)


@pytest.mark.parametrize(("generator", "form", "sizes", "network", "options"), MADE, ids=IDS)
def test_a_network_takes_what_is_written(
    tmp_path: Path,
    generator: str,
    form: str,
    sizes: dict[str, int],
    network: str,
    options: dict[str, int],
) -> None:
    write(form, generator, sizes, tmp_path / "data")
    train, test = samples.read(tmp_path / "data", build(network, {"batch": 1, **options}), form)
    assert (train.count, test.count) == (7, 3)
    plain = generators.generate(generator, {**COUNTS, **sizes})
    for prefix, part in (("", train), ("test_", test)):
        for name, array in part.take(numpy.arange(part.count)).items():
            due = plain[prefix + name]
            if generator == "markov":
                # one text in place of many
                continue
            if form == "image-folder":
                due = due[numpy.argsort(plain[f"{prefix}label"], kind="stable")]
            assert array.shape == due.shape
            if name in ("label", "target"):
                numpy.testing.assert_array_equal(array, due)
            else:
                signal = numpy.corrcoef(array.ravel(), due.ravel())[0, 1]
                assert signal > 0.9


def test_a_text_goes_on_behind_each_sample(tmp_path: Path) -> None:
    sizes = {"length": 5, "vocabulary": 9}
    write("tokens-uint16", "markov", sizes, tmp_path / "data")
    text = numpy.fromfile(tmp_path / "data" / "train.bin", "<u2")
    made = tasks.markov(1, 1, 36, 9, 0)
    assert text.tolist() == made["token"][:36].tolist()
    assert len(numpy.fromfile(tmp_path / "data" / "val.bin", "<u2")) == 16


def test_counts_grow_as_the_field_does() -> None:
    field = numpy.linspace(-7, 12, 4000, dtype="float32").reshape(4, 10, 10, 10)
    counts = writers.count_matter(field).transpose(3, 0, 1, 2).ravel()
    assert (numpy.diff(counts) >= 0).all()
    assert counts[0] == 0
    assert counts[-1] == 2**14 - 1
    assert abs(int(writers.count_matter(numpy.zeros((4, 1, 1, 1))).ravel()[0]) - 31) == 0


GOLDEN = {
    "cifar10": "b2654d291b37e236",
    "cifar100": "43b5ba20669784c2",
    "cosmoflow-hdf5": "d2614be880619ebd",
    "cosmoflow-tfrecord": "99b0635cabdcaec5",
    "deepcam-hdf5": "7490873e3353dc23",
    "idx": "f2f83530ffbdc781",
    "image-folder": "5e82d310c97d8dcc",
    "tokens-uint16": "3631ec4dfea93e7b",
    "tokens-uint32": "d77d213315426baf",
    "tokens-uint8": "d64c76707511ed06",
}


def _write_all(folder: Path) -> dict[str, str]:
    for generator, form, sizes, *_ in MADE:
        write(form, generator, sizes, folder / form)
    return {form: digest(folder / form) for form in IDS}


def test_files_are_the_same_bytes_everywhere(tmp_path: Path) -> None:
    assert _write_all(tmp_path) == GOLDEN


_WITHOUT_SIMD = """
import json, sys
from pathlib import Path
from tests.levels.formats import test_writers
print(json.dumps(test_writers._write_all(Path(sys.argv[1]))))
"""


def test_files_are_the_same_without_the_vector_instructions_of_this_cpu(tmp_path: Path) -> None:
    features = numpy.show_config("dicts")["SIMD Extensions"]["found"]
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_SIMD, str(tmp_path)],
        cwd=Path(__file__).parents[3],
        env={"PATH": os.environ["PATH"], "NPY_DISABLE_CPU_FEATURES": ",".join(features)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == GOLDEN


@pytest.mark.parametrize(
    ("form", "generator", "sizes", "says"),
    [
        ("idx", "regression", {}, "regression cannot be written as idx; use arrays$"),
        ("idx", "markov", {}, "use tokens-uint8, tokens-uint16, tokens-uint32, or arrays"),
        ("idx", "glyphs", {"channels": 3}, "channels=1 and at most classes=256"),
        ("idx", "glyphs", {"classes": 257}, "channels=1 and at most classes=256"),
        ("cifar10", "glyphs", {}, "cifar10 needs channels=3 and side=32"),
        ("cifar10", "glyphs", {**COLOURED, "classes": 11}, "cifar10 allows at most classes=10"),
        ("image-folder", "glyphs", {"channels": 2}, "channels=1 or channels=3"),
        (
            "tokens-uint8",
            "markov",
            {"vocabulary": 300},
            "vocabulary=300 is above the maximum of tokens-uint8, 256",
        ),
    ],
)
def test_what_a_format_does_not_hold_is_refused(
    tmp_path: Path, form: str, generator: str, sizes: dict[str, int], says: str
) -> None:
    numbers = generators.complete(generator, sizes)
    with pytest.raises(ValueError, match=says):
        writers.write(form, generator, numbers, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_each_class_has_a_picture(tmp_path: Path) -> None:
    """An empty folder has no bytes: a copy without it would number the classes otherwise."""
    with pytest.raises(ValueError, match="3 samples do not cover all 10 classes"):
        write("image-folder", "glyphs", {"samples": 3, "side": 12}, tmp_path / "data")
