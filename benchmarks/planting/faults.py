"""What a fault is, and how a result is spoiled at a place by so much."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

Change = Callable[[torch.Tensor], torch.Tensor]
"""Of a result or a gradient."""

Entry = Callable[..., tuple[Callable[..., Any], tuple[Any, ...]]]
"""An operation as the framework's table has it: sizes and tensors to a function and operands."""

Plant = Callable[[Entry], Entry]
"""Makes the wrong one of the right one, anew for each trial: some faults remember."""


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong.

    Attributes:
        subject: Operator, or network.
        way: `forward` or `backward`.
        kind: Its class.
        place: How much of the result it is in.
        amount: The size that it was planted with, "" where the class has none.
        plant: See `Plant`.
        case: Which of the operator's quick cases it is planted in.
        node: The node of a network that it sits in, "" for an operator.
        dtypes: In which it is one, () for all: sums kept in float32 are what float32 means.
    """

    subject: str
    way: str
    kind: str
    place: str
    amount: str
    plant: Plant
    case: int = 0
    node: str = ""
    dtypes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Unique among all."""
        where = f"{self.subject} {self.node}".strip()
        what = f"{self.kind} {self.amount}".strip()
        return f"{where}, {self.way}: {what}, {self.place}"


def _part(share: int) -> Callable[[torch.Tensor], Any]:
    """The last `1 / share` of the elements, at least one."""
    return lambda x: slice(x.numel() - max(1, x.numel() // share), None)


PLACES: Mapping[str, Callable[[torch.Tensor], Any]] = {
    "last element": lambda x: slice(x.numel() - 1, None),
    "first element": lambda x: slice(0, 1),  # noqa: ARG005
    "last hundredth": _part(100),
    "last column": lambda x: slice(x.shape[-1] - 1 if x.ndim else 0, None, max(1, _width(x))),
    "every tenth": lambda x: slice(0, None, 10),  # noqa: ARG005
    "last third": _part(3),
    "last half": _part(2),
    "whole": lambda x: slice(None),  # noqa: ARG005
}


def _width(x: torch.Tensor) -> int:
    return x.shape[-1] if x.ndim > 1 else x.numel()


def _coarsen(x: torch.Tensor) -> torch.Tensor:
    """Half of the bits that the dtype has."""
    bits = {torch.float64: 24, torch.float32: 11, torch.float16: 6, torch.bfloat16: 5}[x.dtype]
    significand, exponent = torch.frexp(x.double())
    return torch.ldexp(torch.round(significand * 2**bits), exponent - bits).to(x.dtype)


def _root_mean_square(x: torch.Tensor) -> torch.Tensor:
    return x.double().square().mean().sqrt().to(x.dtype)


KINDS: Mapping[str, Callable[[torch.Tensor, float], torch.Tensor]] = {
    "zeroed": lambda x, _: x * 0,
    "negated": lambda x, _: -x,
    "taken from its neighbour": lambda x, _: x.roll(1),
    "half the bits": lambda x, _: _coarsen(x),
    "scaled by": lambda x, size: (x.double() * (1 + size)).to(x.dtype),
    "shifted by": lambda x, size: (x.double() + size * _root_mean_square(x).double()).to(x.dtype),
    "doubled": lambda x, _: 2 * x,
}
SIZED = ("scaled by", "shifted by")


def spoil(kind: str, place: str, size: float = 0.0) -> Change:
    """A change of some of the elements."""

    def spoiled(x: torch.Tensor) -> torch.Tensor:
        flat = x.reshape(-1).clone()
        where = PLACES[place](x)
        flat[where] = KINDS[kind](flat, size)[where]
        return flat.reshape(x.shape)

    return spoiled


class _Altered(torch.autograd.Function):
    """Its input, changed on the way forward or on the way back."""

    @staticmethod
    def forward(context: Any, x: Any, forward: Change | None, backward: Change | None) -> Any:
        context.change = backward
        return forward(x.detach()) if forward else x.clone()

    @staticmethod
    def backward(context: Any, gradient: Any) -> Any:  # type: ignore[override]
        return (context.change(gradient) if context.change else gradient), None, None


def alter(x: Any, forward: Change | None = None, backward: Change | None = None) -> Any:
    """A tensor, changed in one direction alone; what that moved is in `SPOTS`."""
    return _Altered.apply(x, _watch(forward), _watch(backward))


SPOTS: list[tuple[float, float]] = []
"""What each change moved, as `displacement` has it, since this was cleared."""


REACHED: list[bool] = []
"""Holds True once planted code has run, or has answered with what it remembers."""


def reach() -> None:
    """Note that planted code ran."""
    if not REACHED:
        REACHED.append(True)


def displacement(right: Any, wrong: Any) -> tuple[float, float]:
    """How far a tensor was moved: relative to its L2 norm, and at most in units of rounding.

    A unit is the dtype's unit roundoff times the right element; no right result is surely nearer
    to the exact one than 2 of them to another right one.
    """
    unit = torch.finfo(right.dtype).eps / 2
    due, moved = right.detach().double(), wrong.detach().double()
    off = (moved - due).abs()
    size = float(due.norm())
    relative = float(off.norm()) / size if size else (float("inf") if float(off.norm()) else 0.0)
    tiny = torch.finfo(right.dtype).tiny
    units = off / (unit * due.abs()).clamp(min=tiny * unit)
    # in float64 the least unit is 0: what was not moved there is off by none
    units = torch.where(off == 0, 0.0, units).nan_to_num(float("inf"))
    return relative, float(units.max()) if units.numel() else 0.0


def _watch(change: Change | None) -> Change | None:
    if change is None:
        return None

    def watched(x: torch.Tensor) -> torch.Tensor:
        changed = change(x)
        reach()
        if len(SPOTS) < MOST_SPOTS:
            SPOTS.append(displacement(x, changed))
        return changed

    return watched


MOST_SPOTS = 4


def call_through(right: Entry, sizes: Any, tensors: tuple[Any, ...]) -> Any:
    """What the right entry yields."""
    function, operands = right(sizes, *tensors)
    return function(*operands)


def as_entry(make: Callable[[Entry, Any], Callable[..., Any]]) -> Plant:
    """A plant of what makes one function of a right entry and sizes; networks trace it whole."""

    def plant(right: Entry) -> Entry:
        def entry(sizes: Any, *tensors: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
            function = make(right, sizes)

            def planted(*operands: Any) -> Any:
                return function(*operands)

            def run(*operands: Any) -> Any:
                proxies = [one for one in operands if isinstance(one, fx.Proxy)]
                if proxies:
                    return proxies[0].tracer.create_proxy("call_function", planted, operands, {})
                return function(*operands)

            return run, tensors

        return entry

    return plant


def in_result(change: Change, which: int = 0) -> Plant:
    """A change of a result, gradients as they should be."""

    def make(right: Entry, sizes: Any) -> Callable[..., Any]:
        def wrong(*tensors: Any) -> Any:
            results = call_through(right, sizes, tensors)
            if not isinstance(results, tuple):
                return alter(results, forward=change)
            return tuple(
                alter(one, forward=change) if at == which % len(results) else one
                for at, one in enumerate(results)
            )

        return wrong

    return as_entry(make)


def in_gradient(change: Change, operand: int) -> Plant:
    """A change of the gradient by one operand, the result as it should be."""

    def make(right: Entry, sizes: Any) -> Callable[..., Any]:
        def wrong(*tensors: Any) -> Any:
            altered = [
                alter(one, backward=change) if at == operand and one.requires_grad else one
                for at, one in enumerate(tensors)
            ]
            return call_through(right, sizes, tuple(altered))

        return wrong

    return as_entry(make)


def remember(which: str) -> Change:
    """A change that goes by the calls before, and so starts anew with each trial.

    `memoised` yields the first one's for ever, `stale` that of the call before, `lazy` zeros but in
    every second call, `first wrong` zeros in the first, `third wrong` in every third from the
    second on.
    """
    by_shape: dict[torch.Size, list[torch.Tensor]] = {}
    calls = iter(range(10**9))

    def changed(x: torch.Tensor) -> torch.Tensor:
        result = answer(x)
        if not torch.equal(result, x):
            reach()
        return result

    def answer(x: torch.Tensor) -> torch.Tensor:
        call = next(calls)
        zeros = torch.zeros_like(x)
        # another shape would fail, and not be wrong
        kept = by_shape.setdefault(x.shape, [])
        if which == "memoised":
            kept[1:] = []
            kept.append(x.clone())
            return kept[0].clone()
        if which == "stale":
            kept.append(x.clone())
            before = kept[-2] if len(kept) > 1 else zeros
            del kept[:-1]
            return before.clone()
        wrong = {
            "lazy": call % 2 == 0,
            "first wrong": call == 0,
            "third wrong": call % 3 == 1,
        }[which]
        return zeros if wrong else x.clone()

    return changed


def remembering(which: str, operand: int | None = None) -> Plant:
    """A plant of `remember`, of the result or of the gradient by an operand."""

    def plant(right: Entry) -> Entry:
        change = remember(which)
        inner = in_result(change) if operand is None else in_gradient(change, operand)
        return inner(right)

    return plant
