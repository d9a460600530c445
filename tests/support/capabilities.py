"""The calls of a framework that has them, as a trial takes them."""

from collections.abc import Mapping

from capsule.levels.frameworks.base import Call, Framework, NativeTensor
from capsule.levels.graphs.graph import Graph
from capsule.levels.operators import Operator

Tensors = Mapping[str, NativeTensor]


def inference(framework: Framework, graph: Graph, values: Tensors) -> Call:
    assert framework.networks is not None
    return framework.networks.inference(graph, values)


def alone(framework: Framework, graph: Graph, values: Tensors) -> Call:
    assert framework.networks is not None
    return framework.networks.alone(graph, values)


def training(framework: Framework, graph: Graph, values: Tensors) -> Call:
    assert framework.networks is not None
    assert framework.networks.training is not None
    return framework.networks.training(graph, values)


def operation(
    framework: Framework,
    operator: Operator,
    sizes: Mapping[str, int],
    tensors: tuple[NativeTensor, ...],
) -> Call:
    assert framework.operators is not None
    return framework.operators.operation(operator, sizes, tensors)


def gradient(
    framework: Framework,
    operator: Operator,
    sizes: Mapping[str, int],
    tensors: tuple[NativeTensor, ...],
    upstream: tuple[NativeTensor, ...],
) -> Call:
    """By all inputs that the operator is differentiated by."""
    assert framework.operators is not None
    assert framework.operators.gradient is not None
    wrt = operator.wrt(sizes)
    return framework.operators.gradient(operator, sizes, tensors, wrt, upstream)
