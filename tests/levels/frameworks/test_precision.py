"""TF32 and the sums of 16-bit products in torch: set for a trial, recorded, and put back."""

import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from capsule.levels import frameworks
from capsule.levels.frameworks.settings import KeepsSwitches
from tests.support.command import User, write_manifest
from tests.support.jobs import end, job, needs_torch, network, operator, run

torch = pytest.importorskip("torch")
backends = torch.backends
pytestmark = [
    pytest.mark.torch,
    # what is tested is that both names work
    pytest.mark.filterwarnings("ignore:.*new API settings to control TF32:UserWarning"),
]

has_later_names = hasattr(backends.cuda.matmul, "fp32_precision")
needs_later_names = pytest.mark.skipif(not has_later_names, reason="torch before 2.9")
DTYPES = ("float64", "float32", "tf32", "bfloat16", "float16")
SUMS = ("allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction")


def read(reader: Callable[[], Any]) -> Any:
    """Return the value, or the class of error if torch reports that names disagree."""
    try:
        return reader()
    except RuntimeError as error:
        return type(error).__name__


def observe() -> dict[str, Any]:
    """All that a program can read of precision."""
    found = {
        "matmul": read(lambda: backends.cuda.matmul.allow_tf32),
        "cudnn": read(lambda: backends.cudnn.allow_tf32),
        "word": read(torch.get_float32_matmul_precision),
        "accumulation": backends.cuda.matmul.allow_fp16_accumulation,
        "attention": backends.cuda.fp16_bf16_reduction_math_sdp_allowed(),
        **{name: getattr(backends.cuda.matmul, name) for name in SUMS},
    }
    for name in SUMS:
        found[f"{name} split"] = getattr(backends.cuda.matmul, f"{name}_split_k", None)
    if has_later_names:
        for owner, of in (
            *((backends, "all"), (backends.cudnn, "cuda"), (backends.cuda.matmul, "cuda matmul")),
            *((backends.cudnn.conv, "cuda conv"), (backends.cudnn.rnn, "cuda rnn")),
            *((backends.mkldnn, "onednn"), (backends.mkldnn.matmul, "onednn matmul")),
            *((backends.mkldnn.conv, "onednn conv"), (backends.mkldnn.rnn, "onednn rnn")),
        ):
            found[of] = owner.fp32_precision
    return found


def set_named(owner: Any, precision: str) -> Callable[[], None]:
    """Set the later name of one kind of product, or of all."""
    return lambda: setattr(owner, "fp32_precision", precision)


def set_sums(*allowed: bool) -> Callable[[], None]:
    def set_all() -> None:
        for name in SUMS:
            setattr(backends.cuda.matmul, name, allowed if len(allowed) > 1 else allowed[0])

    return set_all


def allow(owner: Any, *, on: bool) -> Callable[[], None]:
    """Set the earlier name."""
    return lambda: setattr(owner, "allow_tf32", on)


def set_word(word: str) -> Callable[[], None]:
    return lambda: torch.set_float32_matmul_precision(word)


def accumulate_in_16_bits() -> None:
    backends.cuda.matmul.allow_fp16_accumulation = True
    backends.cuda.allow_fp16_bf16_reduction_math_sdp(True)


EARLIER: dict[str, Callable[[], None]] = {
    "nothing": lambda: None,
    "matmul by the earlier name": allow(backends.cuda.matmul, on=True),
    "cudnn by the earlier name": allow(backends.cudnn, on=False),
    "high": set_word("high"),
    "medium": set_word("medium"),
    "sums": set_sums(False),
    "accumulation": accumulate_in_16_bits,
}
LATER: dict[str, Callable[[], None]] = {}
if has_later_names:
    LATER = {
        "matmul": set_named(backends.cuda.matmul, "tf32"),
        "matmul off": set_named(backends.cuda.matmul, "ieee"),
        "convolutions": set_named(backends.cudnn.conv, "ieee"),
        "recurrences": set_named(backends.cudnn.rnn, "none"),
        "all of CUDA": set_named(backends.cudnn, "tf32"),
        "all": set_named(backends, "tf32"),
        "all off": set_named(backends, "ieee"),
    }
    if hasattr(backends.cuda.matmul, f"{SUMS[0]}_split_k"):
        LATER["sums without splits"] = set_sums(False, False)
SET = {**EARLIER, **LATER}


