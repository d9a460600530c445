"""Refuse a trial that cannot fit before the machine's memory killer does."""

from __future__ import annotations

from math import prod
from pathlib import Path

from ..frameworks import Framework
from ..graphs.graph import Graph
from ..operators import ARITHMETIC, Operator
from ..operators.base import Sizes

ARRAYS = 4
"""Float64 arrays per value and parameter that reference and bounds of a network hold."""

_GIB = 2.0**30
_LIMITS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def fits(
    operator: Operator,
    sizes: Sizes,
    dtype: str,
    framework: Framework,
    differentiates: bool,
    reserve: int = 0,
    *,
    on_device: bool = False,
) -> None:
    """Compare what a trial needs at least with what is free, on the device and in the host.

    A tensor counts once for itself, and with a gradient once more on either side. References and
    bounds, for two sets of values, hold about six arrays of float64 (or longdouble) per input and
    output element: in the host, or with as much again on the device.

    Args:
        operator: What runs.
        sizes: Its sizes and options.
        dtype: Element type of its tensors.
        framework: Where it runs.
        differentiates: True if gradients are taken.
        reserve: Bytes of the device that are needed besides.
        on_device: True if references and bounds lie on the device.

    Raises:
        MemoryError: It needs more; the message names both figures.
    """
    elements = sum(prod(tensor.shape) for tensor in operator.tensors(sizes).values())
    elements += sum(map(prod, operator.outputs(sizes)))
    arithmetic = ARITHMETIC[dtype]
    native = elements * arithmetic.bytes * (3 if differentiates else 1)
    wide = 16 if arithmetic.wider == "longdouble" else 8
    beside = elements * wide * 6 + operator.workspace(sizes) * wide
    _compare(framework, native + reserve, beside, on_device=on_device)


def network_fits(
    graph: Graph,
    checked: Graph,
    dtype: str,
    framework: Framework,
    trains: bool,
    arrays: int = ARRAYS,
    reserve: int = 0,
    *,
    on_device: bool = False,
) -> None:
    """`fits` for a network.

    Inputs and parameters count once, trained parameters once more for their gradients. A node's
    inputs and result are there at once; training keeps what nodes with a trained parameter read.
    Of `checked` the reference and the bounds hold arrays of float64 (or longdouble) per value and
    per parameter.

    Args:
        graph: The network for as many examples as run at once.
        checked: The same for those that are held to the reference.
        dtype: Element type of its tensors.
        framework: Where it runs.
        trains: True if it is trained.
        arrays: How many there are of `checked`.
        reserve: See `fits`.
        on_device: True if those of `checked` lie on the device.

    Raises:
        MemoryError: See `fits`.
    """
    arithmetic = ARITHMETIC[dtype]
    fixed = sum(prod(tensor.shape) for tensor in graph.inputs.values())
    fixed += sum(prod(parameter.shape) for parameter in graph.parameters.values())
    sizes = {node.name: prod(node.shape) for node in graph.nodes}
    moving = max(
        sizes[node.name] + sum(sizes.get(name, 0) for name in {*node.inputs})
        for node in graph.inference
    )
    if trains:
        trained = set(graph.trainable)
        kept = {name for node in graph.training if trained & {*node.inputs} for name in node.inputs}
        moving = max(moving, sum(sizes.get(name, 0) for name in kept))
        moving += sum(prod(graph.parameters[name].shape) for name in trained)
    native = (fixed + moving) * arithmetic.bytes
    wide = 16 if arithmetic.wider == "longdouble" else 8
    elements = sum(prod(node.shape) for node in checked.nodes)
    elements += sum(prod(parameter.shape) for parameter in checked.parameters.values())
    _compare(framework, native + reserve, elements * wide * arrays, on_device=on_device)


def _compare(framework: Framework, native: int, beside: int, *, on_device: bool) -> None:
    if framework.memory is None:
        _refuse("the machine", native + beside, host_free())
    elif on_device:
        # the least that is needed: what hardly fits is left to the host
        _refuse("the device", native + 2 * beside, framework.memory.free())
    else:
        _refuse("the device", native, framework.memory.free())
        _refuse("the machine", beside, host_free())


def host_free() -> int | None:
    """Return the bytes that this process can still use: the machine's, or its cgroup's if fewer.

    None where the system does not say.
    """
    known = [value for value in (_available(), _cgroup()) if value is not None]
    return min(known) if known else None


def _refuse(where: str, needed: int, free: int | None) -> None:
    if free is not None and needed > free:
        raise MemoryError(
            f"out of memory before the start: needs {needed / _GIB:.1f} GiB,"
            f" {where} has {free / _GIB:.1f} GiB free"
        )


def _available() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _cgroup() -> int | None:
    for limit, usage in _LIMITS:
        try:
            most = Path(limit).read_text(encoding="ascii").strip()
            used = int(Path(usage).read_text(encoding="ascii"))
        except (OSError, ValueError):
            continue
        if most.isdigit():
            return max(0, int(most) - used)
    return None
