"""Fingerprints of networks: what changes them, and what does not."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from capsule.levels import networks
from capsule.levels.catalog import training
from capsule.levels.graphs.builder import Builder
from capsule.levels.graphs.fingerprint import fingerprint
from capsule.levels.graphs.graph import Graph
from capsule.levels.networks import cosmoflow
from tests.support.documented import ROOT

SMALL = {"batch": 1, "side": 8, "width": 2}


def build(**sizes: int) -> Graph:
    return networks.build("cosmoflow", {**SMALL, **sizes})


def write(
    *,
    name: str = "small",
    stride: int = 1,
    factor: float = 0.5,
    gain: float = 1.0,
    weights: tuple[float, ...] = (1.0, 2.0, 3.0),
    crossed: bool = False,
    late: bool = False,
    label: str = "label",
    called: str | None = None,
) -> Graph:
    """A network that normalizes by batch, with one thing in it another than by default."""
    g = Builder(name)
    x = g.input("image", (1, 2, 6, 6))
    x = g.conv2d(x, 2, 3, padding=1, stride=stride, gain=gain)
    x = g.batch_norm(x)

    def scale() -> str:
        sizes = {"of": g.shape(x), "factor": factor}
        return g.node("scale", [x], sizes, called)

    if late:
        first = g.relu(x)
        second = scale()
    else:
        second = scale()
        first = g.relu(x)
    parts = (second, first) if crossed else (first, second)
    x = g.linear(g.flat(g.concat(parts, axis=1)), 3)
    labels = g.labels(label, 1, 3)
    brought = g.parameter("class_weights", (3,), trainable=False, value=weights)
    return g.graph([x], loss=g.softmax_cross_entropy(x, labels, brought))


def test_the_slope_of_an_activation_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    right = fingerprint(build())
    monkeypatch.setattr(cosmoflow, "_SLOPE_PERCENT", 1)
    assert fingerprint(build()) != right
    assert 0 <= right < 2**48


def test_each_size_counts_and_the_batch_is_one_of_them() -> None:
    sizes: list[dict[str, int]] = [{}, {"width": 3}, {"side": 16}, {"dropout": 50}, {"batch": 2}]
    assert len({fingerprint(build(**one)) for one in sizes}) == len(sizes)


@pytest.mark.parametrize(
    "graph",
    [
        write(name="other"),
        write(stride=2),
        write(factor=0.25),
        write(gain=1.5),
        write(weights=(1.0, 2.0, 4.0)),
        write(crossed=True),
        write(label="class"),
    ],
    ids=("name", "stride", "factor", "initial", "weights", "wiring", "input"),
)
def test_whatever_changes_what_is_computed_counts(graph: Graph) -> None:
    assert fingerprint(graph) != fingerprint(write())


def test_evaluation_counts_where_the_loss_in_training_is_the_same() -> None:
    right = write()
    nodes = tuple(
        replace(node, inputs=(*node.inputs[:3], node.inputs[4], node.inputs[3]))
        if node.operator == "batch_norm_inference"
        else node
        for node in right.nodes
    )
    assert fingerprint(replace(right, nodes=nodes)) != fingerprint(right)


def test_names_and_order_of_what_does_not_depend_on_each_other_do_not_count() -> None:
    assert fingerprint(write(called="half")) == fingerprint(write())
    assert fingerprint(write(late=True)) == fingerprint(write())


def test_a_network_without_a_loss_has_none() -> None:
    with pytest.raises(ValueError, match="small has no loss"):
        fingerprint(replace(write(), loss=None))


EVERY = """
from capsule.levels import networks
from capsule.levels.catalog import training
from capsule.levels.graphs.fingerprint import fingerprint

for name in training.QUALITY:
    sizes = networks.find(name).complete({"batch": 1})
    print(name, fingerprint(networks.build(name, sizes)))
"""


def test_they_are_the_same_in_every_process() -> None:
    said = [
        subprocess.run(
            [sys.executable, "-c", EVERY],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert said[0] == said[1]
    known = dict(line.split() for line in said[0].splitlines())
    assert known.keys() == training.QUALITY.keys()
    assert len(set(known.values())) == len(known)
    # on every machine, in every version of Python
    assert {name: known[name] for name in PINNED} == PINNED


PINNED = {
    "cosmoflow": "244012886208214",
    "deepcam": "192706562096",
    "lenet": "135601959550495",
    "transformer": "210352371760203",
}
