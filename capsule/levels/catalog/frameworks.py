"""Facts about each framework, as plain data from which everything else is derived."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class FrameworkFacts:
    """Facts about one framework.

    Attributes:
        package: Python package that it is found by.
        module: Module of `levels.frameworks` that runs it.
        parts: What of `levels` that imports besides, where not all frameworks do: how paths begin.
        dtypes: Words of `types.DTYPES` on a CPU.
        build: What says how it was built: for each field of an inventory a dotted path from a
            package, to a value or to a function that takes nothing and returns one.
        cuda: Dtypes that it has on a CUDA device in addition; None where it has no such device.
        networks: True if it runs networks.
        nodes: True if a network's nodes run in it as they run alone, not compiled as a whole.
        differentiates: True if it yields gradients, and so the metrics that need them.
        trains: True if it trains networks, by the optimizers of the catalogue.
        modules: True if it trains a user's `torch.nn.Module`.
        mixes: True if it chooses itself which operations of a training are safe in 16 bits.
        reevaluates: True if a step of a training may take the loss and its gradients repeatedly.
        user_operators: How it runs an operator of a user's file: by the `function` of its name that
            the file defines; where there is none by the `formula`; None for not at all.
        user_optimizers: How it trains by an optimizer of a user's file: by the `function` that
            makes one, or by the `formula` where the file defines it; None for not at all.
        lacks: Operators that it does not have, and why; networks do not go by this.
        inexact: For a dtype, operators that it has no kernel for, or one that does not keep the
            dtype's precision; networks too.
        nondeterministic: Operators that have no deterministic way on a CUDA device, or "" for all,
            and why.
        tunes: Fields of `training.Tuning` that its trainings can set.
        fills: True if other values can be put into a tensor.
        keeps_memory: True if it keeps host memory that it is done with, so that nothing shows how
            much a trial needed.
    """

    package: str
    module: str
    dtypes: tuple[str, ...]
    parts: tuple[str, ...] = ()
    build: Mapping[str, str] = field(default_factory=dict)
    cuda: tuple[str, ...] | None = None
    networks: bool = True
    nodes: bool = True
    differentiates: bool = True
    trains: bool = True
    modules: bool = False
    mixes: bool = False
    reevaluates: bool = False
    user_operators: Literal["function", "formula"] | None = None
    user_optimizers: Literal["function", "formula"] | None = None
    lacks: Mapping[str, str] = field(default_factory=dict)
    inexact: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    nondeterministic: Mapping[str, str] = field(default_factory=dict)
    tunes: tuple[str, ...] = ()
    fills: bool = True
    keeps_memory: bool = False


_TORCH_BUILD = {
    "version": "torch.__version__",
    "git_version": "torch.version.git_version",
    "cuda": "torch.version.cuda",
    "cudnn": "torch.backends.cudnn.version",
    "build": "torch.__config__.show",
}
_TENSORFLOW_BUILD = {
    "version": "tensorflow.version.VERSION",
    "git_version": "tensorflow.version.GIT_VERSION",
    "compiler": "tensorflow.version.COMPILER_VERSION",
    "build": "tensorflow.sysconfig.get_build_info",
}
# constants of the first two are of float32, and pools of three axes know no doubles
_TENSORFLOW_NO_DOUBLES = ("gelu", "leaky_relu", "max_pool3d")
_TENSORFLOW_LACKS = {"fp8_matmul": "TensorFlow cannot reinterpret bits as float8"}
_NO_DOUBLES = (
    *(f"conv{way}{rank}d" for way in ("", "_transpose") for rank in (1, 2, 3)),
    *("average_pool2d", "global_average_pool", "gelu", "leaky_relu"),
    # ONNX keeps their constants, or ONNX Runtime their sums, in float32
    *("batch_norm", "batch_norm_inference", "layer_norm", "group_norm", "attention"),
    *("grouped_attention", "rms_norm", "int8_matmul"),
    # its softplus and its rotary embedding know no doubles
    *("sigmoid_cross_entropy", "rotary"),
)

FRAMEWORKS: dict[str, FrameworkFacts] = {
    "torch": FrameworkFacts(
        package="torch",
        module="torch",
        tunes=("channels_last", "fused", "cuda_graphs"),
        modules=True,
        mixes=True,
        reevaluates=True,
        dtypes=("float64", "float32", "bfloat16", "float16"),
        build=_TORCH_BUILD,
        cuda=("tf32",),
        # its log_softmax rounds before it subtracts, its nll_loss each part of its sum:
        # docs/evidence/operator-faults.md
        inexact=dict.fromkeys(("bfloat16", "float16"), ("cross_entropy", "softmax_cross_entropy")),
        user_operators="function",
        user_optimizers="function",
        nondeterministic={
            "max_pool3d": "torch's gradient of max_pool3d on CUDA devices sums in varying order"
        },
    ),
    "torch-compile": FrameworkFacts(
        package="torch",
        module="torch_compile",
        tunes=("channels_last", "fused", "compile_mode"),
        modules=True,
        mixes=True,
        reevaluates=True,
        parts=("frameworks/torch/",),
        dtypes=("float64", "float32", "bfloat16", "float16"),
        build=_TORCH_BUILD,
        cuda=("tf32",),
        # C++ that its compiler makes of the gradient is refused by g++
        inexact=dict.fromkeys(("bfloat16", "float16"), ("lstm_cell",)),
        nodes=False,
        user_optimizers="function",
        nondeterministic={
            "": "torch's compiler chooses CUDA kernels by timing them, so two processes can sum in"
            " different orders"
        },
    ),
    "numpy": FrameworkFacts(
        package="numpy",
        module="numpy",
        reevaluates=True,
        dtypes=("float64", "float32"),
        build={"version": "numpy.__version__", "build": "numpy.show_config"},
        user_operators="formula",
        user_optimizers="formula",
    ),
    "tensorflow": FrameworkFacts(
        package="tensorflow",
        module="tensorflow",
        # its kernels for CPUs sum 16-bit products in 16 bits
        dtypes=("float64", "float32"),
        build=_TENSORFLOW_BUILD,
        lacks=_TENSORFLOW_LACKS,
        inexact={"float64": _TENSORFLOW_NO_DOUBLES},
        fills=False,
        keeps_memory=True,
    ),
    "tensorflow-xla": FrameworkFacts(
        package="tensorflow",
        module="tensorflow_xla",
        parts=("frameworks/tensorflow/",),
        nodes=False,
        dtypes=("float64", "float32", "bfloat16", "float16"),
        build=_TENSORFLOW_BUILD,
        lacks=_TENSORFLOW_LACKS,
        # gelu's gradient is made of many operations, each rounded to 16 bits; that of the cross
        # entropy takes 1 from a likely class' rounded share: docs/evidence/operator-faults.md
        inexact={
            "float64": _TENSORFLOW_NO_DOUBLES,
            "bfloat16": ("gelu", "softmax_cross_entropy"),
            "float16": ("gelu",),
        },
        fills=False,
        keeps_memory=True,
    ),
    "onnxruntime": FrameworkFacts(
        package="onnxruntime",
        module="onnxruntime",
        parts=("graphs/onnx/",),
        dtypes=("float64", "float32", "float16"),
        build={
            "version": "onnxruntime.__version__",
            "build": "onnxruntime.get_build_info",
            "providers": "onnxruntime.get_available_providers",
            "onnx": "onnx.__version__",
        },
        differentiates=False,
        trains=False,
        lacks={
            "fp8_matmul": "ONNX Runtime cannot multiply float8 matrices on CPUs",
            "rfft": "ONNX Runtime's transform of a length that is not a power of two has a larger"
            " error than plain sums",
        },
        # it adds no 16-bit numbers where it scatters
        inexact={"float64": _NO_DOUBLES, "float16": ("scatter_add",)},
    ),
    "jax": FrameworkFacts(
        package="jax",
        module="jax",
        nodes=False,
        trains=False,
        dtypes=("float64", "float32", "bfloat16", "float16"),
        build={
            "version": "jax.__version__",
            "jaxlib": "jaxlib.__version__",
        },
        # jax.nn.gelu rounds its constants and each of its steps to 16 bits, and the gradient of
        # jax.nn.softmax each step of a sum; that of jax.nn.dot_product_attention is float32 always
        inexact={
            "float64": ("attention", "grouped_attention"),
            **dict.fromkeys(("bfloat16", "float16"), ("gelu", "softmax")),
        },
        fills=False,
    ),
}
