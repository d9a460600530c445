"""Wrong lines of the package that a verification of a mini has to notice."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from capsule import __version__

ROOT = Path(__file__).parents[1]

SEEDS = 2
"""Of the mini's ten, that a faulty capsule is sealed with."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One line of the package that is wrong.

    Attributes:
        name: For people.
        mini: The training in which it is planted.
        file: Below `capsule/levels`.
        right: The words that are there.
        wrong: What stands there instead.
    """

    name: str
    mini: str
    file: str
    right: str
    wrong: str


FAULTS = {
    "rate": Fault(
        name="learning rate x 3",
        mini="lenet",
        file="frameworks/torch/training.py",
        right='group["lr"] = rate',
        wrong='group["lr"] = 3 * rate',
    ),
    "slope": Fault(
        name="slope of LeakyReLU 0.01 for 0.3, in the network",
        mini="cosmoflow",
        file="networks/cosmoflow.py",
        right="_SLOPE_PERCENT = 30",
        wrong="_SLOPE_PERCENT = 1",
    ),
    "slope-torch": Fault(
        name="slope of LeakyReLU 0.01 for 0.3, in torch's operator alone",
        mini="cosmoflow",
        file="frameworks/torch/operators.py",
        right='functional.leaky_relu, (x, sizes["percent"] / 100)',
        wrong='functional.leaky_relu, (x, sizes["percent"] / 3000)',
    ),
    "weights": Fault(
        name="loss divided by the sum of weights",
        mini="deepcam",
        file="frameworks/torch/operators.py",
        right='functional.cross_entropy(x, labels, weights, reduction="none").mean()',
        wrong="functional.cross_entropy(x, labels, weights)",
    ),
    "evaluation": Fault(
        name="evaluation on training data",
        mini="lenet",
        file="level2/__init__.py",
        right="inputs, graph = trial.test.take(indices)",
        wrong="inputs, graph = trial.train.take(indices)",
    ),
    "order": Fault(
        name="shuffling left out",
        mini="lenet",
        file="data/samplers.py",
        right="return places.astype(numpy.int64, copy=False)",
        wrong="return numpy.arange(count)",
    ),
}


def copy_package(fault: Fault, folder: Path) -> Path:
    """A copy of the package, with the fault, which calls itself another release.

    One that called itself this one would be refused at once, because its program is another.

    Raises:
        ValueError: The line is not there, once.
    """
    package = folder / "faulty" / "capsule"
    text = plant(fault)
    shutil.copytree(ROOT / "capsule", package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "levels" / fault.file).write_text(text, encoding="utf-8")
    release = package / "__init__.py"
    named = release.read_text(encoding="utf-8").replace(__version__, f"{__version__}+fork")
    release.write_text(named, encoding="utf-8")
    return package


def plant(fault: Fault) -> str:
    """The text of its file, with the fault.

    Raises:
        ValueError: The line is not there, once.
    """
    text = (ROOT / "capsule" / "levels" / fault.file).read_text(encoding="utf-8")
    if text.count(fault.right) != 1:
        raise ValueError(f"{fault.file} does not have {fault.right!r} once")
    return text.replace(fault.right, fault.wrong)
