"""Fingerprints of trainings: of the order of samples, of what is judged by, of the network."""

from pathlib import Path
from typing import Any

import numpy

from capsule.levels import frameworks
from capsule.levels.catalog import training
from capsule.levels.data import samplers
from capsule.levels.graphs.fingerprint import fingerprint
from capsule.levels.networks import build
from tests.support.jobs import needs_torch
from tests.support.trainings import measure


@needs_torch
def test_fingerprints_are_those_of_what_was_taken_and_of_what_it_was_judged_by(
    glyphs: Path,
) -> None:
    def read(name: str, seed: int, **recipe: Any) -> list[float]:
        loaded = frameworks.load(name, "cpu", 1, "default")
        values = measure(loaded, glyphs, seed, **{"epochs": 3, **recipe})
        return [values[metric][0] for metric in ("order_fingerprint", "test_fingerprint")]

    order, test = read("numpy", 17)
    assert read("torch", 17, optimizer={"name": "adam", "lr": 0.001}) == [order, test]
    due = samplers.Fingerprint()
    for epoch in (0, 1):
        due.add("order", samplers.shuffle(90, 17, epoch)[:80])
    assert order == due.value()
    other_order, same_test = read("numpy", 18, batch=7)
    assert other_order != order
    assert same_test == test
    judged = samplers.Fingerprint()
    for name in ("image", "label"):
        judged.add(name, numpy.load(glyphs / f"test_{name}.npy"))
    assert test == judged.value()


@needs_torch
def test_the_network_is_told_from_others_in_every_framework_and_dtype(glyphs: Path) -> None:
    def read(name: str, seed: int = 17, **recipe: Any) -> float:
        loaded = frameworks.load(name, "cpu", 1, "default")
        (value,) = measure(loaded, glyphs, seed, epochs=1, **recipe)["network_fingerprint"]
        return value

    graph = build("lenet", {"batch": 1, "side": 12, "classes": 3})
    assert read("numpy") == fingerprint(graph)
    adam = {"name": "adam", "lr": 0.001}
    assert read("torch", 18, batch=30, optimizer=adam) == fingerprint(graph)
    assert read("torch", dtype=training.MIXED, accumulate=2) == fingerprint(graph)
    assert read("numpy", parameters={"side": 12, "classes": 4}) != fingerprint(graph)
