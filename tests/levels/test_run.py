"""The measuring code as a process: what its journal holds, whatever becomes of a trial."""

import json
import math
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import metadata, util
from pathlib import Path

import numpy
import pytest

from capsule.levels import catalog
from tests.support.jobs import (
    EACH_FRAMEWORK,
    LEVELS,
    Document,
    Event,
    command,
    end,
    environment,
    events,
    job,
    operator,
    refuse,
    run,
    samples,
)
from tests.support.patience import PATIENCE_SECONDS

IMPOSSIBLE = 8_000_000  # its square in float32 is 256 TB, more than any address space here

MIXED = [
    operator("gemm", m=64, n=32, k=48, repetitions=5, warmup=2),
    operator("gemm", "again", m=64, n=32, k=48, repetitions=3, warmup=0),
    operator("gemm", "impossible", m=IMPOSSIBLE, n=IMPOSSIBLE, k=1),
    operator("relu", n=1000),
    operator("softmax", rows=16, columns=100),
    *(
        operator(name, "double", dtype="float64", **parameters)
        for name, parameters in {
            "gemm": {"m": 8, "n": 9, "k": 200},
            "relu": {"n": 10},
            "softmax": {"rows": 3, "columns": 50},
        }.items()
    ),
]
SOUND = [entry for entry in MIXED if entry["case"] != "impossible"]
RELU = "relu/default/float32/17"


Journals = Callable[[str], list[Event]]


@pytest.fixture(scope="module")
def journals(tmp_path_factory: pytest.TempPathFactory) -> Journals:
    """The events of the mixed job by framework, each run once."""
    kept: dict[str, list[Event]] = {}

    def of(framework: str) -> list[Event]:
        if framework not in kept:
            folder = tmp_path_factory.mktemp(framework)
            kept[framework] = run(folder, job(MIXED, framework))
        return kept[framework]

    return of


@EACH_FRAMEWORK
def test_the_journal_names_every_trial_from_hello_to_bye(
    journals: Journals, framework: str
) -> None:
    journal = journals(framework)
    assert (journal[0]["event"], journal[-1]["event"]) == ("hello", "bye")
    order = [
        (event["event"], event["trial"]) for event in journal if event["event"] in ("begin", "end")
    ]
    assert order == [(name, entry["id"]) for entry in MIXED for name in ("begin", "end")]
    for entry in SOUND:
        assert end(journal, entry["id"])["outcome"] == "completed"
        assert end(journal, entry["id"])["reason"] is None
        subject = catalog.OPERATORS[entry["operator"]]
        metrics = [facts.name for facts in catalog.due(subject, framework, "cpu")]
        assert sorted(samples(journal, entry["id"])) == sorted(metrics)


@EACH_FRAMEWORK
def test_right_operators_stay_within_their_error_bound(journals: Journals, framework: str) -> None:
    for entry in SOUND:
        lines = samples(journals(framework), entry["id"])
        values = {name: line["values"] for name, line in lines.items()}
        (ratio,) = values["l2_error_ratio"]
        # an error of exactly 0 would mean that gemm and softmax were compared with themselves
        assert ratio == 0 if entry["operator"] == "relu" else 0 < ratio < 1
        (l1,), (l2,), (largest,) = values["l1_error"], values["l2_error"], values["max_error"]
        assert largest <= l2 * (1 + 1e-12) <= l1 * (1 + 1e-9)


@EACH_FRAMEWORK
def test_each_trial_has_its_own_calls_warmup_first(journals: Journals, framework: str) -> None:
    for entry in SOUND:
        lines = samples(journals(framework), entry["id"])
        assert 1 <= len(lines.pop("error_heatmap")["values"]) <= 64
        for metric in ("forward_time", "backward_time"):
            assert all(0 < value < 60 for value in lines[metric]["values"])
        (once,) = lines.pop("compile_time")["values"]
        assert once >= lines["forward_time"]["values"][0]
        for metric in [name for name in lines if name.endswith(("_time", "_per_second"))]:
            line = lines.pop(metric)
            assert len(line["values"]) == entry["warmup"] + entry["repetitions"]
            assert line["warmup"] == entry["warmup"]
        assert all((line["warmup"], len(line["values"])) == (0, 1) for line in lines.values())


@EACH_FRAMEWORK
def test_memory_that_runs_out_fails_one_trial(journals: Journals, framework: str) -> None:
    last = end(journals(framework), MIXED[2]["id"])
    assert (last["outcome"], last["reason"]) == ("failed", "out-of-memory")
    assert re.search(r"needs \d+\.\d GiB, the machine has \d+\.\d GiB free", last["message"])
    assert samples(journals(framework), MIXED[2]["id"]) == {}


