import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
from importlib import metadata, util
from pathlib import Path

import numpy
import pytest

import capsule.levels
from capsule.levels import catalog
from tests.support.patience import PATIENCE_SECONDS

LEVELS = Path(capsule.levels.__file__).parent

needs_torch = [
    pytest.mark.torch,
    pytest.mark.skipif(util.find_spec("torch") is None, reason="torch is not installed here"),
]
EACH_FRAMEWORK = pytest.mark.parametrize(
    "framework", ["numpy", pytest.param("torch", marks=needs_torch)]
)

IMPOSSIBLE = 8_000_000  # its square in float32 is 256 TB, more than any address space here


def trial(operator, case="default", repetitions=4, warmup=1, dtype="float32", **parameters):
    return {
        "id": f"{operator}/{case}/{dtype}/17",
        "benchmark": operator,
        "level": 0,
        "operator": operator,
        "dtype": dtype,
        "case": case,
        "parameters": parameters,
        "repetitions": repetitions,
        "warmup": warmup,
    }


def job(trials, framework="numpy", seed=17, **fields):
    head = {"format": "capsule-job/1", "determinism": "default", "device": "cpu", "threads": 1}
    return {**head, "framework": framework, "seed": seed, "trials": trials, **fields}


def environment(folder, plant=None):
    """Few variables, and code that runs in the program before anything else of it."""
    found = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"}
    if plant:
        (folder / "sitecustomize.py").write_text(plant)
        found["PYTHONPATH"] = str(folder)
    return found


def command(folder, work, levels=LEVELS):
    (folder / "job.json").write_text(json.dumps(work))
    return [sys.executable, str(levels), "run", "job.json", "journal.jsonl"]


def refuse(name):
    raise AssertionError(f"{name} is not JSON")


def events(folder):
    text = (folder / "journal.jsonl").read_text()
    assert text.endswith("\n")
    return [json.loads(line, parse_constant=refuse) for line in text.splitlines()]


