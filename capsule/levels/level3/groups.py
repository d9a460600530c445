"""Kept statistics of a network whose batch many ranks normalize by groups of samples.

Each group of a batch is normalized by its own mean and variance ("ghost batch normalization",
Hoffer, Hubara and Soudry, NeurIPS 2017), and belongs to one rank. What is kept for inference moves
by one group after the other, in the order of the batch, whoever computes them; with s the share of
a group in it (`graphs.statistics.SHARE`) and x_i what a batch's group i of K is normalized by:

    kept := (1 - s)^K kept + sum of s (1 - s)^(K - 1 - i) x_i over all groups

That is a sum over ranks, each of which keeps its part of it. Training reads none of it, so the
parts are only added up where the network is evaluated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..graphs.statistics import SHARE


class Parts:
    """A rank's part of the kept statistics, in the trainer's own tensors."""

    def __init__(self, tensors: Sequence[Any], rank: int, ranks: int, groups: int) -> None:
        """Leave what was kept before the first step to rank 0.

        Args:
            tensors: Those that a step moves by each of the rank's groups.
            rank: From 0.
            ranks: Number of ranks.
            groups: Groups of a batch on each rank.
        """
        self.tensors = tensors
        self._of_earlier = (1 - SHARE) ** (groups * rank)
        self._of_later = (1 - SHARE) ** (groups * (ranks - 1 - rank))
        if rank:
            self._scale(0)

    def before_step(self) -> None:
        """Scale the kept values by the groups of earlier ranks."""
        self._scale(self._of_earlier)

    def after_step(self) -> None:
        """Scale the kept values by the groups of later ranks."""
        self._scale(self._of_later)

    def _scale(self, factor: float) -> None:
        if not self.tensors:
            return
        with torch.no_grad():
            for one in self.tensors:
                one.mul_(factor)
