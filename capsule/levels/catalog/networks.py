"""The networks of Level 1 with their options and sets of cases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .frameworks import FRAMEWORKS
from .metrics import NETWORK_METRICS
from .types import Network, Option, Point, name_point

PARAMETERS = ("batch",)

LIMIT = Option("limit_mib", 0, 0, None)
"""Device memory in MiB that training may take, 0 without a limit; minibatches are split to fit."""

DTYPES = ("float32", "tf32", "bfloat16", "float16")
"""Dtypes without float64: its reference in `longdouble`, without BLAS, would take minutes."""


def make_network(
    name: str,
    module: str,
    options: Iterable[Option],
    cases: Mapping[str, tuple[tuple[str, Point], ...]],
) -> Network:
    """Return an entry of `NETWORKS`, or one like it for a user's network; options go before
    `LIMIT`.
    """
    return Network(
        name=name,
        module=module,
        parameters=PARAMETERS,
        options=(*options, LIMIT),
        cases=cases,
        metrics=NETWORK_METRICS,
        frameworks=tuple(key for key, facts in FRAMEWORKS.items() if facts.networks),
        dtypes=DTYPES,
    )


_MOST = {"dropout": 99}
"""Upper limit of an option: percentages that leave something."""


def _network(
    name: str, module: str, options: Mapping[str, tuple[int, int]], **sets: Point
) -> Network:
    """Return a network of options with (default, least), and of sets with one case each."""
    chosen = [Option(option, *limits, _MOST.get(option)) for option, limits in options.items()]
    cases = {key: ((name_point(PARAMETERS, chosen, point), point),) for key, point in sets.items()}
    return make_network(name, module, chosen, cases)


_NETWORKS = (
    _network(
        "lenet",
        "convolutional",
        {"side": (28, 12), "classes": (10, 2)},
        quick={"batch": 4},
        paper={"batch": 64},
    ),
    _network(
        "alexnet",
        "convolutional",
        {"side": (224, 63), "classes": (1000, 2), "dropout": (0, 0)},
        quick={"batch": 2, "side": 64, "classes": 10},
        paper={"batch": 32},
    ),
    _network(
        "resnet9",
        "residual",
        {"side": (32, 8), "classes": (10, 2), "width": (64, 1), "dropout": (0, 0)},
        quick={"batch": 4, "width": 8},
        paper={"batch": 512},
    ),
    _network(
        "resnet18",
        "residual",
        {"side": (224, 32), "classes": (1000, 2)},
        quick={"batch": 2, "side": 64, "classes": 10},
        paper={"batch": 32},
    ),
    _network(
        "resnet44",
        "residual",
        {"side": (32, 8), "classes": (10, 2)},
        quick={"batch": 4},
        paper={"batch": 128},
    ),
    _network(
        "resnet50",
        "residual",
        {"side": (224, 32), "classes": (1000, 2)},
        quick={"batch": 2, "side": 64, "classes": 10},
        paper={"batch": 32},
    ),
    _network(
        "multilabel",
        "residual",
        {"side": (224, 32), "classes": (80, 1), "width": (64, 1), "blocks": (0, 0)},
        quick={"batch": 2, "side": 64, "classes": 10, "width": 8, "blocks": 1},
        paper={"batch": 32},
    ),
    _network(
        "hepcnn",
        "convolutional",
        {"side": (224, 16), "channels": (3, 1), "width": (128, 1)},
        quick={"batch": 4, "side": 32, "width": 8},
        paper={"batch": 8},
    ),
    _network(
        "unet",
        "unet",
        {"side": (256, 16), "width": (64, 1), "classes": (2, 2)},
        quick={"batch": 2, "side": 32, "width": 8},
        paper={"batch": 8},
    ),
    _network(
        "cosmoflow",
        "cosmoflow",
        {"side": (128, 8), "width": (32, 1), "dropout": (0, 0)},
        quick={"batch": 2, "side": 16, "width": 8},
        paper={"batch": 1},
    ),
    _network(
        "deepcam",
        "deepcam",
        {"height": (768, 16), "width": (1152, 16), "divisor": (1, 1), "middle": (16, 0)},
        quick={"batch": 2, "height": 32, "width": 48, "divisor": 32, "middle": 1},
        paper={"batch": 1},
    ),
    _network(
        "cosmogan",
        "cosmogan",
        {"side": (256, 4), "width": (64, 1), "layers": (4, 1), "latent": (64, 1)},
        quick={"batch": 4, "side": 16, "width": 4, "layers": 2, "latent": 8},
        paper={"batch": 64},
    ),
    _network(
        "transformer",
        "transformer",
        {
            "layers": (2, 1),
            "width": (64, 1),
            "heads": (4, 1),
            "length": (32, 1),
            "vocabulary": (256, 2),
            "dropout": (0, 0),
        },
        quick={"batch": 4},
        paper={
            "batch": 8,
            "layers": 12,
            "width": 768,
            "heads": 12,
            "length": 1024,
            "vocabulary": 50257,
        },
    ),
)

NETWORKS: dict[str, Network] = {network.name: network for network in _NETWORKS}