@EACH_FRAMEWORK
def test_hello_names_the_rank_the_software_and_the_state(
    journals: Journals, framework: str
) -> None:
    hello = journals(framework)[0]
    assert (hello["format"], hello["rank"], hello["ranks"]) == ("capsule-journal/1", 0, 1)
    software = hello["software"]
    assert set(software["frameworks"]) == {"numpy", framework}
    assert software["distributions"][framework] == metadata.version(framework)
    assert software["variables"]["OMP_NUM_THREADS"] == "1"
    settings = hello["environment"]["settings"]
    assert hello["environment"]["threads"] == 1
    assert hello["environment"]["empty_call_ns"] > 0
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
def test_a_product_that_is_wrong_by_one_percent_exceeds_its_bound(
    tmp_path: Path, framework: str
) -> None:
    gemms = [
        operator("gemm", f"{name}-{dtype}", 1, 0, dtype, **parameters)
        for dtype in ("float64", "float32")
        for name, parameters in catalog.OPERATORS["gemm"].cases["quick"][:2]
    ]
    document = job([*gemms, operator("relu", n=100)], framework, determinism="strict")
    journal = run(tmp_path, document, FAULTS[framework])
    for entry in gemms:
        assert end(journal, entry["id"])["outcome"] == "completed"
        assert samples(journal, entry["id"])["l2_error_ratio"]["values"][0] > 5
    assert samples(journal, RELU)["l2_error_ratio"]["values"] == [0]
    if framework == "torch":
        settings = journal[0]["environment"]["settings"]
        assert settings["deterministic_algorithms"] is True
        assert settings["cudnn_allow_tf32"] is False


def test_an_exception_fails_its_trial_and_the_next_ones_go_on(tmp_path: Path) -> None:
    plant = "import numpy\ndef broken(*_):\n    raise KeyError('planted')\nnumpy.matmul = broken\n"
    journal = run(tmp_path, job([operator("gemm", m=2, n=2, k=2), operator("relu", n=5)]), plant)
    first = end(journal, "gemm/default/float32/17")
    assert (first["outcome"], first["reason"]) == ("failed", "error")
    assert first["message"] == "KeyError: 'planted'"
    assert end(journal, RELU)["outcome"] == "completed"


def test_a_result_of_another_shape_or_type_is_an_error_and_its_times_are_kept(
    tmp_path: Path,
) -> None:
    plant = "import numpy\nnumpy.maximum = lambda x, _: x.astype('float64')\n"
    journal = run(tmp_path, job([operator("relu", n=5)]), plant)
    last = end(journal, RELU)
    assert last["reason"] == "error"
    assert "relu returned float64 (5,), expected float32 (5,)" in last["message"]
    kept = samples(journal, RELU)
    assert len(kept["forward_time"]["values"]) == 5
    assert "l2_error" not in kept


