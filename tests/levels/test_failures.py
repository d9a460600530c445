"""An error that leaves the device unusable costs its own trial, and the process ends with it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from capsule.levels import catalog
from capsule.levels.catalog.failures import is_out_of_memory, is_sticky
from tests.support.jobs import Event, command, end, environment, events, job, operator, samples
from tests.support.patience import PATIENCE_SECONDS

ILLEGAL = "CUDA error: an illegal memory access was encountered"
GEMM, RELU = "gemm/default/float32/17", "relu/default/float32/17"


class AcceleratorError(RuntimeError):
    """torch's class of this name, of which older versions have none."""


class Faulty(AcceleratorError):
    pass


def caused(error: Exception, by: Exception) -> Exception:
    error.__cause__ = by
    return error


def handling(error: Exception, other: Exception) -> Exception:
    error.__context__ = other
    return error


@pytest.mark.parametrize(
    ("error", "sticky", "out_of_memory"),
    [
        (AcceleratorError(ILLEGAL), True, False),
        (Faulty("of any words"), True, False),
        (RuntimeError(ILLEGAL), True, False),
        (RuntimeError("CUDA error: device-side assert triggered\nCompile with ..."), True, False),
        (RuntimeError("HIP error: unspecified launch failure"), True, False),
        (caused(ValueError("no backend"), RuntimeError(ILLEGAL)), True, False),
        (handling(KeyError("x"), AcceleratorError(ILLEGAL)), True, False),
        (AcceleratorError("CUDA error: out of memory"), False, True),
        (RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"), False, True),
        (MemoryError(), False, True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling x"), False, False),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False, False),
        (ValueError(ILLEGAL), False, False),
    ],
    ids=str,
)
def test_errors_of_the_device_are_told_from_all_others(
    error: Exception, sticky: bool, out_of_memory: bool
) -> None:
    assert is_sticky(error) is sticky
    assert is_out_of_memory(error) is out_of_memory


def test_an_error_that_is_its_own_context_is_looked_at_once() -> None:
    one, other = KeyError("one"), KeyError("other")
    one.__context__, other.__context__ = other, one
    assert is_sticky(one) is False


def run(folder: Path, *trials: dict[str, object], plant: str) -> tuple[int, str, list[Event]]:
    """Exit status, standard error and journal of a job in numpy."""
    done = subprocess.run(
        command(folder, job(trials)),
        cwd=folder,
        env=environment(folder, plant),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    return done.returncode, done.stderr, events(folder)


STICKY = f"""
import numpy

class AcceleratorError(RuntimeError):
    pass

lost = []

def plant(name, breaks):
    right = getattr(numpy, name)

    def call(*operands, **keywords):
        if breaks(*operands):
            lost.append(name)
        if lost:
            raise AcceleratorError({ILLEGAL!r})
        return right(*operands, **keywords)

    setattr(numpy, name, call)

plant("maximum", lambda *_: False)
"""


def test_the_process_ends_with_the_trial_that_lost_the_device(tmp_path: Path) -> None:
    plant = f"{STICKY}plant('matmul', lambda *_: True)\n"
    trials = operator("relu", n=5), operator("gemm", m=2, n=2, k=2), operator("relu", "late", n=5)
    status, told, journal = run(tmp_path, *trials, plant=plant)
    assert status == 3
    assert ILLEGAL in told
    assert end(journal, RELU)["outcome"] == "completed"
    assert "leaves" not in end(journal, RELU)
    last = end(journal, GEMM)
    assert (last["outcome"], last["reason"], last["leaves"]) == ("failed", "error", True)
    assert last["message"] == f"AcceleratorError: {ILLEGAL}"
    assert journal[-1] == last


@pytest.mark.parametrize("place", ["first", "last"])
def test_so_do_the_first_trial_and_the_last(tmp_path: Path, place: str) -> None:
    trials = [operator("gemm", m=2, n=2, k=2), operator("relu", n=5)]
    plant = f"{STICKY}plant('matmul', lambda *_: True)\n"
    status, _, journal = run(tmp_path, *trials[:: 1 if place == "first" else -1], plant=plant)
    assert status == 3
    begun = [event["trial"] for event in journal if event["event"] == "begin"]
    assert begun == ([GEMM] if place == "first" else [RELU, GEMM])
    assert journal[-1]["leaves"] is True


def odd_rows() -> int:
    ((_, point),) = catalog.OPERATORS["gemm"].cases["odd"]
    return int(point["m"])


@pytest.mark.parametrize(
    ("words", "status"),
    [(ILLEGAL, 3), ("CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling cublasLtMatmul", 0)],
)
def test_a_device_lost_at_odd_sizes_is_no_refusal_of_them(
    tmp_path: Path, words: str, status: int
) -> None:
    plant = (
        "import numpy\nright = numpy.matmul\n"
        "def matmul(a, b):\n"
        f"    if len(a) == {odd_rows()}:\n"
        f"        raise RuntimeError({words!r})\n"
        "    return right(a, b)\n"
        "numpy.matmul = matmul\n"
    )
    ended, _, journal = run(tmp_path, operator("gemm", m=2, n=2, k=2), plant=plant)
    assert ended == status
    last = end(journal, GEMM)
    if status:
        assert (last["reason"], last["message"]) == ("error", f"RuntimeError: {words}")
        assert "element_error_ratio" not in samples(journal, GEMM)
    else:
        assert last["outcome"] == "completed"
        assert samples(journal, GEMM)["element_error_ratio"]["values"] == [2.0**126]


DEVICE = f"""
import sys
from contextlib import contextmanager
from pathlib import Path

from capsule.levels import frameworks, run
from capsule.levels.frameworks.numpy import Numpy

class Device(Numpy):
    turn = 0
    lost = False

    def seed(self, seed):
        self.turn += 1
        super().seed(seed)

    def synchronize(self):
        if self.lost:
            raise RuntimeError({ILLEGAL!r})

    @contextmanager
    def arithmetic(self, dtype):
        if HOW == "at once" and self.turn == 2:
            self.lost = True
            raise KeyError("of another kind")
        yield
        if HOW == "later" and self.turn == 2:
            self.lost = True

frameworks.load = lambda *_: Device()
sys.exit(run.main(Path("job.json"), Path("journal.jsonl")))
"""


@pytest.mark.parametrize(
    ("how", "message"),
    [("later", f"RuntimeError: {ILLEGAL}"), ("at once", "KeyError: 'of another kind'")],
)
def test_the_device_is_asked_after_each_trial(tmp_path: Path, how: str, message: str) -> None:
    trials = [operator("relu", name, repetitions=1, n=5) for name in ("one", "two", "three")]
    (tmp_path / "job.json").write_text(json.dumps(job(trials)))
    (tmp_path / "device.py").write_text(f"HOW = {how!r}\n{DEVICE}")
    done = subprocess.run(
        [sys.executable, "device.py"],
        cwd=tmp_path,
        env={**environment(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    journal = events(tmp_path)
    assert end(journal, "relu/one/float32/17")["outcome"] == "completed"
    assert journal[-1]["trial"] == "relu/two/float32/17"
    assert (journal[-1]["message"], journal[-1]["leaves"]) == (message, True)
