"""The list of a metric's runs in `results/metrics.json`: as many as there are lines of samples."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain

from capsule.summary import Run

# the metrics of a subject have the same runs: so many are kept for the next one
_MOST_KEPT = 1000
_OUTER, _INNER = "\n        ", "\n          "


def write(runs: Sequence[Run]) -> str:
    """Return the list, indented for its place in the document."""
    if not runs:
        return "[]"
    before = _before_values if len(runs) > _MOST_KEPT else _kept_before_values
    starts = before(tuple([(run.seed, run.seed_source, run.status) for run in runs]))
    values = ["null" if run.value is None else repr(run.value) for run in runs]
    texts = chain.from_iterable(zip(starts, values, strict=True))
    return f"[{''.join(texts)}{_OUTER}}}{_OUTER[:-2]}]"


def _before_values(runs: tuple[tuple[int, str, str], ...]) -> list[str]:
    """Return the text between the values of one run and the next."""
    texts = [
        f'{_OUTER}}},{_OUTER}{{{_INNER}"seed": {seed},{_INNER}"seed_source": "{source}"'
        f',{_INNER}"status": "{status}",{_INNER}"value": '
        for seed, source, status in runs
    ]
    return [texts[0].removeprefix(f"{_OUTER}}},"), *texts[1:]]


_kept_before_values = lru_cache(maxsize=1)(_before_values)
