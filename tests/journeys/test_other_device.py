"""`verify --device`: a capsule of GPUs on CPUs and the other way, told by everything that reads it.

No GPU is there: a stand-in for NVIDIA's library makes one visible, and commands count what they
are given.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from capsule import manifest, summary
from capsule import plan as plans
from capsule.origin import Verification
from capsule.record import Record
from tests.journeys.test_add import HELD, claim_of, record_of, reseal
from tests.journeys.test_resume import attempts_in, kill_tree, wait_for_workload
from tests.support.command import REPORT, Document, User, write_manifest, write_script
from tests.support.forging import with_plan

# one card whose driver answers nothing else
NVML = """
class NVMLError(Exception):
    value = 3
class NVMLError_NotFound(NVMLError):
    pass
def nvmlInit():
    pass
def nvmlShutdown():
    pass
def nvmlDeviceGetCount():
    return 1
def nvmlSystemGetDriverVersion():
    return "580.65.06"
def nvmlSystemGetCudaDriverVersion_v2():
    return 13000
def nvmlDeviceGetHandleByIndex(index):
    return index
def refuse(*arguments):
    raise NVMLError("not supported")
def __getattr__(name):
    if name.startswith("nvml"):
        return refuse
    if name.startswith("NVML_"):
        return -1
    raise AttributeError(name)