@pytest.mark.parametrize(("value", "written"), [("nan", "NaN"), ("inf", "Infinity")])
def test_a_result_that_is_not_finite_fails_and_keeps_its_samples(
    tmp_path: Path, value: str, written: str
) -> None:
    plant = f"import numpy\nnumpy.maximum = lambda x, _: x + x.dtype.type('{value}')\n"
    journal = run(tmp_path, job([operator("relu", n=5), operator("gemm", m=2, n=2, k=2)]), plant)
    last = end(journal, RELU)
    assert (last["outcome"], last["reason"]) == ("failed", "non-finite")
    assert "l2_error" in last["message"]
    kept = samples(journal, RELU)
    assert kept["l1_error"]["values"] == [written]
    assert all(math.isfinite(second) for second in kept["forward_time"]["values"])
    assert end(journal, "gemm/default/float32/17")["outcome"] == "completed"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_job_leaves_the_finished_trials(tmp_path: Path, number: signal.Signals) -> None:
    plant = (
        "import numpy, signal, sys\n"
        "def stuck(*_):\n    print('stuck', flush=True)\n    signal.pause()\n"
        "numpy.matmul = stuck\n"
    )
    trials = [operator("relu", n=5), operator("gemm", m=2, n=2, k=2), operator("relu", "late", n=5)]
    with subprocess.Popen(
        command(tmp_path, job(trials)),
        cwd=tmp_path,
        env=environment(tmp_path, plant),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "stuck\n"
        process.send_signal(number)
        assert process.wait(timeout=PATIENCE_SECONDS) == -number
    journal = events(tmp_path)
    assert end(journal, RELU)["outcome"] == "completed"
    due = catalog.due(catalog.OPERATORS["relu"], "numpy", "cpu")
    assert len(samples(journal, RELU)) == len(due)
    begun = journal[-1]
    assert (begun["event"], begun["trial"]) == ("begin", "gemm/default/float32/17")


def test_error_norms_repeat_bit_for_bit_and_only_with_the_seed(tmp_path: Path) -> None:
    def errors(name: str, seed: int) -> dict[str, list[float]]:
        (tmp_path / name).mkdir()
        journal = run(tmp_path / name, job([operator("gemm", m=32, n=32, k=32)], seed=seed))
        return {
            metric: line["values"]
            for metric, line in samples(journal, "gemm/default/float32/17").items()
            if not metric.endswith(("_time", "_per_second", "_memory_bytes"))
        }

    first = errors("first", 17)
    assert errors("second", 17) == first
    assert errors("third", 18)["l2_error"] != first["l2_error"]


@pytest.mark.parametrize(
    ("document", "plant", "message"),
    [
        (
            job([operator("relu", n=5)], "torch"),
            "import sys\nsys.modules['torch'] = None\n",
            f"FrameworkError: torch is not installed for the measuring Python, {sys.executable}:"
            " install torch, or use an image that has it",
        ),
        (
            job([operator("relu", n=5)], device="cuda"),
            None,
            "FrameworkError: numpy has no device 'cuda': numpy runs on CPUs only",
        ),
        (
            job([operator("relu", n=5)], "lasagne"),
            None,
            "FrameworkError: unknown framework 'lasagne'; known: " + ", ".join(catalog.FRAMEWORKS),
        ),
    ],
)
def test_what_the_image_lacks_is_said_of_every_trial(
    tmp_path: Path, document: Document, plant: str | None, message: str
) -> None:
    journal = run(tmp_path, document, plant)
    last = end(journal, RELU)
    assert (last["outcome"], last["reason"], last["message"]) == ("failed", "error", message)
    assert journal[-1] == {"event": "bye"}


def start(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(LEVELS), *arguments],
        cwd=folder,
        env={**environment(folder), **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_full_disk_ends_the_program_with_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text(json.dumps(job([operator("relu", n=5)])))
    done = start(tmp_path, "run", "job.json", "/dev/full")
    assert done.returncode == 1
    assert done.stderr == "cannot write /dev/full: No space left on device\n"


@pytest.mark.parametrize("arguments", [[], ["run", "job.json"], ["probe", "more"]])
def test_wrong_arguments_end_with_the_usage(tmp_path: Path, arguments: Sequence[str]) -> None:
    done = start(tmp_path, *arguments)
    assert (done.returncode, done.stderr[:5]) == (2, "usage")


def test_a_file_that_is_no_job_ends_with_one_sentence_and_no_journal(tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text('{"format": "capsule-job/9"}')
    done = start(tmp_path, "run", "job.json", "journal.jsonl")
    assert done.returncode == 2
    assert done.stderr == ('job.json: format is "capsule-job/9", expected "capsule-job/1"\n')
    assert not (tmp_path / "journal.jsonl").exists()


def test_each_rank_says_which_it_is(tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text(json.dumps(job([operator("relu", n=5)], ranks=2)))
    done = start(tmp_path, "run", "job.json", "journal.jsonl", CAPSULE_RANK="1")
    assert done.returncode == 0, done.stderr
    hello = events(tmp_path)[0]
    assert (hello["rank"], hello["ranks"]) == (1, 2)
    done = start(tmp_path, "run", "job.json", "other.jsonl", CAPSULE_RANK="2")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "CAPSULE_RANK is '2', expected a whole number from 0 to 1" in done.stderr
    assert not (tmp_path / "other.jsonl").exists()


def test_the_folder_alone_is_enough_and_its_neighbours_are_not_imported(tmp_path: Path) -> None:
    copy = tmp_path / "bound" / "levels"
    shutil.copytree(LEVELS, copy, ignore=shutil.ignore_patterns("__pycache__"))
    # neighbours that would break numpy and the program, were these folders on the path
    (tmp_path / "bound" / "datetime.py").write_text("raise RuntimeError('shadowed')\n")
    (copy / "datetime.py").write_text("raise RuntimeError('shadowed')\n")
    journal = run(tmp_path, job([operator("relu", n=5)]), levels=copy)
    assert end(journal, RELU)["outcome"] == "completed"


def test_probe_prints_the_software_of_the_image(tmp_path: Path) -> None:
    done = start(tmp_path, "probe", SECRET_TOKEN="x", PYTHONHASHSEED="0")
    assert done.returncode == 0, done.stderr
    software = json.loads(done.stdout, parse_constant=refuse)
    assert software["python"]["version"] == sys.version.split()[0]
    assert software["distributions"]["numpy"] == numpy.__version__
    assert software["frameworks"]["numpy"]["version"] == numpy.__version__
    assert software["frameworks"]["numpy"]["build"]
    assert ("torch" in software["frameworks"]) == (util.find_spec("torch") is not None)
    assert software["variables"] == {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    for name, reason in software["missing"].items():
        value = software
        for part in name.split("."):
            value = value[part]
        assert value is None
        assert reason
