"""Frameworks of a manifest that lack its device."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from capsule.levels import catalog
from capsule.manifest.model import Benchmark


def list_lacking(frameworks: Collection[str], device: str) -> tuple[str, ...]:
    """Return the frameworks of a benchmark that lack the device; none if all of them do.

    A benchmark without a framework is wrong, so of such frameworks each is refused.

    Args:
        frameworks: Names, unknown ones too.
        device: `cpu` or `cuda`.

    >>> list_lacking(["torch", "jax"], "cuda"), list_lacking(["numpy", "jax"], "cuda")
    (('jax',), ())
    """
    lacking = tuple(name for name in frameworks if catalog.refuse_device(name, device))
    return lacking if len(lacking) < len(frameworks) else ()


def list_all_lacking(benchmarks: Iterable[Benchmark], device: str) -> tuple[str, ...]:
    """Return the frameworks that lack the device, of all benchmarks, each once."""
    lacking = (name for one in benchmarks for name in list_lacking(one.frameworks, device))
    return tuple(dict.fromkeys(lacking))
