"""Precision of torch's products on CUDA devices: TF32, and the sums of 16-bit products.

torch 2.9 and later name the precision of each kind of product (`fp32_precision`); an earlier torch
has `allow_tf32` alone. Where a file has set the later name alone, reading the earlier one raises a
RuntimeError, in torch's own compiler too. So TF32 is read by the later name where torch has it, and
set by both, such that they agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Callable

import torch

_SUMS = (
    "allow_fp16_reduced_precision_reduction",
    "allow_bf16_reduced_precision_reduction",
    "allow_fp16_accumulation",
)
"""Attributes of `torch.backends.cuda.matmul` that let 16-bit products be summed in 16 bits."""

_ATTENTION = {
    "sdp_flash": "flash_sdp_enabled",
    "sdp_memory_efficient": "mem_efficient_sdp_enabled",
    "sdp_cudnn": "cudnn_sdp_enabled",
    "sdp_math": "math_sdp_enabled",
    "sdp_math_allow_16bit_reduction": "fp16_bf16_reduction_math_sdp_allowed",
}
"""Functions of `torch.backends.cuda` that read the switches of attention."""


def _find_named() -> list[Any]:
    """Return what has the later name, for CUDA: of matrices, convolutions and recurrences.

    Empty in a torch without that name.
    """
    cudnn = torch.backends.cudnn
    owners = (torch.backends.cuda.matmul, *(getattr(cudnn, name, None) for name in ("conv", "rnn")))
    return [one for one in owners if hasattr(one, "fp32_precision")]


def _is_matmul_tf32() -> bool:
    matmul = torch.backends.cuda.matmul
    if hasattr(matmul, "fp32_precision"):
        return bool(matmul.fp32_precision == "tf32")
    return bool(matmul.allow_tf32)


def _is_cudnn_tf32() -> bool:
    named = [one for one in _find_named() if one is not torch.backends.cuda.matmul]
    if named:
        return any(one.fp32_precision == "tf32" for one in named)
    return bool(torch.backends.cudnn.allow_tf32)


def _read_sum(name: str) -> Callable[[], Any]:
    return lambda: getattr(torch.backends.cuda.matmul, name)


def _read_attention(name: str) -> Callable[[], Any]:
    def read() -> Any:
        return getattr(torch.backends.cuda, name)()

    return read


SWITCHES: dict[str, Callable[[], Any]] = {
    "cuda_matmul_allow_tf32": _is_matmul_tf32,
    "cudnn_allow_tf32": _is_cudnn_tf32,
    **{f"cuda_matmul_{name}": _read_sum(name) for name in _SUMS},
    **{name: _read_attention(function) for name, function in _ATTENTION.items()},
}
"""Reads each switch that can change the precision of products; an earlier torch lacks some."""


def set_tf32(*, on: bool) -> None:
    """Let CUDA compute products of float32 in TF32, or forbid it."""
    matmul, word = torch.backends.cuda.matmul, _read_word()
    matmul.allow_tf32 = on
    torch.backends.cudnn.allow_tf32 = on
    if word is not None and _read_word() is None:
        # a file has set the word, and by it oneDNN's precision, which stays: they go together
        torch.set_float32_matmul_precision(word)
    for one in _find_named():
        one.fp32_precision = "tf32" if on else "ieee"


@contextmanager
def fix(*, tf32: bool) -> Iterator[None]:
    """Set TF32, and sums of 16-bit products in float32, for a time.

    What was set before, by either name, is set again afterwards, whatever was set meanwhile.
    """
    cuda = torch.backends.cuda
    before = _State.read()
    sums = {name: _read_whole_sum(name) for name in _SUMS if hasattr(cuda.matmul, name)}
    allow = getattr(cuda, "allow_fp16_bf16_reduction_math_sdp", None)
    allowed = allow is not None and cuda.fp16_bf16_reduction_math_sdp_allowed()
    try:
        set_tf32(on=tf32)
        for name in sums:
            setattr(cuda.matmul, name, False)
        if allow is not None:
            allow(False)
        yield
    finally:
        if allow is not None:
            allow(allowed)
        for name, value in sums.items():
            setattr(cuda.matmul, name, value)
        before.restore()


@dataclass(frozen=True)
class _State:
    """Settings of TF32 before a scope.

    Attributes:
        matmul: The earlier name, of products of matrices.
        cudnn: The earlier name, of convolutions and recurrences.
        word: `torch.get_float32_matmul_precision`; None where it cannot be read.
        named: The later name of each of `_find_named`, and of oneDNN's products of matrices, which
            the word sets too.
    """

    matmul: bool
    cudnn: bool
    word: str | None
    named: tuple[tuple[Any, str], ...]

    @classmethod
    def read(cls) -> _State:
        """Return what is set."""
        onednn, word = getattr(torch.backends.mkldnn, "matmul", None), _read_word()
        owners = [*_find_named(), *([onednn] if hasattr(onednn, "fp32_precision") else [])]
        named = tuple((one, _read_own(one)) for one in owners)
        for one in _find_named():
            one.fp32_precision = "tf32"
        matmul, cudnn = map(_read_earlier, (torch.backends.cuda.matmul, torch.backends.cudnn))
        for one, precision in named:
            one.fp32_precision = precision
        return cls(matmul, cudnn, word, named)

    def restore(self) -> None:
        """Set it again, the earlier names first: they set the later ones."""
        torch.backends.cuda.matmul.allow_tf32 = self.matmul
        torch.backends.cudnn.allow_tf32 = self.cudnn
        if self.word is not None and _read_word() != self.word:
            torch.set_float32_matmul_precision(self.word)
        for one, precision in self.named:
            one.fp32_precision = precision


def _read_earlier(owner: Any) -> bool:
    """Return `allow_tf32`: where that is off, it cannot be read while the later names say on."""
    try:
        return bool(owner.allow_tf32)
    except RuntimeError:
        return False


def _read_word() -> str | None:
    with suppress(RuntimeError):
        return str(torch.get_float32_matmul_precision())
    return None


def _read_own(owner: Any) -> str:
    """Return what was set by the later name, and set `none`, which leaves it to a parent.

    Also where that is the parent's precision.
    """
    precision: str = owner.fp32_precision
    owner.fp32_precision = "none"
    return "none" if owner.fp32_precision == precision else precision


def _read_whole_sum(name: str) -> Any:
    """Return a switch of `_SUMS` in the form that it is set by.

    Beside some of them a later torch has whether a sum may be split among blocks of threads.
    """
    matmul = torch.backends.cuda.matmul
    value, split = getattr(matmul, name), getattr(matmul, f"{name}_split_k", None)
    return value if split is None else (value, split)
