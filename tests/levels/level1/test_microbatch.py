"""Minibatches in parts: the choice of sizes, the sum of gradients, and memory that suffices."""

import subprocess
from collections.abc import Mapping, Sequence
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as some
from numpy.typing import NDArray

from capsule.levels import frameworks, networks
from capsule.levels.graphs import values
from capsule.levels.graphs.graph import Graph
from capsule.levels.graphs.reference import backward
from capsule.levels.level1 import check, microbatch
from capsule.levels.level1.microbatch import MIB, Cost, Part
from tests.support import jobs, trials
from tests.support.capabilities import training
from tests.support.jobs import (
    NEEDS_TORCH,
    command,
    end,
    environment,
    events,
    needs_torch,
    samples,
)
from tests.support.properties import examples

Arrays = list[NDArray[Any]]


def cheapest(batch: int, seconds: Mapping[int, int]) -> int:
    """The least sum of all ways to make up the batch."""
    return min(
        sum(seconds[size] for size in sizes)
        for count in range(1, batch + 1)
        for sizes in combinations_with_replacement(seconds, count)
        if sum(sizes) == batch
    )


@examples(60)
@given(
    some.integers(1, 9),
    some.dictionaries(some.integers(2, 9), some.integers(1, 50), max_size=3),
    some.integers(1, 50),
)
def test_no_other_sizes_are_faster(batch: int, seconds: dict[int, int], single: int) -> None:
    seconds = {**seconds, 1: single}
    sizes = microbatch.fastest(batch, seconds)
    assert sum(sizes) == batch
    assert sum(seconds[size] for size in sizes) == cheapest(batch, seconds)
    assert list(sizes) == sorted(sizes, reverse=True)