def reset() -> None:
    """As torch is when it is imported."""
    torch.set_float32_matmul_precision("highest")
    backends.cudnn.allow_tf32 = True
    set_sums(True)()
    backends.cuda.matmul.allow_fp16_accumulation = False
    backends.cuda.allow_fp16_bf16_reduction_math_sdp(False)
    if has_later_names:
        for owner in (backends, backends.cudnn, backends.cuda.matmul, backends.mkldnn.matmul):
            owner.fp32_precision = "none"


@pytest.fixture
def framework() -> Iterator[Any]:
    reset()
    yield frameworks.load("torch", "cpu", 1, "default")
    reset()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("which", SET)
def test_a_trial_sets_what_its_dtype_means_and_puts_back_what_was_set(
    framework: Any, which: str, dtype: str
) -> None:
    SET[which]()
    before = observe()
    with framework.arithmetic(dtype):
        inside = observe()
        held = framework.settings()
    assert observe() == before
    is_tf32 = dtype == "tf32"
    assert held["cuda_matmul_allow_tf32"] is held["cudnn_allow_tf32"] is is_tf32
    if has_later_names:
        assert inside["cuda matmul"] == inside["cuda conv"] == inside["cuda rnn"]
        assert inside["cuda matmul"] == ("tf32" if is_tf32 else "ieee")
    for name in SUMS:
        assert held[f"cuda_matmul_{name}"] is inside[name] is False
    assert held["cuda_matmul_allow_fp16_accumulation"] is inside["accumulation"] is False
    assert held["sdp_math_allow_16bit_reduction"] is inside["attention"] is False
    # torch's compiler reads the word, and fails where it cannot
    if before["word"] != "RuntimeError":
        assert inside["word"] in ("highest", "high", "medium")
    for name in ("onednn", "onednn matmul", "onednn conv", "onednn rnn"):
        assert inside.get(name) == before.get(name)


@pytest.mark.parametrize("meanwhile", SET)
@pytest.mark.parametrize("before", ["nothing", "high", "matmul by the earlier name", *LATER])
def test_what_a_file_sets_within_a_trial_ends_with_it(
    framework: Any, before: str, meanwhile: str
) -> None:
    own = {"all of CUDA", "all", "all off"}  # above what a trial sets
    SET[before]()
    state = observe()
    with framework.arithmetic("float32"):
        SET[meanwhile]()
    if meanwhile not in own:
        assert observe() == state
    with framework.arithmetic("float32"):
        assert framework.settings()["cuda_matmul_allow_tf32"] is False
        assert framework.settings()["cudnn_allow_tf32"] is False


def test_an_error_within_a_trial_puts_back_too(framework: Any) -> None:
    before = observe()
    with pytest.raises(KeyError), framework.arithmetic("tf32"):
        raise KeyError
    assert observe() == before


def test_switches_are_those_within_trials_by_dtype(framework: Any) -> None:
    loaded: object = framework
    assert isinstance(loaded, KeepsSwitches)
    for dtype in ("float32", "tf32"):
        with framework.arithmetic(dtype):
            pass
    on = {name: held["cuda_matmul_allow_tf32"] for name, held in framework.switches.items()}
    assert on == {"float32": False, "tf32": True}
    assert framework.switches["float32"]["sdp_flash"] is True
    assert framework.switches["float32"]["cuda_matmul_allow_fp16_accumulation"] is False
    # once on, on: some of the trial ran with it
    with framework.arithmetic("float32"):
        backends.cuda.matmul.allow_tf32 = True
    with framework.arithmetic("float32"):
        pass
    assert framework.switches["float32"]["cuda_matmul_allow_tf32"] is True
    framework.switches.clear()
    with framework.arithmetic("float32"):
        pass
    assert framework.switches["float32"]["cuda_matmul_allow_tf32"] is False


class Earlier(SimpleNamespace):
    """A part of `torch.backends` as torch before 2.9 has it."""


@pytest.mark.parametrize("was", [False, True])
def test_an_earlier_torch_has_the_earlier_names_alone(
    framework: Any, monkeypatch: pytest.MonkeyPatch, was: bool
) -> None:
    matmul = Earlier(allow_tf32=was, **dict.fromkeys(SUMS, True))
    cudnn = Earlier(allow_tf32=not was, enabled=True, benchmark=False, deterministic=False)
    monkeypatch.setattr(backends.cuda, "matmul", matmul)
    monkeypatch.setattr(backends, "cudnn", cudnn)
    monkeypatch.setattr(backends, "mkldnn", Earlier(enabled=True))
    monkeypatch.delattr(backends.cuda, "allow_fp16_bf16_reduction_math_sdp")
    for dtype, on in (("tf32", True), ("float32", False)):
        with framework.arithmetic(dtype):
            assert matmul.allow_tf32 is cudnn.allow_tf32 is on
            assert not any(getattr(matmul, name) for name in SUMS)
            settings = framework.settings()
            assert settings["cuda_matmul_allow_tf32"] is settings["cudnn_allow_tf32"] is on
            assert settings["cuda_matmul_allow_fp16_accumulation"] is None
            assert "cuda_matmul_allow_fp16_accumulation" in settings["missing"]
        assert (matmul.allow_tf32, cudnn.allow_tf32) == (was, not was)
        assert all(getattr(matmul, name) for name in SUMS)
        assert not hasattr(matmul, "allow_fp16_accumulation")
        assert not hasattr(matmul, "fp32_precision")


