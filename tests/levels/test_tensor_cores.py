"""Products that a GPU computed without its tensor cores: known by kernels, or nothing is said."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from capsule.levels import frameworks, level2
from capsule.levels.data import generators
from capsule.levels.frameworks.kernels import RecordsKernels
from capsule.levels.frameworks.numpy import Numpy
from capsule.levels.instruments import tensor_cores
from capsule.levels.instruments.tensor_cores import find_plain
from capsule.levels.journal import Samples
from capsule.levels.report import Report
from capsule.levels.run import load_level
from tests.support import trials
from tests.support.jobs import needs_torch
from tests.support.trainings import SMALL, trial

TENSOR = (
    "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn",
    "ampere_fp16_s1688gemm_fp16_64x64_sliced1x2_ldg8_f2f_stages_64x5_nn",
    "volta_h884gemm_128x64_ldg8_nn",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_cublas",
    "sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize64x64x32_stage4_warpsize2x2x1_tensor16x8x8",
    "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4>(Params)",
    "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_32x2_nn_align8>",
    "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NNT",
    "void cutlass::device_kernel<GemmUniversal<MainloopSm90TmaGmmaWarpSpecialized<4>>>(Params)",
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128>>(Params)",
    "fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::Params)",
    "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64",
    "sm80_xmma_fprop_implicit_gemm_indexed_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x32",
    "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_s1688fprop_optimized_tf32_64x64>(Params)",
)
PLAIN = (
    "ampere_sgemm_32x32_sliced1x4_nn",
    "void gemv2T_kernel_val<int, int, __nv_bfloat16, __nv_bfloat16, float, 128>(Params)",
    "void gemmSN_NN_kernel<float, 256, 4, 2, 8, 5, 4, false>(Params)",
    "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(Params)",
    "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4",
    "void dot_kernel<float, 128, 0>(cublasDotParams)",
    "void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1>(int, float const*)",
    "ampere_scudnn_128x64_relu_xregs_large_nn_v1",
    "void at::native::(anonymous namespace)::conv_depthwise2d_forward_kernel<3, bf16, int>(int)",
    "void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(Params)",
)
OTHER = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(at::native::ReduceOp)",
    "void (anonymous namespace)::softmax_warp_forward<float, float, float, 8, false>(float*)",
    "Memcpy HtoD (Pageable -> Device)",
    "Memset (Device)",
    "void splitKreduce_kernel<32, 16, int, float, float>(cublasSplitKParams<float>)",
    "void cudnn::ops::nchwToNhwcKernel<__half, __half, float, true>(Params)",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096>)",
    "triton_poi_fused_add_relu_0",
)
UNKNOWN = ("triton_tem_fused_mm_3", "Cijk_Ailk_Bljk_BBS_BH_MT128x128x32_MI32x32x8", "my_kernel")


@pytest.mark.parametrize("plain", PLAIN)
def test_a_product_without_tensor_cores_is_named(plain: str) -> None:
    assert find_plain([plain]) == plain
    assert find_plain([*OTHER, plain, *PLAIN]) == plain


@pytest.mark.parametrize("other", OTHER)
def test_what_is_no_product_is_not_named_and_hides_none(other: str) -> None:
    assert find_plain([other]) == ""
    assert find_plain([PLAIN[0], other]) == PLAIN[0]


@pytest.mark.parametrize("name", [*TENSOR, *UNKNOWN])
def test_one_kernel_that_uses_tensor_cores_or_may_silences_all(name: str) -> None:
    assert find_plain([name]) == ""
    assert find_plain([*PLAIN, name]) == ""
    assert find_plain([name, *PLAIN]) == ""


def test_nothing_is_said_of_nothing() -> None:
    assert find_plain([]) == ""


class Recorder(Numpy):
    """numpy, which tells kernels."""

    def __init__(self, *kernels: str) -> None:
        super().__init__()
        self.kernels = kernels
        self.calls = 0

    def record_kernels(self, run: Callable[[], object]) -> list[str]:
        self.calls += 1
        run()
        return list(self.kernels)


@pytest.mark.parametrize(
    ("dtype", "is_looked_at"),
    [
        *(("tf32", True), ("bfloat16", True), ("float16", True), ("8 bits", True)),
        *(("float32", False), ("float64", False)),
    ],
)
def test_only_types_that_tensor_cores_have_are_looked_at(dtype: str, is_looked_at: bool) -> None:
    ran = []
    framework = Recorder(PLAIN[0])
    found = tensor_cores.look(framework, dtype, lambda: ran.append(1))
    assert found == (PLAIN[0] if is_looked_at else "")
    assert len(ran) == framework.calls == is_looked_at


def test_a_framework_that_tells_no_kernels_runs_nothing() -> None:
    def run() -> None:
        raise AssertionError

    assert not isinstance(Numpy(), RecordsKernels)
    assert tensor_cores.look(Numpy(), "bfloat16", run) == ""


# what torch's profiler tells


class Profile:
    """`torch.profiler.profile` with these events, without a device."""

    def __init__(self, *events: Any, fails: bool = False) -> None:
        self._events = events
        self._fails = fails
        self.activities: list[Any] = []

    def __call__(self, activities: list[Any]) -> "Profile":
        self.activities = activities
        return self

    def __enter__(self) -> "Profile":
        if self._fails:
            raise RuntimeError("CUPTI is not there")
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def events(self) -> tuple[Any, ...]:
        return self._events


@pytest.fixture
def on_cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Torch on a device that is not there: nothing is computed on it."""
    torch = pytest.importorskip("torch")
    from capsule.levels.frameworks.torch import Torch

    waited: list[int] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: waited.append(1))
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    framework: Any = Torch("cuda")
    framework.waited = waited
    yield framework


