"""Whole distributions: each run as the shares of its samples at or below common thresholds.

A share is one value of a run, so runs are the sample, and what the samples of one run have in
common is never counted as evidence. With a hundred thresholds a run becomes a curve, and
`curve_shift` judges it with the allowed distance as its margin: REPRODUCED needs every threshold,
DIFFERENT is corrected for their number. The largest difference of the two sides' mean shares is
Kolmogorov's distance, read at these thresholds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from capsule.stats.curves import MOST_POINTS, Curve
from capsule.stats.series import Series

# nobody takes more, and the square of a tiny deviation is 0
MOST_SAMPLES = 10**12


@dataclass(frozen=True, kw_only=True)
class Shares:
    """The runs of two sides as curves over common thresholds.

    Attributes:
        thresholds: At most a hundred samples, ascending, evenly spread by rank over the samples of
            both sides.
        original: The original's runs: at step i the share of samples at or below threshold i.
        rerun: The same of the re-run's runs.
        resolution: Step of a share in the run with the fewest samples.
    """

    thresholds: tuple[float, ...]
    original: Mapping[int, Curve]
    rerun: Mapping[int, Curve]
    resolution: float


def reduce_to_shares(original: Sequence[Series], rerun: Sequence[Series]) -> Shares:
    """Return the runs of two sides as shares of their samples at or below common thresholds.

    Only the order of the samples counts, so no unit changes a share. Between two thresholds lies at
    most one sample in a hundred of both sides together, so at most two of the side with more.

    Args:
        original: The samples of each run, in any order, none NaN; at least one run, and one sample
            in each.
        rerun: The same of the re-run.

    Raises:
        ValueError: A sample is NaN.

    >>> shares = reduce_to_shares([[1, 2], [2, 3]], [[2, 2]])
    >>> shares.thresholds, [curve.values for curve in shares.original.values()]
    ((1.0, 2.0, 3.0), [(0.5, 1.0, 1.0), (0.0, 0.5, 1.0)])
    """
    runs = [np.sort(np.asarray(run, dtype=float)) for run in (*original, *rerun)]
    samples = np.sort(np.concatenate(runs))
    if np.isnan(samples[-1]):  # sorted last
        raise ValueError("a sample of a distribution is NaN, expected a number")
    # in whole numbers, as a rounded rank may be another sample's
    ranks = (2 * np.arange(MOST_POINTS) + 1) * len(samples) // (2 * MOST_POINTS)
    thresholds = np.unique(samples[ranks])
    steps = tuple(map(float, range(len(thresholds))))
    curves = [
        Curve(
            steps=steps,
            values=tuple((np.searchsorted(run, thresholds, side="right") / len(run)).tolist()),
        )
        for run in runs
    ]
    return Shares(
        thresholds=tuple(thresholds.tolist()),
        original=dict(enumerate(curves[: len(original)])),
        rerun=dict(enumerate(curves[len(original) :])),
        resolution=1 / min(map(len, runs)),
    )


def samples_for_sd(sd: float) -> int | None:
    """Return the independent samples per run that keep the standard deviation of any share at or
    below `sd`, if nothing else moves a run; None beyond `MOST_SAMPLES`.

    >>> samples_for_sd(0.05), samples_for_sd(1e-9)
    (100, None)
    """
    fewest = 0.5 / math.sqrt(MOST_SAMPLES)
    return math.ceil((0.5 / sd) ** 2) if sd >= fewest else None
