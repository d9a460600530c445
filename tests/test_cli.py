"""The command's own promises: fast help, one exit, no traceback, no colour where none is wanted."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from capsule import archive, cli, process, verbs
from capsule.verbs import author as author_verbs
from capsule.verbs import data, diff, image, machine, read, run, verify
from tests.support.capsules import seal
from tests.support.command import User, write_manifest, write_script

HEAVY = (
    "numpy",
    "scipy",
    "spython",
    "torch",
    "tensorflow",
    "jsonschema",
    "rich",
    "requests",
)


def test_help_imports_nothing_heavy() -> None:
    argv = [sys.executable, "-X", "importtime", "-m", "capsule", "--help"]
    ended = subprocess.run(argv, capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip() for line in ended.stderr.splitlines()}
    assert "capsule.cli" in imported
    assert not {name for name in imported if name.partition(".")[0] in HEAVY}


@pytest.mark.parametrize("verb", verbs.TABLE)
def test_every_verb_has_help_with_an_example(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main([verb, "--help"])
    assert stop.value.code == 0
    assert f"capsule {verb}" in capsys.readouterr().out


def test_a_fault_of_ours_is_told_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def break_down(*_: object) -> None:
        raise ZeroDivisionError("one over nothing")

    monkeypatch.setattr(archive, "read", break_down)
    assert cli.main(["show", "x"]) == 70
    err = capsys.readouterr().err
    assert "ZeroDivisionError: one over nothing" in err
    assert "--debug" in err
    assert "Traceback" not in err
    assert cli.main(["--debug", "show", "x"]) == 70
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert "break_down" in err


def test_talk_never_steers_the_terminal(author: User) -> None:
    ended = author.run("check", "\x1b[2Jevil.zip")
    assert ended.returncode == 2
    assert "\x1b" not in ended.stderr


def test_the_inventory_is_json_and_names_every_engine(author: User) -> None:
    node = author.json("inventory")
    assert node["class"]["cpu"]["cores"] >= 1
    assert set(node["engines"]) == {"apptainer", "docker", "podman", "host"}
    assert all(engine["usable"] or engine["reason"] for engine in node["engines"].values())


def test_data_can_be_made_and_named(author: User) -> None:
    made = author.json("data", "generate", "regression", "out", "samples=8", "features=2", "seed=7")
    again = author.json(
        "data", "generate", "regression", "two", "samples=8", "features=2", "seed=7"
    )
    assert made == again
    other = author.json(
        "data", "generate", "regression", "three", "samples=8", "features=2", "seed=8"
    )
    assert other["digest"] != made["digest"]
    assert author.run("data", "hash", "out").stdout == author.run("data", "hash", "two").stdout


@pytest.mark.parametrize("words", [[], ["--json"]])
@pytest.mark.parametrize("talk", [subprocess.STDOUT, subprocess.DEVNULL])
def test_a_reader_that_went_away_is_no_verdict(
    author: User, words: Sequence[str], talk: int
) -> None:
    capsule = seal(author.folder)
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        author.argv("show", capsule, *words),
        env=author.environment(),
        stdout=writing,
        stderr=talk,
        check=False,
    )
    os.close(writing)
    assert ended.returncode == 141


@pytest.mark.parametrize("where", ["closed", "/dev/full"])
def test_an_error_that_nobody_hears_keeps_its_exit_code(author: User, where: str) -> None:
    if where == "closed":
        reading, writing = os.pipe()
        os.close(reading)
    else:
        writing = os.open(where, os.O_WRONLY)
    ended = subprocess.run(
        author.argv("check", "none.capsule.zip"),
        env=author.environment(),
        stdout=writing,
        stderr=writing,
        check=False,
    )
    os.close(writing)
    assert ended.returncode == 2


def test_an_interrupt_with_nothing_under_way_names_no_folder(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(archive, "read", interrupt)
    before = signal.getsignal(signal.SIGTERM)
    assert cli.main(["show", "x"]) == 130
    assert capsys.readouterr() == ("", "interrupted\n")
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("name", verbs.TABLE)
def test_every_verb_of_the_table_is_there(name: str) -> None:
    assert verbs.load(name).name == name


TYPED = {
    "run m.json": run.Arguments(manifest=Path("m.json")),
    "run --resume a.run --output b.zip --json": run.Arguments(
        resume=Path("a.run"), output=Path("b.zip"), json=True
    ),
    "run --resume a.run --keep-going": run.Arguments(resume=Path("a.run"), keep_going=True),
    "verify a.zip --follow": verify.Arguments(capsule="a.zip", follow=True),
    "run --try m.json": run.Arguments(manifest=Path("m.json"), try_out=True),
    "run m.json -o b.zip": run.Arguments(manifest=Path("m.json"), output=Path("b.zip")),
    "verify a.zip -o b.zip": verify.Arguments(capsule="a.zip", output=Path("b.zip")),
    "run m.json --frameworks numpy,torch,numpy --runtime docker --image docker://a --work w"
    " --keep-hosts --dry-run": run.Arguments(
        manifest=Path("m.json"),
        frameworks=("numpy", "torch"),
        runtime="docker",
        image="docker://a",
        work=Path("w"),
        keep_hosts=True,
        dry_run=True,
    ),
    "verify a.zip": verify.Arguments(capsule="a.zip"),
    "verify a.zip --trust --allow-host --levels own --runs 7": verify.Arguments(
        capsule="a.zip", trust=True, allow_host=True, levels="own", runs=7
    ),
    "verify a.zip --quick --nonce 7": verify.Arguments(capsule="a.zip", quick=True, nonce="7"),
    "verify a.zip --until-decided --json": verify.Arguments(
        capsule="a.zip", until_decided=True, json=True
    ),
    "diff a b c --json": diff.Arguments(original="a", reruns=["b", "c"], json=True),
    "check a": read.Arguments(capsule="a"),
    "init m.json --metric loss --metric a=b:=(.) -- python3 -m x --metric y -- z": (
        author_verbs.InitArguments(
            path=Path("m.json"),
            command=("python3", "-m", "x", "--metric", "y", "--", "z"),
            metric=[("loss", None), ("a", "b:=(.)")],
        )
    ),
    "init m.json": author_verbs.InitArguments(path=Path("m.json")),
    "init m.json -- run --model x": author_verbs.InitArguments(
        path=Path("m.json"), command=("run", "--model", "x")
    ),
    "lint m.json --frameworks numpy": author_verbs.LintArguments(
        manifest=Path("m.json"), frameworks=("numpy",)
    ),
    "inventory --keep-hosts": machine.Arguments(keep_hosts=True),
    "data hash x --rehash": data.HashArguments(path=Path("x"), rehash=True),
    "data generate g out n=3 name=x list=[1,2]": data.GenerateArguments(
        generator="g",
        target=Path("out"),
        parameters=[("n", 3), ("name", "x"), ("list", [1, 2])],
    ),
    "data generate g out n=3 --format idx": data.GenerateArguments(
        generator="g", target=Path("out"), parameters=[("n", 3)], format="idx"
    ),
    "image resolve docker://a": image.ResolveArguments(reference="docker://a"),
}


@pytest.mark.parametrize("line", TYPED)
def test_what_is_typed_becomes_typed_values(line: str) -> None:
    command = cli._parse(line.split())
    assert type(TYPED[line])(**command.values) == TYPED[line]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("run m.json --runtime host --runtime docker", "argument --runtime: given twice"),
        ("verify a --output b -o b", "argument -o/--output: given twice"),
        ("lint m.json --frameworks a --frameworks b", "argument --frameworks: given twice"),
        ("verify a --runs 0", "expected a whole number from 1 to 1000, found '0'"),
        ("verify a --runs 1e3", "expected a whole number from 1 to 1000, found '1e3'"),
        ("verify a --levels mine", "invalid choice: 'mine'"),
        ("data generate g out n", "'n' is not NAME=VALUE"),
        ("data generate g out =x", "'=x' is not NAME=VALUE"),
        ("image build --push docker://a none", "run `docker build -t dir DIR`"),
        (
            "init m.json --model timm/resnet18",
            "copy one of the three manifests in manifests/models",
        ),
        (
            "init --model=timm/resnet18 m.json",
            "copy one of the three manifests in manifests/models",
        ),
        ("verify a b --frobnicate", "unrecognized arguments: b --frobnicate"),
        ("inventory everything", "unrecognized arguments: everything"),
        ("verify --trus a", "--trus"),
        ("data", "required"),
        ("", "required"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(
    line: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(line.split())
    out, err = capsys.readouterr()
    assert (stop.value.code, out) == (2, "")
    assert words in err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["check", "none.zip"], 2),
        (["show", "tiny.json"], 4),
        (["diff", "none.zip", "none.zip"], 2),
        (["verify", "none.zip"], 2),
        (["run", "none.json"], 2),
        (["run", "none.json", "--dry-run"], 2),
        (["lint", "tiny.json"], 2),
        (["data", "hash", "none"], 6),
        (["image", "resolve", "none"], 2),
    ],
)
def test_an_error_leaves_the_data_channel_empty(
    author: User, words: Sequence[str], code: int
) -> None:
    (author.folder / "tiny.json").write_text("{}")
    ended = author.run(*words, "--json")
    assert (ended.returncode, ended.stdout) == (code, "")
    assert ended.stderr.startswith("error: ")
    assert "Traceback" not in ended.stderr


def test_the_inventory_for_people_fits_on_a_screen(author: User) -> None:
    ended = author.run("inventory")
    assert ended.returncode == 0, ended.stderr
    assert 5 <= len(ended.stdout.splitlines()) <= 40
    assert "cores" in ended.stdout
    assert "apptainer" in ended.stdout


def test_a_run_without_claims_tells_what_it_measured(author: User) -> None:
    write_script(author.folder)
    ended = author.run("run", write_manifest(author.folder, seeds=[1, 2], claims=[]))
    assert ended.returncode == 0, ended.stderr
    assert "metrics in tiny/default/command/" in ended.stdout
    assert "2 completed" in ended.stdout
    assert "mean" in ended.stdout
    assert "no claims: a verification" in ended.stdout
    assert " claim" not in ended.stdout.split("no claims")[0]


def test_a_full_disk_that_nobody_foresaw_is_no_fault_of_ours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fill_up(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/somewhere")

    monkeypatch.setattr(archive, "read", fill_up)
    assert cli.main(["show", "x"]) == 5
    assert "/somewhere: cannot write: No space left on device" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("run",), ("run", "--dry-run")])
def test_a_current_folder_that_is_gone_is_no_fault_of_ours(
    tmp_path: Path,
    words: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_script(tmp_path)
    manifest = write_manifest(tmp_path)
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert cli.main([*words, str(manifest)]) == 6
    assert "the current folder no longer exists" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ("run",),
        ("lint",),
        ("check",),
        ("show",),
        ("stage",),
        ("export", "csv"),
        ("data", "hash"),
        ("data", "fetch"),
    ],
    ids=" ".join,
)
def test_a_name_that_is_too_long_is_no_fault_of_ours(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    name = 300 * "a"
    status = cli.main([*words, name])
    printed = capsys.readouterr().err
    assert name in printed
    assert "File name too long" in printed
    assert status in (2, 6)


@pytest.mark.parametrize("full", [("stdout",), ("stderr",), ("stdout", "stderr")])
def test_output_on_a_full_disk_ends_with_an_exit_code_of_ours(
    author: User, full: tuple[str, ...]
) -> None:
    write_script(author.folder)
    manifest = write_manifest(author.folder, seeds=[1])
    assert author.run("run", manifest, "--output", "a.zip").returncode == 0
    for words, codes in (
        (("show", "a.zip"), {5} if "stdout" in full else {0}),
        (("show", "none.zip"), {2}),
        (("verify", "a.zip"), {5}),
    ):
        with Path("/dev/full").open("w") as nowhere:
            ended = subprocess.run(
                author.argv(*words),
                cwd=author.folder,
                env=author.environment(),
                stdin=subprocess.DEVNULL,
                stdout=nowhere if "stdout" in full else subprocess.DEVNULL,
                stderr=nowhere if "stderr" in full else subprocess.DEVNULL,
                check=False,
            )
        assert ended.returncode in codes, words


def test_what_begins_every_command_loads_no_http_client_and_no_numpy() -> None:
    heavy = ("jsonschema", "numpy", "requests", "rich", "scipy", "ssl")
    program = f"import capsule.api, sys; print([name for name in {heavy} if name in sys.modules])"
    assert process.run([sys.executable, "-c", program]).stdout == b"[]\n"
