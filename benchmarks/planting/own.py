"""Right modules of users, one of each common kind, small enough for many trials."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import indent

_HEAD = """
import torch
from torch import nn
from torch.nn import functional as f

inputs = {inputs}
quality = "{quality}"

class Net(nn.Module):
    def __init__(self):
        super().__init__()
{parts}

    def forward(self, x):
{steps}

network = Net
"""


def _write(inputs: str, parts: str, steps: str, quality: str = "accuracy", loss: str = "") -> str:
    made, called = (indent(lines, " " * 8) for lines in (parts, steps))
    text = _HEAD.format(inputs=inputs, quality=quality, parts=made, steps=called)
    return text + (f"\nloss = {loss}\n" if loss else "")


_VECTOR = '{"x": (12,), "label": {"below": 5}}'
_PICTURE = '{"x": (3, 8, 8), "label": {"below": 4}}'
_SEQUENCE = '{"x": (7, 6), "label": {"below": 3}}'
_TOKENS = '{"x": {"below": 11, "shape": (9,)}, "label": {"below": 11, "shape": (9,)}}'
_TARGET = '{"x": (12,), "target": (4,)}'

MODULES: Mapping[str, str] = {
    "perceptron": _write(
        _VECTOR,
        "self.a, self.b = nn.Linear(12, 32), nn.Linear(32, 5)",
        "return self.b(torch.relu(self.a(x)))",
    ),
    "convolution": _write(
        _PICTURE,
        "self.a, self.n = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)\n"
        "self.b = nn.Linear(8, 4)",
        "return self.b(f.relu(self.n(self.a(x))).mean((2, 3)))",
    ),
    "residual": _write(
        _PICTURE,
        "self.a, self.c = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)\n"
        "self.n, self.m = nn.GroupNorm(2, 8), nn.GroupNorm(2, 8)\nself.b = nn.Linear(128, 4)",
        "y = f.relu(self.n(self.a(x)))\ny = f.relu(y + self.m(self.c(y)))\n"
        "return self.b(f.max_pool2d(y, 2).flatten(1))",
    ),
    "gelu": _write(
        _VECTOR,
        "self.a, self.b = nn.Linear(12, 64), nn.Linear(64, 5)\nself.n = nn.LayerNorm(64)",
        "return self.b(f.gelu(self.n(self.a(x))))",
    ),
    "transformer": _write(
        _SEQUENCE,
        "self.a = nn.TransformerEncoderLayer(6, 2, 12, dropout=0.0, batch_first=True)\n"
        "self.b = nn.Linear(6, 3)",
        "return self.b(self.a(x)[:, -1])",
    ),
    "lstm": _write(
        _SEQUENCE,
        "self.a = nn.LSTM(6, 10, batch_first=True)\nself.b = nn.Linear(10, 3)",
        "return self.b(self.a(x)[0][:, -1])",
    ),
    "lstm of two layers and ways": _write(
        _SEQUENCE,
        "self.a = nn.LSTM(6, 5, 2, bias=False, bidirectional=True)\nself.b = nn.Linear(10, 3)",
        "return self.b(self.a(x.transpose(0, 1))[0].mean(0))",
    ),
    "gru": _write(
        _SEQUENCE,
        "self.a = nn.GRU(6, 10, batch_first=True)\nself.b = nn.Linear(10, 3)",
        "return self.b(self.a(x)[0][:, -1])",
    ),
    "tokens": _write(
        _TOKENS,
        "self.t, self.a = nn.Embedding(11, 16), nn.Linear(16, 24)\nself.b = nn.Linear(24, 11)",
        "return self.b(torch.tanh(self.a(self.t(x)))).transpose(1, 2)",
    ),
    "logarithms": _write(
        _VECTOR,
        "self.a, self.b = nn.Linear(12, 32), nn.Linear(32, 5)",
        "return f.log_softmax(4 * self.b(torch.sigmoid(self.a(x))), 1)",
        loss="f.nll_loss",
    ),
    "regression": _write(
        _TARGET,
        "self.a, self.b = nn.Linear(12, 32), nn.Linear(32, 4)",
        "return self.b(f.silu(self.a(x)))",
        quality="mean_absolute_error",
    ),
}
"""Files of modules, by what they are."""
