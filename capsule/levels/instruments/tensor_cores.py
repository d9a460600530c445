"""Products of a trial that ran without tensor cores, found by the names of kernels.

Libraries may rename their kernels. A kernel of no known kind may use tensor cores, so capsule
reports nothing if one runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Callable

from ..frameworks import Framework
from ..frameworks.kernels import RecordsKernels

EIGHT_BITS = "8 bits"
"""Word for products of 8-bit numbers, whatever the dtype of a trial."""

DTYPES = ("tf32", "bfloat16", "float16", EIGHT_BITS)
"""Types whose products a GPU can compute on tensor cores."""

_TENSOR = re.compile(
    r"tensor_?op|tensor\d+x\d+|[a-z](?:884|1688|16816|16832|161616|8816)(?!\d)|m16n8k\d"
    r"|hmma|imma|gmma|qmma|umma|tcgen05|nvjet|flash|fmha|sdpa|xmma(?!.*[fdh]fma)",
    re.IGNORECASE,
)
"""Names of kernels on tensor cores: the shape or name of an instruction, or a whole family."""

_PLAIN = re.compile(
    r"simt|(?<![a-z])[sd]gemm|gemv|gemmsn|gemmk1|(?<![a-z])dot_kernel|[fdh]fma|scudnn"
    r"|conv_depthwise|implicit_convolve|winograd",
    re.IGNORECASE,
)
"""Names of kernels that compute products without tensor cores, of those that are not `_TENSOR`."""

_OTHER = re.compile(
    r"at::native|at_cuda|\bcub::|thrust|memcpy|memset|splitk|nccl|n[cdhw]{2,3}c?to|transpose"
    r"|elementwise|reduce|batch_?norm|\bbn_|softmax|pool|triton_(?:poi|red|per)_",
    re.IGNORECASE,
)
"""Beginnings of names of kernels that compute no products, of those that are neither."""

_ARGUMENTS = re.compile(r"\(anonymous namespace\)::|[<(].*")


def find_plain(names: Iterable[str]) -> str:
    """Return the first kernel that computed a product without tensor cores.

    Empty where a kernel used tensor cores, where one is of no known kind, and without a product.

    >>> find_plain(["void at::native::vectorized_elementwise_kernel<4>", "ampere_sgemm_64x32_nn"])
    'ampere_sgemm_64x32_nn'
    >>> find_plain(["ampere_sgemm_64x32_nn", "ampere_bf16_s16816gemm_bf16_64x64_nn"])
    ''
    """
    plain = ""
    for name in names:
        if _TENSOR.search(name):
            return ""
        if _PLAIN.search(name):
            plain = plain or name
        elif not _OTHER.search(_ARGUMENTS.sub("", name)):
            return ""
    return plain


def look(framework: Framework, dtype: str, run: Callable[[], object]) -> str:
    """Call a function once, untimed, and return `find_plain` of its kernels.

    Empty, without a call, for types outside `DTYPES` and frameworks that cannot report kernels.
    """
    if dtype not in DTYPES or not isinstance(framework, RecordsKernels):
        return ""
    return find_plain(framework.record_kernels(run))