def run(folder, work, plant=None, levels=LEVELS):
    done = subprocess.run(
        command(folder, work, levels),
        cwd=folder,
        env=environment(folder, plant),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return events(folder)


def samples(found, identity):
    return {
        event["metric"]: event
        for event in found
        if event["event"] == "samples" and event["trial"] == identity
    }


def end(found, identity):
    (event,) = [each for each in found if each["event"] == "end" and each["trial"] == identity]
    return event


MIXED = [
    trial("gemm", m=64, n=32, k=48, repetitions=5, warmup=2),
    trial("gemm", "again", m=64, n=32, k=48, repetitions=3, warmup=0),
    trial("gemm", "impossible", m=IMPOSSIBLE, n=IMPOSSIBLE, k=1),
    trial("relu", n=1000),
    trial("softmax", rows=16, columns=100),
    *(
        trial(operator, "double", dtype="float64", **parameters)
        for operator, parameters in {
            "gemm": {"m": 8, "n": 9, "k": 200},
            "relu": {"n": 10},
            "softmax": {"rows": 3, "columns": 50},
        }.items()
    ),
]
SOUND = [each for each in MIXED if each["case"] != "impossible"]


@pytest.fixture(scope="module")
def journals(tmp_path_factory):
    """The events of the mixed job by framework, each run once."""
    found = {}

    def of(framework):
        if framework not in found:
            folder = tmp_path_factory.mktemp(framework)
            found[framework] = run(folder, job(MIXED, framework))
        return found[framework]

    return of


@EACH_FRAMEWORK
def test_the_journal_tells_every_trial_from_hello_to_bye(journals, framework):
    found = journals(framework)
    assert (found[0]["event"], found[-1]["event"]) == ("hello", "bye")
    order = [(each["event"], each["trial"]) for each in found if each["event"] in ("begin", "end")]
    assert order == [(event, each["id"]) for each in MIXED for event in ("begin", "end")]
    for each in SOUND:
        assert end(found, each["id"])["outcome"] == "completed"
        assert end(found, each["id"])["reason"] is None
        subject = catalog.OPERATORS[each["operator"]]
        metrics = [facts.name for facts in catalog.due(subject, framework, "cpu")]
        assert list(samples(found, each["id"])) == metrics


@EACH_FRAMEWORK
def test_right_operators_stay_within_their_error_bound(journals, framework):
    found = journals(framework)
    for each in SOUND:
        values = {name: event["values"] for name, event in samples(found, each["id"]).items()}
        (ratio,) = values["l2_error_ratio"]
        # an error of exactly 0 would mean that gemm and softmax were compared with themselves
        assert ratio == 0 if each["operator"] == "relu" else 0 < ratio < 1
        (l1,), (l2,), (largest,) = values["l1_error"], values["l2_error"], values["max_error"]
        assert largest <= l2 * (1 + 1e-12) <= l1 * (1 + 1e-9)


@EACH_FRAMEWORK
def test_each_trial_has_its_own_calls_warmup_first(journals, framework):
    for each in SOUND:
        found = samples(journals(framework), each["id"])
        assert 1 <= len(found.pop("error_heatmap")["values"]) <= 64
        for metric in ("forward_time", "backward_time"):
            times = found[metric]["values"]
            assert all(0 < value < 60 for value in times)
        for metric in [name for name in found if name.endswith(("_time", "_per_second"))]:
            times = found.pop(metric)
            assert len(times["values"]) == each["warmup"] + each["repetitions"]
            assert times["warmup"] == each["warmup"]
        assert all((event["warmup"], len(event["values"])) == (0, 1) for event in found.values())


@EACH_FRAMEWORK
def test_memory_that_runs_out_fails_one_trial(journals, framework):
    last = end(journals(framework), MIXED[2]["id"])
    assert (last["outcome"], last["reason"]) == ("failed", "out-of-memory")
    assert re.search(r"needs \d+\.\d GiB, the machine has \d+\.\d GiB free", last["message"])
    assert samples(journals(framework), MIXED[2]["id"]) == {}


@EACH_FRAMEWORK
def test_hello_names_the_software_and_the_state(journals, framework):
    hello = journals(framework)[0]
    assert hello["format"] == "capsule-journal/1"
    software = hello["software"]
    assert set(software["frameworks"]) == {"numpy", framework}
    assert software["distributions"][framework] == metadata.version(framework)
    assert software["variables"]["OMP_NUM_THREADS"] == "1"
    settings = hello["environment"]["settings"]
    assert hello["environment"]["threads_asked"] == 1
    assert [blas["threads"] for blas in settings["blas"] if "openblas" in blas["library"]] in (
        [1],
        [],
    )
    if framework == "torch":
        assert settings["threads"] == 1
        assert settings["deterministic_algorithms"] is False
    for name, reason in settings["missing"].items():
        assert settings[name] is None
        assert reason


FAULTS = {
    "numpy": "import numpy\nright = numpy.matmul\n"
    "numpy.matmul = lambda *operands: right(*operands) * 1.01\n",
    "torch": "import torch\nright = torch.mm\n"
    "torch.mm = lambda *operands: right(*operands) * 1.01\n",
}


@EACH_FRAMEWORK
def test_a_product_that_is_wrong_by_one_percent_exceeds_its_bound(tmp_path, framework):
    gemms = [
        trial("gemm", f"{name}-{dtype}", 1, 0, dtype, **parameters)
        for dtype in ("float64", "float32")
        for name, parameters in catalog.OPERATORS["gemm"].cases["quick"][:2]
    ]
    work = job([*gemms, trial("relu", n=100)], framework, determinism="strict")
    found = run(tmp_path, work, FAULTS[framework])
    for each in gemms:
        assert end(found, each["id"])["outcome"] == "completed"
        assert samples(found, each["id"])["l2_error_ratio"]["values"][0] > 5
    assert samples(found, "relu/default/float32/17")["l2_error_ratio"]["values"] == [0]
    if framework == "torch":
        settings = found[0]["environment"]["settings"]
        assert settings["deterministic_algorithms"] is True
        assert settings["cudnn_allow_tf32"] is False


def test_an_exception_fails_its_trial_and_the_next_ones_go_on(tmp_path):
    plant = "import numpy\ndef broken(*_):\n    raise KeyError('planted')\nnumpy.matmul = broken\n"
    found = run(tmp_path, job([trial("gemm", m=2, n=2, k=2), trial("relu", n=5)]), plant)
    first = end(found, "gemm/default/float32/17")
    assert (first["outcome"], first["reason"]) == ("failed", "error")
    assert first["message"] == "KeyError: 'planted'"
    assert end(found, "relu/default/float32/17")["outcome"] == "completed"


def test_a_result_of_another_shape_or_type_is_an_error(tmp_path):
    plant = "import numpy\nnumpy.maximum = lambda x, _: x.astype('float64')\n"
    found = run(tmp_path, job([trial("relu", n=5)]), plant)
    last = end(found, "relu/default/float32/17")
    assert last["reason"] == "error"
    assert "relu returned float64 (5,), expected float32 (5,)" in last["message"]


@pytest.mark.parametrize(("value", "written"), [("nan", "NaN"), ("inf", "Infinity")])
def test_a_result_that_is_not_finite_fails_and_keeps_its_samples(tmp_path, value, written):
    plant = f"import numpy\nnumpy.maximum = lambda x, _: x + x.dtype.type('{value}')\n"
    found = run(tmp_path, job([trial("relu", n=5), trial("gemm", m=2, n=2, k=2)]), plant)
    last = end(found, "relu/default/float32/17")
    assert (last["outcome"], last["reason"]) == ("failed", "non-finite")
    assert "l2_error" in last["message"]
    kept = samples(found, "relu/default/float32/17")
    assert kept["l1_error"]["values"] == [written]
    assert all(math.isfinite(second) for second in kept["forward_time"]["values"])
    assert end(found, "gemm/default/float32/17")["outcome"] == "completed"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_job_leaves_the_finished_trials(tmp_path, number):
    plant = (
        "import numpy, signal, sys\n"
        "def stuck(*_):\n    print('stuck', flush=True)\n    signal.pause()\n"
        "numpy.matmul = stuck\n"
    )
    work = job([trial("relu", n=5), trial("gemm", m=2, n=2, k=2), trial("relu", "late", n=5)])
    with subprocess.Popen(
        command(tmp_path, work),
        cwd=tmp_path,
        env=environment(tmp_path, plant),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "stuck\n"
        process.send_signal(number)
        assert process.wait(PATIENCE_SECONDS) == -number
    found = events(tmp_path)
    assert end(found, "relu/default/float32/17")["outcome"] == "completed"
    due = catalog.due(catalog.OPERATORS["relu"], "numpy", "cpu")
    assert len(samples(found, "relu/default/float32/17")) == len(due)
    assert found[-1] == {"event": "begin", "trial": "gemm/default/float32/17"}


def test_error_norms_repeat_bit_for_bit_and_only_with_the_seed(tmp_path):
    def errors(name, seed):
        (tmp_path / name).mkdir()
        found = run(tmp_path / name, job([trial("gemm", m=32, n=32, k=32)], seed=seed))
        values = samples(found, "gemm/default/float32/17")
        return {
            each: values[each]["values"]
            for each in values
            if not each.endswith(("_time", "_per_second", "_memory_bytes"))
        }

    first = errors("first", 17)
    assert errors("second", 17) == first
    assert errors("third", 18)["l2_error"] != first["l2_error"]


@pytest.mark.parametrize(
    ("work", "plant", "message"),
    [
        (
            job([trial("relu", n=5)], "torch"),
            "import sys\nsys.modules['torch'] = None\n",
            "FrameworkError: torch is not installed in this image",
        ),
        (
            job([trial("relu", n=5)], device="cuda"),
            None,
            "FrameworkError: numpy has no device 'cuda'",
        ),
        (
            job([trial("relu", n=5)], "lasagne"),
            None,
            "FrameworkError: no framework 'lasagne'; there are " + ", ".join(catalog.FRAMEWORKS),
        ),
    ],
)
def test_what_the_image_lacks_is_told_for_every_trial(tmp_path, work, plant, message):
    found = run(tmp_path, work, plant)
    last = end(found, "relu/default/float32/17")
    assert (last["outcome"], last["reason"], last["message"]) == ("failed", "error", message)
    assert found[-1] == {"event": "bye"}


def test_a_full_disk_ends_the_program_with_its_reason(tmp_path):
    arguments = command(tmp_path, job([trial("relu", n=5)]))[:-1]
    done = subprocess.run(
        [*arguments, "/dev/full"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "No space left on device" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "word"),
    [([], "usage"), (["run", "job.json"], "usage"), (["run", "job.json", "j"], "capsule-job/1")],
)
def test_wrong_arguments_and_files_that_are_no_job_end_with_2(tmp_path, arguments, word):
    (tmp_path / "job.json").write_text('{"format": "capsule-job/9"}')
    done = subprocess.run(
        [sys.executable, str(LEVELS), *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, word in done.stderr) == (2, True)


def test_the_folder_alone_is_enough_and_its_neighbours_are_not_imported(tmp_path):
    copy = tmp_path / "bound" / "levels"
    shutil.copytree(LEVELS, copy, ignore=shutil.ignore_patterns("__pycache__"))
    # neighbours that would break numpy and the program, were these folders on the path
    (tmp_path / "bound" / "datetime.py").write_text("raise RuntimeError('shadowed')\n")
    (copy / "datetime.py").write_text("raise RuntimeError('shadowed')\n")
    found = run(tmp_path, job([trial("relu", n=5)]), levels=copy)
    assert end(found, "relu/default/float32/17")["outcome"] == "completed"


def test_probe_prints_the_software_of_the_image(tmp_path):
    done = subprocess.run(
        [sys.executable, str(LEVELS), "probe"],
        cwd=tmp_path,
        env={**environment(tmp_path), "SECRET_TOKEN": "x", "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout, parse_constant=refuse)
    assert found["python"]["version"] == sys.version.split()[0]
    assert found["distributions"]["numpy"] == numpy.__version__
    assert found["frameworks"]["numpy"]["version"] == numpy.__version__
    assert found["frameworks"]["numpy"]["build"]
    assert ("torch" in found["frameworks"]) == (util.find_spec("torch") is not None)
    assert found["variables"] == {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    for name, reason in found["missing"].items():
        value = found
        for part in name.split("."):
            value = value[part]
        assert value is None
        assert reason
