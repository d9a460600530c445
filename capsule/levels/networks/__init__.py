"""Level 1: whole networks, written once as graphs of Level 0 operators.

    graph           what a network is: inputs, parameters, nodes, outputs, loss
    builder         how one is written; `convolutional`, `residual`, `unet`, `transformer` do
    structure       operators that networks need beside Level 0's
    values          inputs and weights from a seed
    reference       forward and backward in numpy, in more bits than the dtype has
    bounds          how far a right implementation can be off

A network of one's own is a `.onnx` file, or a Python file that defines at its top level:

    parameters = ("batch",)             names of its sizes
    options = {"width": 64}             optional: further whole numbers >= 0, with defaults

    def network(g, sizes):              writes the network with a `builder.Builder` and returns
        ...                             `g.graph(outputs, loss)`; see `builder` for an example

or one that makes a `torch.nn.Module`; see `catalog.modules`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType

from .. import catalog
from ..catalog import modules, users
from ..graphs.builder import Builder
from ..graphs.graph import Graph
from ..sources import import_file

__all__ = ["Builder", "Graph", "build", "find", "read_module"]


def find(name: str, source: str | None = None, *, trains: bool = True) -> catalog.Network:
    """Return the entry of a network of the catalogue, or of the user's one that a file defines.

    Args:
        name: As the trial calls it.
        source: Path of a user's `.py` or `.onnx` file.
        trains: True if the training of a user's network is measured.

    Raises:
        ValueError: There is none, or the file does not define one.
    """
    if source is None:
        if name not in catalog.NETWORKS:
            raise ValueError(f"unknown network {name!r}; known: {', '.join(catalog.NETWORKS)}")
        return catalog.NETWORKS[name]
    path = Path(source)
    if path.suffix == ".onnx":
        return users.make_onnx_network(name, trains=trains)
    if read_module(path):
        return users.make_module_network(name, trains=trains)
    module = _module(path)
    options = getattr(module, "options", {})
    try:
        return users.make_network(name, module.parameters, options, trains=trains)
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None


def build(name: str, sizes: Mapping[str, int], source: str | None = None) -> Graph:
    """Return a network for one batch size.

    Args:
        name: As the trial calls it.
        sizes: `batch`, and any of the options that `find` lists.
        source: See `find`.

    Raises:
        ValueError: There is no such network, the file does not define one, or sizes are wrong.
    """
    complete = find(name, source).complete(sizes)
    if source is None:
        module = import_module(f".{catalog.NETWORKS[name].module}", __package__)
        write = module.NETWORKS[name]
    elif source.endswith(".onnx"):
        from ..graphs.onnx import exchange

        return exchange.load(source, complete)
    else:
        write = _module(Path(source)).network
    graph = write(Builder(name), complete)
    if not isinstance(graph, Graph):
        raise ValueError(f"network() of {source} returned {type(graph).__name__}, not g.graph(...)")
    return graph


def read_module(source: Path) -> modules.Module | None:
    """Read a file's `torch.nn.Module`; return None if it writes a network layer by layer.
    See `catalog.modules`.

    Raises:
        ValueError: The file defines neither.
    """
    module = import_file(source, ("network",))
    if hasattr(module, "parameters") or not hasattr(module, "inputs"):
        return None
    try:
        return modules.read(module.inputs, getattr(module, "quality", None))
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None


def _module(source: Path) -> ModuleType:
    return import_file(source, users.NETWORK_NEEDED)
