"""`capsule run --dry-run`: what would be started, and nothing is."""

from __future__ import annotations

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
    assert "words python3 '$RUN/inputs/tiny.py'" in shown
    assert "CAPSULE_SEED=1 " in shown
    assert "$RUN/inputs, read-only" in shown
    assert "engine host" in shown
    assert "starts 5 process starts, 5 trials; the first is 0001-command-1" in shown
    assert "walltime cut off after 5:00" in shown
    assert shown.endswith("nothing was started")
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
    assert "words python3 /capsule/inputs/tiny.py" in shown
    assert "$RUN/inputs as /capsule/inputs, read-only" in shown
    assert "engine none that can be used here" in shown
    assert "image not known" in shown


def test_an_input_that_is_not_there_is_told_before_anything_runs(author: User) -> None:
    ended = author.run("run", write_manifest(author.folder), "--dry-run")
    assert ended.returncode == 2
    assert "does not exist beside the manifest" in ended.stderr