MODULE = """
import torch
from torch import nn

SET
inputs = {"x": (4,), "label": {"below": 3}}
quality = "accuracy"

def network():
    return nn.Linear(4, 3)
"""


@needs_torch
@needs_later_names
@pytest.mark.parametrize("level", ["import", "network"])
def test_a_module_that_sets_the_later_name_is_measured_and_its_switch_is_recorded(
    tmp_path: Path, level: str
) -> None:
    line = 'torch.backends.cuda.matmul.fp32_precision = "tf32"'
    text = MODULE.replace("SET", line if level == "import" else "")
    if level == "network":
        text = text.replace("    return nn.Linear", f"    {line}\n    return nn.Linear")
    (tmp_path / "mine.py").write_text(text)
    first = {**network("mine", batch=2), "source": str(tmp_path / "mine.py")}
    second = operator("gemm", m=2, n=2, k=2)
    journal = run(tmp_path, job([first, second], "torch"))
    ended = end(journal, first["id"])
    assert (ended["outcome"], ended["message"]) == ("completed", "")
    assert ended["switches"]["cuda_matmul_allow_tf32"] is True
    later = end(journal, second["id"])
    assert later["outcome"] == "completed"
    assert later["switches"]["cuda_matmul_allow_tf32"] is False


@needs_torch
def test_a_trial_that_fails_says_what_was_set_and_numpy_says_nothing(tmp_path: Path) -> None:
    plant = "import torch\ndef broken(*_):\n    raise KeyError('planted')\ntorch.mm = broken\n"
    broken = operator("gemm", m=2, n=2, k=2)
    ended = end(run(tmp_path, job([broken], "torch"), plant), broken["id"])
    assert ended["outcome"] == "failed"
    assert ended["switches"]["cudnn_allow_tf32"] is False
    (tmp_path / "numpy").mkdir()
    journal = run(tmp_path / "numpy", job([broken]))
    assert "switches" not in end(journal, broken["id"])


@needs_torch
def test_the_record_has_switches_as_they_were_in_trials_and_by_no_dtype_on_a_cpu(
    author: User,
) -> None:
    benchmarks = [
        {
            **{"id": dtype, "level": 0, "operator": "gemm", "dtype": dtype},
            **{"cases": [{"m": 2, "n": 2, "k": 2}], "frameworks": ["torch"], "repetitions": 2},
        }
        for dtype in ("float32", "bfloat16")
    ]
    manifest = write_manifest(author.folder, seeds=[17], benchmarks=benchmarks, claims=[])
    ended = author.run("run", manifest, "--runtime", "host", "--output", "a.zip")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    with zipfile.ZipFile(author.folder / "a.zip") as capsule:
        environment = json.loads(capsule.read("data/records/environment.json"))["environment"]
    settings = environment["effective"]["torch"]["settings"]
    # torch ships with it on
    assert settings["cudnn_allow_tf32"] is settings["cuda_matmul_allow_tf32"] is False
    assert settings["cuda_matmul_allow_fp16_accumulation"] is False
    assert settings["sdp_flash"] is True
    assert settings["float32_matmul_precision"] == "highest"
    assert settings["threads"] >= 1
    assert "dtypes" not in settings


@needs_later_names
def test_products_and_convolutions_each_have_their_own_switch() -> None:
    from capsule.levels.frameworks.torch import precision

    matmul, own = backends.cuda.matmul, (backends.cudnn.conv, backends.cudnn.rnn)
    names = ("cuda_matmul_allow_tf32", "cudnn_allow_tf32")
    # which puts back what was set before
    with precision.fix(tf32=False):
        for chosen in (matmul, *own):
            for one in (matmul, *own):
                one.fp32_precision = "tf32" if one is chosen else "ieee"
            found = [precision.SWITCHES[name]() for name in names]
            assert found == [chosen is matmul, chosen is not matmul]
