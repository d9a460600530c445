"""The operators of Level 0 with their parameters and sets of cases."""

from __future__ import annotations

from collections.abc import Iterable

from . import deepbench, modern
from .entries import make_operator, make_points
from .types import Operator, Option, Point

_BIAS = Option("bias", 0)
_CONV = (
    Option("stride", 1, 1, None),
    Option("padding", 0, 0, None),
    Option("dilation", 1, 1, None),
    Option("groups", 1, 1, None),
    _BIAS,
)
_TRANSPOSED = (*_CONV, Option("output_padding", 0, 0, None))


def _gemms(text: str) -> list[Point]:
    return make_points("m n k ta tb", _rows(text))


def _convolutions(text: str) -> list[Point]:
    return make_points("n c h w k r s stride padding", _rows(text))


def _rows(text: str) -> list[tuple[int, ...]]:
    return [tuple(map(int, row.split())) for row in text.split(";") if row.strip()]


_STRIDES = (Option("stride", 1, 1, None), Option("padding", 0, 0, None))
_IMAGE = "n c h w"
_ODD_IMAGE = ((3, 5, 7, 11),)
_ODD_MATRIX = ((13, 101),)


def _activation(
    name: str, options: Iterable[Option] = (), sizes: tuple[int, ...] = (1_000, 100_000)
) -> Operator:
    quick = [{"n": n} for n in sizes] + [{"n": 10_000, option.name: 1} for option in options]
    return make_operator(
        name,
        "n",
        options,
        module="activations",
        quick=quick,
        odd=((1009,),),
        transformer=make_points("n", [(8 * 512 * 3072,)]),
    )


