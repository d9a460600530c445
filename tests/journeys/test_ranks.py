"""Two ranks of one process start, through every stage from the manifest to a verdict."""

import json
import secrets
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from capsule import archive, manifest, plan, resolve, sealing, session
from capsule.sealing import Sealed
from capsule.session import Terms
from capsule.watch import Watch
from tests.journeys.test_resume import attempts_in
from tests.support.command import REPORT, User, write_manifest, write_script
from tests.support.engines import engine_cache, small_image, torch_image
from tests.support.patience import until
from tests.support.worlds import MEETING, RANKS, is_alive, meeting

BOTH = (
    REPORT
    + """
import sys
rank, ranks = int(os.environ["CAPSULE_RANK"]), int(os.environ["CAPSULE_RANKS"])
assert ranks == 2 and os.environ["CAPSULE_OUT"] == os.getcwd()
print("this is rank", rank)
report("rate", 10.0 + rank + random.Random(seed).random())
if rank == 0:
    report("loss", 1 + random.Random(seed).uniform(-0.01, 0.01))
"""
)
ONE_FAILS = (
    BOTH
    + """
if rank == 1:
    sys.exit("there is no network here")
import time
while True:  # what a rank does that waits for the other one
    time.sleep(0.01)
"""
)
pytestmark = pytest.mark.usefixtures("bare_python")

Engine = tuple[str, str | None]
"""Name of an engine, and the image that it runs."""

METRICS = {
    "loss": {"direction": "lower"},
    "rate": {"unit": "1/s", "direction": "higher", "kind": "machine", "per": "rank"},
}


def two_ranks(user: User, script: str, **changes: object) -> Path:
    write_script(user.folder, script)
    command = {"command": ["python3", "tiny.py"], "inputs": ["tiny.py"]}
    benchmark = {"id": "tiny", **command, "ranks_independent": True}
    benchmarks = [{**benchmark, "metrics": METRICS, **changes}]
    return write_manifest(user.folder, benchmarks=benchmarks, seeds=[1, 2, 3], resources=RANKS)


def run(
    path: Path, target: Path, runtime: str, image: str | None, of: Sealed | None = None
) -> Sealed:
    """What `api.run` does, without its judgement."""
    loaded = manifest.load(path)
    planned = plan.make(loaded, verifies=of.id if of else None)
    assert {group.ranks for group in planned.groups} == {2}
    used = resolve.Used(image=of.record.image, datasets=()) if of else None
    image = None if used else image
    resolved = resolve.resolve(
        resolve.Request(
            manifest=loaded,
            used=used,
            runtime=runtime,
            image=image,
            inputs=path.parent,
        )
    )
    terms = Terms(image=image)
    claims = of.record.claims if of else None
    work = target.with_suffix(".run")
    current = session.begin(planned, resolved, terms, work=work, claims=claims)
    with current.workspace.lock():
        execution = session.perform(current, Watch())
        record = session.assemble(current, execution)
        return sealing.seal(current, execution, record, target)


@pytest.fixture(params=["host", pytest.param("apptainer", marks=pytest.mark.engines)])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Engine:
    if request.param == "host":
        return "host", None
    monkeypatch.setenv("CAPSULE_CACHE", str(engine_cache()))
    return request.param, small_image()


def test_two_ranks_go_all_the_way_to_a_verdict(author: User, engine: Engine) -> None:
    path = two_ranks(author, BOTH)
    first = run(path, author.folder / "first.zip", *engine)
    assert not first.failures
    second = run(path, author.folder / "second.zip", *engine, of=first)

    shown = author.json("show", first.path)
    rates = shown["metrics"]["tiny/default/command/rate"]
    assert rates["per"] == "rank"
    with archive.read(first.path) as capsule:
        record = capsule.record
        for seed, run_ in zip((1, 2, 3), rates["runs"], strict=True):
            lines = [
                line
                for line in record.samples
                if line.seed == seed and line.metric.endswith("rate")
            ]
            assert [line.rank for line in lines] == [0, 1]
            # the slower rank's
            assert run_["value"] == min(lines[0].values[0], lines[1].values[0])
        losses = [line for line in record.samples if line.metric.endswith("loss")]
        assert [line.rank for line in losses] == [0, 0, 0]
        assert {(attempt.ranks, attempt.nodes) for attempt in record.attempts} == {(2, (0,))}
        assert b"this is rank 1" in capsule.open("logs/0001-rank0001-stdout.txt")

    verdict = author.json("diff", first.path, second.path)
    assert verdict["verdict"] == "REPRODUCED"
    (rate,) = [one for one in verdict["reported"] if one["metric"].endswith("rate")]
    assert rate["original"]["values"] == rate["rerun"]["values"] == 3


