"""The operators of today's models with their parameters and sets of cases."""

from __future__ import annotations

from .entries import make_operator, make_points
from .types import DTYPES, Option

OPERATORS = (
    make_operator(
        "grouped_attention",
        "n h g m k w",
        (
            Option("causal", 0),
            Option("window", 0, 0, None),
            Option("lengths", 0),
            Option("mask", 0),
        ),
        module="attention",
        quick=make_points(
            "n h g m k w causal window lengths mask",
            [(2, 4, 2, 48, 48, 32, 1, 0, 0, 0), (3, 6, 2, 5, 37, 16, 1, 11, 1, 1)],
        ),
        odd=((3, 4, 2, 7, 13, 5),),
    ),
    make_operator(
        "rotary",
        "batch heads length pairs",
        (Option("interleaved", 0),),
        quick=make_points(
            "batch heads length pairs interleaved", [(2, 4, 64, 16, 0), (2, 3, 17, 5, 1)]
        ),
        odd=((3, 5, 7, 3),),
    ),
    make_operator(
        "rms_norm",
        "rows columns",
        module="normalization",
        quick=((64, 256), (7, 1_000)),
        odd=((13, 101),),
    ),
    make_operator(
        "swiglu",
        "rows width hidden",
        module="gated",
        quick=((64, 64, 96), (5, 31, 37)),
        odd=((13, 17, 11),),
    ),
    make_operator(
        "top_k",
        "rows columns k",
        module="selection",
        computes=False,
        quick=((64, 1_000, 8), (5, 131, 131)),
        odd=((13, 101, 7),),
    ),
    make_operator(
        "gather",
        "rows columns count",
        module="selection",
        computes=False,
        quick=((64, 1_000, 256), (3, 7, 50)),
        odd=((7, 101, 31),),
    ),
    make_operator(
        "scatter_add",
        "rows columns count",
        module="selection",
        quick=((64, 1_000, 256), (3, 7, 50)),
        odd=((7, 101, 31),),
    ),
    make_operator(
        "einsum",
        "batch rows inner heads columns",
        module="gemm",
        quick=((2, 32, 48, 4, 16), (3, 7, 5, 2, 11)),
        odd=((3, 7, 11, 5, 13),),
    ),
    # frameworks transform 16 bits on few devices, or not at all
    make_operator(
        "rfft",
        "rows n",
        module="fourier",
        dtypes=DTYPES[:2],
        quick=((16, 256), (5, 251)),
        odd=((7, 101),),
    ),
    make_operator(
        "int8_matmul",
        "m n k",
        module="quantized",
        dtypes=tuple(dtype for dtype in DTYPES if dtype != "tf32"),
        quick=((64, 48, 96), (5, 7, 33)),
        odd=((17, 31, 67),),
    ),
    # its sums are of float32, whatever its result is stored in
    make_operator(
        "fp8_matmul",
        "m n k",
        module="quantized",
        dtypes=("float32", "bfloat16", "float16"),
        quick=((64, 48, 96), (5, 7, 33)),
        odd=((17, 31, 67),),
    ),
)
