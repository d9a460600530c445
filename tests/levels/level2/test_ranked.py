"""Trainings whose quality is made of the ranks of all scores, which are kept."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capsule.levels import frameworks, run
from capsule.levels.data import generators, predictions
from capsule.levels.journal import Samples
from capsule.levels.report import Report
from tests.support import trainings

MULTILABEL = {"side": 32, "classes": 3, "width": 2, "blocks": 1}
HEP = {"side": 16, "width": 2}
SCENES = {"samples": 12, "test_samples": 9, "side": 32, "classes": 3}
JETS = {"samples": 12, "test_samples": 9, "side": 16}


@pytest.mark.parametrize(
    ("network", "parameters", "generator", "data", "quality", "shape"),
    [
        ("multilabel", MULTILABEL, "scenes", SCENES, "mean_average_precision", (3, 9, 3)),
        ("hepcnn", HEP, "jets", JETS, "auc", (3, 9, 1)),
    ],
)
def test_their_scores_give_the_quality_again(
    tmp_path: Path,
    network: str,
    parameters: dict[str, int],
    generator: str,
    data: dict[str, int],
    quality: str,
    shape: tuple[int, ...],
) -> None:
    made = generators.generate(generator, data)
    folder, kept = tmp_path / "data", tmp_path / "kept"
    folder.mkdir()
    generators.write(made, folder)
    wanted = trainings.trial("numpy", folder, 17, network=network, batch=4, epochs=2)
    wanted = replace(wanted, parameters=parameters)
    lines: list[Samples] = []
    framework = frameworks.load("numpy", "cpu", 1, "default")
    run.load_level(2)(wanted, framework, Report(lines.append, folder=kept))
    values: dict[str, list[Any]] = {}
    for line in lines:
        values.setdefault(line.metric, []).extend(line.values)
    array = predictions.decode((kept / predictions.path("benchmark", "default")).read_bytes())
    assert array.shape == shape
    due = made["test_target" if network == "multilabel" else "test_label"]
    assert (array[0].reshape(due.shape) == due).all()
    assert predictions.qualities(quality, array) == values[quality]
    assert values[f"final_{quality}"] == [sum(values[quality]) / 2]
    assert max(values["exact_trajectory_error"]) < 1e-9
    assert values["evaluation_error"][0] < 1e-9
