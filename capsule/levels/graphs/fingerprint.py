"""Fingerprint of a graph: one number that is equal on every machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from . import statistics
from .graph import Graph, Parameter


def fingerprint(graph: Graph) -> int:
    """48 bits that tell which network it is; a sample holds so many exactly.

    Every value of the graph has a digest, the SHA-256 of canonical JSON: an input's of its name and
    attributes, a parameter's of its name, shape and what it starts as, a node's of its operator,
    sizes, shape and the digests of what it reads. The number is of those of the outputs, of the
    loss in training and of the loss in evaluation. So what nodes are called, and which of two that
    do not depend on each other comes first, do not count; names of inputs, of parameters and of the
    network do, since data, masks and initial values follow from them.

    Args:
        graph: Graph of one sample, which tells networks apart and not batches; with a loss.

    Raises:
        ValueError: It has no loss, or no form for evaluation.
    """
    evaluation = statistics.evaluation(graph)
    trained, evaluated = _digests(graph), _digests(evaluation)
    losses = trained[graph.require_loss()], evaluated[evaluation.require_loss()]
    outputs = [trained[name] for name in graph.outputs]
    return int.from_bytes(_digest("network", graph.name, outputs, losses)[:6], "big")


def _digests(graph: Graph) -> dict[str, str]:
    """Return the digest of each value, by name."""
    known = {
        name: _digest("input", name, one.shape, one.below, one.percent, one.is_latent).hex()
        for name, one in graph.inputs.items()
    }
    for name, one in graph.parameters.items():
        known[name] = _digest(
            *("parameter", name, one.shape, one.initial, one.bound, one.trainable, _values(one))
        ).hex()
    for node in graph.nodes:
        read = [known[name] for name in node.inputs]
        known[node.name] = _digest("node", node.operator, node.sizes, node.shape, read).hex()
    return known


def _values(parameter: Parameter) -> list[float] | None:
    """Return the values that the network brings."""
    import numpy

    if parameter.value is None:
        return None
    values: list[float] = numpy.asarray(parameter.value, numpy.float64).ravel().tolist()
    return values


def _digest(*words: Any) -> bytes:
    return sha256(json.dumps(_plain(words), separators=(",", ":")).encode("ascii")).digest()


def _plain(value: Any) -> Any:
    """Without floats, and with mappings in the order of their keys."""
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, Mapping):
        return [[key, _plain(value[key])] for key in sorted(value)]
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value