"""
SCRIPT = """
import time
own = random.Random(os.environ["CAPSULE_TRIAL"])
report("loss", 1 + own.uniform(-1e-3, 1e-3))
report("coarse", 1 + own.uniform(-1e-4, 1e-4))
report("fixed", 3 + seed)
report("time", 1 + time.time_ns() % 1000 / 1e7)
gpus = len(list(filter(None, os.environ.get("CUDA_VISIBLE_DEVICES", "").split(","))))
report("gpus", gpus)
report("moved", 10 * gpus + own.uniform(-1e-3, 1e-3))
"""
METRICS: Document = {
    "loss": {"direction": "lower"},
    # coarser than chance: two runs leave a claim open, five never, by any seeds
    "coarse": {"direction": "lower", "resolution": 0.01},
    "fixed": {"direction": "lower"},
    "time": {"direction": "lower", "kind": "machine", "unit": "s", "resolution": 0.01},
    "gpus": {"kind": "machine", "resolution": 1},
    "moved": {"direction": "lower"},
}
TO_CPU = "a re-run on cpu, an original on cuda (--device)"
TO_CUDA = "a re-run on cuda, an original on cpu (--device)"
BITS = "equal bits are judged on the author's device only"


def metric(name: str, benchmark: str = "main") -> str:
    return f"{benchmark}/default/command/{name}"


LOSS: Document = {"metric": metric("loss"), "type": "equivalence", "margin": {"absolute": 0.1}}
TIME: Document = {"metric": metric("time"), "type": "noninferiority", "margin": {"ratio": 1.01}}
MOVED: Document = {**LOSS, "metric": metric("moved")}
COARSE: Document = {**LOSS, "metric": metric("coarse"), "margin": {"absolute": 0.01}}
EXACT: Document = {"metric": metric("fixed"), "type": "exact"}


def with_gpu(user: User, *words: str | Path, code: int = 0) -> str:
    """Run a command where a GPU is visible; returns what it prints."""
    folder = user.home / "driver"
    folder.mkdir(exist_ok=True)
    (folder / "pynvml.py").write_text(NVML)
    ended = user.run(*words, PYTHONPATH=str(folder))
    assert ended.returncode == code, ended.stdout + ended.stderr
    return ended.stdout


def seal(
    author: User,
    claims: Sequence[Document],
    *,
    gpus: int = 1,
    names: Sequence[str] = ("main",),
    seeds: Sequence[int] = (1, 2, 3),
    script: str = SCRIPT,
    **changes: object,
) -> None:
    """Some runs on a GPU, or without one."""
    hold = f"HOLD = {str(author.folder / 'hold')!r}"
    write_script(author.folder, REPORT + hold + HELD + script)
    benchmarks = [
        {
            "id": name,
            "command": ["python3", "tiny.py"],
            "inputs": ["tiny.py"],
            "metrics": METRICS,
        }
        for name in names
    ]
    path = write_manifest(
        author.folder,
        benchmarks=benchmarks,
        claims=claims,
        seeds=list(seeds),
        resources={"gpus_per_rank": gpus},
        **changes,
    )
    if gpus:
        with_gpu(author, "run", path, "--output", "a.zip")
    else:
        assert author.run("run", path, "--output", "a.zip").returncode == 0


def flat(text: str) -> str:
    return " ".join(text.split())


def values(capsule: Path, name: str) -> set[float]:
    return {
        value
        for line in record_of(capsule).samples
        if line.metric.endswith(f"/{name}")
        for value in line.values
    }


def planned(record: Record) -> list[tuple[str, str]]:
    """Benchmark, framework and source of the seed of each trial."""
    trials = summary.planned_trials(record.plan)
    return [(f"{one['benchmark']} {one['framework']}", one["seed_source"]) for one in trials]


def device_of(capsule: Path) -> str | None:
    origin = record_of(capsule).origin
    assert isinstance(origin, Verification)
    return origin.device


def words(judged: Document) -> list[str]:
    return [claim["verdict"] for claim in judged["claims"]]


def test_portable_claims_are_judged_and_the_machine_reported(author: User) -> None:
    seal(author, [LOSS, TIME])
    assert values(author.folder / "a.zip", "gpus") == {1}
    ended = author.run("verify", "a.zip", "--device", "cpu", "--output", "cpu.zip")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    head = flat(" ".join(ended.stdout.splitlines()[:3]))
    assert f"the claim holds. Compared: {TO_CPU}" in head
    assert "1 claim on machine metrics not judged (--device)" in flat(ended.stdout)
    assert values(author.folder / "cpu.zip", "gpus") == {0}
    judged = author.json("diff", "a.zip", "cpu.zip")
    assert judged["sentence"] == f"the claim holds. Compared: {TO_CPU}"
    assert judged["changes"] == [{"code": "another-device", "sentence": TO_CPU}]
    assert words(judged) == ["REPRODUCED", "REPORTED"]
    assert claim_of(judged, metric("time"))["sentence"] == (
        "reported only: the claim depends on the device, changed with --device"
    )
    record = record_of(author.folder / "cpu.zip")
    assert device_of(author.folder / "cpu.zip") == "cpu"
    assert (record.plan["device"], record.manifest.resources.gpus_per_rank) == ("cpu", 0)
    assert record.manifest.source == record_of(author.folder / "a.zip").manifest.source
    check_what_reads_it(author)
    # whichever is named first
    turned = author.json("diff", "cpu.zip", "a.zip")
    assert TO_CUDA in turned["sentence"]
    assert words(turned) == ["REPRODUCED", "REPORTED"]


def check_what_reads_it(author: User) -> None:
    """Everything that shows the capsule names its device; of others nothing does."""
    assert author.run("check", "cpu.zip").returncode == 0
    assert author.run("lint", "cpu.zip").returncode == 0
    shown = author.json("show", "cpu.zip")
    assert (shown["device"], shown["not_run"]) == ("cpu", [])
    assert "device" not in author.json("show", "a.zip")
    assert "device cpu (--device)" in flat(author.run("show", "cpu.zip").stdout)
    assert "device" not in flat(author.run("show", "a.zip").stdout)
    with zipfile.ZipFile(author.folder / "cpu.zip") as sealed:
        readme = sealed.read("data/README.md").decode()
    assert "- Device chosen by the verifier (`--device`): cpu" in readme


def test_its_verification_has_the_same_device_or_goes_back(author: User) -> None:
    seal(author, [LOSS, TIME])
    author.json("verify", "a.zip", "--device", "cpu", "--output", "cpu.zip")
    again = author.json("verify", "cpu.zip", "--output", "again.zip")
    assert (words(again), again["changes"]) == (["REPRODUCED", "REPRODUCED"], [])
    assert device_of(author.folder / "again.zip") == "cpu"
    refused = author.run("verify", "cpu.zip", "--device", "cuda", "--output", "back.zip")
    assert refused.returncode == 6
    assert "1 GPU is requested; this machine has no GPU with a driver" in flat(refused.stderr)
    assert "verify the capsule on CPUs: --device cpu" in flat(refused.stderr)
    assert not list(author.folder.glob("*.run"))
    with_gpu(author, "verify", "cpu.zip", "--device", "cuda", "--output", "back.zip")
    assert device_of(author.folder / "back.zip") is None
    assert values(author.folder / "back.zip", "gpus") == {1}
    judged = author.json("diff", "cpu.zip", "back.zip")
    assert (judged["changes"][0]["sentence"], words(judged)) == (
        TO_CUDA,
        ["REPRODUCED", "REPORTED"],
    )


def test_the_device_of_the_original_changes_nothing(author: User) -> None:
    seal(author, [LOSS])
    with_gpu(author, "verify", "a.zip", "--output", "plain.zip")
    with_gpu(author, "verify", "a.zip", "--device", "cuda", "--output", "same.zip")
    plain, same = (record_of(author.folder / name) for name in ("plain.zip", "same.zip"))
    assert plain.plan == same.plan
    with zipfile.ZipFile(author.folder / "same.zip") as sealed:
        origin = json.loads(sealed.read("data/capsule.json"))["origin"]
    assert "device" not in origin
    assert author.json("diff", "a.zip", "same.zip")["changes"] == []
    # where no GPU is, that is not silently another one
    refused = author.run("verify", "a.zip")
    assert refused.returncode == 6
    assert "--device cpu" in refused.stderr


def test_a_command_gets_a_gpu_where_its_original_had_none(author: User) -> None:
    seal(author, [LOSS, TIME], gpus=0)
    verify = ("verify", "a.zip", "--device", "cuda")
    preview = author.json(*verify, "--dry-run")
    assert (preview["device"], preview["first"]["devices"]) == ("cuda", ["0"])
    shown = flat(author.run(*verify, "--dry-run").stdout)
    assert "GPUs 1 for each rank (--device cuda)" in shown
    assert ", about" not in shown
    refused = author.run(*verify, "--output", "cuda.zip")
    assert refused.returncode == 6
    assert "--device cpu" in refused.stderr
    with_gpu(author, *verify, "--output", "cuda.zip")
    assert values(author.folder / "cuda.zip", "gpus") == {1}
    assert author.json("diff", "a.zip", "cuda.zip")["sentence"].endswith(f"Compared: {TO_CUDA}")


def test_a_gpu_that_is_hidden_is_none(author: User) -> None:
    seal(author, [LOSS])
    variables = {"PYTHONPATH": str(author.home / "driver"), "CUDA_VISIBLE_DEVICES": ""}
    refused = author.run("verify", "a.zip", "--device", "cuda", **variables)
    assert refused.returncode == 6
    assert "no GPU is visible (CUDA_VISIBLE_DEVICES=)" in flat(refused.stderr)
    assert "--device cpu" in refused.stderr
    ended = author.run("verify", "a.zip", "--device", "cpu", **variables)
    assert ended.returncode == 0, ended.stderr


def test_a_number_that_depends_on_the_device_is_different(author: User) -> None:
    seal(author, [LOSS, MOVED])
    judged = author.json("verify", "a.zip", "--device", "cpu", code=1)
    assert words(judged) == ["REPRODUCED", "DIFFERENT"]
    assert judged["sentence"].endswith(f". Compared: {TO_CPU}")


def test_a_script_that_fails_without_its_gpu_is_no_other_number(author: User) -> None:
    check = 'if not os.environ.get("CUDA_VISIBLE_DEVICES"):\n    raise SystemExit("no GPU")\n'
    seal(author, [LOSS], script=check + SCRIPT)
    judged = author.json("verify", "a.zip", "--device", "cpu", code=3)
    (claim,) = judged["claims"]
    assert (claim["verdict"], claim["fault"]) == ("INCONCLUSIVE", "machine")
    assert "no GPU" in judged["sentence"]
    assert TO_CPU in judged["sentence"]


def test_equal_bits_are_not_run_and_nobody_waits_for_them(author: User) -> None:
    equal = {**EXACT, "metric": metric("fixed", "equal")}
    seal(author, [LOSS, EXACT, equal], names=("main", "equal"))
    verify = ("verify", "a.zip", "--device", "cpu")
    ended = author.run(*verify, "--until-decided", "--output", "cpu.zip")
    assert ended.returncode == 3, ended.stderr
    sentence = f"2 of 3 primary claims not run here, 1 reproduced. Compared: {TO_CPU}"
    assert sentence in flat(ended.stdout)
    assert f"not run on cpu: {metric('fixed')}, {metric('fixed', 'equal')}: {BITS}" in flat(
        ended.stderr
    )
    assert "to settle it" not in ended.stdout
    record = record_of(author.folder / "cpu.zip")
    # three seeds: the one look is after six re-runs
    assert planned(record) == [("main command", "fresh")] * 6
    judged = author.json("diff", "a.zip", "cpu.zip", code=3)
    assert words(judged) == ["REPRODUCED", "INCONCLUSIVE", "INCONCLUSIVE"]
    for claim in judged["claims"][1:]:
        assert (claim["fault"], claim["sentence"]) == ("device", f"not run here: {BITS}")
        assert "without --device" in claim["advice"]["sentence"]
    assert author.run("check", "cpu.zip").returncode == 0
    assert BITS in flat(author.run("show", "cpu.zip").stdout)
    # what was not run there is not there for whoever verifies that, either
    again = author.json("verify", "cpu.zip", "--output", "again.zip", code=3)
    assert [claim["fault"] for claim in again["claims"]] == [None, "device", "device"]
    assert author.run("check", "again.zip").returncode == 0


def test_where_nothing_would_run_nothing_begins(author: User) -> None:
    seal(author, [EXACT])
    for more in ((), ("--dry-run",)):
        refused = author.run("verify", "a.zip", "--device", "cpu", *more)
        assert refused.returncode == 2
        assert f"no benchmark of the capsule runs on cpu: {metric('fixed')}: {BITS}" in flat(
            refused.stderr
        )
        assert "leave --device out" in refused.stderr
    assert not list(author.folder.glob("*.run"))


def test_what_is_open_goes_on_there_and_nowhere_else(author: User) -> None:
    seal(author, [COARSE], seeds=(1, 2, 3, 4, 5))
    verify = ("verify", "a.zip", "--device", "cpu", "--runs", "2")
    ended = author.run(*verify, "--output", "cpu.zip")
    assert ended.returncode == 3, ended.stdout
    last = ended.stdout.splitlines()[-1]
    assert last.startswith("to settle it: capsule verify a.zip --add cpu.zip --runs ")
    assert last.endswith(" --device cpu")
    refused = author.run("verify", "a.zip", "--add", "cpu.zip")
    assert refused.returncode == 2
    talk = flat(refused.stderr)
    assert "the earlier runs took place on cpu, the new runs would take place on cuda" in talk
    assert "repeat the command with --device cpu" in talk
    again = author.run(*last.partition("capsule ")[2].split(), "--output", "sum.zip")
    assert again.returncode == 0, again.stdout + again.stderr
    assert device_of(author.folder / "sum.zip") == "cpu"
    assert author.run("check", "sum.zip").returncode == 0


def test_a_killed_one_goes_on_on_the_same_device(author: User) -> None:
    seal(author, [LOSS])
    (author.folder / "hold").touch()
    running = author.start("verify", "a.zip", "--device", "cpu")
    folder = wait_for_workload(author, running)
    kill_tree(running)
    (author.folder / "hold").unlink()
    refused = author.run("verify", "a.zip", "--device", "cpu", "--resume", folder)
    assert refused.returncode == 2
    assert "--resume and --device exclude each other" in refused.stderr
    ended = author.run("verify", "a.zip", "--resume", folder, "--output", "cpu.zip")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert TO_CPU in flat(ended.stdout)
    assert device_of(author.folder / "cpu.zip") == "cpu"
    tried = attempts_in(author.folder / "cpu.zip")
    assert [one["outcome"] for one in tried].count("completed") == 6
    assert values(author.folder / "cpu.zip", "gpus") == {0}


def test_the_form_of_strangers_code_names_the_device_and_so_does_its_command(
    author: User, stranger: User
) -> None:
    equal = {**EXACT, "metric": metric("fixed", "equal")}
    seal(author, [LOSS, equal], names=("main", "equal"))
    (stranger.folder / "a.zip").write_bytes((author.folder / "a.zip").read_bytes())
    refused = stranger.run("verify", "a.zip", "--device", "cpu", "--runtime", "host")
    assert refused.returncode == 4
    talk = flat(refused.stderr)
    assert "GPUs none (--device cpu)" in talk
    assert f"not run {metric('fixed', 'equal')}: {BITS}" in talk
    assert "6 process starts" in talk
    assert "process starts, about" not in talk
    command = talk.rpartition("capsule verify ")[2].split()
    assert command[command.index("--device") + 1] == "cpu"
    ended = stranger.run("verify", *command, "--output", "cpu.zip")
    assert ended.returncode == 3, ended.stderr
    assert TO_CPU in flat(ended.stdout)


def test_it_goes_with_a_quick_one_a_setting_and_equal_seeds(author: User) -> None:
    paired = {**LOSS, "paired": True}
    beside = {**EXACT, "metric": metric("fixed", "beside"), "primary": False}
    seal(author, [paired, beside], names=("main", "beside"), mutable=["resources"])
    flags = ("--device", "cpu", "--quick", "--set", "/resources/cpus_per_rank=1")
    judged = author.json("verify", "a.zip", *flags, "--output", "cpu.zip", code=0)
    assert [one["code"] for one in judged["changes"]] == [
        *("another-device", "changed-manifest", "quick")
    ]
    # under equal seeds and under fresh ones
    assert words(judged) == ["REPRODUCED", "REPRODUCED", "SKIPPED"]
    record = record_of(author.folder / "cpu.zip")
    assert set(planned(record)) == {("main command", "manifest"), ("main command", "fresh")}
    assert (record.plan["device"], record.plan["set"]) == ("cpu", {"/resources/cpus_per_rank": 1})
    assert author.run("check", "cpu.zip").returncode == 0
    again = author.json("verify", "cpu.zip", "--output", "again.zip")
    assert words(again)[:2] == ["REPRODUCED", "REPRODUCED"]
    assert author.run("check", "again.zip").returncode == 0


def test_it_stands_beside_others(author: User) -> None:
    equal = {**EXACT, "metric": metric("fixed", "equal")}
    seal(author, [LOSS, TIME, equal], names=("main", "equal"))
    author.json("verify", "a.zip", "--device", "cpu", "--output", "cpu.zip", code=3)
    with_gpu(author, "verify", "a.zip", "--nonce", "7", "--output", "cuda.zip")
    several = author.json("diff", "a.zip", "cpu.zip", "cuda.zip", code=3)
    assert f"B compared: {TO_CPU}" in several["sentence"]
    assert "C compared: a re-run under seeds drawn with --nonce '7'" in several["sentence"]
    (left_out,) = [one for one in several["metrics"] if one["metric"] == equal["metric"]]
    assert [note["sentence"] for note in left_out["notes"] if note["code"] == "left-out"] == [
        "B did not run this benchmark (--device): capsule leaves B out of spread and mean"
    ]


@pytest.mark.parametrize(
    ("name", "device", "complaint"),
    [
        ("plain.zip", "cpu", "the plan's device contradicts the manifest"),
        ("cpu.zip", None, "the plan's device contradicts the manifest"),
    ],
)
def test_a_device_that_does_not_follow_from_the_plan_is_refused(
    author: User, name: str, device: str | None, complaint: str
) -> None:
    seal(author, [LOSS])
    if name == "plain.zip":
        with_gpu(author, "verify", "a.zip", "--output", name)
    else:
        author.json("verify", "a.zip", "--device", "cpu", "--output", name)

    def change(record: Record) -> Record:
        assert isinstance(record.origin, Verification)
        written = replace(record.manifest, other_device=device)
        return replace(record, origin=replace(record.origin, device=device), manifest=written)

    reseal(author.folder / name, author.folder / "forged.zip", change)
    for verb in (("check", "forged.zip"), ("diff", "a.zip", "forged.zip")):
        ended = author.run(*verb)
        assert ended.returncode == 4, ended.stdout
        assert complaint in flat(ended.stderr)


# measured by capsule's own program

CASES: Document = {"cases": [{"m": 5, "n": 6, "k": 7}], "repetitions": 2, "warmup": 1}
OPERATORS: list[Document] = [
    {"id": "plain", "level": 0, "operator": "gemm", "frameworks": ["torch"], **CASES},
    {"id": "narrow", "level": 0, "operator": "gemm", "frameworks": ["torch"], **CASES},
    {"id": "bare", "level": 0, "operator": "gemm", "frameworks": ["torch"], **CASES},
    {"id": "both", "level": 0, "operator": "gemm", "frameworks": ["torch", "numpy"], **CASES},
]
NARROW = {"narrow": "tf32", "bare": "tf32"}
LACK = "torch does not support tf32 on cpu"
RATIO: Document = {"type": "bound", "at_most": 1}
CLAIMS: list[Document] = [
    {"metric": "plain/*/torch/l2_error_ratio", **RATIO},
    {"metric": "plain/*/torch/forward_time", "type": "noninferiority", "margin": {"ratio": 1.1}},
    {"metric": "plain/*/torch/repeatable", "type": "bound", "at_least": 1},
    {"metric": "narrow/*/torch/l2_error_ratio", **RATIO},
    {"metric": "both/*/*/l2_error_ratio", **RATIO},
]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> User:
    """`cpu.zip` as it was measured here, and `cuda.zip`, which says that it was on a GPU."""
    user = User.make(tmp_path_factory.mktemp("device"))
    path = write_manifest(user.folder, benchmarks=OPERATORS, claims=CLAIMS, seeds=[1, 2])
    ended = user.run("run", path, "--runtime", "host", "--output", "cpu.zip")
    assert ended.returncode == 0, ended.stderr
    reseal(user.folder / "cpu.zip", user.folder / "cuda.zip", as_of_gpu)
    return user


def as_of_gpu(record: Record) -> Record:
    """The same runs, as a GPU would have made them."""
    raw = json.loads(record.manifest.source)
    raw["resources"] = {"gpus_per_rank": 2}
    for entry in raw["benchmarks"]:
        if entry["id"] in NARROW:
            entry["dtype"] = NARROW[entry["id"]]
    written = manifest.read(
        json.dumps(raw).encode(), where="m", folder=None, subjects=record.plan["subjects"]
    )
    return with_plan(replace(record, manifest=written), plans.to_json(plans.make(written)))


@pytest.mark.torch
def test_operators_run_on_cpus_in_their_own_element_type_or_not_at_all(measured: User) -> None:
    flags = ("--trust", "--allow-host", "--device", "cpu", "--output", "there.zip")
    judged = measured.json("verify", "cuda.zip", *flags, code=3)
    assert judged["sentence"] == (
        f"2 of 5 primary claims not run here, 3 reproduced. Compared: {TO_CPU}"
    )
    told = {
        (claim["metric"].partition("/")[0], claim["metric"].rpartition("/")[2]): claim
        for claim in judged["claims"]
    }
    assert told["plain", "l2_error_ratio"]["verdict"] == "REPRODUCED"
    assert told["plain", "forward_time"]["verdict"] == "REPORTED"
    assert told["plain", "repeatable"]["sentence"] == f"not run here: {BITS}"
    assert told["narrow", "l2_error_ratio"]["sentence"] == f"not run here: {LACK}"
    assert told["narrow", "l2_error_ratio"]["rerun"]["seeds"] == []
    assert {"code": "not-run", "sentence": f"not run on cpu: bare ({LACK})"} in judged["notes"]
    record = record_of(measured.folder / "there.zip")
    assert {name for name, _ in planned(record)} == {"plain torch", "both torch", "both numpy"}
    assert record.manifest.resources.gpus_per_rank == 0
    for entry in record.environment["effective"].values():
        assert entry["device"] == "cpu"
    assert measured.run("check", "there.zip").returncode == 0
    assert f"narrow, bare: {LACK}" in flat(measured.run("show", "there.zip").stdout)


@pytest.mark.torch
def test_a_verification_cannot_leave_out_what_the_device_runs(measured: User) -> None:
    name = "there.zip"
    if not (measured.folder / name).exists():
        flags = ("--trust", "--allow-host", "--device", "cpu", "--output", name)
        measured.json("verify", "cuda.zip", *flags, code=3)

    def refuse(record: Record) -> Record:
        subjects = [
            {**one, "refusals": {"torch": "it is slow"}} if one["benchmark"] == "plain" else one
            for one in record.plan["subjects"]
        ]
        written = manifest.read(
            record.manifest.source, where="m", folder=None, subjects=subjects, device="cpu"
        )
        assert isinstance(record.origin, Verification)
        origin = record.origin
        plan = plans.make(written, verifies=origin.of, runs=origin.runs)
        kept = {trial.id for group in plan.groups for trial in group.trials}
        return with_plan(
            replace(
                record,
                manifest=written,
                attempts=tuple(one for one in record.attempts if one.trial in kept),
                samples=tuple(one for one in record.samples if one.trial in kept),
            ),
            plans.to_json(plan),
        )

    reseal(measured.folder / name, measured.folder / "shy.zip", refuse)
    assert measured.run("check", "shy.zip").returncode == 0
    ended = measured.run("diff", "cuda.zip", "shy.zip")
    assert ended.returncode == 4
    assert "its plan has other cases or metrics than the original's in plain" in flat(ended.stderr)


@pytest.mark.torch
def test_frameworks_that_lack_the_device_are_left_out(measured: User) -> None:
    verify = ("verify", "cpu.zip", "--device", "cuda")
    preview = measured.json(*verify, "--dry-run")
    run = {(one["benchmark"], one["framework"]) for g in preview["groups"] for one in g["trials"]}
    assert run == {(name, "torch") for name in ("plain", "narrow", "bare", "both")}
    (both,) = [one for one in preview["subjects"] if one["benchmark"] == "both"]
    assert both["refusals"] == {"numpy": "numpy has no device 'cuda'"}
    shown = flat(measured.run(*verify, "--dry-run").stdout)
    assert "not run both: numpy has no device 'cuda'" in shown
    refused = measured.run(*verify)
    assert refused.returncode == 6
    # torch here has no such device, which is this machine's fault and no other number
    with_gpu(measured, *verify, "--output", "there-and.zip", "--json", code=3)
    judged = measured.json("diff", "cpu.zip", "there-and.zip", code=3)
    faults = {claim["fault"] for claim in judged["claims"]}
    assert faults == {"machine", "device", None}
    assert "finds no device 'cuda'" in judged["sentence"]


def test_a_capsule_of_numpy_alone_has_nothing_to_run_on_gpus(author: User) -> None:
    entry = {**OPERATORS[0], "frameworks": ["numpy"]}
    claims = [{"metric": "plain/*/numpy/l2_error_ratio", **RATIO}]
    path = write_manifest(author.folder, benchmarks=[entry], claims=claims, seeds=[1])
    assert author.run("run", path, "--output", "a.zip").returncode == 0
    refused = author.run("verify", "a.zip", "--device", "cuda")
    assert refused.returncode == 2
    assert "no benchmark of the capsule runs on cuda: plain: numpy has no device 'cuda'" in flat(
        refused.stderr
    )
