"""A network as a graph of Level 0 operators: one description for every framework.

Nothing here computes. `builder` makes graphs, `reference` runs them in numpy, each framework of
`levels.frameworks` runs them with its own operations, and `onnx.exchange` reads and writes them as
ONNX.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Input:
    """Input of one call of the network.

    Attributes:
        shape: Lengths of its axes, the batch first.
        below: For whole numbers (tokens, class labels), from 0 to `below - 1`; None for reals.
        percent: Of a mask that dropout multiplies by, how many of a hundred elements are 0, the
            others 1; `values.noise` draws it anew for each step. None for what is no mask.
        is_latent: True if it is what a generator makes its samples of, nearly normal numbers that
            `values.noise` draws likewise.
    """

    shape: tuple[int, ...]
    below: int | None = None
    percent: int | None = None
    is_latent: bool = False


@dataclass(frozen=True)
class Parameter:
    """A weight, or a constant of the network.

    Attributes:
        shape: Lengths of its axes.
        initial: `uniform` over +-`bound`, `ones` or `zeros`; ignored where `value` is there.
        bound: See `initial`.
        trainable: True if the network is differentiated by it.
        value: A numpy array, of a network that comes with its weights.
    """

    shape: tuple[int, ...]
    initial: Literal["uniform", "ones", "zeros"] = "zeros"
    bound: float = 0.0
    trainable: bool = True
    value: Any = field(default=None, compare=False)


@dataclass(frozen=True)
class Node:
    """One operation.

    Attributes:
        name: Unique in its graph, also that of the value it yields.
        operator: Name of an operator of Level 0 or of `graphs.structure`.
        sizes: The operator's case, complete.
        inputs: Names of graph inputs, parameters and earlier nodes, in the order of the call.
        shape: Shape of the value.
        type: numpy's name of the type of the value's elements; None for the trial's real numbers.
    """

    name: str
    operator: str
    sizes: Mapping[str, Any]
    inputs: tuple[str, ...]
    shape: tuple[int, ...]
    type: str | None = None

    @property
    def operation(self) -> str:
        """Return the node's operation, for messages."""
        kind = self.sizes.get("kind")
        return self.operator if kind is None else f"{kind} of ONNX"


@dataclass(frozen=True)
class File:
    """The ONNX file that a network is, for what runs it as it is.

    Attributes:
        content: Content of the file.
        real: numpy's name of the type of its real numbers.
        inputs: By the network's names: the file's name, shape and type.
        outputs: The file's names of `values`.
        values: The network's outputs that these are.
    """

    content: bytes
    real: str
    inputs: Mapping[str, tuple[str, tuple[int, ...], str]]
    outputs: tuple[str, ...]
    values: tuple[str, ...]


@dataclass(frozen=True)
class Graph:
    """A network for one batch size.

    Attributes:
        name: As in the catalogue, or that of the user's file.
        inputs: By name, in the order of the call; labels too, which only the loss reads.
        parameters: By name.
        nodes: In an order in which each one's inputs are there before it.
        outputs: Names of the values that inference yields.
        loss: Name of the scalar that training lowers, None for a network without one.
        file: The file that it was read from, where that is of this batch.
        refusals: Why Level 0 has no operation for a node of ONNX, by name of the node.
    """

    name: str
    inputs: Mapping[str, Input]
    parameters: Mapping[str, Parameter]
    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]
    loss: str | None
    file: File | None = field(default=None, compare=False)
    refusals: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def trainable(self) -> tuple[str, ...]:
        """Return the names of the trained parameters, in order."""
        return tuple(name for name, parameter in self.parameters.items() if parameter.trainable)

    @property
    def noise(self) -> dict[str, Input]:
        """Return the inputs that no data has, by name: masks and what is latent."""
        return {
            name: one
            for name, one in self.inputs.items()
            if one.is_latent or one.percent is not None
        }

    @property
    def inference(self) -> tuple[Node, ...]:
        """Return the nodes that the outputs depend on, in order."""
        return self.nodes_for(self.outputs)

    @property
    def training(self) -> tuple[Node, ...]:
        """Return the nodes that the loss depends on, in order.

        Raises:
            ValueError: It has no loss.
        """
        return self.nodes_for((self.require_loss(),))

    def require_loss(self) -> str:
        """Name of the loss.

        Raises:
            ValueError: It has none.
        """
        if self.loss is None:
            raise ValueError(f"{self.name} has no loss, which training needs")
        return self.loss

    def nodes_for(self, values: Iterable[str]) -> tuple[Node, ...]:
        """Return the nodes that some values depend on, in order."""
        needed = set(values)
        nodes = []
        for node in reversed(self.nodes):
            if node.name in needed:
                needed |= set(node.inputs)
                nodes.append(node)
        return tuple(reversed(nodes))


def prune(graph: Graph) -> Graph:
    """Return the graph without what its outputs, its loss and inference of its loss do not depend
    on.
    """
    kept = {node.name for node in graph.inference}
    if graph.loss is not None:
        kept |= {node.name for node in graph.training}
        # the other form of what normalizes by batch, though no output depends on it
        twins = (
            f"{node.name}.inference" for node in graph.training if node.operator == "batch_norm"
        )
        kept |= {node.name for node in graph.nodes_for(twins)}
    nodes = tuple(node for node in graph.nodes if node.name in kept)
    read = {name for node in nodes for name in node.inputs} | set(graph.outputs)
    return Graph(
        graph.name,
        {name: tensor for name, tensor in graph.inputs.items() if name in read},
        {name: parameter for name, parameter in graph.parameters.items() if name in read},
        nodes,
        graph.outputs,
        graph.loss,
    )
