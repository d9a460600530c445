"""Which files of a folder are a dataset of a format, and what a network gets of them."""

import gzip
import json
import math
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

from capsule import schema
from capsule.levels.data import generators
from capsule.levels.data.formats import cifar, hdf5, idx, layouts, pictures, records, tokens
from capsule.levels.data.formats.files import FormatError
from capsule.levels.level2 import samples
from capsule.levels.networks import build
from tests.support.damage import read_all

RANDOM = numpy.random.default_rng(7)


def draw(most: int, *shape: int, kind: str = "uint8") -> Any:
    return RANDOM.integers(0, most, shape).astype(kind)


def write_idx(folder: Path) -> None:
    for name, count in (("train", 6), ("t10k", 3)):
        idx.write(draw(256, count, 12, 12), folder / f"{name}-images-idx3-ubyte")
        idx.write(draw(3, count), folder / f"{name}-labels-idx1-ubyte")


def write_cifar10(folder: Path) -> None:
    for name, count in (("data_batch_1", 4), ("data_batch_2", 2), ("test_batch", 3)):
        cifar.write(draw(256, count, 3, 32, 32), draw(10, count, 1), folder / f"{name}.bin")


def write_cifar100(folder: Path) -> None:
    for name, count in (("train", 6), ("test", 3)):
        cifar.write(draw(256, count, 3, 32, 32), draw(20, count, 2), folder / f"{name}.bin")


def write_tokens(folder: Path) -> None:
    tokens.write(draw(9, 6 * 4 + 3), folder / "train.bin", "uint16")
    tokens.write(draw(9, 3 * 4 + 1), folder / "val.bin", "uint16")


def write_cosmoflow(folder: Path) -> None:
    for name, counts in (("train", (4, 2)), ("validation", (3,))):
        (folder / name).mkdir()
        for number, count in enumerate(counts):
            path = folder / name / f"part-{number}.tfrecord"
            cubes = [draw(90, 8, 8, 8, 4, kind="<i2") for _ in range(count)]
            write_universes(path, cubes, RANDOM.normal(size=(count, 4)))


def write_universes(path: Path, cubes: Any, targets: Any) -> None:
    examples: list[dict[str, Any]] = [
        {"x": [cube.tobytes()], "y": numpy.asarray(target, "float32")}
        for cube, target in zip(cubes, targets, strict=True)
    ]
    records.write([records.serialize(one) for one in examples], path)


def write_deepcam(folder: Path) -> None:
    low, high = numpy.arange(16.0), numpy.arange(16.0) * 2 + 1
    hdf5.write({"climate/minval": low, "climate/maxval": high}, folder / "stats.h5")
    for name, count in (("train", 6), ("validation", 3)):
        (folder / name).mkdir()
        for number in range(count):
            data = RANDOM.normal(size=(16, 32, 16)).astype("float32")
            labels = draw(3, 16, 32, kind="int64")
            hdf5.write(
                {"climate/data": data, "climate/labels_0": labels},
                folder / name / f"data-{number}.h5",
            )


