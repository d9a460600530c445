"""A machine on one screen: its hardware, its engines, and why an engine is unusable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from capsule.inventory import at, entries_at
from capsule.jsons import Json
from capsule.report.terminal.style import grid, text
from capsule.runtimes.base import Availability

if TYPE_CHECKING:
    from rich.console import RenderableType

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
# the widest vectors that a processor has, widest first, as the kernel names them
_VECTORS = ("amx_tile", "avx512f", "avx2", "avx", "sve2", "sve", "asimd", "vsx")
_NICS = 4


def draw_inventory(
    node: Mapping[str, Json], engines: Mapping[str, Availability]
) -> tuple[RenderableType, ...]:
    """An inventory in brief; `--json` has all of it, and what could not be read.

    Args:
        node: As `inventory.node` gives it.
        engines: By name.
    """
    rows = grid()
    for name, value in _rows(node, engines):
        rows.add_row(name, text(value))
    unread = len(_mapping(node, "missing"))
    if not unread:
        return (rows,)
    return rows, text(
        f"{unread} facts could not be read: --json lists each fact with the reason", "dim"
    )


def _rows(
    node: Mapping[str, Json], engines: Mapping[str, Availability]
) -> Iterator[tuple[str, str]]:
    yield "machine", _join(_machine(node))
    yield "system", _join(_system(node))
    yield "processor", _join(_processor(node))
    yield "", _join(_settings(node))
    yield "memory", _join(_memory(node))
    yield "limits", _join(_limits(node)) or "none below the machine's capacity"
    yield from _under("GPUs", _gpus(node))
    yield from _under("network", _network(node))
    yield from _under("engines", _engines(engines))


def _under(name: str, lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """A heading beside the first of several lines."""
    for line in lines:
        yield name, line
        name = ""


def _join(words: Iterable[str]) -> str:
    return ", ".join(words)


def _machine(node: Mapping[str, Json]) -> Iterator[str]:
    names = (at(node, "class", "machine", name) for name in ("vendor", "product"))
    yield " ".join(str(name) for name in names if name) or "unknown maker"
    if at(node, "class", "machine", "virtual"):
        yield "virtual"


def _system(node: Mapping[str, Json]) -> Iterator[str]:
    system = ("state", "system")
    words = (at(node, *system, name) for name in ("distribution", "distribution_version"))
    yield " ".join(str(word) for word in words if word) or "unknown distribution"
    yield f"Linux {at(node, *system, 'kernel_release') or 'of unknown release'}"
    if architecture := at(node, "class", "cpu", "architecture"):
        yield str(architecture)


def _processor(node: Mapping[str, Json]) -> Iterator[str]:
    cpu = ("class", "cpu")
    yield str(at(node, *cpu, "model") or "unknown processor")
    for name, one in (("sockets", "socket"), ("cores", "core"), ("threads", "thread")):
        count = at(node, *cpu, name)
        if isinstance(count, int):
            yield _count(count, one)
    if isinstance(hertz := at(node, *cpu, "frequency_max_hertz"), int):
        yield f"up to {hertz / 1e9:.3g} GHz"


def _settings(node: Mapping[str, Json]) -> Iterator[str]:
    features = entries_at(node, "class", "cpu", "features")
    if vectors := [name for name in _VECTORS if name in features]:
        yield f"vectors {vectors[0]}"
    caches = entries_at(node, "class", "cpu", "caches")
    if sizes := [_cache(cache) for cache in caches if at(cache, "type") != "instruction"]:
        yield f"caches {' + '.join(sizes)}"
    cpu = ("state", "cpu")
    if governor := at(node, *cpu, "governor"):
        yield f"governor {governor}"
    if (threads := at(node, *cpu, "smt")) in ("on", "off", "forceoff"):
        yield f"SMT {threads}"
    if isinstance(boost := at(node, *cpu, "boost"), bool):
        yield f"boost {'on' if boost else 'off'}"


def _cache(cache: Json) -> str:
    instances = at(cache, "instances")
    times = f"{instances} x " if instances != 1 else ""
    return f"L{at(cache, 'level')} {times}{_size(at(cache, 'size_bytes'))}"


def _memory(node: Mapping[str, Json]) -> Iterator[str]:
    yield _size(at(node, "class", "memory", "total_bytes"))
    available = at(node, "state", "momentary", "memory", "available_bytes")
    if available is not None:
        yield f"{_size(available)} available now"
    yield from map(_module, entries_at(node, "class", "memory", "modules"))
    if nodes := entries_at(node, "class", "memory", "numa_nodes"):
        yield _count(len(nodes), "NUMA node")


def _module(module: Json) -> str:
    return f"{at(module, 'count')} x {_size(at(module, 'size_bytes'))} {at(module, 'type')}"


def _limits(node: Mapping[str, Json]) -> Iterator[str]:
    """Yield the limits of this process below the machine's capacity."""
    limits = ("state", "limits")
    count, threads = at(node, *limits, "cpu_count"), at(node, "class", "cpu", "threads")
    if isinstance(count, int) and count != threads:
        yield f"may run on {count} of {threads} threads"
    if isinstance(quota := at(node, *limits, "cpu_quota"), int | float):
        yield f"CPU time of at most {quota:g} processors"
    if memory := at(node, *limits, "memory_bytes"):
        yield f"at most {_size(memory)} of memory"