@examples(200)
@given(some.integers(1, 300), some.integers(0, 500), some.integers(1, 50), some.integers(0, 3000))
def test_nothing_is_run_that_is_foretold_to_exceed_the_limit(
    batch: int, fixed: int, example: int, room: int
) -> None:
    run = []

    def measure(size: int) -> Cost:
        run.append(size)
        return Cost(1 + size / 8, fixed + example * size)

    limit = fixed + example + room
    sizes = microbatch.choose(
        batch, limit, fixed, measure, lambda sizes: fixed + example * sizes[0]
    )
    assert sum(sizes) == batch
    # memory that grows along a line is foretold exactly
    largest = min(batch, (limit - fixed) // example)
    assert max(run) == largest
    assert run == sorted(set(run))
    assert sizes == microbatch.fastest(batch, {size: 1 + size / 8 for size in run})
    assert set(sizes) <= set(run)


def test_a_size_that_exceeds_the_limit_after_all_is_not_used() -> None:
    peaks = {1: 10, 2: 20, 4: 41, 8: 200}
    sizes = microbatch.choose(8, 100, 0, lambda size: Cost(1.0, peaks[size]), lambda _: 100)
    assert sizes == (4, 4)


def test_the_largest_size_is_given_up_while_the_whole_exceeds_the_limit() -> None:
    run = []

    def peak(sizes: tuple[int, ...]) -> int:
        run.append(sizes)
        return 90 if len(sizes) > 3 else 110

    sizes = microbatch.choose(8, 100, 0, lambda size: Cost(1.0, 10 * size), peak)
    assert sizes == (2, 2, 2, 2)
    assert run == [(8,), (4, 4), sizes]
    with pytest.raises(MemoryError, match=r"allows 1\.0 MiB, parts of one example need 2\.0 MiB"):
        microbatch.choose(2, MIB, 0, lambda size: Cost(1.0, size), lambda _: 2 * MIB)


@pytest.mark.parametrize(
    ("least", "message"),
    [
        (3 * MIB, "limit_mib allows 2.0 MiB, the gradients alone need 3.0 MiB"),
        (MIB, "limit_mib allows 2.0 MiB, one example needs 2.5 MiB"),
    ],
)
def test_a_limit_below_one_example_is_refused_with_both_figures(least: int, message: str) -> None:
    with pytest.raises(MemoryError, match=message):
        microbatch.choose(8, 2 * MIB, least, lambda size: Cost(1.0, 5 * MIB // 2), sum)


NETWORK = """
parameters = ("batch",)
options = {"normal": 0}

def network(g, sizes):
    x = g.input("image", (sizes["batch"], 1, 6, 6))
    x = g.conv2d(x, 4, 3)
    if sizes["normal"]:
        x = g.batch_norm(x)
    x = g.linear(g.flat(g.tanh(x)), 3)
    labels = g.labels("label", sizes["batch"], 3)
    return g.graph([x], loss=g.softmax_cross_entropy(x, labels))
"""


@pytest.fixture
def network(tmp_path: Path) -> str:
    path = tmp_path / "mine.py"
    path.write_text(NETWORK)
    return str(path)


def gradients(source: str, sizes: Sequence[int], normal: int) -> tuple[Arrays, Arrays]:
    """What the parts yield together in numpy, and the reference of the whole minibatch."""
    batch, dtype = sum(sizes), "float64"

    def graph(count: int) -> Graph:
        return networks.build("mine", {"batch": count, "normal": normal}, source)

    whole, graphs = graph(batch), {size: graph(size) for size in sizes}
    inputs = values.inputs(whole, dtype, 17)
    parameters = values.parameters(whole, dtype, 17)
    parts = microbatch.split(whole, graphs, inputs, sizes)
    framework = frameworks.load("numpy", "cpu", None, "default")
    calls = [training(framework, part.graph, {**part.inputs, **parameters}) for part in parts]
    shares = [numpy.array(part.share, dtype) for part in parts]
    function, arguments = microbatch.training(calls, shares)
    _, *sums = function(*arguments)
    due = backward(whole, {**inputs, **parameters}, dtype)
    return sums, [due[name] for name in whole.trainable]


@pytest.mark.parametrize("sizes", [(7,), (4, 2, 1), (2, 2, 2, 1), (1,) * 7])
def test_the_parts_gradients_add_up_to_the_minibatch_s(network: str, sizes: Sequence[int]) -> None:
    for gradient, due in zip(*gradients(network, sizes, normal=0), strict=True):
        assert numpy.linalg.norm(gradient - due) <= 1e-14 * numpy.linalg.norm(due)


def test_statistics_of_a_batch_are_those_of_each_part(network: str) -> None:
    sums, due = gradients(network, (2, 2), normal=1)
    assert numpy.linalg.norm(sums[0] - due[0]) > 0.01 * numpy.linalg.norm(due[0])
    whole = networks.build("mine", {"batch": 4, "normal": 1}, network)
    parts, one = [Part(whole, {}, 0.5)] * 2, Part(whole, {}, 1.0)
    assert check.separate(parts, one) is parts
    plain = Part(networks.build("mine", {"batch": 4, "normal": 0}, network), {}, 1.0)
    assert check.separate([plain, plain], plain) == [plain]


def test_an_input_without_a_batch_axis_cannot_be_split(network: str) -> None:
    graph = networks.build("mine", {"batch": 2}, network)
    with pytest.raises(
        ValueError, match="image of mine cannot be split, because it has no batch axis"
    ):
        microbatch.split(graph, {1: graph}, values.inputs(graph, "float32", 1), (1, 1))


def measure(
    name: str,
    dtype: str = "float32",
    framework: str = "torch",
    source: str | None = None,
    **parameters: int,
) -> trials.Values:
    loaded = frameworks.load(framework, "cpu", 1, "default")
    return trials.values(loaded, network=name, dtype=dtype, source=source, parameters=parameters)


@pytest.mark.parametrize("normal", [0, 1])
@pytest.mark.parametrize(
    ("framework", "dtype"),
    [
        ("numpy", "float32"),
        pytest.param("torch", "float32", marks=NEEDS_TORCH),
        pytest.param("torch", "bfloat16", marks=NEEDS_TORCH),
    ],
)
def test_parts_are_held_to_the_reference(
    network: str, framework: str, dtype: str, normal: int
) -> None:
    reported = measure("mine", dtype, framework, network, batch=5, limit_mib=64, normal=normal)
    for metric in ("l2_error_ratio", "grad_l2_error_ratio", "gradient_check"):
        assert 0 < reported[metric][0] < 1
    assert reported["repeatable"] == (1.0,)


@pytest.mark.parametrize("normal", [0, 1])
def test_parts_that_are_not_weighted_are_seen(
    network: str, monkeypatch: pytest.MonkeyPatch, normal: int
) -> None:
    right = microbatch.training
    monkeypatch.setattr(
        microbatch, "training", lambda calls, shares: right(calls, [2 * share for share in shares])
    )
    reported = measure("mine", "float32", "numpy", network, batch=3, limit_mib=64, normal=normal)
    assert reported["l2_error_ratio"][0] < 1
    assert reported["grad_l2_error_ratio"][0] > 10
    assert reported["gradient_check"][0] > 10


def test_a_network_that_normalises_single_values_is_not_split() -> None:
    with pytest.raises(ValueError, match="one value per channel"):
        measure("resnet18", "float32", "numpy", batch=2, side=32, classes=10, limit_mib=64)


@needs_torch
def test_a_limit_is_kept_and_its_parts_are_counted() -> None:
    free, bound = (measure("lenet", batch=256, limit_mib=limit) for limit in (0, 12))
    assert free["micro_batches"] == (1.0,)
    assert free["peak_memory_bytes"][0] > 24 * MIB
    assert bound["micro_batches"][0] > 1
    assert bound["peak_memory_bytes"][0] < 18 * MIB
    assert len(bound["layer_time"]) == len(free["layer_time"])
    with pytest.raises(MemoryError, match=r"allows 1\.0 MiB, the gradients alone need"):
        measure("lenet", batch=4, side=128, limit_mib=1)


# what the process may have beyond what it has with torch imported: less than the minibatch needs.
# oneDNN would report the want of memory, if it comes upon it, as "could not create a primitive".
CONFINED = """
import itertools, numpy, resource, time, torch
# sizes are chosen by their times: a call takes a second, however busy the machine is
time.perf_counter_ns = itertools.count(0, 10**9).__next__
import torch.fx.experimental.symbolic_shapes  # torch does at the first gradient by a given one
torch.backends.mkldnn.set_flags(False)
numpy.ones((512, 512)) @ numpy.ones((512, 512))  # OpenBLAS takes its buffer, or would exit
words = open("/proc/self/status").read().split()
held = int(words[words.index("VmSize:") + 1]) * 1024
resource.setrlimit(resource.RLIMIT_AS, (held + 160 * 2**20,) * 2)
"""


@needs_torch
def test_a_minibatch_that_does_not_fit_is_trained_in_parts(tmp_path: Path) -> None:
    pair = [jobs.network("lenet", str(limit), 2, batch=2048, limit_mib=limit) for limit in (0, 32)]
    words = command(tmp_path, jobs.job(pair, "torch"))
    # one heap: each further one reserves 64 MiB of addresses
    variables = {**environment(tmp_path, CONFINED), "MALLOC_ARENA_MAX": "1"}
    subprocess.run(words, cwd=tmp_path, env=variables, check=True)
    journal = events(tmp_path)
    without, within = (end(journal, entry["id"]) for entry in pair)
    assert (without["outcome"], without["reason"]) == ("failed", "out-of-memory"), without
    assert within["outcome"] == "completed", within
    value = {name: line["values"][0] for name, line in samples(journal, pair[1]["id"]).items()}
    assert value["micro_batches"] > 1
    assert value["peak_memory_bytes"] < 48 * MIB
    assert value["grad_l2_error_ratio"] < 1
    assert value["gradient_check"] < 1
