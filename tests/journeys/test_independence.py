"""Trials that do not find what an earlier trial left, wherever a program may leave anything."""

from __future__ import annotations

import json
import mmap
import os
import pwd
import secrets
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.journeys.test_resume import attempts_in, kill_tree, wait_for_workload
from tests.support.command import REPORT, Document, User, write_manifest
from tests.support.engines import engine_cache, small_image, user_python
from tests.support.patience import until
from tests.support.worlds import RANKS

# counts its own starts in a file of each folder that it can write
COUNT = (
    REPORT
    + """
import pathlib, tempfile
here = pathlib.Path(__file__).resolve().parent
places = {
    "inputs": here,
    "above": here.parent,
    "beside": here.parent.parent,
    "bytecode": here / "__pycache__",
    "cwd": pathlib.Path.cwd(),
    "home": pathlib.Path.home(),
    "tmp": pathlib.Path(tempfile.gettempdir()),
}
print("home", places["home"])
def count(name):
    folder = places[name]
    try:
        folder.mkdir(exist_ok=True)
        with open(folder / f"count-{name}", "a+") as file:
            file.seek(0)
            starts = len(file.read()) + 1
            file.write("x")
        return starts
    except OSError as error:
        print(folder, error)
        return 1
for name in places:
    report(name, count(name))
"""
)
PLACES = ("inputs", "above", "beside", "bytecode", "cwd", "home", "tmp")


@pytest.fixture
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name: str = request.param
    if name != "host":
        monkeypatch.setenv("CAPSULE_CACHE", str(engine_cache()))
    return name


def manifest(user: User, script: str, *, image: bool = False, **fields: object) -> Path:
    """A benchmark whose script lies in the folder `repo`, with a metric for each place."""
    names = fields.pop("names", PLACES)
    assert isinstance(names, tuple)
    top = {key: fields.pop(key) for key in ("resources", "seeds") if key in fields}
    (user.folder / "repo" / "sub").mkdir(parents=True, exist_ok=True)
    (user.folder / "repo" / "run.py").write_text(script)
    (user.folder / "repo" / "sub" / "data.txt").write_text("as it was sealed")
    benchmark = {
        "id": "tiny",
        "command": ["python3", "repo/run.py"],
        "inputs": ["repo"],
        "metrics": {name: {"direction": "lower"} for name in names},
        **fields,
    }
    return write_manifest(
        user.folder,
        benchmarks=[benchmark],
        claims=None,
        image={"reference": small_image()} if image else None,
        **{"seeds": [1, 2, 3], **top},
    )


def seal(user: User, path: Path, *words: str, engine: str = "host") -> tuple[Path, str]:
    """The capsule of a run, and what was said of it."""
    ended = user.run("run", path, "--runtime", engine, "--output", "a.zip", *words)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return user.folder / "a.zip", " ".join((ended.stdout + ended.stderr).split())


def values(user: User, capsule: Path) -> dict[str, list[float]]:
    """Every value of each metric."""
    found: dict[str, list[float]] = {}
    with zipfile.ZipFile(capsule) as opened:
        for line in opened.read("data/results/samples.jsonl").splitlines():
            one: Document = json.loads(line)
            found.setdefault(one["metric"].rpartition("/")[2], []).extend(one["values"])
    return found


def logs(capsule: Path) -> str:
    with zipfile.ZipFile(capsule) as opened:
        names = [name for name in opened.namelist() if name.startswith("data/logs/")]
        return "".join(opened.read(name).decode() for name in names)


def own_folders(text: str) -> list[Path]:
    """The HOME of each process start, as it was printed."""
    return [Path(line.split()[-1]) for line in text.splitlines() if line.startswith("home ")]


def folders_of_engines() -> Iterator[Any]:
    """Every folder under every engine; where one engine has seen all, the others see two kinds."""
    pinned: tuple[object, ...] = (None, {"copy": "repo"})
    for engine in ("host", "docker", "apptainer", "podman"):
        for cwd in (None, "repo", {"copy": "repo"}, {"copy": "repo/sub"}):
            marks = [] if engine == "host" else [pytest.mark.engines]
            if engine in ("apptainer", "podman") and cwd not in pinned:
                marks.append(pytest.mark.long)
            yield pytest.param(engine, cwd, marks=marks)


