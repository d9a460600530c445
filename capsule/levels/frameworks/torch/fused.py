"""References of operations that torch has in few element types, in any one.

On CPUs a layer of `torch.nn.LSTM` is one operation of oneDNN, in float32 and in bfloat16, and so is
its gradient. Both follow here by the formula of `operators.recurrent`, step by step.
"""

from __future__ import annotations

from typing import Any, Callable

import torch

from ..base import NativeTensor

_LSTM = 2
"""oneDNN's number of this kind of recurrent layer."""

Step = tuple[NativeTensor, ...]
"""Of one step x, h and c before it, the gates i, f, g, o, and tanh(c) after it."""


def _lstm(
    x: NativeTensor,
    w: NativeTensor,
    r: NativeTensor,
    by_x: NativeTensor,
    by_h: NativeTensor,
    h: NativeTensor,
    c: NativeTensor,
    reverse: bool,
    _lengths: Any,
    mode: int,
    _hidden: int,
    _layers: int,
    biased: bool,
    *_others: Any,
) -> tuple[NativeTensor, ...]:
    """Return the output of each step (steps, batch, hidden), h and c after the last, and nothing
    for what oneDNN keeps.
    """
    _, outputs, last = _run(x, w, r, by_x + by_h if biased else None, h, c, reverse, mode)
    hidden, cell = (one.reshape(h.shape) for one in last)
    return _order(outputs, reverse), hidden, cell, x.new_empty(0, dtype=torch.uint8)


def _lstm_backward(
    x: NativeTensor,
    w: NativeTensor,
    r: NativeTensor,
    by_x: NativeTensor,
    by_h: NativeTensor,
    h: NativeTensor,
    c: NativeTensor,
    output: NativeTensor,
    _hidden: Any,
    _cell: Any,
    upstream: NativeTensor | None,
    upstream_h: NativeTensor | None,
    upstream_c: NativeTensor | None,
    reverse: bool,
    mode: int,
    _width: int,
    _layers: int,
    biased: bool,
    *_others: Any,
) -> tuple[NativeTensor, ...]:
    """Return the gradients by x, both weights, both biases, and h and c before the first step."""
    steps, _, _ = _run(x, w, r, by_x + by_h if biased else None, h, c, reverse, mode)
    arriving = torch.zeros_like(output) if upstream is None else upstream
    flat = h.shape[-2:]
    by_hidden, by_cell = (
        h.new_zeros(flat) if one is None else one.reshape(flat) for one in (upstream_h, upstream_c)
    )
    by_inputs, by_gates = [], []
    in_order = arriving.flip(0) if reverse else arriving
    for (_, _, before, i, f, g, o, squashed), above in zip(reversed(steps), in_order.flip(0)):
        by_hidden = by_hidden + above
        by_cell = by_cell + by_hidden * o * (1 - squashed * squashed)
        gates = torch.cat(
            (
                by_cell * g * i * (1 - i),
                by_cell * before * f * (1 - f),
                by_cell * i * (1 - g * g),
                by_hidden * squashed * o * (1 - o),
            ),
            1,
        )
        by_inputs.append(gates @ w)
        by_gates.append(gates)
        by_hidden, by_cell = gates @ r, by_cell * f
    every = torch.cat(by_gates[::-1])
    by_w = every.t() @ torch.cat([step[0] for step in steps])
    by_r = every.t() @ torch.cat([step[1] for step in steps])
    by_bias = every.sum(0)
    first = by_hidden.reshape(h.shape), by_cell.reshape(c.shape)
    return _order(by_inputs[::-1], reverse), by_w, by_r, by_bias, by_bias.clone(), *first


def _run(
    x: NativeTensor,
    w: NativeTensor,
    r: NativeTensor,
    bias: NativeTensor | None,
    h: NativeTensor,
    c: NativeTensor,
    reverse: bool,
    mode: int,
) -> tuple[list[Step], list[NativeTensor], tuple[NativeTensor, NativeTensor]]:
    """Return each step in the order in which they run, its output, and the last h and c.

    Raises:
        NotImplementedError: It is another kind of layer.
    """
    if mode != _LSTM:
        raise NotImplementedError(f"oneDNN's recurrent layer of kind {mode} has no formula here")
    hidden, cell = h.reshape(h.shape[-2:]), c.reshape(c.shape[-2:])
    steps: list[Step] = []
    outputs = []
    for values in x.flip(0) if reverse else x:
        gates = values @ w.t() + hidden @ r.t()
        i, f, g, o = (gates if bias is None else gates + bias).chunk(4, 1)
        i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
        after = f * cell + i * g
        squashed = after.tanh()
        steps.append((values, hidden, cell, i, f, g, o, squashed))
        hidden, cell = o * squashed, after
        outputs.append(hidden)
    return steps, outputs, (hidden, cell)


def _order(steps: list[NativeTensor], reverse: bool) -> NativeTensor:
    """Return results of steps in the order of the sequence."""
    return torch.stack(steps[::-1] if reverse else steps)


REFERENCES: dict[str, Callable[..., tuple[NativeTensor, ...]]] = {
    "mkldnn_rnn_layer": _lstm,
    "mkldnn_rnn_layer_backward": _lstm_backward,
}
"""By the names of torch's dispatcher: functions of the same arguments, with the same results."""


def count(name: str, args: Any) -> tuple[int, int]:
    """Return the terms of the longest sum in a result, and how often values go through memory.

    Args:
        name: A key of `REFERENCES`.
        args: The operation's.
    """
    steps, batch, width = args[0].shape
    hidden = args[2].shape[-1]
    # backward, over four gates; weights, over the batch
    longest = max(width + hidden, 4 * hidden, batch) if "backward" in name else width + hidden
    return steps * longest, steps