def _gpus(node: Mapping[str, Json]) -> Iterator[str]:
    gpus = entries_at(node, "class", "gpus")
    if not gpus:
        yield f"none ({at(node, 'missing', '/class/gpus') or 'unknown reason'})"
        return
    yield from (f"{count} x {line}" for line, count in Counter(map(_gpu, gpus)).items())
    driver = ("state", "gpu_driver")
    versions = {
        "NVIDIA driver": at(node, *driver, "nvidia_version"),
        "CUDA": at(node, *driver, "cuda_version"),
        "amdgpu driver": at(node, *driver, "amdgpu_version"),
    }
    if lines := [f"{name} {version}" for name, version in versions.items() if version]:
        yield _join(lines)


def _gpu(gpu: Json) -> str:
    words = [str(at(gpu, "model") or "unknown model")]
    if (size := at(gpu, "memory_bytes")) is not None:
        words.append(_size(size))
    if capability := at(gpu, "compute_capability"):
        words.append(f"compute capability {capability}")
    return _join(words)


def _network(node: Mapping[str, Json]) -> Iterator[str]:
    interfaces = [
        _interface(name, facts, at(node, "state", "network", "interfaces", name, "state"))
        for name, facts in _mapping(node, "class", "network", "interfaces").items()
    ]
    adapters = [
        _adapter(name, facts)
        for name, facts in _mapping(node, "class", "network", "infiniband").items()
    ]
    lines = [*adapters, *interfaces]
    yield from lines[:_NICS]
    if len(lines) > _NICS:
        yield f"and {len(lines) - _NICS} more"
    if not lines:
        yield "no network interface with a hardware device"


def _interface(name: str, facts: Json, state: Json) -> str:
    words = [f"{name} ({at(facts, 'driver') or 'unknown driver'})"]
    if isinstance(speed := at(facts, "speed_bits_per_second"), int):
        words.append(f"{speed / 1e9:g} Gbit/s")
    return _join([*words, str(state)] if state else words)


def _adapter(name: str, facts: Json) -> str:
    ports = _mapping(facts, "ports").values()
    rates = Counter(str(at(port, "rate") or "unknown rate") for port in ports)
    return _join([f"{name} (InfiniBand)", *(f"{n} x {rate}" for rate, n in rates.items())])


def _engines(engines: Mapping[str, Availability]) -> Iterator[str]:
    for name, engine in engines.items():
        if engine.usable:
            yield f"{name}: usable, {engine.version or 'of unknown version'}"
        else:
            yield f"{name}: not usable, {engine.reason}"


def _count(count: int, one: str) -> str:
    return f"{count} {one}{'s' * (count != 1)}"


def _size(size: Json) -> str:
    """Bytes as people say them.

    >>> _size(1536), _size(25276510208), _size(None)
    ('1.5 KiB', '23.5 GiB', 'unknown size')
    """
    if not isinstance(size, int):
        return "unknown size"
    value, unit = float(size), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.3g} {_UNITS[unit]}"


def _mapping(value: Json, *names: str) -> Mapping[str, Json]:
    inner = at(value, *names)
    return inner if isinstance(inner, Mapping) else {}
