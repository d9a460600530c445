"""Make torch compute with less precision than it is asked for.

The part `bounds` copies this file into an environment, and a `.pth` file there calls `plant`.
"""

import importlib.util
import sys

FAULTS = (
    "operands cut to bfloat16",
    "sums of 16-bit parts",
    "tf32 in float32",
    "bf16 reductions",
    "fp16 reductions",
    "fp16 accumulation",
)


def plant(name):
    """Plant a fault of `FAULTS` into torch as soon as it is imported."""
    assert name in FAULTS, name
    sys.meta_path.insert(0, _Finder(name))


class _Finder:
    def __init__(self, name):
        self._name, self._busy = name, False

    def find_spec(self, name, _path=None, _target=None):
        """Return torch's own spec, with the fault planted once torch is there."""
        if name != "torch" or self._busy:
            return None
        self._busy = True
        spec = importlib.util.find_spec("torch")
        self._busy = False
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            _change(module, self._name)

        spec.loader.exec_module = exec_module
        return spec


def _change(torch, name):
    if name == "operands cut to bfloat16":
        torch.mm = _cut(torch, torch.mm)
    elif name == "sums of 16-bit parts":
        torch.mm = _split(torch, torch.mm)
    elif name == "tf32 in float32":
        for setter in ("_set_cublas_allow_tf32", "_set_cudnn_allow_tf32"):
            _force(torch._C, setter, (True,))
        if hasattr(torch._C, "_set_fp32_precision_setter"):
            for backend, operator in (("cuda", "matmul"), ("cuda", "conv"), ("cuda", "all")):
                torch._C._set_fp32_precision_setter(backend, operator, "tf32")
            torch._C._set_fp32_precision_setter = lambda *_: "tf32"
    elif name == "fp16 accumulation":
        _force(torch._C, "_set_cublas_allow_fp16_accumulation", (True,))
    else:
        kind = name.partition(" ")[0]
        setter = f"_set_cublas_allow_{kind}_reduced_precision_reduction"
        try:
            _force(torch._C, setter, (True,))
        except TypeError:
            _force(torch._C, setter, (True, True))


def _force(functions, name, values):
    old = getattr(functions, name)
    old(*values)
    setattr(functions, name, lambda *_: old(*values))


def _cut(torch, multiply):
    def lower(value):
        if isinstance(value, torch.Tensor) and value.dtype == torch.float32:
            return value.bfloat16().to(value.dtype)
        return value

    return lambda *operands, **more: multiply(*map(lower, operands), **more)


def _split(torch, multiply):
    def run(a, b):
        if a.dtype not in (torch.bfloat16, torch.float16):
            return multiply(a, b)
        length = max(1, a.shape[1] // 16)
        parts = zip(a.split(length, 1), b.split(length, 0), strict=True)
        total = multiply(*next(parts))
        for first, second in parts:
            total = total + multiply(first, second)
        return total

    return run