_OPERATORS = (
    make_operator(
        "gemm",
        "m n k",
        (Option("ta", 0), Option("tb", 0), _BIAS),
        quick=(
            (64, 64, 64),
            (256, 256, 256),
            (512, 128, 1024),
            *make_points("m n k ta tb", [(96, 64, 80, 1, 0), (96, 64, 80, 1, 1)]),
            {"m": 96, "n": 64, "k": 80, "tb": 1, "bias": 1},
        ),
        transformer=make_points(
            "m n k", [(4096, 768, 768), (4096, 3072, 768), (4096, 768, 3072)], tb=1, bias=1
        ),
        deepbench_train=_gemms(deepbench.GEMM_TRAIN),
        deepbench_inference=_gemms(deepbench.GEMM_INFERENCE),
        odd=((17, 31, 67),),
    ),
    make_operator(
        "matmul",
        "batch m n k",
        module="gemm",
        quick=((1, 32, 48, 64), (12, 64, 64, 64)),
        transformer=((96, 512, 512, 64), (96, 512, 64, 512)),
        odd=((3, 17, 31, 13),),
    ),
    make_operator(
        "conv1d",
        "n c w k s",
        _CONV,
        module="convolution",
        quick=make_points(
            "n c w k s stride padding dilation groups bias",
            [(4, 8, 200, 16, 5, 1, 0, 1, 1, 0), (4, 8, 201, 12, 4, 3, 2, 2, 4, 1)],
        ),
        odd=make_points(
            "n c w k s stride padding dilation groups bias", [(3, 6, 31, 9, 3, 2, 1, 2, 3, 1)]
        ),
    ),
    make_operator(
        "conv2d",
        "n c h w k r s",
        _CONV,
        module="convolution",
        quick=make_points(
            "n c h w k r s stride padding dilation groups bias",
            [(2, 8, 20, 20, 16, 3, 3, 1, 1, 1, 1, 0), (2, 8, 17, 19, 12, 3, 5, 2, 1, 2, 4, 1)],
        ),
        deepbench_train=_convolutions(deepbench.CONV_TRAIN),
        deepbench_inference=_convolutions(deepbench.CONV_INFERENCE),
        odd=make_points(
            "n c h w k r s stride padding dilation groups bias",
            [(3, 6, 13, 11, 9, 3, 2, 2, 1, 2, 3, 1)],
        ),
    ),
    make_operator(
        "conv3d",
        "n c d h w k q r s",
        _CONV,
        module="convolution",
        quick=make_points(
            "n c d h w k q r s stride padding dilation groups bias",
            [
                (2, 4, 8, 8, 8, 6, 3, 3, 3, 1, 1, 1, 1, 0),
                (2, 4, 9, 8, 7, 6, 2, 3, 2, 2, 1, 2, 2, 1),
            ],
        ),
        odd=make_points(
            "n c d h w k q r s stride padding dilation groups bias",
            [(3, 2, 7, 5, 7, 4, 2, 3, 2, 2, 1, 2, 2, 1)],
        ),
    ),
    make_operator(
        "conv_transpose1d",
        "n c w k s",
        _TRANSPOSED,
        module="convolution",
        quick=make_points(
            "n c w k s stride padding dilation groups bias output_padding",
            [(4, 8, 100, 6, 4, 2, 1, 1, 1, 0, 0), (4, 8, 101, 12, 3, 3, 1, 2, 4, 1, 2)],
        ),
        odd=make_points(
            "n c w k s stride padding dilation groups bias output_padding",
            [(3, 6, 29, 9, 3, 2, 1, 2, 3, 1, 1)],
        ),
    ),
    make_operator(
        "conv_transpose2d",
        "n c h w k r s",
        _TRANSPOSED,
        module="convolution",
        quick=make_points(
            "n c h w k r s stride padding dilation groups bias output_padding",
            [
                (2, 8, 10, 10, 6, 4, 4, 2, 1, 1, 1, 0, 0),
                (2, 8, 9, 7, 12, 3, 3, 2, 1, 1, 1, 0, 1),
                (2, 8, 9, 7, 12, 3, 2, 2, 1, 2, 4, 1, 0),
            ],
        ),
        odd=make_points(
            "n c h w k r s stride padding dilation groups bias output_padding",
            [(3, 6, 7, 5, 9, 3, 2, 2, 1, 2, 3, 1, 0)],
        ),
    ),
    make_operator(
        "conv_transpose3d",
        "n c d h w k q r s",
        _TRANSPOSED,
        module="convolution",
        quick=make_points(
            "n c d h w k q r s stride padding dilation groups bias output_padding",
            [
                (2, 4, 5, 5, 5, 3, 2, 2, 2, 2, 0, 1, 1, 0, 0),
                (2, 4, 3, 4, 5, 3, 3, 3, 3, 2, 1, 1, 1, 0, 1),
                (2, 4, 5, 4, 6, 6, 3, 2, 3, 2, 1, 2, 2, 1, 0),
            ],
        ),
        odd=make_points(
            "n c d h w k q r s stride padding dilation groups bias output_padding",
            [(3, 4, 3, 5, 2, 6, 3, 2, 3, 2, 1, 2, 2, 1, 0)],
        ),
    ),
    make_operator(
        "max_pool2d",
        f"{_IMAGE} r s",
        _STRIDES,
        module="pooling",
        quick=make_points(
            f"{_IMAGE} r s stride padding",
            [(4, 8, 32, 32, 2, 2, 2, 0), (4, 8, 33, 31, 3, 3, 2, 1)],
        ),
        odd=make_points(f"{_IMAGE} r s stride padding", [(3, 5, 17, 13, 3, 2, 2, 1)]),
    ),
    make_operator(
        "max_pool3d",
        "n c d h w q r s",
        _STRIDES,
        module="pooling",
        quick=make_points(
            "n c d h w q r s stride padding",
            [(2, 4, 16, 16, 16, 2, 2, 2, 2, 0), (2, 4, 9, 8, 7, 3, 2, 3, 2, 1)],
        ),
        odd=make_points("n c d h w q r s stride padding", [(2, 3, 7, 9, 5, 3, 2, 3, 2, 1)]),
    ),
    make_operator(
        "average_pool2d",
        f"{_IMAGE} r s",
        _STRIDES,
        module="pooling",
        quick=make_points(
            f"{_IMAGE} r s stride padding",
            [(4, 8, 32, 32, 2, 2, 2, 0), (4, 8, 33, 31, 3, 3, 2, 1)],
        ),
        odd=make_points(f"{_IMAGE} r s stride padding", [(3, 5, 17, 13, 3, 2, 2, 1)]),
    ),
    make_operator(
        "global_average_pool", _IMAGE, module="pooling", quick=((8, 64, 7, 7),), odd=_ODD_IMAGE
    ),
    make_operator(
        "batch_norm", _IMAGE, module="normalization", quick=((8, 16, 14, 14),), odd=_ODD_IMAGE
    ),
    make_operator(
        "batch_norm_inference",
        _IMAGE,
        module="normalization",
        quick=((8, 16, 14, 14),),
        odd=_ODD_IMAGE,
    ),
    make_operator(
        "layer_norm",
        "rows columns",
        module="normalization",
        quick=((64, 256), (7, 1_000)),
        transformer=((4096, 768),),
        odd=((13, 101),),
    ),
    make_operator(
        "group_norm",
        _IMAGE,
        (Option("groups", 1, 1, None),),
        module="normalization",
        quick=make_points(f"{_IMAGE} groups", [(4, 16, 14, 14, 4)]),
        odd=make_points(f"{_IMAGE} groups", [(3, 9, 7, 5, 3)]),
    ),
    _activation("relu", sizes=(1_000, 100_000, 1_000_000)),
    _activation("leaky_relu", (Option("percent", 1, 0, 99),)),
    _activation("sigmoid"),
    _activation("tanh"),
    _activation("gelu", (Option("approximate", 0),)),
    make_operator(
        "softmax",
        "rows columns",
        quick=((1, 1_000), (64, 1_000), (16, 32_000)),
        transformer=((8 * 12 * 512, 512),),
        odd=((7, 101),),
    ),
    make_operator(
        "cross_entropy", "rows columns", module="losses", quick=((64, 100),), odd=((13, 11),)
    ),
    make_operator(
        "softmax_cross_entropy",
        "rows columns",
        (Option("weighted", 0),),
        module="losses",
        quick=((64, 100), (16, 1_000), *make_points("rows columns weighted", [(1_000, 3, 1)])),
        transformer=((4096, 32_000),),
        odd=((13, 11),),
    ),
    make_operator(
        "sigmoid_cross_entropy", "n", module="losses", quick=((10_000,),), odd=((1009,),)
    ),
    make_operator("mean_squared_error", "n", module="losses", quick=((10_000,),), odd=((1009,),)),
    make_operator(
        "attention",
        "batch heads length width",
        (Option("causal", 0),),
        quick=make_points(
            "batch heads length width causal", [(2, 4, 64, 32, 0), (2, 4, 64, 32, 1)]
        ),
        transformer=make_points("batch heads length width causal", [(8, 12, 512, 64, 1)]),
        odd=((3, 5, 13, 7),),
    ),
    make_operator(
        "embedding",
        "rows width count",
        computes=False,
        quick=((1_000, 64, 500),),
        transformer=((32_000, 768, 4096),),
        odd=((17, 7, 101),),
    ),
    make_operator(
        "lstm_cell", "n width hidden", module="recurrent", quick=((16, 32, 48),), odd=((5, 7, 11),)
    ),
    make_operator(
        "dropout",
        "n",
        (Option("percent", 50, 0, 99),),
        module="elementwise",
        quick=({"n": 100_000}, {"n": 10_000, "percent": 10}),
        transformer=((8 * 512 * 768,),),
        odd=((1009,),),
    ),
    make_operator(
        "add",
        "rows columns",
        module="elementwise",
        quick=((64, 1_000),),
        transformer=((4096, 768),),
        odd=((13, 101),),
    ),
    make_operator(
        "sum", "n count", module="elementwise", quick=((10_000, 2), (10_000, 5)), odd=((1009, 3),)
    ),
    make_operator(
        "reduce_sum",
        "rows columns",
        module="reductions",
        quick=((64, 1_000), (4, 100_000)),
        odd=_ODD_MATRIX,
    ),
    make_operator(
        "reduce_mean", "rows columns", module="reductions", quick=((64, 1_000),), odd=_ODD_MATRIX
    ),
    make_operator(
        "reduce_max", "rows columns", module="reductions", quick=((64, 1_000),), odd=_ODD_MATRIX
    ),
    make_operator(
        "reshape", _IMAGE, module="shapes", computes=False, quick=((8, 16, 14, 14),), odd=_ODD_IMAGE
    ),
    make_operator(
        "squeeze",
        "rows columns",
        module="shapes",
        computes=False,
        quick=((64, 1_000),),
        odd=_ODD_MATRIX,
    ),
    make_operator(
        "unsqueeze",
        "rows columns",
        module="shapes",
        computes=False,
        quick=((64, 1_000),),
        odd=_ODD_MATRIX,
    ),
    *modern.OPERATORS,
)

OPERATORS: dict[str, Operator] = {operator.name: operator for operator in _OPERATORS}
