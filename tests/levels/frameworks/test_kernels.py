"""Which kernel torch chose for attention is told, as it was and not as it may be."""

import numpy
import pytest

from capsule.levels import operators
from capsule.levels.catalog import OPERATORS
from tests.support.command import User, write_manifest
from tests.support.jobs import needs_torch

POINT = {"batch": 1, "heads": 2, "length": 16, "width": 8}


@needs_torch
@pytest.mark.parametrize(("backend", "word"), [("MATH", "math"), ("FLASH_ATTENTION", "flash")])
def test_the_kernel_that_ran_is_named(backend: str, word: str) -> None:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    from capsule.levels.frameworks.torch.operators import TorchOperators

    operator, sizes = operators.load("attention"), OPERATORS["attention"].complete(POINT)
    drawn = operator.inputs(sizes, "float32", 17)
    tensors = tuple(map(torch.from_numpy, drawn))
    with sdpa_kernel(getattr(SDPBackend, backend)):
        chosen = TorchOperators().kernels(operator, sizes, tensors)
    assert chosen is not None
    assert chosen.startswith(word)
    assert all(
        numpy.array_equal(*pair) for pair in zip(drawn, map(numpy.asarray, tensors), strict=True)
    )


@needs_torch
def test_attention_with_lengths_and_a_mask_has_a_kernel_too() -> None:
    import torch

    from capsule.levels.frameworks.torch.operators import TorchOperators

    entry = OPERATORS["grouped_attention"]
    operator, sizes = operators.load(entry.name), entry.complete(entry.cases["quick"][-1][1])
    drawn = operator.inputs(sizes, "float32", 17)
    chosen = TorchOperators().kernels(operator, sizes, tuple(map(torch.from_numpy, drawn)))
    assert chosen is not None
    assert chosen.startswith(("math", "flash"))


@needs_torch
def test_its_name_is_sealed_with_the_trial_and_shown(author: User) -> None:
    attention = {
        "id": "attention",
        "level": 0,
        "operator": "attention",
        "cases": [{**POINT, "causal": causal} for causal in (0, 1)],
        "frameworks": ["torch"],
        "repetitions": 2,
    }
    manifest = write_manifest(author.folder, seeds=[17], benchmarks=[attention], claims=[])
    ended = author.run("run", manifest, "--runtime", "host")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (capsule,) = author.folder.glob("*.capsule.zip")
    shown = author.run("show", capsule, COLUMNS="200").stdout
    for case in ("batch1heads2length16width8", "batch1heads2length16width8causal1"):
        assert f"note: attention {case} in float32 ran in torch by " in shown
