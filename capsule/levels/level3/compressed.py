"""Gradients of which ranks exchange less than they have, and keep the rest for the next step.

With e what a rank has kept, zeros at first, and w g its weighed gradients:

    top-k       e := e + w g; its largest elements are sent, and are 0 in e then
    quantized   e := e + w g; q := e / s in whole numbers, with s so that the largest one is 127;
                q and s are sent, and e := e - s q

Every rank takes its step by the sum of what all have sent. Elements that are equally large count
by their place, and halves are rounded to even, so that nothing is left to chance.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..catalog.schemes import count_largest
from .exchanges import Exchange, Member, fill, flatten

_MOST = 2**31
_LARGEST = 127
"""Largest whole number in 8 bits, symmetric for both signs."""


class Compressed(Exchange):
    """Base of both compressions: the remainder is kept for the next step."""

    def __init__(self, member: Member) -> None:
        """Create an exchange without remainders; see `Exchange`.

        Raises:
            ValueError: There are more parameters than places that can be sent.
        """
        super().__init__(member)
        self._kept = torch.zeros_like(flatten(member.leaves.values()))
        if (count := self._kept.numel()) >= _MOST:
            raise ValueError(f"{count} parameters exceed the limit of {_MOST - 1} (32-bit indexes)")

    def state(self) -> Mapping[str, Any]:
        """Return the kept remainders of gradients."""
        return {"kept": self._kept}

    def before_step(self) -> None:
        """Send a part of the gradients, and take the step by the parts of all."""
        self._kept += self.member.weigh()
        fill(self.member.gradients(), self._exchange(self._kept))

    def _exchange(self, kept: Any) -> Any:
        """Send a part, take it out of what is kept, and return the sum of all ranks' parts."""
        raise NotImplementedError


class TopK(Compressed):
    """`top-k`."""

    def _exchange(self, kept: Any) -> Any:
        places = self._choose(kept)
        values = self.communicator.gather(kept[places])
        everywhere = self.communicator.gather(places.to(torch.int32))
        kept[places] = 0
        total = torch.zeros_like(kept)
        for one, where in zip(values, everywhere):
            total.index_add_(0, where.to(torch.int64), one)
        return total

    def _choose(self, kept: Any) -> Any:
        """Return places of the largest elements, by their absolute values."""
        count = count_largest(kept.numel(), self.member.numbers["density"])
        return torch.sort(kept.abs(), descending=True, stable=True).indices[:count]


class Quantized(Compressed):
    """`quantized`."""

    def _exchange(self, kept: Any) -> Any:
        scale = kept.abs().max().reshape(1) / _LARGEST
        # of nothing but zeros every part is 0
        whole = torch.round(kept / torch.where(scale > 0, scale, 1)).to(torch.int8)
        numbers, scales = self.communicator.gather(whole), self.communicator.gather(scale)
        kept -= whole * scale
        total = torch.zeros_like(kept)
        for one, its in zip(numbers, scales):
            total += one * its
        return total