def write_universe_files(folder: Path) -> None:
    """Universes of 16 x 8 x 24, of which each is cut into six cubes of 8."""
    for name, count in (("train", 6), ("validation", 3)):
        (folder / name).mkdir()
        for number in range(count // 3):
            cube = draw(90, 16 if count == 6 else 8, 8, 24, 4, kind="<i2")
            arrays = {"full": cube, "unitPar": RANDOM.normal(size=4)}
            hdf5.write(arrays, folder / name / f"universe-{number}.hdf5")
            if count == 6:
                break


def write_folders(folder: Path) -> None:
    for name, count in (("train", 6), ("val", 3)):
        for number in range(count):
            place = folder / name / f"class-{'bca'[number % 3]}"
            place.mkdir(parents=True, exist_ok=True)
            channels = 1 if number == 1 else 3
            pictures.write(draw(256, channels, 32, 32), place / f"{number}.PPM")


Write = Callable[[Path], None]
LAYOUTS: list[tuple[str, Write, str, dict[str, int]]] = [
    ("idx", write_idx, "lenet", {"side": 12, "classes": 3}),
    ("cifar10", write_cifar10, "resnet44", {}),
    ("cifar100", write_cifar100, "resnet44", {"classes": 100}),
    ("image-folder", write_folders, "resnet44", {"classes": 3}),
    ("tokens-uint16", write_tokens, "transformer", {"length": 4, "vocabulary": 9}),
    ("cosmoflow-tfrecord", write_cosmoflow, "cosmoflow", {"side": 8, "width": 1}),
    ("cosmoflow-hdf5", write_universe_files, "cosmoflow", {"side": 8, "width": 1}),
    (
        *("deepcam-hdf5", write_deepcam, "deepcam"),
        {"height": 16, "width": 32, "divisor": 32, "middle": 1},
    ),
]


def test_the_manifest_knows_every_format() -> None:
    (listed,) = find_enums(json.loads(schema.text("manifest-1")), "format")
    assert listed == list(layouts.FORMATS)
    assert {form for form, *_ in LAYOUTS} <= set(listed)


def find_enums(node: Any, name: str) -> list[Any]:
    if isinstance(node, list):
        return [one for part in node for one in find_enums(part, name)]
    if not isinstance(node, dict):
        return []
    own = node.get(name)
    here = [own["enum"]] if isinstance(own, dict) and "enum" in own else []
    return here + [one for part in node.values() for one in find_enums(part, name)]


@pytest.mark.parametrize(("form", "write", "network", "sizes"), LAYOUTS)
def test_a_network_gets_what_it_takes(
    tmp_path: Path, form: str, write: Write, network: str, sizes: dict[str, int]
) -> None:
    write(tmp_path)
    graph = build(network, {"batch": 2, **sizes})
    train, test = samples.read(tmp_path, build(network, {"batch": 1, **sizes}), form)
    assert (train.count, test.count) == (6, 3)
    taken = train.take(numpy.array([5, 0]))
    for name, wanted in graph.inputs.items():
        assert taken[name].shape == tuple(wanted.shape)
        assert taken[name].dtype == ("float32" if wanted.below is None else "int64")
        assert taken[name].flags.c_contiguous
    ordered = [train.take(numpy.array([number])) for number in (5, 0)]
    for name, array in taken.items():
        numpy.testing.assert_array_equal(array, numpy.concatenate([one[name] for one in ordered]))


def test_pictures_are_shares_of_255(tmp_path: Path) -> None:
    write_idx(tmp_path)
    train, _ = samples.read(tmp_path, build("lenet", {"batch": 1, "side": 12, "classes": 3}), "idx")
    raw = idx.read(tmp_path / "train-images-idx3-ubyte")
    taken = train.take(numpy.arange(6))
    numpy.testing.assert_array_equal(taken["image"][:, 0] * numpy.float32(255), raw)
    assert (taken["label"] == idx.read(tmp_path / "train-labels-idx1-ubyte")).all()


def test_a_token_is_followed_by_the_next(tmp_path: Path) -> None:
    write_tokens(tmp_path)
    graph = build("transformer", {"batch": 1, "length": 4, "vocabulary": 9})
    train, _ = samples.read(tmp_path, graph, "tokens-uint16")
    text = tokens.read(tmp_path / "train.bin", "uint16")
    taken = train.take(numpy.arange(6))
    assert (taken["token"] == text[:24]).all()
    assert (taken["label"] == text[1:25]).all()


def test_channels_go_from_their_least_to_their_most(tmp_path: Path) -> None:
    write_deepcam(tmp_path)
    sizes = {"batch": 1, "height": 16, "width": 32, "divisor": 32, "middle": 1}
    train, _ = samples.read(tmp_path, build("deepcam", sizes), "deepcam-hdf5")
    names = ("climate/data", "climate/labels_0")
    data, labels = hdf5.read(tmp_path / "train" / "data-5.h5", names)
    low, high = numpy.arange(16.0), numpy.arange(16.0) * 2 + 1
    due = ((data - low) / (high - low)).transpose(2, 0, 1)
    taken = train.take(numpy.array([5]))
    numpy.testing.assert_allclose(taken["map"][0], due, rtol=1e-5, atol=1e-5)
    assert (taken["label"] == labels.reshape(-1)).all()


def test_counts_become_logarithms(tmp_path: Path) -> None:
    write_cosmoflow(tmp_path)
    graph = build("cosmoflow", {"batch": 1, "side": 8, "width": 1})
    train, _ = samples.read(tmp_path, graph, "cosmoflow-tfrecord")
    path = tmp_path / "train" / "part-1.tfrecord"
    last = [records.parse(record, path) for record in read_all(path)][-1]
    x, y = last["x"], last["y"]
    assert isinstance(x, list)
    counts = numpy.frombuffer(x[0], "<i2").reshape(8, 8, 8, 4).transpose(3, 0, 1, 2)
    taken = train.take(numpy.array([5]))
    numpy.testing.assert_allclose(taken["volume"][0], numpy.log1p(counts), rtol=1e-6)
    assert (taken["target"][0] == y).all()


def test_universes_are_cut_into_cubes(tmp_path: Path) -> None:
    write_universe_files(tmp_path)
    graph = build("cosmoflow", {"batch": 1, "side": 8, "width": 1})
    train, _ = samples.read(tmp_path, graph, "cosmoflow-hdf5")
    path = tmp_path / "train" / "universe-0.hdf5"
    whole, target = hdf5.read(path, ("full", "unitPar"))
    taken = train.take([1, 3])
    for index, (x, z) in enumerate(((0, 8), (8, 0))):
        cube = whole[x : x + 8, :, z : z + 8].transpose(3, 0, 1, 2)
        numpy.testing.assert_allclose(taken["volume"][index], numpy.log1p(cube), rtol=1e-6)
        numpy.testing.assert_array_equal(taken["target"][index], target.astype("float32"))


def test_classes_are_numbered_by_their_names(tmp_path: Path) -> None:
    write_folders(tmp_path)
    (tmp_path / "train" / ".hidden").mkdir()
    (tmp_path / "train" / "class-a" / "notes.txt").write_text("no picture")
    train, test = take_all(tmp_path, "resnet44", "image-folder", {"classes": 3})
    assert train["label"].tolist() == [0, 0, 1, 1, 2, 2]
    assert test["label"].tolist() == [0, 1, 2]
    raw = pictures.read(tmp_path / "train" / "class-b" / "3.PPM", 3)
    numpy.testing.assert_array_equal(train["image"][3] * numpy.float32(255), raw)
    grey = train["image"][4]
    assert (grey[0] == grey[1]).all()
    assert (grey[0] == grey[2]).all()


@pytest.mark.parametrize("form", ["cosmoflow-tfrecord", "cosmoflow-hdf5", "image-folder"])
def test_a_sample_is_read_when_it_is_taken(tmp_path: Path, form: str) -> None:
    """What is wrong with one that is not taken is not seen, and it takes no memory."""
    write, network, sizes = WRITE[form], *SIZES[form]
    write(tmp_path)
    train, _ = samples.read(tmp_path, build(network, {"batch": 1, **sizes}), form)
    for path in sorted((tmp_path / "train").rglob("*.*"))[-1:]:
        with path.open("r+b") as file:
            file.seek(60)
            file.write(bytes(40))
            file.truncate(path.stat().st_size - 40)
    if form != "cosmoflow-hdf5":
        train.take([0])
    with pytest.raises(FormatError):
        train.take([0, 5])


def test_arrays_larger_than_memory_are_trained_on(tmp_path: Path) -> None:
    """Four files of 64 GiB, of which the file system keeps nothing: zeros."""
    count = 1 << 26
    for prefix in ("", "test_"):
        for name, kind, shape in (("image", "<f4", (count, 1, 12, 12)), ("label", "<i8", (count,))):
            with (tmp_path / f"{prefix}{name}.npy").open("wb") as file:
                file.write(generators.npy_header(kind, shape))
                file.truncate(file.tell() + numpy.dtype(kind).itemsize * math.prod(shape))
    tracemalloc.start()
    try:
        graph = build("lenet", {"batch": 1, "side": 12, "classes": 3})
        train, _ = samples.read(tmp_path, graph)
        taken = train.take([count - 1, 5])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken["image"].shape == (2, 1, 12, 12)
    assert peak < 1 << 20


def remove(name: str) -> Write:
    return lambda folder: (folder / name).unlink()


def cut(name: str) -> Write:
    def write(folder: Path) -> None:
        path = folder / name
        path.write_bytes(path.read_bytes()[:-1])

    return write


def put(name: str, array: Any) -> Write:
    return lambda folder: idx.write(array, folder / name)


def empty(folder: Path) -> None:
    (folder / "train" / "part-1.tfrecord").unlink()
    (folder / "train" / "part-0.tfrecord").write_bytes(b"")


def replace_part(number: int, cube: Any, target: Any) -> Write:
    def write(folder: Path) -> None:
        write_universes(folder / "train" / f"part-{number}.tfrecord", [cube], [target])

    return write


def rename(name: str, other: str) -> Write:
    def write(folder: Path) -> None:
        (folder / name).rename(folder / other)

    return write


def draw_wide(folder: Path) -> None:
    pictures.write(draw(256, 3, 32, 33), folder / "train" / "class-b" / "3.PPM")


def write_universe(*shape: int, kind: str = "<i2") -> Write:
    def write(folder: Path) -> None:
        arrays = {"full": numpy.zeros((*shape, 4), kind), "unitPar": numpy.zeros(4)}
        hdf5.write(arrays, folder / "train" / "universe-0.hdf5")

    return write


cut_short, tell_words = write_universe(8, 8, 12), write_universe(8, 8, 8, kind="f8")
CUBE = numpy.zeros((8, 8, 8, 4), "<i2")
count_less_than_nothing = replace_part(0, CUBE - 1, numpy.zeros(4))
tell_three = replace_part(0, CUBE, numpy.zeros(3))
mix_sizes = replace_part(1, CUBE[:4, :4, :4], numpy.zeros(4))

WRONG: list[tuple[str, Write, Write, str]] = [
    (
        "idx",
        write_idx,
        remove("t10k-labels-idx1-ubyte"),
        "t10k-labels-idx1-ubyte is missing, or not a file",
    ),
    ("idx", write_idx, cut("train-images-idx3-ubyte"), "bytes of elements, expected"),
    (
        "idx",
        write_idx,
        put("train-labels-idx1-ubyte", draw(3, 5)),
        "expected uint8, one for each of 6 images",
    ),
    (
        "idx",
        write_idx,
        put("train-images-idx3-ubyte", draw(9, 6)),
        "expected uint8 with three axes",
    ),
    ("idx", write_idx, put("train-labels-idx1-ubyte", draw(1, 6) + 3), "expected 0 to 2"),
    ("idx", write_idx, put("train-images-idx3-ubyte", draw(9, 6, 13, 12)), "lenet expects"),
    (
        "cifar10",
        write_cifar10,
        remove("data_batch_1.bin"),
        "data_batch_1.bin is missing, or not a file",
    ),
    (
        "cifar10",
        write_cifar10,
        remove("test_batch.bin"),
        "test_batch.bin is missing, or not a file",
    ),
    ("cifar10", write_cifar10, cut("data_batch_2.bin"), "expected a positive multiple of"),
    ("cifar100", write_cifar100, cut("test.bin"), "expected a positive multiple of"),
    ("tokens-uint16", write_tokens, cut("val.bin"), "expected a multiple of"),
    ("tokens-uint16", write_tokens, remove("val.bin"), "val.bin is missing, or not a file"),
    (
        "image-folder",
        write_folders,
        rename("val/class-a", "val/x"),
        "x is a class without training samples",
    ),
    ("image-folder", write_folders, rename("val", "x"), "val is missing, or not a folder"),
    (
        "image-folder",
        write_folders,
        rename("train/class-a", ".a"),
        "is a class without training samples",
    ),
    ("image-folder", write_folders, remove("val/class-b/0.PPM"), "class-b has no picture"),
    (
        "image-folder",
        write_folders,
        cut("train/class-b/0.PPM"),
        "3071 bytes of pixels, expected 3072",
    ),
    ("image-folder", write_folders, draw_wide, "has image .*33.*, expected .*32.* as in"),
    ("cosmoflow-hdf5", write_universe_files, cut_short, "the first three multiples of 8"),
    ("cosmoflow-hdf5", write_universe_files, tell_words, "full of float64"),
    ("cosmoflow-tfrecord", write_cosmoflow, empty, "has no record"),
    ("cosmoflow-tfrecord", write_cosmoflow, count_less_than_nothing, "has the count -1"),
    ("cosmoflow-tfrecord", write_cosmoflow, tell_three, "expected four floats"),
    (
        "cosmoflow-tfrecord",
        write_cosmoflow,
        mix_sizes,
        "has volume .*4, 4, 4.*, expected .*8, 8, 8.* as in",
    ),
]
WRITE = {form: write for form, write, *_ in LAYOUTS}
SIZES = {form: (network, sizes) for form, _, network, sizes in LAYOUTS}


@pytest.mark.parametrize(("form", "write", "spoil", "message"), WRONG)
def test_what_is_wrong_with_a_folder_is_said(
    tmp_path: Path, form: str, write: Write, spoil: Write, message: str
) -> None:
    write(tmp_path)
    spoil(tmp_path)
    network, sizes = SIZES[form]
    with pytest.raises((FormatError, ValueError), match=message):
        take_all(tmp_path, network, form, sizes)


def take_all(folder: Path, network: str, form: str, sizes: dict[str, int]) -> list[dict[str, Any]]:
    """All samples for training, and all for testing."""
    parts = samples.read(folder, build(network, {"batch": 1, **sizes}), form)
    return [part.take(range(part.count)) for part in parts]


def test_packed_files_are_the_same_data(tmp_path: Path) -> None:
    write_idx(tmp_path)
    graph = build("lenet", {"batch": 1, "side": 12, "classes": 3})
    plain, _ = samples.read(tmp_path, graph, "idx")
    first = plain.take(numpy.arange(6))
    for path in list(tmp_path.iterdir()):
        with path.open("rb") as source, gzip.open(f"{path}.gz", "wb") as target:
            shutil.copyfileobj(source, target)
        path.unlink()
    packed, _ = samples.read(tmp_path, graph, "idx")
    for name, array in packed.take(numpy.arange(6)).items():
        numpy.testing.assert_array_equal(array, first[name])
