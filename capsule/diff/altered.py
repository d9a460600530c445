"""Fields changed with `--set`, and the claims that their runs cannot judge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from capsule import quick
from capsule.diff import words
from capsule.manifest import mutable
from capsule.record import Record

if TYPE_CHECKING:
    from capsule.diff import Pair

_ALONE = ("threshold", "bound")
"""Types of claims that hold the re-execution's own runs against a number, whatever was set."""


def mark(pairs: Iterable[Pair], original: Record, rerun: Record) -> Iterator[Pair]:
    """The same pairs, but where what they compare was made under other values.

    Resources, and the workers of a training, change what is measured of a machine, and no quality.
    Another number of ranks changes what each of them exchanges too, and the last bits of all sums;
    where they are is no matter to either.
    The rest of a recipe may change all: what is compared with the original's runs is no evidence
    then.
    """
    changed = rerun.manifest.changed
    resources = mutable.of_resources(changed)
    has_other_ranks = original.manifest.resources.ranks != rerun.manifest.resources.ranks
    # each of their cases has as many ranks as it had
    swept = {one.id for one in rerun.manifest.benchmarks if one.scaling}
    recipes = {
        benchmark.id: mutable.of_benchmark(changed, index)
        for index, benchmark in enumerate(rerun.manifest.benchmarks)
    }
    for pair in pairs:
        set_of_it = recipes.get(quick.benchmark_of(pair.metric), [])
        recipe = list(filter(mutable.changes_results, set_of_it))
        meaning = pair.original or pair.rerun
        if meaning is None or not (resources or set_of_it):
            yield pair
        elif meaning.kind == "machine" or (
            has_other_ranks
            and quick.benchmark_of(pair.metric) not in swept
            and (meaning.per == "rank" or (pair.claim is not None and pair.claim.type == "exact"))
        ):
            yield replace(pair, altered=", ".join([*resources, *set_of_it]))
        elif recipe and pair.claim is not None and pair.claim.type not in _ALONE:
            yield replace(pair, refused=words.REFUSALS("another-recipe", fields=tuple(recipe)))
        else:
            yield pair
