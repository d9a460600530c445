"""`benchmarks/gpu/check.py`: its parts on a CPU, its deadlines, and the faults that it names."""

import copy
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import check
import pytest
from checking import environment, part
from checking.part import Part, Settings

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "benchmarks/gpu/check.py"

STEPS = {
    "facts": {"software", "machine", "doctor", "inventory"},
    "whole": {"runs", "verify"},
    "bounds": {"planted faults", "all operators", "rounding of TF32 operands"},
    "clocks": {"times in microseconds", "capsule"},
    "steps": {"capsule lenet", "lenet float32"},
    "repeats": {"backward", "communicator", "strict lenet"},
}
CLOCKS = {
    *("wall", "event", "events over many", "cold", "graph", "kernels", "capsule"),
    *("capsule over kernels", "as stated"),
}
TRAINED = {
    *("capsule", "by hand", "gathering", "kernels_s", "profiled_s", "capsule over best"),
    *("as fast", "share as stated", "seconds"),
}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(
        mode="dry",
        cuda=False,
        cores=1,
        work=str(tmp_path),
        out=str(tmp_path),
        checkout=str(ROOT),
        python=sys.executable,
    )


@pytest.mark.torch
@pytest.mark.slow
def test_all_parts_run_on_a_cpu_and_find_nothing_wrong(tmp_path: Path) -> None:
    words = [sys.executable, str(PROGRAM), "--dry", "--out", str(tmp_path)]
    ended = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    document = json.loads((tmp_path / "gpu.json").read_text())
    parts = document["parts"]
    assert {name: set(one["steps"]) for name, one in parts.items()} == STEPS
    assert {one["status"] for one in parts.values()} == {"done"}
    faults = parts["bounds"]["steps"]["planted faults"]
    assert [faults[name]["caught"] for name in list(faults)[:2]] == [True, True]
    assert parts["bounds"]["steps"]["all operators"]["trials"] > 0
    times = parts["clocks"]["steps"]["times in microseconds"]
    timed = [set(one) for one in times.values() if isinstance(one, dict)]
    assert timed == [CLOCKS, CLOCKS]
    trained = parts["steps"]["steps"]["lenet float32"]
    assert set(trained) == TRAINED
    assert trained["capsule"]["training_throughput"] > 0
    assert trained["by hand"]["plain"] > 0
    assert parts["repeats"]["steps"]["strict lenet"]["equal bits"] is True
    page = (tmp_path / "gpu.md").read_text().splitlines()
    assert len(page) <= 80
    assert page[-1] == "Nothing."
    assert {one.name for one in tmp_path.glob("*.capsule.zip")} == {
        f"{name}-cpu.capsule.zip" for name in ("operators", "lenet", "transformer", "command")
    }


def test_an_unknown_part_is_refused(tmp_path: Path) -> None:
    words = [sys.executable, str(PROGRAM), "--parts", "facts,clock"]
    ended = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ended.returncode == 2
    assert "unknown part clock" in ended.stderr
    assert not list(tmp_path.iterdir())


def test_budgets_are_those_stated() -> None:
    assert sum(check.BUDGETS_S["quick"].values()) == 150
    assert sum(check.BUDGETS_S["whole"].values()) == 420


@pytest.mark.slow
def test_a_command_is_stopped_at_its_deadline_with_all_that_it_started() -> None:
    called = part.call(["sh", "-c", "echo begun; sleep 600 & wait"], 0.5)
    assert called.code is None
    assert called.out == "begun\n"
    assert called.outcome["exit"] == "stopped at its deadline"


def test_a_step_that_fails_keeps_what_it_found_and_costs_no_other(settings: Settings) -> None:
    one = Part("facts", settings, 100)
    with one.step("first") as found:
        found["kept"] = 1
        raise ValueError("broken")
    with one.step("second") as found:
        found["kept"] = 2
    written = json.loads(part.file_of("facts", settings).read_text())
    assert written["status"] == "cut off"
    assert written["steps"]["first"]["kept"] == 1
    assert written["steps"]["first"]["error"] == "ValueError: broken"
    assert written["steps"]["second"]["kept"] == 2


def test_wheels_and_the_checkout_are_installed_without_network(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "carried-1-py3-none-any.whl", "w") as archive:
        archive.writestr("carried_package.py", "ANSWER = 42\n")
    python = environment.install(tmp_path / "environment", ROOT, tmp_path)
    code = "import carried_package as one, capsule, pytest; print(one.ANSWER, capsule.__file__)"
    ended = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    assert ended.stdout.split() == ["42", str(ROOT / "capsule/__init__.py")], ended.stderr


RIGHT: dict[str, object] = {
    "parts": {
        "facts": {"status": "done", "steps": {"doctor": {"exit": 6}}},
        "whole": {
            "status": "done",
            "steps": {
                "runs": {"lenet": {"exit": 0, "alarms": {}, "failed": {}}},
                "verify": {
                    "here": {"exit": 3},
                    "on cpu": {"exit": 0},
                    "no device visible": {"exit": 6, "error": "no GPU is visible"},
                },
            },
        },
        "bounds": {"status": "done", "steps": {"planted faults": {"tf32": {"caught": True}}}},
        "clocks": {"status": "done", "steps": {"times": {"gemm": {"as stated": None}}}},
        "steps": {"status": "done", "steps": {"lenet": {"as fast": True, "share as stated": None}}},
        "repeats": {"status": "done", "steps": {"strict": {"equal bits": True}}},
    }
}


def test_right_results_have_no_fault() -> None:
    assert check.find_faults(RIGHT) == []


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        ("facts/status", "stopped at its deadline", "facts: stopped at its deadline"),
        ("facts/steps/doctor/exit", 2, "facts, doctor: exit 2"),
        ("facts/steps/doctor", {"error": "ValueError: x"}, "facts, doctor: ValueError: x"),
        ("whole/steps/runs/lenet/exit", 3, "whole, runs, lenet: exit 3"),
        ("whole/steps/runs/lenet/exit", "stopped at its deadline", "exit stopped"),
        ("whole/steps/runs/lenet/alarms", {"gemm/l2": 1.5}, "1 alarms, for example"),
        ("whole/steps/runs/lenet/failed", {"t": "crash"}, "1 failed, for example"),
        ("whole/steps/verify/here/exit", 5, "whole, verify, here: exit 5"),
        ("whole/steps/verify/no device visible/exit", 0, "expected a refusal"),
        ("bounds/steps/planted faults/tf32/caught", False, "tf32: not caught"),
        ("clocks/steps/times/gemm/as stated", False, "gemm: not as stated"),
        ("steps/steps/lenet/as fast", False, "lenet: not as fast"),
        ("steps/steps/lenet/share as stated", False, "lenet: not share as stated"),
        ("repeats/steps/strict/equal bits", False, "strict: not equal bits"),
    ],
)
def test_each_wrong_result_is_named(path: str, value: object, named: str) -> None:
    document = copy.deepcopy(RIGHT)
    *folders, last = path.split("/")
    place: dict[str, object] = document["parts"]  # type: ignore[assignment]
    for folder in folders:
        place = place[folder]  # type: ignore[assignment]
    place[last] = value
    (found,) = check.find_faults(document)
    assert named in found
