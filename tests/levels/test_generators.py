import ast
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from numpy.typing import NDArray

from capsule.levels import streams as words
from capsule.levels.data import generators, tasks
from tests.support.properties import examples

GOLDEN: list[tuple[str, dict[str, int], str]] = [
    (
        "gaussian-blobs",
        {},
        "sha256:3bfdd7c330bcf45d0ed9f469f81399f4c97e73af8f524c3764515f7d094bce93",
    ),
    (
        "gaussian-blobs",
        {"samples": 5000, "features": 37, "classes": 7, "seed": 4294967295},
        "sha256:a9f0cfe48aab1c48e3d367427259e19ce43793f1986c5620aa5cad79b485a0ac",
    ),
    (
        "glyphs",
        {},
        "sha256:ac2985cd9dd2961dd866cf025ba99a6bdfe3afdde360efee074ca60f7135a105",
    ),
    (
        "glyphs",
        {"samples": 70, "test_samples": 30, "side": 17, "classes": 5, "seed": 9},
        "sha256:6bf477e098144e0363a47cff828bb7ed858407dc729eec87d09aaa8ecb618452",
    ),
    (
        "universe",
        {},
        "sha256:5211da37558e84c464a34232c19697f19184e6782589deb97043054ad2079984",
    ),
    (
        "universe",
        {"samples": 9, "test_samples": 5, "side": 12, "seed": 4294967295},
        "sha256:e0e1e3e090ff7b7ade9d7ffaf561ec6dd2fce25838f899fa1e0bee4dfeeebb39",
    ),
    (
        "glyphs",
        {"samples": 9, "test_samples": 5, "channels": 3, "side": 12, "seed": 4294967295},
        "sha256:22afad8e5a5f784b10c10c34d695912f7d72297c0b928600606bb10dd15ed1c7",
    ),
    (
        "storms",
        {},
        "sha256:49146485b05570fb9a9d65a4081e9c0d4d78ac7473ba50a3cdef61b7b4c2cc49",
    ),
    (
        "storms",
        {"samples": 9, "test_samples": 5, "height": 16, "width": 80, "seed": 4294967295},
        "sha256:36e4c2e8e9d6486d2ba5c5eccb0d4c3e0a7481d3662252a92facb1c00a90401c",
    ),
    (
        "scenes",
        {},
        "sha256:4daf11ec95b2754ce2013fb0641e4cd5ecce732aed086495d6dc469b7f9d1b6e",
    ),
    (
        "scenes",
        {
            "samples": 9,
            "test_samples": 5,
            "channels": 2,
            "side": 12,
            "classes": 3,
            "seed": 4294967295,
        },
        "sha256:a9e9b0969a6d754d310560169597b2efe7981466c0d4f6c4dab260b20fd7b0d2",
    ),
    (
        "jets",
        {},
        "sha256:ca31e7a9f830aed86cb2db320ad7c804f263a735413ea108b6640ace961d4fa6",
    ),
    (
        "jets",
        {"samples": 9, "test_samples": 5, "side": 17, "seed": 4294967295},
        "sha256:d5164c044c7dd00a0b2eb926dbd31d757e03c091f5728fb35b6fa5931ac0c683",
    ),
    (
        "mass-maps",
        {},
        "sha256:56074d29414209912667c9cdfc83b651a5aeb9e9f4d4ecfb74841b04488ec620",
    ),
    (
        "mass-maps",
        {"samples": 9, "test_samples": 5, "side": 17, "seed": 4294967295},
        "sha256:d3d42c933a6151c7d81b9b9f677b54b4d918c93c4378edec3f3690ee6ddbbfc7",
    ),
    (
        "markov",
        {},
        "sha256:b295db8c255b8b00a41b87c34205440662de5f75df579d67f84ee42ef027edfd",
    ),
    (
        "markov",
        {"samples": 9, "test_samples": 5, "length": 7, "vocabulary": 5, "seed": 4294967295},
        "sha256:93df40ad62b4e27e784e58d5581298c0474175c59ca53f0608a6e2ed252ddf5f",
    ),
    (
        "regression",
        {},
        "sha256:0da604cbaf0704010f10d99f1ac5b534d3cd90cec55d9b91a992021bbdee58e9",
    ),
    (
        "regression",
        {"samples": 5000, "features": 33, "seed": 9},
        "sha256:14fe777785e0732427852565520ac76da4a83fcf44c9e7f7a98212156978f66f",
    ),
]


@pytest.mark.parametrize(("name", "parameters", "digest"), GOLDEN)
def test_golden_digests(name: str, parameters: Mapping[str, int], digest: str) -> None:
    assert generators.digest(generators.generate(name, parameters)) == digest


def test_every_generator_has_a_golden_digest_of_its_defaults() -> None:
    assert {name for name, parameters, _ in GOLDEN if not parameters} == set(generators.GENERATORS)


