"""Inputs as people have them: clones, worktrees, ignored files, links, thousands of files."""

import json
import os
import shutil
import socket
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.support.command import NOISY, User, write_manifest

NEEDS_GIT = pytest.mark.skipif(
    shutil.which("git") is None and "CI" not in os.environ, reason="git is not installed here"
)


def git(folder: Path, *words: str) -> str:
    """What git says, under a configuration of nobody's."""
    settings = ("user.name=A", "user.email=a@example.org", "protocol.file.allow=always")
    options = [word for setting in settings for word in ("-c", setting)]
    ended = subprocess.run(
        ["git", *options, *words],
        cwd=folder,
        env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return ended.stdout.strip()


def fill(folder: Path, **files: str) -> Path:
    """A folder with the benchmark's script, and more."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.py").write_text(NOISY)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def clone(folder: Path, **files: str) -> Path:
    """A repository of one commit."""
    fill(folder, **files)
    git(folder, "init", "-q")
    git(folder, "add", "--all")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def manifest(author: User, *inputs: str, script: str = "repo/run.py", **fields: object) -> Path:
    """A benchmark whose script lies below an input."""
    start = f"import os, runpy; runpy.run_path(os.environ['CAPSULE_INPUTS'] + '/{script}')"
    benchmark = {
        "id": "tiny",
        "command": ["python3", "-c", start],
        "inputs": list(inputs),
        "metrics": {"loss": {"direction": "lower"}},
        **fields,
    }
    return write_manifest(author.folder, benchmarks=[benchmark], claims=None, seeds=[1])


def run(author: User, *inputs: str, script: str = "repo/run.py", **fields: object) -> str:
    """What is said on standard error of a run that seals `a.zip`."""
    (author.folder / "a.zip").unlink(missing_ok=True)
    path = manifest(author, *inputs, script=script, **fields)
    ended = author.run("run", path, "--output", "a.zip")
    assert ended.returncode == 0, ended.stderr
    return " ".join(ended.stderr.split())


def carried(author: User) -> set[str]:
    with zipfile.ZipFile(author.folder / "a.zip") as capsule:
        inside = [name for name in capsule.namelist() if name.startswith("data/inputs/")]
    return {name.removeprefix("data/inputs/") for name in inside}


def sources(author: User) -> list[dict[str, object]]:
    documents: list[dict[str, object]] = author.json("show", "a.zip")["sources"]
    return documents


def shown(author: User) -> str:
    return " ".join(author.run("show", "a.zip", "--full").stdout.split())


@NEEDS_GIT
def test_of_a_clone_what_git_keeps_is_carried(author: User) -> None:
    ignores = "*.bin\n!keep.bin\n/build/\ndata/**/raw\n"
    repo = clone(
        author.folder / "repo",
        **{".gitignore": ignores, ".gitattributes": "*.py text\n", "keep.bin": "", "sub/a.txt": ""},
    )
    for name in ("a.bin", "build/x", "data/1/2/raw", "sub/build/y", "__pycache__/run.pyc"):
        fill(repo, **{name: "x"})
    fill(repo, **{"sub/forced.bin": "x", "new.txt": ""})
    git(repo, "add", "--force", "sub/forced.bin")
    git(repo, "commit", "-q", "-m", "second")
    words = run(author, "repo")
    assert carried(author) == {
        f"repo/{name}"
        for name in ("keep.bin", "new.txt", "run.py", "sub/a.txt", "sub/build/y", "sub/forced.bin")
    }
    assert "1 __pycache__ (repo/__pycache__)" in words
    assert "3 of git's own (repo/.git, repo/.gitattributes, repo/.gitignore)" in words
    assert "3 that git ignores (repo/a.bin, repo/build, repo/data/1/2/raw)" in words
    commit = git(repo, "rev-parse", "HEAD")
    assert sources(author) == [{"inputs": ["repo"], "commit": commit, "modified": False}]
    assert f"git {commit}, unmodified (repo)" in shown(author)
    # nothing of this is asked again where the capsule is verified or checked
    assert author.run("check", "a.zip").returncode == 0


@NEEDS_GIT
def test_a_change_since_the_commit_is_recorded_where_inputs_are_concerned(author: User) -> None:
    repo = clone(author.folder, **{"src/run.py": NOISY, "paper.tex": "", "tiny.json": "{}"})
    (repo / "paper.tex").write_text("changed")
    run(author, "src", script="src/run.py")
    commit = git(repo, "rev-parse", "HEAD")
    assert sources(author) == [{"inputs": ["src"], "commit": commit, "modified": False}]
    (repo / "src" / "run.py").write_text(NOISY + "# changed\n")
    git(repo, "add", "src")
    git(repo, "pack-refs", "--all")
    run(author, "src", "paper.tex", script="src/run.py")
    assert sources(author) == [{"inputs": ["paper.tex", "src"], "commit": commit, "modified": True}]
    assert f"git {commit}, modified" in shown(author)


@NEEDS_GIT
def test_what_nobody_added_to_a_repository_is_not_of_its_commit(author: User) -> None:
    repo = clone(author.folder, **{".gitignore": "fetched/", "tiny.json": "{}"})
    fill(repo, **{"fetched/run.py": NOISY, "beside/data.txt": ""})
    run(author, "fetched/run.py", "beside", script="fetched/run.py")
    assert carried(author) == {"fetched/run.py", "beside/data.txt"}
    assert sources(author) == []
    assert "code git" not in shown(author)
    run(author, "fetched/run.py", "run.py", script="fetched/run.py")
    (source,) = sources(author)
    assert source["inputs"] == ["run.py"]


@NEEDS_GIT
def test_a_worktree_and_a_submodule_have_commits_of_their_own(author: User) -> None:
    library = clone(author.folder / "library", **{"x.txt": "", "y.log": "", ".gitignore": "z"})
    main = clone(author.folder / "main", **{".gitignore": "*.log\n"})
    git(main, "submodule", "--quiet", "add", str(library), "lib")
    git(main, "commit", "-q", "-m", "second")
    git(main, "worktree", "add", "-q", "../tree", "-b", "other")
    git(author.folder / "tree", "submodule", "--quiet", "update", "--init")
    fill(author.folder / "tree", **{"new.txt": "", "a.log": ""})
    git(author.folder / "tree", "add", "new.txt")
    git(author.folder / "tree", "commit", "-q", "-m", "third")
    assert (author.folder / "tree" / ".git").is_file()
    run(author, "tree", script="tree/run.py")
    # what git ignores in the one it may keep in the other
    assert carried(author) == {
        "tree/run.py",
        "tree/new.txt",
        "tree/lib/run.py",
        "tree/lib/x.txt",
        "tree/lib/y.log",
    }
    assert sources(author) == [
        {
            "inputs": [name],
            "commit": git(author.folder / folder, "rev-parse", "HEAD"),
            "modified": False,
        }
        for name, folder in (("tree", "tree"), ("tree/lib", "library"))
    ]


@NEEDS_GIT
def test_without_git_the_lists_count_and_changes_are_unknown(author: User) -> None:
    repo = clone(author.folder / "repo", **{".gitignore": "*.bin\n"})
    fill(repo, **{"a.bin": "x"})
    python = author.folder / "bin"
    python.mkdir()
    (python / "python3").symlink_to("/usr/bin/python3")
    ended = author.run("run", manifest(author, "repo"), "--output", "a.zip", PATH=str(python))
    assert ended.returncode == 0, ended.stderr
    assert carried(author) == {"repo/run.py"}
    commit = git(repo, "rev-parse", "HEAD")
    assert sources(author) == [{"inputs": ["repo"], "commit": commit, "modified": None}]
    assert "git could not determine" in shown(author)


def test_what_the_manifest_excludes_stays_out_and_what_it_names_comes_in(author: User) -> None:
    files = dict.fromkeys(("a.ckpt", "runs/1/b", "sub/runs/c", "sub/d.ckpt", "top.txt"), "x")
    fill(author.folder / "repo", **files)
    patterns = ["*.ckpt", "!repo/sub/d.ckpt", "runs/", "repo/*.txt"]
    words = run(author, "repo", "repo/top.txt", exclude=patterns)
    assert carried(author) == {"repo/run.py", "repo/sub/d.ckpt", "repo/top.txt"}
    assert "excluded by the manifest" in words


@pytest.mark.parametrize(
    ("make", "words"),
    [
        ("dangling", "is a link, to 'nowhere', which does not exist"),
        ("outside", "is a link, to '/etc/hostname', which lies outside the manifest's folder"),
        ("inside", "is a link, to 'run.py', and capsule does not follow links"),
        ("fifo", "is a named pipe (FIFO), expected a file or a folder"),
        ("socket", "is a socket, expected a file or a folder"),
    ],
)
def test_what_is_no_file_is_named_and_can_be_excluded(
    author: User, make: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = fill(author.folder / "repo") / "odd"
    if make == "fifo":
        os.mkfifo(odd)
    elif make == "socket":
        monkeypatch.chdir(odd.parent)  # the path of a socket is short
        with socket.socket(socket.AF_UNIX) as door:
            door.bind("odd")
    else:
        odd.symlink_to(
            {"dangling": "nowhere", "outside": "/etc/hostname", "inside": "run.py"}[make]
        )
    ended = author.run("run", manifest(author, "repo"))
    assert ended.returncode == 2
    assert f"the input 'repo/odd' {words}" in " ".join(ended.stderr.split())
    assert "`exclude` " in ended.stderr
    run(author, "repo", exclude=["odd"])
    assert carried(author) == {"repo/run.py"}


def test_names_as_people_have_them_are_carried_and_verified(author: User) -> None:
    names = (".flake8", "my data/x (1).csv", "a+b,c=[d]#e&f@g!~$^{h}`'.txt", ".x/y")
    fill(author.folder / "repo", **dict.fromkeys(names, "x"))
    run(author, "repo")
    escaped = {f"repo/{name.replace('=', '=3D')}" for name in ("run.py", *names)}
    assert carried(author) == escaped
    assert author.run("check", "a.zip").returncode == 0
    ended = author.run("verify", "a.zip", "--output", "b.zip")
    assert ended.returncode in (0, 3), ended.stderr
    with zipfile.ZipFile(author.folder / "b.zip") as capsule:
        assert {f"data/inputs/{name}" for name in escaped} <= set(capsule.namelist())


ODD = (
    "a%b",
    "a\\b",
    "a:b",
    "é",
    "数据/x 1.csv",
    "a ",
    " b.",
    "con.txt",
    "Make",
    "make",
    "e\u0301e",
)
LIST = """import os
here = os.environ["CAPSULE_INPUTS"] + "/repo"
for folder, _, files in os.walk(here):
    for name in files:
        print(ascii(os.path.relpath(os.path.join(folder, name), here)), flush=True)
"""


def test_a_benchmark_sees_the_names_that_its_author_gave(author: User) -> None:
    fill(author.folder / "repo", **dict.fromkeys(ODD, "x"))
    (author.folder / "repo" / "数据" / "é (1).py").write_text(LIST + NOISY)
    run(author, "repo", command=["python3", "repo/数据/é (1).py"])
    assert "repo/=E6=95=B0=E6=8D=AE/x 1.csv" in carried(author)
    assert {"repo/=4Dake", "repo/make", "repo/=63on.txt", "repo/a=25b"} < carried(author)
    assert author.run("check", "a.zip").returncode == 0
    assert "repo/数据/é (1).py" in shown(author)
    author.run("verify", "a.zip", "--output", "b.zip")
    due = {ascii(name) for name in (*ODD, "run.py", "数据/é (1).py")}
    for capsule in ("a.zip", "b.zip"):
        assert due <= set(printed(author, capsule).splitlines()), capsule
    ended = author.run("verify", "a.zip", "--dry-run")
    assert "inputs/repo/数据/é (1).py" in ended.stdout


def printed(author: User, capsule: str) -> str:
    with zipfile.ZipFile(author.folder / capsule) as opened:
        logs = [name for name in opened.namelist() if name.endswith("-stdout.txt")]
        return opened.read(logs[0]).decode()


@pytest.mark.parametrize("name", ["a\nb", "a\u202eb", "a\u200b", os.fsdecode(b"\xff"), "数" * 60])
def test_a_name_that_nobody_can_read_is_refused(author: User, name: str) -> None:
    fill(author.folder / "repo", **{name: "x"})
    ended = author.run("run", manifest(author, "repo"))
    assert ended.returncode == 2
    assert "a capsule cannot contain these file names: " in ended.stderr
    assert "rename the files, or `exclude`" in ended.stderr


def test_names_that_look_the_same_are_refused(author: User) -> None:
    fill(author.folder / "repo", **{"caf\xe9": "x", "cafe\u0301": "y"})
    ended = author.run("run", manifest(author, "repo"))
    assert ended.returncode == 2
    assert "'inputs/repo/caf\\xe9' and 'inputs/repo/cafe\\u0301' look the same" in ended.stderr


def test_a_name_that_is_composed_otherwise_is_told(author: User) -> None:
    fill(author.folder / "repo", **{"cafe\u0301.py": NOISY})
    ended = author.run("run", manifest(author, "repo/caf\xe9.py"))
    assert ended.returncode == 2
    assert '"repo/cafe\\u0301.py" looks the same' in " ".join(ended.stderr.split())


def test_a_folder_of_which_all_is_left_out_is_refused(author: User) -> None:
    fill(author.folder / "repo")
    ended = author.run("run", manifest(author, "repo", exclude=["*.py"]))
    assert ended.returncode == 2
    words = " ".join(ended.stderr.split())
    assert "a folder of which all files are left out: excluded by the manifest" in words


def test_patterns_that_are_none_are_refused(author: User) -> None:
    fill(author.folder / "repo")
    path = manifest(author, "repo", exclude=["a\nb"])
    ended = author.run("lint", path)
    assert ended.returncode == 2
    assert "/benchmarks/0/exclude/0" in ended.stdout + ended.stderr


def test_the_whole_folder_is_carried_but_for_what_is_no_input(author: User) -> None:
    top = author.folder
    fill(top, **{"pkg/a.py": "", "sub/deep/b.txt": "", "data/1.zip": "no capsule"})
    run(author, "run.py", script="run.py")
    shutil.move(top / "a.zip", top / "sub" / "first.zip")
    fill(top, **{".venv/pyvenv.cfg": "", ".venv/lib/x.py": "", "conda/conda-meta/history": ""})
    fill(top, **{"old.run/run.json": "{}", "old.run/attempts.jsonl": "", "old.run/lock": ""})
    fill(top, **{".capsule.0a1b2c3d.capsule-partial/x": "", "pkg/__pycache__/a.pyc": ""})
    fill(top, **{"sub/unpacked/bagit.txt": "", "sub/unpacked/data/capsule.json": "{}"})
    words = run(author, ".", script="run.py")
    names = ("run.py", "pkg/a.py", "sub/deep/b.txt", "data/1.zip", "tiny.json")
    assert carried(author) == set(names)
    for left_out in (
        "2 capsules (sub/first.zip, sub/unpacked)",
        "1 run folders (old.run)",
        "2 virtual environments (.venv, conda)",
        "1 __pycache__ (pkg/__pycache__)",
    ):
        assert left_out in words
    assert author.run("check", "a.zip").returncode == 0
    ended = author.run("verify", "a.zip", "--output", "b.zip")
    assert ended.returncode in (0, 3), ended.stderr


@NEEDS_GIT
@pytest.mark.parametrize("cwd", [".", {"copy": "."}, {"copy": "pkg"}])
def test_of_a_whole_clone_what_git_keeps_is_carried(author: User, cwd: object) -> None:
    repo = clone(author.folder, **{".gitignore": "*.ckpt\n", "pkg/a.py": "", "tiny.json": "{}"})
    fill(repo, **{"last.ckpt": "x", "new.txt": ""})
    script = "import os\nprint(os.path.relpath(os.getcwd(), os.environ['CAPSULE_INPUTS']))\n"
    (repo / "run.py").write_text(script + NOISY)
    words = run(author, ".", script="run.py", cwd=cwd)
    assert carried(author) == {"run.py", "pkg/a.py", "new.txt", "tiny.json"}
    assert "1 that git ignores (last.ckpt)" in words
    (source,) = sources(author)
    assert (source["inputs"], source["modified"]) == (["."], True)
    place = cwd["copy"] if isinstance(cwd, dict) else cwd
    assert printed(author, "a.zip").splitlines()[0] == place
    assert author.run("check", "a.zip").returncode == 0
    assert author.run("run", "tiny.json", "--dry-run").returncode == 0


@pytest.mark.parametrize("words", [["python3", "run.py"], ["python3", "./run.py"], ["./run.py"]])
def test_words_that_name_files_of_the_whole_folder_mean_these(
    author: User, words: list[str]
) -> None:
    fill(author.folder)
    path = author.folder / "run.py"
    path.write_text("#!/usr/bin/env python3\n" + NOISY)
    path.chmod(0o755)
    run(author, ".", command=words)
    assert "run.py" in carried(author)


@pytest.mark.parametrize("name", ["..", "./", "a/..", "/", "./repo"])
def test_no_other_folder_than_the_manifests_is_whole(author: User, name: str) -> None:
    fill(author.folder / "repo")
    ended = author.run("lint", manifest(author, name))
    assert ended.returncode == 2
    assert "/benchmarks/0/inputs/0" in ended.stdout + ended.stderr


def test_a_dataset_is_no_input_because_its_folder_is_one(author: User) -> None:
    fill(author.folder, **{"data/large.bin": "x" * 1000, "data.py": ""})
    path = manifest(author, ".", script="run.py", datasets=["d"])
    document = json.loads(path.read_text())
    document["datasets"] = {"d": {"path": "data", "embed": False}}
    path.write_text(json.dumps(document))
    ended = author.run("run", path, "--output", "a.zip")
    assert ended.returncode == 0, ended.stderr
    assert carried(author) == {"run.py", "data.py", "tiny.json"}
    assert "1 datasets (data)" in ended.stderr


def test_files_that_look_like_keys_are_named_before_anything_runs(author: User) -> None:
    names = ("id_rsa", "deploy/server.pem", ".env", ".aws/credentials", "token.txt", ".netrc")
    others = ("id_rsa.pub", "tokens.txt", "environment.yml", "key.py", "monkey")
    fill(author.folder, **dict.fromkeys((*names, *others), "x"))
    path = manifest(author, ".", script="run.py")
    ended = author.run("run", path, "--output", "a.zip")
    assert ended.returncode == 0, ended.stderr
    before, _, _ = ended.stderr.partition("trial 1 of 1")
    for name in names:
        assert f"inputs/{name}" in before
    for name in others:
        assert f"inputs/{name}:" not in before
    ended = author.run("run", path, "--strict-privacy")
    assert ended.returncode == 2
    assert "id_rsa" in ended.stderr
