"""Attention by torch's own function in a user's module at Level 1: its kernels mostly draw nothing.

They are marked as ones that draw, for a dropout that they have where it is asked for.
"""

from pathlib import Path
from typing import Any

import pytest

from capsule.levels import frameworks
from tests.support import trials

pytest.importorskip("torch")

FILE = """
import torch
from torch import nn

inputs = {"long": (9, 8), "short": (5, 8), "label": {"below": 3}}
quality = "accuracy"

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.keys, self.last = nn.Linear(8, 16), nn.Linear(8, 3)

    def attend(self, queries, others):
        keys, values = self.keys(others).unflatten(-1, (2, 2, 4)).permute(2, 0, 3, 1, 4)
        queries = queries.unflatten(-1, (2, 4)).transpose(1, 2)
        dropout = DROPOUT if self.training else 0.0
        return nn.functional.scaled_dot_product_attention(
            queries, keys, values, dropout_p=dropout
        ).transpose(1, 2).flatten(2)

    def forward(self, long, short):
        y = self.attend(long, short).mean(1) + self.attend(short, long).mean(1)
        return self.last(y)

def network():
    return Net()
"""


def measure(path: Path, text: str) -> trials.Values:
    path.write_text(text)
    framework = frameworks.load("torch", "cpu", 1, "default")
    how: Any = {"network": "net.py", "source": str(path), "parameters": {"batch": 4}}
    return trials.values(framework, dtype="float32", trains=True, **how)


@pytest.mark.parametrize("dropout", [0.0, 0.25])
def test_it_is_held_and_differentiated_with_and_without_dropout(
    tmp_path: Path, dropout: float
) -> None:
    reported = measure(tmp_path / "net.py", FILE.replace("DROPOUT", str(dropout)))
    for bound in ("l2_error_ratio", "grad_l2_error_ratio", "gradient_check", "node_error_ratio"):
        assert 0 < reported[bound][0] < 1, bound
    assert reported["repeatable"] == (1,)


def test_what_attends_to_less_where_it_is_float32_lies_beyond(tmp_path: Path) -> None:
    plain = FILE.replace("DROPOUT", "0.0")
    wrong = plain.replace(
        "        dropout =",
        "        if values.dtype == torch.float32:\n            values = values * 1.001\n"
        "        dropout =",
    )
    reported = measure(tmp_path / "net.py", wrong)
    assert reported["l2_error_ratio"][0] > 1
    assert reported["grad_l2_error_ratio"][0] > 1