_WITHOUT_SIMD = """
import json, sys
try:
    from numpy._core import _multiarray_umath as core
except ImportError:
    from numpy.core import _multiarray_umath as core
if sys.argv[1] == "features":
    print(",".join(name for name in core.__cpu_dispatch__ if core.__cpu_features__.get(name)))
else:
    from capsule.levels.data import generators, tasks
    left = [name for name in core.__cpu_dispatch__ if core.__cpu_features__.get(name)]
    print(json.dumps([left, [
        generators.digest(generators.generate(name, parameters))
        for name, parameters, _ in json.loads(sys.argv[1])
    ]]))
"""


def _without_simd(argument: str, disabled: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", _WITHOUT_SIMD, argument],
        cwd=Path(generators.__file__).parents[2],
        env={"PATH": os.environ["PATH"], "NPY_DISABLE_CPU_FEATURES": disabled},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_the_same_bytes_without_the_vector_instructions_of_this_cpu() -> None:
    features = _without_simd("features", "").strip()
    left, digests = json.loads(_without_simd(json.dumps(GOLDEN), features))
    assert left == []
    assert digests == [digest for _, _, digest in GOLDEN]


def test_generators_use_only_what_every_cpu_computes_alike() -> None:
    # these move elements, or compute with whole numbers
    allowed = {"arange", "asarray", "empty", "full", "load", "maximum", "minimum", "random"}
    allowed |= {"roll", "where", "float32", "float64", "int64", "uint64", "concatenate", "ndarray"}
    # bits, and the product of a shape
    allowed |= {"int8", "uint8", "unpackbits", "prod"}
    for path in map(inspect.getfile, (generators, tasks, words)):
        for node in ast.walk(ast.parse(Path(path).read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                if node.value.id == "numpy":
                    assert node.attr in allowed
            elif isinstance(node, ast.Attribute):
                assert node.attr not in {"sum", "mean", "dot", "prod", "normal", "random"}
            elif isinstance(node, ast.BinOp):
                assert not isinstance(node.op, ast.MatMult)


def test_blobs_are_classes_around_their_centres() -> None:
    made = generators.generate("gaussian-blobs", {"samples": 4000, "features": 3, "classes": 3})
    x, y = made["x"], made["y"]
    assert (x.dtype, x.shape, y.dtype, y.shape) == ("float32", (4000, 3), "int64", (4000,))
    assert set(y) == {0, 1, 2}
    for label in range(3):
        assert 1000 < numpy.count_nonzero(y == label) < 1700
        numpy.testing.assert_allclose(x[y == label].std(axis=0), 1, atol=0.1)


def test_regression_is_explained_by_its_terms() -> None:
    made = generators.generate("regression", {"samples": 4000, "features": 3, "seed": 5})
    x, y = made["x"].astype("float64"), made["y"].astype("float64")
    assert (made["x"].dtype, x.shape, made["y"].dtype, y.shape) == (
        "float32",
        (4000, 3),
        "float32",
        (4000,),
    )
    terms = numpy.hstack([x, x * numpy.roll(x, 1, axis=1)])
    residual = y - terms @ numpy.linalg.lstsq(terms, y, rcond=None)[0]
    assert 0.11 < residual.std() < 0.14 < y.std()


@pytest.mark.parametrize("name", generators.GENERATORS)
def test_another_seed_makes_other_data(name: str) -> None:
    digests = {
        generators.digest(generators.generate(name, {"seed": seed, "samples": 10}))
        for seed in range(5)
    }
    assert len(digests) == 5


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        (
            "blobs",
            {},
            "unknown generator 'blobs'; known: gaussian-blobs, glyphs, scenes, jets, universe,"
            " storms, mass-maps, markov, regression",
        ),
        (
            "regression",
            {"sample": 3},
            "no parameter 'sample'; its parameters: samples, features, seed",
        ),
        (
            "regression",
            {"samples": 0},
            "samples of regression is 0, expected a whole number from 1",
        ),
        ("regression", {"samples": 1.5}, "samples of regression is 1.5"),
        ("regression", {"samples": True}, "samples of regression is True"),
        ("regression", {"seed": 2**32}, "seed of regression is 4294967296"),
        ("gaussian-blobs", {"classes": 1}, "classes of gaussian-blobs is 1"),
    ],
)
def test_wrong_parameters_are_named(
    name: str, parameters: Mapping[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        generators.generate(name, parameters)


plain_arrays = arrays_of.arrays(
    st.one_of(
        arrays_of.boolean_dtypes(),
        arrays_of.integer_dtypes(endianness="?"),
        arrays_of.floating_dtypes(endianness="?", sizes=(16, 32, 64)),
    ),
    arrays_of.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5),
)


@examples(100)
@given(st.dictionaries(st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True), plain_arrays))
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, arrays: dict[str, NDArray[Any]]
) -> None:
    folder = tmp_path_factory.mktemp("data")
    generators.write(arrays, folder)
    read = generators.read(folder)
    assert read.keys() == arrays.keys()
    for name, array in arrays.items():
        assert read[name].shape == array.shape
        assert read[name].dtype == array.dtype.newbyteorder("<")
        numpy.testing.assert_array_equal(read[name], array)
    assert generators.digest(read) == generators.digest(arrays)