# one that has shared memory, and the other one waits for it
HANGS = (
    BOTH
    + """
import mmap, signal, time
if seed == 2:
    with open(MEMORY, "w+b") as file:
        file.truncate(mmap.PAGESIZE)
        shared = mmap.mmap(file.fileno(), 0)
    if rank == 1:
        open(MARK, "w").write(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGSTOP)
    while True:
        time.sleep(0.01)
"""
)


def test_a_rank_that_hangs_has_its_benchmarks_time_and_no_more(author: User) -> None:
    memory, mark = Path(f"/dev/shm/capsule-test-{secrets.token_hex(8)}"), author.folder / "mark"
    script = HANGS.replace("MEMORY", repr(str(memory))).replace("MARK", repr(str(mark)))
    path = two_ranks(author, script, timeout="00:00:02")
    ended = author.run("run", path, "--runtime", "host")
    assert ended.returncode == 5, ended.stdout + ended.stderr
    assert not memory.exists()
    assert not is_alive(mark.read_text())
    (capsule,) = author.folder.glob("*.capsule.zip")
    assert [(one["seed"], one["outcome"], one.get("reason")) for one in attempts_in(capsule)] == [
        (1, "completed", None),
        (2, "failed", "timeout"),
        (3, "completed", None),
    ]


PRINTED = """
import os
print("rate:", 10 + int(os.environ["CAPSULE_RANK"]), "loss:", os.environ["CAPSULE_SEED"])
open("rate.txt", "w").write(os.environ["CAPSULE_RANK"])
"""


def test_what_every_rank_prints_is_read_of_each_where_it_is_per_rank(author: User) -> None:
    metrics = {
        "loss": {"from": {"pattern": "loss: (.*)"}},
        "rate": {"per": "rank", "from": {"pattern": "rate: ([0-9]+)"}},
        "file": {"per": "rank", "from": {"pattern": "(.*)", "file": "rate.txt"}},
    }
    sealed = run(two_ranks(author, PRINTED, metrics=metrics), author.folder / "a.zip", "host", None)
    assert not sealed.failures
    with archive.read(sealed.path) as capsule:
        samples = capsule.record.samples
        shown = [numbers[0] for numbers in capsule.quotations()]
    read = {(line.metric[21:], line.seed, line.rank): line.values for line in samples}
    assert read == {
        **{("loss", seed, 0): (seed,) for seed in (1, 2, 3)},
        **{("rate", seed, rank): (10 + rank,) for seed in (1, 2, 3) for rank in (0, 1)},
        **{("file", seed, rank): (rank,) for seed in (1, 2, 3) for rank in (0, 1)},
    }
    assert {one.path for one in shown if one.rank == 1 and one.seed == 1} == {
        "logs/0001-rank0001-stdout.txt",
        "evidence/0001/rank0001/rate.txt",
    }


def test_a_rank_that_fails_takes_the_others_with_it_and_is_named(
    author: User, engine: Engine
) -> None:
    path = two_ranks(author, ONE_FAILS)
    sealed = run(path, author.folder / "a.zip", *engine)
    with archive.read(sealed.path) as capsule:
        for attempt in capsule.record.attempts:
            assert (attempt.outcome, attempt.reason, attempt.exit_code) == ("failed", "exit", 1)
            assert attempt.message.startswith("rank 1: exit code 1")
            assert "there is no network here" in attempt.message
        # what both had reported before is kept
        ranks = {(line.metric.rpartition("/")[2], line.rank) for line in capsule.record.samples}
        assert ranks == {("rate", 0), ("rate", 1), ("loss", 0)}


def test_what_only_one_rank_reports_is_missed(author: User) -> None:
    path = two_ranks(author, BOTH.replace('report("rate"', 'rank or report("rate"'))
    sealed = run(path, author.folder / "a.zip", "host", None)
    assert {attempt.reason for attempt in sealed.record.attempts} == {"no-result"}
    assert "'rate' from rank 1" in sealed.record.attempts[0].message


ENGINES = [
    "host",
    *(pytest.param(one, marks=pytest.mark.engines) for one in ("apptainer", "docker", "podman")),
]


