"""Facts in a user's file about its operator or network, by one rule for host and image.

The host takes the names from the file's syntax tree and executes nothing of it, the image takes
them from the imported module. Both make the same catalogue entry, and so agree on cases, metrics
and frameworks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from . import networks
from .frameworks import FRAMEWORKS
from .metrics import OPERATOR_METRICS, MetricFacts
from .types import Network, Operator, Option

NEEDED = ("parameters", "tensors", "outputs", "flops", "forward", "backward")
"""Names that an operator's file must define at its top level; see `operators.user`."""

NETWORK_NEEDED = ("parameters", "network")
"""Names that a network's file must define at its top level; see `networks`."""

# letters alone between numbers, so that no two cases have one name
_NAME = re.compile(r"[A-Za-z][A-Za-z_]{0,31}")
_RESERVED = "name"  # a case's own


def make_operator(
    name: str, parameters: object, options: object, defined: Iterable[str]
) -> Operator:
    """Return the catalogue's entry of a user's operator.

    Args:
        name: How trials call it.
        parameters: The file's `parameters`.
        options: The file's `options`, `{}` where it has none.
        defined: Names of the file's functions.

    Raises:
        ValueError: `parameters` or `options` is not what it has to be.
    """
    functions = set(defined)
    sizes = _check_parameters(parameters)
    return Operator(
        name=name,
        module="user",
        parameters=sizes,
        options=_check_options(options, sizes),
        cases={},
        metrics=OPERATOR_METRICS,
        frameworks=tuple(
            framework
            for framework, facts in FRAMEWORKS.items()
            if facts.user_operators == "formula"
            or (facts.user_operators == "function" and framework in functions)
        ),
    )


def make_network(name: str, parameters: object, options: object, *, trains: bool = True) -> Network:
    """Return the catalogue's entry of a network that a user's Python file writes.

    Args:
        name: How trials call it.
        parameters: The file's `parameters`.
        options: The file's `options`, `{}` where it has none.
        trains: True if training is measured too, which needs a loss.

    Raises:
        ValueError: `parameters` or `options` is not what it has to be.
    """
    expected = networks.PARAMETERS
    if _check_parameters(parameters) != expected:
        raise ValueError(f"parameters is {parameters!r}, expected {expected!r} for a network")
    chosen = _check_options(options, (*expected, networks.LIMIT.name))
    return _make_network(name, "user", chosen, trains)


def make_onnx_network(name: str, *, trains: bool) -> Network:
    """Return the catalogue's entry of a network that comes as an ONNX file; see `make_network`."""
    return _make_network(name, "exchange", (), trains)


def make_module_network(name: str, *, trains: bool) -> Network:
    """Return the catalogue's entry of a `torch.nn.Module` of a user's file; see `make_network`."""
    network = networks.make_network(name, "module", (), {})
    metrics = (*network.metrics, *MODULE_METRICS)
    known = (*_OF_MODULES, *(_OF_TRAINED_MODULES if trains else ()))
    return replace(
        network,
        options=(),
        metrics=tuple(one for one in metrics if one.name in known),
        frameworks=tuple(key for key, facts in FRAMEWORKS.items() if facts.modules),
    )


MODULE_METRICS = (MetricFacts("node_error_ratio", "1", "lower", "portable", 0.0, "trial", "nodes"),)
"""Metrics of operations that are bounded only in the norm."""

_OF_MODULES = (
    *("inference_time", "inference_latency", "inference_throughput", "peak_memory_bytes"),
    *("parameters", "repeatable"),
    *("l1_error", "l2_error", "max_error", "relative_error", "l2_error_ratio"),
    *("layer_time", "framework_overhead"),
)
"""Metrics of a module: of its layers nothing is known but what its operations take."""

_OF_TRAINED_MODULES = (
    *("training_time", "training_latency", "training_throughput", "loss"),
    *("grad_l2_error_ratio", "gradient_check"),
    *("node_error_ratio", "bound_share", "layer_backward_time"),
)
"""Further metrics if gradients are measured."""


def _make_network(name: str, module: str, options: tuple[Option, ...], trains: bool) -> Network:
    network = networks.make_network(name, module, options, {})
    of_training = () if trains else ("gradient", "nodes")
    metrics = tuple(metric for metric in network.metrics if metric.needs not in of_training)
    return replace(network, metrics=metrics)


def _check_parameters(parameters: object) -> tuple[str, ...]:
    """Return a file's `parameters`.

    Raises:
        ValueError: They are not names, each there once.
    """
    names = list(parameters) if isinstance(parameters, (tuple, list)) else []
    if not names or not all(map(_is_name, names)) or len(set(names)) < len(names):
        raise ValueError(
            f"parameters is {parameters!r:.80}, expected a tuple of different names of letters and"
            ' _, such as ("n",)'
        )
    return tuple(names)


def _check_options(options: object, taken: tuple[str, ...]) -> tuple[Option, ...]:
    """Return a file's `options`.

    Raises:
        ValueError: They are not names, other than those of `taken`, with whole numbers.
    """
    if not isinstance(options, dict) or not all(
        _is_name(name) and name not in taken and type(value) is int and value >= 0
        for name, value in options.items()
    ):
        raise ValueError(
            f"options is {options!r:.80}, expected a dictionary from names of options to whole"
            ' numbers >= 0, such as {"stride": 1}; no option may have the name of a parameter'
        )
    return tuple(Option(name, value, 0, None) for name, value in options.items())


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(_NAME.fullmatch(value)) and value != _RESERVED