def test_files_are_the_same_bytes_everywhere(tmp_path: Path) -> None:
    generators.write({"x": numpy.array([1, -2], "int16")}, tmp_path)
    written = (tmp_path / "x.npy").read_bytes()
    header = b"{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }"
    assert written == b"\x93NUMPY\x01\x00\x76\x00" + header.ljust(117) + b"\n" + b"\1\0\xfe\xff"


def test_the_digest_is_of_content_not_of_layout() -> None:
    array = numpy.arange(6, dtype="<i4").reshape(2, 3)
    digest = generators.digest({"x": array, "y": array})
    assert digest == generators.digest({"y": array.astype(">i4"), "x": numpy.asfortranarray(array)})
    others = [
        {"x": array, "z": array},
        {"x": array},
        {"x": array, "y": array.reshape(3, 2)},
        {"x": array, "y": array.astype("<u4")},
        {"x": array, "y": array + (array == 5)},
    ]
    assert digest not in {generators.digest(arrays) for arrays in others}


def test_the_digest_by_its_published_format() -> None:
    import hashlib

    text = b"capsule-arrays-1\na |u1 2\n\x01\x02b <f8 \n" + b"\0" * 6 + b"\xf0?"
    arrays = {"b": numpy.float64(1.0), "a": numpy.array([1, 2], "uint8")}
    assert generators.digest(arrays) == f"sha256:{hashlib.sha256(text).hexdigest()}"


@pytest.mark.parametrize("name", ["../x", "X", "", "a b", "x\n"])
def test_names_that_are_no_file_names_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="array name"):
        generators.write({name: numpy.zeros(1)}, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("array", [numpy.array([{}]), numpy.array(["a"]), numpy.array([1j])])
def test_arrays_that_are_not_plain_numbers_are_refused(array: NDArray[Any]) -> None:
    with pytest.raises(ValueError, match="expected booleans, integers or floats"):
        generators.digest({"x": array})


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    numpy.save(tmp_path / "x.npy", numpy.array([{}]), allow_pickle=True)
    with pytest.raises(ValueError, match="Python objects"):
        generators.read(tmp_path)


def test_two_tokens_before_say_more_than_one() -> None:
    made = generators.generate("markov", {"samples": 400, "length": 50, "vocabulary": 8})
    token, label = (made[name].reshape(400, 50) for name in ("token", "label"))
    assert (token[:, 1:] == label[:, :-1]).all()
    shares = []
    for code in (8 * token[:, :-1] + token[:, 1:], token[:, 1:]):
        counts = numpy.zeros((64, 8))
        numpy.add.at(counts, (code.ravel(), label[:, 1:].ravel()), 1)
        shares.append(counts.max(axis=1).sum() / counts.sum())
    # 3 of 4, and where the rest is the same token by chance
    assert 0.74 < shares[0] < 0.82
    assert shares[1] < 0.6


def test_scenes_show_each_class_in_a_quarter_of_them() -> None:
    made = generators.generate("scenes", {"samples": 400, "test_samples": 1, "classes": 6})
    images, target = made["image"], made["target"]
    assert set(target.ravel()) == {0, 1}
    assert abs(target.mean(0) - 0.25).max() < 0.08
    # where a class is shown the mean image is another one
    for number in range(6):
        shown = target[:, number] == 1
        apart = images[shown].mean(0) - images[~shown].mean(0)
        assert abs(apart).mean() > 1.2 * 3 * (2 / numpy.pi) ** 0.5 * (1 / 100 + 1 / 300) ** 0.5


def test_jets_of_two_axes_are_wider_and_of_the_same_energy() -> None:
    made = generators.generate("jets", {"samples": 600, "test_samples": 1})
    count, label = made["image"][:, 2], made["label"]
    assert set(label) == {0, 1}
    assert (count.sum((1, 2)) == 24).all()
    energy = made["image"][:, :2].sum((1, 2, 3))
    assert abs(energy[label == 1].mean() / energy[label == 0].mean() - 1) < 0.05
    row, column = numpy.indices(count.shape[1:])
    spread = sum(
        (count * place**2).sum((1, 2)) / 24 - ((count * place).sum((1, 2)) / 24) ** 2
        for place in (row, column)
    )
    assert spread[label == 1].mean() > 1.5 * spread[label == 0].mean()


def test_storms_stand_out_of_their_background() -> None:
    made = generators.generate("storms", {"samples": 60, "test_samples": 1})
    maps, labels = made["map"], made["label"].reshape(60, 32, 48)
    assert set(labels.ravel()) == {0, 1, 2}
    assert 0.85 < (labels == 0).mean() < 0.95
    means = numpy.array(
        [maps.transpose(1, 0, 2, 3)[:, labels == kind].mean(1) for kind in range(3)]
    )
    assert abs(means[0]).max() < 0.1
    due = numpy.array(
        [[((channel * kind) % 5 - 2) / 2 for channel in range(16)] for kind in (1, 2)]
    )
    numpy.testing.assert_allclose(means[1:], due, atol=0.15)
