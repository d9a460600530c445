"""The networks of the catalogue, as a user asks about them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import capsule.levels
from capsule import process
from capsule.errors import BugError, UsageError
from capsule.levels import catalog
from capsule.manifest.problems import nearest

_ADVICE = "correct the sizes after the name of the network, such as batch=8"


@dataclass(frozen=True, kw_only=True)
class Description:
    """Facts about a network, known before it runs.

    Attributes:
        name: As in a manifest.
        sizes: Its batch and every option, those that were left out with their defaults.
        parameters: How many numbers are trained.
        forward_flops_per_sample: FLOP of inference; a product and its addition are two.
        inputs: Shapes by name, the batch first; what the loss alone reads too.
        outputs: Shapes of what inference yields.
        frameworks: That can run it.
    """

    name: str
    sizes: Mapping[str, int]
    parameters: int
    forward_flops_per_sample: int
    inputs: Mapping[str, tuple[int, ...]]
    outputs: tuple[tuple[int, ...], ...]
    frameworks: tuple[str, ...]


def describe(name: str, sizes: Mapping[str, int]) -> Description:
    """Describe a network of the catalogue.

    Args:
        name: As in a manifest.
        sizes: `batch`, 1 where it is left out, and any options.

    Raises:
        UsageError: There is no such network, or the sizes are wrong.
    """
    network = catalog.NETWORKS.get(name)
    if network is None:
        near = nearest(name, catalog.NETWORKS)
        raise UsageError(
            f"unknown network {name!r}" + (f"; did you mean {near}?" if near else ""),
            advice=f"known networks: {', '.join(catalog.NETWORKS)}",
        )
    try:
        complete = network.complete({"batch": 1, **sizes})
    except ValueError as error:
        raise UsageError(str(error), advice=_ADVICE) from None
    # graphs are made by the program that runs in images, which the host does not import
    program = Path(capsule.levels.__file__).parent
    done = process.run(
        [sys.executable, "-I", str(program), "describe", "network", name, json.dumps(complete)]
    )
    if done.exit_code == 2:
        raise UsageError(done.stderr.decode(errors="replace").strip(), advice=_ADVICE)
    if done.exit_code != 0:
        raise BugError(done.stderr.decode(errors="replace").strip())
    answer = json.loads(done.stdout)
    return Description(
        name=name,
        sizes={key: size for key, size in complete.items() if key != catalog.networks.LIMIT.name},
        parameters=answer["parameters"],
        forward_flops_per_sample=answer["forward_flops_per_sample"],
        inputs={key: tuple(shape) for key, shape in answer["inputs"].items()},
        outputs=tuple(map(tuple, answer["outputs"])),
        frameworks=network.frameworks,
    )


def draw(network: Description) -> Sequence[str]:
    """Return the description in lines."""
    rows = {
        "network": network.name,
        "sizes": ", ".join(f"{name} {size}" for name, size in network.sizes.items()),
        "parameters": f"{network.parameters:,}",
        "work": f"{network.forward_flops_per_sample:,} FLOPs per sample in the forward pass",
        "takes": ", ".join(f"{name} {_shape(shape)}" for name, shape in network.inputs.items()),
        "yields": ", ".join(map(_shape, network.outputs)),
        "frameworks": ", ".join(network.frameworks),
    }
    return [f"{title:11} {text}" for title, text in rows.items()]


def _shape(lengths: Sequence[int]) -> str:
    return " x ".join(map(str, lengths))