def event(name: str, kind: str = "CUDA", **fields: Any) -> Any:
    from torch.autograd import DeviceType

    return SimpleNamespace(name=name, device_type=getattr(DeviceType, kind), **fields)


@needs_torch
def test_kernels_are_those_that_the_device_ran_until_it_was_idle(
    on_cuda: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    profile = Profile(
        event("aten::mm", "CPU"),
        event(PLAIN[0]),
        event("Optimizer.step#SGD.step", is_user_annotation=True),
        event(OTHER[0], is_user_annotation=False),
    )
    monkeypatch.setattr(torch.profiler, "profile", profile)
    ran: list[int] = []
    assert on_cuda.record_kernels(lambda: ran.append(1)) == [PLAIN[0], OTHER[0]]
    assert (len(ran), len(on_cuda.waited)) == (1, 1)
    assert profile.activities == [torch.profiler.ProfilerActivity.CUDA]


@needs_torch
@pytest.mark.parametrize(
    ("version", "is_asked"),
    [("12.6", True), ("13.0", True), ("12.4", False), ("11.8", False), (None, False)],
)
def test_a_profiler_that_may_end_the_process_is_not_started(
    on_cuda: Any, monkeypatch: pytest.MonkeyPatch, version: str | None, is_asked: bool
) -> None:
    import torch

    monkeypatch.setattr(torch.version, "cuda", version)
    monkeypatch.setattr(torch.profiler, "profile", Profile(event(PLAIN[0])))
    ran: list[int] = []
    assert bool(on_cuda.record_kernels(lambda: ran.append(1))) is is_asked
    assert len(ran) == is_asked


@needs_torch
def test_without_a_profiler_or_memory_no_kernel_is_known(
    on_cuda: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    def run_out() -> None:
        raise torch.OutOfMemoryError("planted")

    monkeypatch.setattr(torch.profiler, "profile", Profile(event(PLAIN[0]), fails=True))
    assert on_cuda.record_kernels(lambda: None) == []
    monkeypatch.setattr(torch.profiler, "profile", Profile(event(PLAIN[0])))
    assert on_cuda.record_kernels(run_out) == []


@needs_torch
def test_a_cpu_and_a_compiler_tell_no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from capsule.levels.frameworks.torch_compile import TorchCompile

    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.profiler, "profile", Profile(event(PLAIN[0])))

    def run() -> None:
        raise AssertionError

    on_cpu: Any = frameworks.load("torch", "cpu", 1, "default")
    assert on_cpu.record_kernels(run) == []
    assert TorchCompile("cuda").record_kernels(run) == []


# trials


def told(*kernels: str) -> Any:
    """Torch on a CPU, which tells these kernels of each call."""
    framework: Any = frameworks.load("torch", "cpu", 1, "default")
    framework.calls = 0

    def record_kernels(run: Callable[[], object]) -> list[str]:
        framework.calls += 1
        run()
        return list(kernels)

    framework.record_kernels = record_kernels
    return framework


def measure(framework: Any, **fields: Any) -> Report:
    lines: list[Samples] = []
    report = Report(lines.append)
    made = trials.make("torch", **fields)
    load_level(made.level)(made, framework, report)
    return report


GEMM = {"operator": "gemm", "parameters": {"m": 3, "n": 2, "k": 4}}
FP8 = {"operator": "fp8_matmul", "parameters": {"m": 3, "n": 2, "k": 4}}
LENET = {"network": "lenet", "parameters": {"batch": 2}, "repetitions": 1, "warmup": 0}


@needs_torch
@pytest.mark.parametrize(
    ("fields", "dtype", "is_named"),
    [
        *((GEMM, "bfloat16", True), (GEMM, "float32", False), (FP8, "float32", True)),
        *((LENET, "bfloat16", True), (LENET, "float32", False)),
    ],
    ids=str,
)
def test_a_trial_names_the_kernel_of_a_call_after_the_timed_ones(
    fields: dict[str, Any], dtype: str, is_named: bool
) -> None:
    framework = told(OTHER[0], PLAIN[0])
    assert measure(framework, dtype=dtype, **fields).off_tensor_cores == PLAIN[0] * is_named
    assert framework.calls == is_named
    assert measure(told(PLAIN[0], TENSOR[0]), dtype=dtype, **fields).off_tensor_cores == ""


MODULE = """
from torch import nn

inputs = {"x": (4,), "label": {"below": 3}}
quality = "accuracy"

def network():
    return nn.Linear(4, 3)
"""


@needs_torch
@pytest.mark.parametrize(("dtype", "is_named"), [("bfloat16", True), ("float32", False)])
def test_a_trial_of_a_module_does_too(tmp_path: Path, dtype: str, is_named: bool) -> None:
    (tmp_path / "mine.py").write_text(MODULE)
    fields = {**LENET, "network": "mine", "source": str(tmp_path / "mine.py"), "dtype": dtype}
    assert measure(told(PLAIN[0]), **fields).off_tensor_cores == PLAIN[0] * is_named


@needs_torch
def test_a_call_runs_forward_and_backward(monkeypatch: pytest.MonkeyPatch) -> None:
    framework = told(PLAIN[0])
    made: list[str] = []
    native = framework.operators
    operation, gradient = native.operation, native.gradient

    def count(name: str, make: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*operands: Any) -> Any:
            if framework.calls:
                made.append(name)
            return make(*operands)

        return counted

    monkeypatch.setattr(native, "operation", count("forward", operation))
    monkeypatch.setattr(native, "gradient", count("backward", gradient))
    measure(framework, dtype="bfloat16", **GEMM)
    assert made == ["forward", "backward"]


@needs_torch
@pytest.mark.parametrize(("dtype", "is_named"), [("bfloat16-mixed", True), ("float32", False)])
def test_a_training_looks_at_a_step_after_the_last_one(
    tmp_path: Path, dtype: str, is_named: bool
) -> None:
    generators.write(generators.generate("glyphs", SMALL), tmp_path)
    lines: list[Samples] = []
    framework = told(PLAIN[0])
    report = Report(lines.append)
    load_level(2)(trial("torch", tmp_path, 17, epochs=1, dtype=dtype), framework, report)
    assert report.off_tensor_cores == PLAIN[0] * is_named
    assert framework.calls == is_named
    assert "final_accuracy" in {line.metric for line in lines}


@needs_torch
def test_a_step_of_one_rank_would_wait_for_the_others() -> None:
    alone: Any = SimpleNamespace(team=SimpleNamespace(ranks=2))
    assert level2._find_plain_kernel(alone, alone) == ""
