"""`capsule run --dry-run`: what would be started, and nothing is."""

from __future__ import annotations

import zipfile
from pathlib import Path

from tests.support.command import User, write_manifest, write_script

NOWHERE = f"docker://127.0.0.1:1/none@sha256:{'0' * 64}"


def left(author: User) -> list[str]:
    return sorted(path.name for path in author.folder.iterdir())


def test_the_first_start_is_shown_as_it_would_be(author: User) -> None:
    write_script(author.folder)
    manifest = write_manifest(author.folder, resources={"walltime": "00:10:00"})
    before = left(author)
    ended = author.run("run", manifest, "--dry-run", "--walltime", "00:05:00")
    assert ended.returncode == 0, ended.stderr
    shown = " ".join(ended.stdout.split())
    assert "command python3 '$RUN/work/inputs/tiny.py'" in shown
    assert "CAPSULE_SEED=1 " in shown
    assert "$RUN/work/inputs, writable, restored before each process start" in shown
    assert "container NONE: the code can read and write whatever you can" in shown
    assert "starts 5 process starts; the first is 0001-command-1" in shown
    assert "limits 5 min in all (--walltime)" in shown
    assert shown.endswith("dry run: nothing started")
    assert left(author) == before
    assert not (author.home / ".local").exists()


def test_what_is_shown_is_what_is_started(author: User) -> None:
    show = "import sys; print(sys.argv[0]); print(dict(os.environ)); print(os.getcwd())\n"
    write_script(author.folder, f"import os\n{show}raise SystemExit(1)\n")
    manifest = write_manifest(author.folder)
    first = author.json("run", manifest, "--dry-run")["first"]
    author.run("run", manifest, "--work", "a.run")
    folder = author.folder / "a.run"
    printed = (folder / "starts" / "0001" / "stdout.txt").read_text()
    script, environment, cwd = printed.replace(str(folder), "$RUN").splitlines()
    assert script == first["command"][1]
    assert cwd == first["cwd"]
    for name, value in first["environment"].items():
        assert f"'{name}': '{value}'" in environment


def test_a_plan_can_be_read_where_its_image_cannot_be_had(author: User, tmp_path: Path) -> None:
    write_script(author.folder)
    manifest = write_manifest(author.folder, image={"reference": NOWHERE})
    nothing = {"PATH": str(tmp_path), "DOCKER_HOST": f"unix://{tmp_path}/none.sock"}
    ended = author.run("run", manifest, "--dry-run", **nothing)
    assert ended.returncode == 0, ended.stderr
    shown = " ".join(ended.stdout.split())
    assert "command python3 /capsule/inputs/tiny.py" in shown
    assert "$RUN/inputs as /capsule/inputs, read-only" in shown
    assert "container no engine works on this machine: " in shown


def test_an_input_that_is_not_there_is_told_before_anything_runs(author: User) -> None:
    ended = author.run("run", write_manifest(author.folder), "--dry-run")
    assert ended.returncode == 2
    assert "does not exist beside the manifest" in ended.stderr


def test_a_word_that_lies_inside_an_input_is_shown_as_it_would_be_started(author: User) -> None:
    (author.folder / "repo").mkdir()
    write_script(author.folder / "repo")
    benchmark = {
        "id": "tiny",
        "command": ["python3", "repo/tiny.py"],
        "inputs": ["repo"],
        "metrics": {"loss": {"direction": "lower"}},
    }
    manifest = write_manifest(author.folder, benchmarks=[benchmark])
    first = author.json("run", manifest, "--dry-run")["first"]
    assert first["command"] == ["python3", "$RUN/work/inputs/repo/tiny.py"]


def seal(author: User, **changes: object) -> Path:
    write_script(author.folder)
    ended = author.run("run", write_manifest(author.folder, **changes), "-o", "a.capsule.zip")
    assert ended.returncode == 0, ended.stderr
    return author.folder / "a.capsule.zip"


def test_a_verification_is_shown_before_anybody_trusts_it(author: User, stranger: User) -> None:
    capsule = seal(author)
    words = ("verify", capsule, "--runs", "3", "--walltime", "00:05:00", "-o", "b.zip")
    shown = stranger.json(*words, "--dry-run")
    here = shown["here"]
    assert shown["verifies"] == stranger.json("check", capsule)["id"]
    assert [len(group["trials"]) for group in shown["groups"]] == [1, 1, 1]
    assert here["inputs"] == {"tiny.py": (author.folder / "tiny.py").stat().st_size}
    assert here["walltime"] == 300
    assert here["seconds"] > 0
    assert here["writes"][1] == str(stranger.folder / "b.zip")
    assert here["writes"][2].startswith(str(stranger.home / ".cache"))
    assert left(stranger) == []
    ended = stranger.run(*words, "--dry-run")
    assert ended.returncode == 0, ended.stderr
    assert "Not started" not in ended.stderr
    assert ended.stdout.strip().endswith("dry run: nothing started")
    assert left(stranger) == []


def test_what_is_shown_of_a_verification_is_what_is_started(author: User) -> None:
    capsule = seal(author)
    first = author.json("verify", capsule, "--dry-run")["first"]
    show = "import sys; print(sys.argv[0]); print(os.environ['CAPSULE_SEED']); raise SystemExit(1)"
    write_script(author.folder, f"import os\n{show}\n")
    ended = author.run("run", write_manifest(author.folder), "--keep-going", "-o", "c.capsule.zip")
    assert ended.returncode == 5, ended.stderr
    failing = author.json("verify", "c.capsule.zip", "--dry-run")["first"]
    assert failing["command"] == first["command"]
    author.run("verify", "c.capsule.zip", "-o", "d.zip", "--runs", "1")
    with zipfile.ZipFile(author.folder / "d.zip") as sealed:
        log = next(name for name in sealed.namelist() if name.endswith("stdout.txt"))
        script, seed = sealed.read(log).decode().split()
    assert script == failing["command"][1]
    assert seed == failing["environment"]["CAPSULE_SEED"]


def test_only_what_is_left_is_shown_of_a_verification_that_is_added_to(author: User) -> None:
    capsule = seal(author)
    assert author.run("verify", capsule, "--runs", "2", "-o", "b.zip").returncode in (0, 3)
    shown = author.json("verify", capsule, "--add", "b.zip", "--runs", "5", "--dry-run")
    assert len(shown["groups"]) == 3


def test_what_is_under_way_is_not_rehearsed(author: User) -> None:
    ended = author.run("verify", seal(author), "--resume", "x.run", "--dry-run")
    assert ended.returncode == 2
    assert "--resume and --dry-run exclude each other" in ended.stderr


def test_data_is_shown_where_it_lies(author: User) -> None:
    write_script(author.folder)
    (author.folder / "points.txt").write_text("1 2 3\n")
    manifest = write_manifest(author.folder, datasets={"points": {"path": "points.txt"}})
    (data,) = author.json("run", manifest.name, "--dry-run")["here"]["data"]
    assert data["path"] == str(author.folder / "points.txt")
    author.json("run", manifest, "-o", "a.zip")
    (author.folder / "points.txt").unlink()
    (data,) = author.json("verify", "a.zip", "--dry-run")["here"]["data"]
    assert data["carried"]
    assert data["path"] == "$RUN/datasets/points/points.txt"
    shown = " ".join(author.run("verify", "a.zip", "--dry-run").stdout.split())
    assert "data points, 6 bytes, in the capsule" in shown