@pytest.mark.parametrize("name", ENGINES)
def test_ranks_reach_each_other(
    author: User, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    words = []
    if name != "host":
        monkeypatch.setenv("CAPSULE_CACHE", str(engine_cache()))
        words = ["--image", small_image()]
    ended = author.run("run", meeting(author), "--runtime", name, *words)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    is_open = "its ranks share this machine's network" in " ".join(ended.stdout.split())
    assert is_open == (name != "host")
    (capsule,) = author.folder.glob("*.capsule.zip")
    shown = author.json("show", capsule)
    sizes = shown["metrics"]["tiny/default/command/world_size"]
    assert [run_["value"] for run_ in sizes["runs"]] == [2]
    assert not list(author.folder.glob("*.run"))
    if name == "docker":
        refused = author.run("verify", capsule, "--runtime", name, "--trust", HOME=str(tmp_path))
        assert refused.returncode == 4
        assert "cannot isolate this code from the network" in " ".join(refused.stderr.split())


def test_ranks_that_do_not_all_meet_are_no_result(author: User) -> None:
    sealed = run(meeting(author, world="1"), author.folder / "a.zip", "host", None)
    (attempt,) = sealed.record.attempts
    assert (attempt.outcome, attempt.reason) == ("failed", "bad-result")
    assert "world_size is 1, but 2 ranks were started" in attempt.message


STUCK = """
import os, pathlib, time
mark = pathlib.Path(FOLDER, os.environ["CAPSULE_RANK"])
if not mark.exists():
    pathlib.Path(os.environ["CAPSULE_RENDEZVOUS"].removeprefix("file://")).touch()
    mark.with_suffix(".part").write_text(str(os.getpid()))
    mark.with_suffix(".part").rename(mark)
    time.sleep(600)
"""


def test_a_run_that_is_killed_ends_its_ranks_and_goes_on(author: User) -> None:
    path = meeting(author)
    stuck = STUCK.replace("FOLDER", repr(str(author.folder)))
    write_script(author.folder, stuck + MEETING.replace("WORLD", "ranks"))
    marks = [author.folder / str(rank) for rank in (0, 1)]
    process = author.start("run", path, "--runtime", "host")
    until(lambda: all(mark.exists() for mark in marks), "both ranks run")
    process.kill()
    process.wait()
    (work,) = author.folder.glob("*.run")
    # nobody meets in what the first two left
    ended = author.run("run", "--resume", work)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (capsule,) = author.folder.glob("*.capsule.zip")
    worlds = author.json("show", capsule)["worlds"]
    assert [(one["nodes"], one["means"]) for one in worlds] == [([0, 0], ["sockets"])] * 2
    for mark in marks:
        assert not is_alive(mark.read_text())


EXAMPLE = Path(__file__).parents[2] / "manifests" / "ranks"


@pytest.mark.long
@pytest.mark.engines
def test_the_worked_example_is_reproduced_under_another_engine(
    author: User, stranger: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAPSULE_CACHE", str(engine_cache()))
    shutil.copytree(EXAMPLE, author.folder / EXAMPLE.name)
    example = json.loads(EXAMPLE.with_suffix(".json").read_text())
    manifest = author.folder / "ranks.json"
    manifest.write_text(json.dumps({**example, "seeds": [17]}))
    ended = author.run("run", manifest, "--image", torch_image(), "--runtime", "apptainer")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (capsule,) = author.folder.glob("*.capsule.zip")

    words = ("verify", capsule, "--trust", "--allow-host", "--runtime", "docker", "--runs", "1")
    ended = stranger.run(*words)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.startswith("REPRODUCED")


def test_ranks_on_other_nodes_are_refused_before_anything_is_made(author: User) -> None:
    path = meeting(author)
    write_manifest(author.folder, seeds=[1], resources={**RANKS, "nodes": 2})
    ended = author.run("run", path, "--runtime", "host")
    assert ended.returncode == 6, ended.stderr
    assert "2 nodes requested" in ended.stderr
    assert "/resources/nodes" in ended.stderr
    assert not list(author.folder.glob("*.run"))


def test_a_folder_that_no_address_names_is_refused(author: User) -> None:
    odd = author.folder / "a#b"
    odd.mkdir()
    elsewhere = replace(author, folder=odd)
    ended = elsewhere.run("run", meeting(elsewhere), "--runtime", "host")
    assert ended.returncode == 6, ended.stderr
    assert "the path contains ?, # or ;" in ended.stderr


def test_operators_have_no_use_for_ranks(author: User) -> None:
    gemm = {"id": "g", "level": 0, "operator": "gemm", "frameworks": ["numpy"]}
    path = write_manifest(author.folder, benchmarks=[gemm], claims=[], resources=RANKS)
    ended = author.run("run", path)
    assert ended.returncode == 2
    assert "g runs in one process" in ended.stderr
