"""Datasets that are read alone: the same samples in every format, cold and warm."""

from itertools import starmap
from pathlib import Path
from typing import Any

import pytest

from capsule.levels import job, run
from capsule.levels.catalog import reading
from capsule.levels.data import samplers
from capsule.levels.level2.reading import CacheError
from capsule.levels.report import Report
from tests.support import trainings, trials
from tests.support.trainings import SMALL

Values = dict[str, tuple[float, ...]]
MEMORY = Path("/dev/shm")

GLYPHS = ("glyphs", SMALL)
COLOURED = ("glyphs", {**SMALL, "side": 32, "channels": 3})
UNIVERSE = ("universe", {"samples": 6, "test_samples": 2, "side": 8})
STORMS = ("storms", {"samples": 4, "test_samples": 2, "height": 16, "width": 24})
MARKOV = ("markov", {"samples": 40, "test_samples": 8, "length": 16, "vocabulary": 20})


def measure(
    folder: Path,
    form: str,
    cache: str = "warm",
    made: tuple[str, dict[str, int]] = GLYPHS,
    **fields: Any,
) -> Values:
    generator, parameters = made
    entry = {
        **{"id": "trial", "benchmark": "io", "level": 2, "dtype": "float32", "case": "default"},
        **{"parameters": {}, "datasets": []},
        "reading": {
            "generator": {"name": generator, "parameters": parameters},
            **{"format": form, "cache": cache, "batch": 4, "epochs": 1, "sampler": "shuffled"},
            **fields,
        },
    }
    (trial,) = job.parse({**trials.JOB, "trials": [entry]}, {}).trials
    values: Values = {}

    def add(line: Any) -> None:
        values[line.metric] = values.get(line.metric, ()) + line.values

    run.load_level(2)(trial, trainings.numpy_alone(), Report(add, folder=folder))
    return values


@pytest.mark.parametrize(
    ("made", "forms"),
    [
        (GLYPHS, ("idx", "image-folder")),
        (COLOURED, ("cifar10", "cifar100", "image-folder")),
        (UNIVERSE, ("cosmoflow-tfrecord", "cosmoflow-hdf5")),
        (STORMS, ("deepcam-hdf5",)),
        (MARKOV, ("tokens-uint8", "tokens-uint16", "tokens-uint32")),
    ],
    ids=["glyphs", "coloured", "universe", "storms", "markov"],
)
def test_every_format_gives_the_same_samples(
    tmp_path: Path, made: tuple[str, dict[str, int]], forms: tuple[str, ...]
) -> None:
    several = [measure(tmp_path, form, made=made) for form in (*forms, reading.ARRAYS)]
    assert len({one["samples_fingerprint"] for one in several}) == 1
    assert len({one["sample_bytes"] for one in several}) == 1
    other = (made[0], {**made[1], "seed": 1})
    changed = measure(tmp_path, forms[0], made=other)
    assert changed["samples_fingerprint"] != several[0]["samples_fingerprint"]
    # what was written is gone
    assert list(tmp_path.iterdir()) == []


def test_each_minibatch_has_its_latency_and_rates_are_what_they_sum_up_to(tmp_path: Path) -> None:
    values = measure(tmp_path, "idx", batch=20, epochs=3)
    due = {facts.name for facts in reading.METRICS}
    assert set(values) == due
    assert len(values["batch_latency"]) == 3 * (90 // 20)
    assert [len(values[name]) for name in ("open_time", "resident_share")] == [3, 3]
    seconds = values["open_time"][1] + sum(values["batch_latency"][4:8])
    assert values["samples_per_second"][1] == pytest.approx(80 / seconds)
    assert values["data_bytes_per_second"][1] == pytest.approx(
        80 * values["sample_bytes"][0] / seconds
    )
    # a picture in float32 and a label in int64
    assert values["sample_bytes"] == (12 * 12 * 4 + 8,)
    # 16 and 8 bytes stand before pictures and labels
    assert values["stored_bytes"] == ((90 + 25) * (12 * 12 + 1) + 2 * (16 + 8),)
    assert values["stored_files"] == (4,)


@pytest.mark.parametrize("sampler", reading.SAMPLERS)
def test_samples_are_taken_in_the_order_of_a_training(tmp_path: Path, sampler: str) -> None:
    values = measure(tmp_path, "idx", batch=20, epochs=2, sampler=sampler)
    due = samplers.Fingerprint()
    orders = [samplers.order(sampler, 90, 17, epoch, batch=20) for epoch in range(2)]
    for order in orders:
        due.add("order", order[:80])
    assert values["order_fingerprint"] == (due.value(),)


@pytest.mark.parametrize("form", ["image-folder", "idx", "arrays"])
def test_cold_is_read_from_storage_and_warm_from_memory(tmp_path: Path, form: str) -> None:
    """Each epoch begins cold again, whatever the one before has read."""
    assert set(measure(tmp_path, form, "warm", epochs=2)["resident_share"]) == {1.0}
    try:
        shares = measure(tmp_path, form, "cold", epochs=2)["resident_share"]
    except CacheError:
        pytest.skip("the file system of the tests keeps its pages")
    assert max(shares) <= reading.MOST_COLD


@pytest.mark.skipif(not MEMORY.is_dir(), reason="no file system in memory here")
def test_a_file_system_in_memory_is_never_cold() -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(dir=MEMORY) as folder:
        with pytest.raises(
            CacheError,
            match=r"100.0 % of the pages of idx in memory; a cold cache requires at most 1 %",
        ):
            measure(Path(folder), "idx", "cold")
        assert list(Path(folder).iterdir()) == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"batch": 91}, "a batch of 91 exceeds the 90 samples"),
        ({"form": "cosmoflow-tfrecord"}, "glyphs cannot be written as cosmoflow-tfrecord"),
        ({"form": "cifar10"}, "cifar10 needs channels=3"),
    ],
)
def test_what_cannot_be_read_is_refused(
    tmp_path: Path, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        measure(tmp_path, **{"form": "idx", **fields})
    assert list(tmp_path.iterdir()) == []


def test_one_file_a_sample_is_many_and_arrays_are_larger(tmp_path: Path) -> None:
    folder, packed, arrays = (
        (values["stored_files"][0], values["stored_bytes"][0])
        for values in starmap(
            measure, ((tmp_path, one) for one in ("image-folder", "idx", "arrays"))
        )
    )
    assert (folder[0], packed[0], arrays[0]) == (90 + 25, 4, 4)
    assert arrays[1] > 3 * packed[1]
