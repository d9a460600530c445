"""Files of the measuring code that a manifest needs and its capsule carries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from capsule.levels.catalog import FRAMEWORKS
from capsule.manifest import (
    LEVEL_OF_RANKS,
    Benchmark,
    Collective,
    Command,
    Manifest,
    Network,
    Operator,
    Reading,
    Recipe,
)

_ALWAYS = ("__init__.py", "__main__.py", "probe.py", "catalog/frameworks.py")
# the library of scripts, and what seeds them
_FOR_COMMANDS = ("library/", "seeding/")
_FOR_LEVELS = (
    *("run.py", "job.py", "fields.py", "journal.py", "report.py", "sources.py", "streams.py"),
    *("mpi.py", "recipe.py"),
    *("catalog/", "instruments/", "operators/"),
    *("frameworks/__init__.py", "frameworks/base.py", "frameworks/blas.py"),
    *("frameworks/inferring.py", "frameworks/kernels.py", "frameworks/settings.py"),
    "frameworks/trainers.py",
    # of these frameworks import what their networks need, for operators as well
    *("graphs/__init__.py", "graphs/graph.py", "graphs/reference.py", "graphs/statistics.py"),
    "graphs/structure.py",
)
_FOR_GRAPHS = ("describe.py", "graphs/", "networks/")
_FOR_TRAINING = ("level2/", "optimizers/", "data/", *_FOR_GRAPHS)
_FOR_RANKS = ("level3/", "communicators.py")


def parts(manifest: Manifest) -> tuple[str, ...]:
    """Return prefixes of the paths that a manifest needs below `levels/`, sorted."""
    needed = (part for one in manifest.benchmarks for part in _needs(one))
    return tuple(sorted({*_ALWAYS, *needed}))


def _needs(benchmark: Benchmark) -> Iterator[str]:
    match benchmark.subject:
        case Command():
            yield from _FOR_COMMANDS
            return
        case Operator():
            yield "level0/"
        case Network():
            yield "level1/"
            yield from _FOR_GRAPHS
        case Recipe(level=level):
            yield from _FOR_TRAINING
            yield from _FOR_RANKS if level == LEVEL_OF_RANKS else ()
        case Reading():
            yield from _FOR_TRAINING
        case Collective():
            yield from _FOR_TRAINING
            yield from _FOR_RANKS
    yield from _FOR_LEVELS
    yield from _of_frameworks(benchmark.frameworks)


def _of_frameworks(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        yield f"frameworks/{FRAMEWORKS[name].module}/"
        yield from FRAMEWORKS[name].parts