@pytest.mark.parametrize(("engine", "cwd"), list(folders_of_engines()), indirect=["engine"])
def test_each_trial_is_the_first_one_everywhere(author: User, engine: str, cwd: object) -> None:
    words = [] if cwd is None else ["python3", "run.py"]
    if cwd == {"copy": "repo/sub"}:
        words = ["python3", "../run.py"]
    fields: Document = {"cwd": cwd, "command": words} if cwd is not None else {}
    path = manifest(author, COUNT, image=engine != "host", **fields)
    capsule, said = seal(author, path, engine=engine)
    assert values(author, capsule) == {name: [1, 1, 1] for name in PLACES}
    # what is written in a copy is no news
    assert ("inputs-written" in str(author.json("show", capsule)["notes"])) == (engine == "host")
    if engine == "host":
        assert "CAPSULE_OUT" in said
    if isinstance(cwd, dict) and cwd["copy"] == "repo":
        # there the program could count
        assert "repo/count" not in said
        assert "/repo " not in logs(capsule)
    assert author.run("check", capsule).returncode == 0
    assert (author.folder / "repo" / "run.py").read_text() == COUNT
    assert {path.name for path in (author.folder / "repo").iterdir()} == {"run.py", "sub"}


def test_a_second_attempt_is_the_first_one_too(author: User) -> None:
    killed = author.folder / "killed"
    script = (
        COUNT
        + f"""
import signal
if seed == 2 and not os.path.exists({str(killed)!r}):
    open({str(killed)!r}, "w")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    )
    capsule, _ = seal(author, manifest(author, script))
    attempts = [(one["seed"], one["outcome"]) for one in attempts_in(capsule)]
    assert attempts == [(1, "completed"), (2, "interrupted"), (2, "completed"), (3, "completed")]
    assert {one for every in values(author, capsule).values() for one in every} == {1}


def test_setup_and_command_of_a_start_see_the_same(author: User) -> None:
    names = ("inputs", "home", "tmp")
    counts = COUNT.replace("for name in places", f"for name in {names}")
    (author.folder / "repo").mkdir()
    (author.folder / "repo" / "setup.py").write_text(
        counts.replace("report(name, count(name))", "count(name)")
    )
    path = manifest(
        author,
        counts,
        names=names,
        setup=["python3", "repo/setup.py"],
    )
    capsule, _ = seal(author, path)
    assert values(author, capsule) == {name: [2, 2, 2] for name in names}
    folders = own_folders(logs(capsule))
    assert (len(folders), len(set(folders))) == (6, 3)
    assert not any(folder.parent.exists() for folder in folders)


RANKED = COUNT.replace(
    "for name in",
    """
import time
rank = int(os.environ["CAPSULE_RANK"])
(here / f"rank{rank}").touch()
while not (here / f"rank{1 - rank}").exists():
    time.sleep(0.01)
places = {"home": places["home"], "tmp": places["tmp"]}
for name in""",
)


@pytest.mark.usefixtures("bare_python")
def test_ranks_share_one_copy_for_each_start_and_no_home(author: User) -> None:
    path = manifest(author, RANKED, resources=RANKS, names=("home", "tmp"), ranks_independent=True)
    document = json.loads(path.read_text())
    for metric in document["benchmarks"][0]["metrics"].values():
        metric["per"] = "rank"
    path.write_text(json.dumps(document))
    capsule, _ = seal(author, path)
    assert values(author, capsule) == {name: [1] * 6 for name in ("home", "tmp")}


SHOW = (
    REPORT
    + """
import stat, tempfile
for name, folder in (("home", os.environ["HOME"]), ("tmp", tempfile.gettempdir())):
    print(name, len(folder), oct(stat.S_IMODE(os.stat(folder).st_mode)), os.listdir(folder), folder)
report("home", 1)
"""
)


@pytest.mark.parametrize("asked", ["/tmp", "/tmp/" + "long/" * 20, "/nowhere", ""])
def test_home_and_temporary_folder_are_short_and_nobody_elses(author: User, asked: str) -> None:
    if asked.startswith("/tmp/"):
        Path(asked).mkdir(parents=True, exist_ok=True)
    path = manifest(author, SHOW, names=("home",))
    ended = author.run(
        "run", path, "--output", "a.zip", TMPDIR=asked if asked != "/nowhere" else ""
    )
    assert ended.returncode == 0, ended.stderr
    lines = [line.split() for line in logs(author.folder / "a.zip").splitlines() if line]
    assert len(lines) == 6
    for _, length, mode, listed, _ in lines:
        assert int(length) <= 40
        assert (mode, listed) == ("0o700", "[]")
    assert len({line[-1] for line in lines}) == 6
    assert not any(Path(line[-1]).parent.exists() for line in lines)
    if asked.startswith("/tmp/"):
        shutil.rmtree("/tmp/long")


def test_what_a_dead_trial_left_goes_at_the_next_one(author: User) -> None:
    go, told = author.folder / "go", author.folder / "told"
    script = (
        SHOW
        + """
import time
with open(TOLD + "~", "w") as file:
    file.write(os.environ["HOME"])
os.rename(TOLD + "~", TOLD)
while not os.path.exists(GO):
    time.sleep(0.02)
"""
    )
    script = script.replace("TOLD", repr(str(told))).replace("GO", repr(str(go)))
    path = manifest(author, script, names=("home",))
    running = author.start("run", "--try", path)
    until(told.exists, "the trial")
    kill_tree(running)
    home = Path(told.read_text())
    assert home.exists()
    go.touch()
    assert author.run("run", "--try", path).returncode == 0
    assert Path(told.read_text()) != home
    assert not home.parent.exists()


def test_what_a_dead_run_left_goes_when_it_is_taken_up(author: User) -> None:
    script = (
        SHOW
        + """
import time
if seed == 3 and not os.path.exists(GO):
    open(tempfile.gettempdir() + "/checkpoint", "w")
    open(os.environ["CAPSULE_OUT"] + "/under-way", "w")
    time.sleep(600)
""".replace("GO", repr(str(author.folder / "go")))
    )
    path = manifest(author, script, names=("home",))
    running = author.start("run", path, "--output", "a.zip")
    folder = wait_for_workload(author, running)
    kill_tree(running)
    printed = "".join(one.read_text() for one in sorted(folder.glob("starts/*/stdout.txt")))
    homes = own_folders(printed)
    assert [home.exists() for home in homes] == [False, False, True]
    assert (homes[-1].parent / "t" / "checkpoint").exists()
    (author.folder / "go").touch()
    ended = author.run("run", "--resume", folder, "--output", "a.zip")
    assert ended.returncode == 0, ended.stderr
    assert not any(home.parent.exists() for home in homes)
    assert "checkpoint" not in logs(author.folder / "a.zip")


@pytest.mark.parametrize("field", ["in", "home", "tmp", "copy"])
def test_what_a_start_writes_counts_towards_the_disk(author: User, field: str) -> None:
    place = {"in": "here", "copy": "here"}.get(field, f'places["{field}"]')
    script = COUNT + f'({place} / "large").write_bytes(bytes(20 << 20))\n'
    if field in ("home", "tmp"):
        # they are looked at while it runs, and gone after it
        script += "import time\nwhile True:\n    time.sleep(0.05)\n"
    fields: Document = {"cwd": {"copy": "repo"}} if field == "copy" else {}
    path = manifest(author, script, **fields)
    ended = author.run("run", path, "--disk", "10MB")
    assert ended.returncode == 5, ended.stdout + ended.stderr
    assert "--disk" in ended.stderr


def test_the_inputs_themselves_do_not_count(author: User) -> None:
    path = manifest(author, COUNT)
    (author.folder / "repo" / "large").write_bytes(bytes(20 << 20))
    ended = author.run("run", path, "--disk", "10MB")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    path = manifest(author, COUNT, cwd={"copy": "repo"})
    ended = author.run("run", path, "--disk", "10MB")
    assert ended.returncode == 5


@pytest.mark.parametrize(
    "cwd", [{"copy": "elsewhere"}, {"copy": "repo/run.py"}, {"copies": "repo"}, {}]
)
def test_what_cannot_be_copied_is_refused(author: User, cwd: object) -> None:
    ended = author.run("lint", manifest(author, COUNT, cwd=cwd))
    assert ended.returncode == 2
    assert "/benchmarks/0/cwd" in ended.stdout + ended.stderr


DAMAGE = (
    COUNT
    + """
import shutil
(here / "sub" / "data.txt").write_text("changed")
shutil.move(here / "run.py", here / "moved.py")
(here / "sub").chmod(0)
"""
)


@pytest.mark.engines
def test_an_ordinary_users_trials_are_restored_too() -> None:
    account = pwd.getpwnam(os.environ["CAPSULE_TEST_USER"])
    base = Path(tempfile.mkdtemp())
    base.chmod(0o755)
    try:
        user = User.make(base)
        path = manifest(user, DAMAGE)
        for name in (user.home, *user.folder.rglob("*"), user.folder):
            os.chown(name, account.pw_uid, account.pw_gid)
        user = User(
            home=user.home, folder=user.folder, python=user_python(), account=account.pw_name
        )
        capsule, said = seal(user, path)
        assert values(user, capsule) == {name: [1, 1, 1] for name in PLACES}
        assert "wrote to its inputs" in said
    finally:
        shutil.rmtree(base)


@pytest.fixture
def segment() -> Iterator[Path]:
    path = Path(f"/dev/shm/capsule-test-{secrets.token_hex(8)}")
    yield path
    path.unlink(missing_ok=True)


LEAVES = (
    REPORT
    + """
import time
descriptor = os.open(SEGMENT, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
report("home", 1)
"""
)
USES = (
    LEAVES
    + """
import mmap
os.truncate(SEGMENT, mmap.PAGESIZE)
shared = mmap.mmap(descriptor, mmap.PAGESIZE)
time.sleep(2)
"""
)


def test_a_segment_that_a_trial_leaves_is_named_and_whose_it_was(
    author: User, segment: Path
) -> None:
    path = manifest(author, LEAVES.replace("SEGMENT", repr(str(segment))), names=("home",))
    ended = author.run("run", "--try", path)
    assert ended.returncode == 0, ended.stderr
    words = " ".join((ended.stdout + ended.stderr).split())
    assert f"rm {segment}" in words
    assert "nothing is kept" not in words
    assert segment.exists()
    ended = author.run("run", path)
    assert ended.returncode == 5
    words = " ".join(ended.stderr.split())
    assert f"{segment} was left by tiny/default/command/" in words
    assert f"rm {segment}" in words
    assert segment.exists()
    segment.unlink()
    ended = author.run("run", path, "--keep-going", "--json")
    # the first trial leaves it, and the others fail on that
    assert ended.returncode == 5
    (capsule,) = author.folder.glob("*.capsule.zip")
    first, *others = attempts_in(capsule)
    assert first["outcome"] == "completed"
    for one in others:
        assert f"{segment} was left by tiny/default/command/1," in one["message"]


def test_a_segment_that_a_trial_was_seen_to_use_is_removed(author: User, segment: Path) -> None:
    path = manifest(
        author, USES.replace("SEGMENT", repr(str(segment))), names=("home",), seeds=[1, 2]
    )
    _, said = seal(author, path)
    assert str(segment) not in said
    assert not segment.exists()


def test_a_segment_that_was_there_before_stays(author: User, segment: Path) -> None:
    segment.write_bytes(bytes(4096))
    script = USES.replace(" | os.O_EXCL", "").replace("SEGMENT", repr(str(segment)))
    path = manifest(author, script.replace("sleep(2)", "sleep(0.2)"), names=("home",), seeds=[1])
    _, said = seal(author, path)
    assert segment.exists()
    assert str(segment) not in said


def test_a_segment_that_somebody_else_uses_is_nobodys(author: User, segment: Path) -> None:
    script = (
        LEAVES
        + """
import pathlib
pathlib.Path(GO).touch()
while not pathlib.Path(GO + "-on").exists():
    time.sleep(0.01)
"""
    )
    go = author.folder / "go"
    other = Path(f"{segment}-other")
    script = script.replace("GO", repr(str(go))).replace(
        repr(str(go)) + ' + "-on"', repr(f"{go}-on")
    )
    path = manifest(
        author, script.replace("SEGMENT", repr(str(segment))), names=("home",), seeds=[1]
    )
    try:
        running = author.start("run", path, "--output", "a.zip")
        until(go.exists, "the trial")
        other.write_bytes(bytes(mmap.PAGESIZE))
        with other.open("r+b") as file, mmap.mmap(file.fileno(), 0):
            Path(f"{go}-on").touch()
            assert running.wait() == 0
        said = author.talk.read_text()
        assert f"{segment} appeared" in said
        assert str(other) not in said
        assert other.exists()
        assert stat.S_IMODE(other.stat().st_mode)
    finally:
        other.unlink(missing_ok=True)
