"""A script that nobody edited: its numbers are read where they are, from the run to a verdict."""

import json
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from capsule import archive, freezing, summary
from capsule.record import File, Record
from tests.support.capsules import carry, forge
from tests.support.command import Document, User, write_manifest, write_script

TRAIN = """
import json, os, random, sys
seed = int(os.environ["CAPSULE_SEED"])
noise = random.Random(seed).uniform(-0.01, 0.01)
print("data in", os.path.expanduser("~"))
for epoch in range(3):
    print(f"epoch {epoch} loss: {1 / (epoch + 1) + noise:.6f}")
"""
Forgery = Callable[[Record, list[File]], tuple[Record, list[File]]]
LOSS: Document = {"direction": "lower", "from": {"pattern": "loss: ([0-9.]+)"}}


def write(user: User, script: str = TRAIN, **metrics: Document) -> Path:
    write_script(user.folder, script)
    benchmark = {"id": "tiny", "command": ["python3", "tiny.py"], "inputs": ["tiny.py"]}
    return write_manifest(
        user.folder, benchmarks=[{**benchmark, "metrics": metrics or {"loss": LOSS}}]
    )


def publish(user: User, manifest: Path) -> None:
    ended = user.run("run", manifest, "--runtime", "host", "--output", "a.capsule.zip")
    assert ended.returncode == 0, ended.stdout + ended.stderr


def read_lines(user: User, name: str, capsule: str = "a.capsule.zip") -> list[Document]:
    with zipfile.ZipFile(user.folder / capsule) as opened:
        return [json.loads(line) for line in opened.read(f"data/results/{name}").splitlines()]


def test_an_unedited_script_is_run_checked_and_verified(author: User) -> None:
    publish(author, write(author))
    facts = author.json("check", "a.capsule.zip")["checked"]
    assert "5 series of samples match the texts that they were read from" in facts
    ended = author.run("verify", "a.capsule.zip", "--output", "b.capsule.zip")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert author.run("check", "b.capsule.zip").returncode == 0
    added = author.run("verify", "a.capsule.zip", "--add", "b.capsule.zip", "--output", "c.zip")
    assert added.returncode == 0, added.stdout + added.stderr
    facts = author.json("check", "c.zip")["checked"]
    assert "10 series of samples match the texts that they were read from" in facts


def test_what_a_script_leaves_in_files_is_kept_and_read_again(author: User) -> None:
    script = (
        TRAIN
        + """
json.dump({"results": {"accuracy": 0.9, "times": [1, 2, 4]}}, open("out.json", "w"))
os.mkdir("logs")
print("epoch,val_loss", "0,0.5", "1,0.25", "2,", sep="\\n", file=open("logs/train.csv", "w"))
for epoch in (1, 2):
    entry = {"key": "eval_accuracy", "value": epoch / 4, "metadata": {"epoch_num": epoch}}
    print(":::MLLOG", json.dumps(entry), file=sys.stderr)
"""
    )
    curve = "epoch (?P<step>[0-9]+) loss: (?P<value>[0-9.]+)"
    manifest = write(
        author,
        script,
        loss=LOSS,
        curve={"per": "step", "from": {"pattern": curve, "occurrence": "all"}},
        accuracy={"from": {"json": "/results/accuracy", "file": "out.json"}},
        times={"unit": "s", "from": {"json": "/results/times", "file": "out.json"}},
        last={"from": {"csv": "val_loss", "file": "logs/train.csv"}},
        all={"per": "step", "from": {"csv": "val_loss", "file": "logs/train.csv", "step": "epoch"}},
        mlperf={"per": "step", "from": {"mllog": "eval_accuracy", "stream": "stderr"}},
    )
    publish(author, manifest)
    samples = {
        line["metric"].rpartition("/")[2]: (line["values"], line["steps"])
        for line in read_lines(author, "samples.jsonl")
        if line["seed"] == 1
    }
    assert samples["curve"][0][-1:] == samples["loss"][0]
    assert samples["curve"][1] == [0, 1, 2]
    assert samples["accuracy"] == ([0.9], None)
    assert samples["times"] == ([1, 2, 4], None)
    assert samples["last"] == ([0.25], None)
    assert samples["all"] == ([0.5, 0.25], [0, 1])
    assert samples["mlperf"] == ([0.25, 0.5], [1, 2])
    evidence = {
        one["name"]: one["path"] for one in read_lines(author, "attempts.jsonl")[0]["evidence"]
    }
    assert evidence == {
        "out/logs/train.csv": "evidence/0001/logs/train.csv",
        "out/out.json": "evidence/0001/out.json",
        "stderr": "logs/0001-stderr.txt",
        "stdout": "logs/0001-stdout.txt",
    }
    assert author.run("check", "a.capsule.zip").returncode == 0


@pytest.mark.parametrize(
    ("script", "source", "reason", "words"),
    [
        ("print('step 1')", {"pattern": "loss: (.*)"}, "no-result", "no line of stdout"),
        ("", {"pattern": "loss: (.*)"}, "no-result", "stdout is empty"),
        (
            "print('loss: low')",
            {"pattern": "loss: (.*)"},
            "bad-result",
            "expected a number, found 'low'",
        ),
        (
            "print('loss: 1\\nloss: 2')",
            {"pattern": "loss: (.*)", "occurrence": "only"},
            "bad-result",
            '"only" allows one (lines 1, 2)',
        ),
        ("print('loss: nan')", {"pattern": "loss: (.*)"}, "non-finite", "loss is nan"),
        (
            "open('other.csv', 'w')",
            {"csv": "loss", "file": "log.csv"},
            "no-result",
            "no file log.csv in the output folder {out}; the folder contains other.csv",
        ),
    ],
)
def test_what_gives_no_number_fails_the_trial_and_shows_what_was_searched(
    author: User, script: str, source: Document, reason: str, words: str
) -> None:
    manifest = write(author, script, loss={"from": source})
    options = ("--runtime", "host", "--output", "a.capsule.zip", "--keep-going")
    ended = author.run("run", manifest, *options)
    assert ended.returncode == 5
    assert words in " ".join(ended.stderr.split())
    (first, *_) = read_lines(author, "attempts.jsonl")
    assert (first["outcome"], first["reason"]) == ("failed", reason)
    if script.startswith("print") and reason != "non-finite":
        assert "stdout ends with\n  | " in first["message"]
    # what was searched is there, and read again by whoever checks
    assert author.run("check", "a.capsule.zip").returncode == 0


def test_a_number_is_read_from_the_text_as_it_is_sealed(author: User) -> None:
    script = 'import os\nprint(os.getcwd(), "loss: 0.5")'
    source = {"pattern": r"^\$RUN/starts/[0-9]+/out loss: (.*)"}
    publish(author, write(author, script, loss={"from": source}))
    assert {tuple(line["values"]) for line in read_lines(author, "samples.jsonl")} == {(0.5,)}
    assert author.run("check", "a.capsule.zip").returncode == 0


def test_a_metric_that_nobody_declared_is_kept_and_named_and_costs_no_run(author: User) -> None:
    script = (
        TRAIN
        + """
with open(os.environ["CAPSULE_RESULTS"], "w") as results:
    print(json.dumps({"metric": "extra", "value": seed}), file=results)
"""
    )
    publish(author, write(author, script))
    (first, *_) = read_lines(author, "attempts.jsonl")
    assert first["outcome"] == "completed"
    shown = author.run("show", "a.capsule.zip").stdout
    assert "note: reported extra, which the manifest does not declare: kept, not judged" in shown
    assert first["message"].startswith("reported extra, which the manifest does not declare")
    with zipfile.ZipFile(author.folder / "a.capsule.zip") as opened:
        kept = opened.read("data/evidence/0001/results.jsonl")
    assert json.loads(kept) == {"metric": "extra", "value": 1}


def test_show_tells_the_line_of_each_number(author: User) -> None:
    publish(author, write(author))
    shown = author.json("show", "a.capsule.zip", "--evidence")["evidence"]
    assert len(shown) == 5
    (value,) = shown[0]["values"]
    assert (shown[0]["path"], value["line"]) == ("logs/0001-stdout.txt", 4)
    assert value["text"] == f"epoch 2 loss: {value['value']:.6f}"
    table = author.run("show", "a.capsule.zip", "--evidence").stdout
    assert f"logs/0001-stdout.txt:4: {value['text']}" in table


WRITTEN = Path(__file__).parent.parent / "data" / "events"
# what torch.utils.tensorboard wrote is as good as what it writes, and needs no TensorBoard
LOG = """
import os, shutil
shutil.copytree(os.environ["CAPSULE_INPUTS"] + "/torch", "runs/Nov22_10-00-00_host")
"""


def write_logging(user: User, script: str = LOG, **metrics: Document) -> Path:
    shutil.copytree(WRITTEN / "torch", user.folder / "torch", dirs_exist_ok=True)
    write_script(user.folder, script)
    benchmark: Document = {
        "id": "tiny",
        "command": ["python3", "tiny.py"],
        "inputs": ["tiny.py", "torch"],
        "metrics": metrics,
    }
    return write_manifest(user.folder, benchmarks=[benchmark], seeds=[1, 2], claims=[])


def test_scalars_of_event_files_are_read_kept_and_shown(author: User) -> None:
    source = {"tensorboard": "train/loss", "file": "runs"}
    manifest = write_logging(author, loss={"from": source}, curve={"per": "step", "from": source})
    publish(author, manifest)
    samples = {
        line["metric"].rpartition("/")[2]: (line["values"], line["steps"])
        for line in read_lines(author, "samples.jsonl")
    }
    assert samples["loss"] == ([14.0], None)
    assert samples["curve"][0][3:] == [13.0, 14.0]
    assert samples["curve"][1] == [0, 1, 2, 3, 4]
    path = "evidence/0001/runs/scalars.tfevents"
    (evidence,) = read_lines(author, "attempts.jsonl")[0]["evidence"]
    assert evidence == {"name": "out/runs/scalars.tfevents", "path": path, "rank": 0}
    with zipfile.ZipFile(author.folder / "a.capsule.zip") as opened:
        kept = opened.read(f"data/{path}")
    # neither a histogram nor a text, which may hold paths and names
    assert (b"train/loss" in kept, b"weights" in kept, b"hello" in kept) == (True, False, False)
    facts = author.json("check", "a.capsule.zip")["checked"]
    assert "4 series of samples match the texts that they were read from" in facts
    shown = author.json("show", "a.capsule.zip", "--evidence")["evidence"]
    assert [len(one["values"]) for one in shown[:2]] == [5, 1]
    table = author.run("show", "a.capsule.zip", "--evidence").stdout
    words = " ".join(table.split())
    assert "step 4, 2026-11-22T" in words
    assert "train/loss = 14.0" in words


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("", "no event files in folder runs of the output folder {out}"),
        (
            LOG + 'shutil.copytree("runs/Nov22_10-00-00_host", "runs/other")',
            "expected one folder with event files below runs, found 2: runs/Nov22_10-00-00_host,"
            " runs/other",
        ),
        (LOG.replace("/torch", "/nothing"), "exit code 1"),
        (
            LOG + 'os.truncate("runs/Nov22_10-00-00_host/events.out.tfevents.2.host.1.1", 200)',
            "the event files of runs: truncated within a record",
        ),
    ],
)
def test_event_files_that_are_not_those_of_one_whole_run_fail_the_trial(
    author: User, script: str, words: str
) -> None:
    source = {"tensorboard": "train/loss", "file": "runs"}
    manifest = write_logging(author, script, loss={"from": source})
    options = ("--runtime", "host", "--output", "a.capsule.zip", "--keep-going")
    ended = author.run("run", manifest, *options)
    assert ended.returncode == 5
    assert words in " ".join(ended.stderr.split())
    assert author.run("check", "a.capsule.zip").returncode == 0


def test_the_name_of_a_file_may_hold_placeholders(author: User) -> None:
    script = """
import os, pathlib
folder = pathlib.Path(os.environ["CASE"], "seed-" + os.environ["CAPSULE_SEED"])
folder.mkdir(parents=True)
(folder / "log.txt").write_text("loss: " + os.environ["RATE"])
"""
    write_script(author.folder, script)
    file = "{case}/seed-{seed}/log.txt"
    benchmark: Document = {
        "id": "tiny",
        "command": ["python3", "tiny.py"],
        "inputs": ["tiny.py"],
        "cases": {"rate": [0.5, 0.25]},
        "environment": {"CASE": "{case}", "RATE": "{rate}"},
        "metrics": {"loss": {"from": {"pattern": "loss: (.*)", "file": file}}},
    }
    manifest = write_manifest(author.folder, benchmarks=[benchmark], seeds=[1, 2], claims=[])
    publish(author, manifest)
    samples = {line["trial"]: line["values"] for line in read_lines(author, "samples.jsonl")}
    assert samples["tiny/rate0.5/command/1"] == [0.5]
    assert samples["tiny/rate0.25/command/2"] == [0.25]
    names = {one["evidence"][0]["name"] for one in read_lines(author, "attempts.jsonl")}
    assert "out/rate0.25/seed-2/log.txt" in names
    assert author.run("check", "a.capsule.zip").returncode == 0


def refreeze(record: Record) -> Record:
    claims = freezing.follow(record.manifest.claims, summary.run_values(record))
    return replace(record, claims=tuple(claims))


def with_another_number(record: Record, files: list[File]) -> tuple[Record, list[File]]:
    first, *rest = record.samples
    return refreeze(replace(record, samples=(replace(first, values=(0.1,)), *rest))), files


def with_another_log(record: Record, files: list[File]) -> tuple[Record, list[File]]:
    return record, [
        replace(file, source=b"epoch 2 loss: 0.1\n")
        if file.path == "logs/0001-stdout.txt"
        else file
        for file in files
    ]


def without_evidence(record: Record, files: list[File]) -> tuple[Record, list[File]]:
    first, *rest = record.attempts
    return replace(record, attempts=(replace(first, evidence=()), *rest)), files


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (with_another_number, "contradict the text that they were read from"),
        (with_another_log, "contradict the text that they were read from"),
        (without_evidence, "the evidence lacks the samples of"),
    ],
)
def test_a_number_that_its_text_does_not_give_damages_a_capsule(
    author: User, change: Forgery, words: str
) -> None:
    publish(author, write(author))
    with archive.read(author.folder / "a.capsule.zip") as capsule:
        forge(*change(capsule.record, carry(capsule)), author.folder / "forged.zip")
    ended = author.run("check", "forged.zip")
    assert ended.returncode == 4
    assert words in " ".join(ended.stderr.split())


FOLDS = """
import os, random
rng = random.Random(int(os.environ["CAPSULE_SEED"]))
for fold, base in enumerate((0.90, 0.91, 0.70, 0.92, 0.93)):
    print(f"fold {fold} acc {base + rng.uniform(-0.004, 0.004):.4f}")
"""


def test_a_mean_of_folds_is_sealed_verified_and_told(author: User) -> None:
    folds: Document = {"from": {"pattern": "fold [0-9] acc {number}", "occurrence": "all"}}
    last: Document = {"from": {"pattern": "fold [0-9] acc {number}"}}
    mean: Document = {**folds, "aggregate": "mean"}
    manifest = write(author, FOLDS, loss=mean, last=last, middle=folds)
    told = ("mean of 5 values", "the last of 5 lines", "median of 5 values")
    tried = author.run("run", "--try", manifest, "--runtime", "host")
    assert all(words in " ".join(tried.stdout.split()) for words in told)
    ended = author.run("run", manifest, "--runtime", "host", "--output", "a.capsule.zip")
    assert ended.returncode == 0, ended.stderr
    shown = author.run("show", "a.capsule.zip").stdout
    assert "mean of 5 values" in " ".join(ended.stdout.split())
    assert all(words.split()[0] in shown.split() for words in told)
    assert "lines" in shown.split()
    with archive.read(author.folder / "a.capsule.zip") as capsule:
        metrics = summary.run_values(capsule.record)
    assert all(0.868 < value < 0.876 for value in metrics["tiny/default/command/loss"].values)
    assert author.run("check", "a.capsule.zip").returncode == 0
    again = author.run("verify", "a.capsule.zip", "--output", "b.capsule.zip")
    assert again.returncode in (0, 3), again.stderr
    with archive.read(author.folder / "b.capsule.zip") as capsule:
        metrics = summary.run_values(capsule.record)
    assert all(0.868 < value < 0.876 for value in metrics["tiny/default/command/loss"].values)


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        ({"per": "mean", "from": {"pattern": "acc {number}"}}, '"aggregate": "mean"'),
        ({"aggregate": "mean", "from": {"pattern": "acc {number}"}}, '"occurrence": "all"'),
        ({"aggregate": "mean", "from": {"csv": "acc", "file": "a.csv"}}, '"step"'),
        ({"aggregate": "mean", "per": "trial"}, "one value"),
        ({"aggregate": "average"}, "mean"),
    ],
)
def test_a_mean_of_one_value_is_refused_with_what_gives_several(
    author: User, metric: Document, words: str
) -> None:
    ended = author.run("lint", write(author, loss=metric))
    assert (ended.returncode, words in " ".join(ended.stderr.split())) == (2, True)


def with_older_rules(record: Record, files: list[File]) -> tuple[Record, list[File]]:
    """As an older version sealed it, which took the digits before an exponent for the number."""
    (first,) = (one.values[0] for one in record.samples if one.trial.endswith("/1"))
    log = f"epoch 2 loss: {first:.6f}e-07\n".encode()
    changed = [
        replace(file, source=log) if file.path == "logs/0001-stdout.txt" else file for file in files
    ]
    return replace(record, tool="0.2.0"), changed


def test_values_of_an_older_capsule_that_would_be_refused_are_told_first(author: User) -> None:
    publish(author, write(author, loss={"from": {"pattern": "loss: ([0-9.]+)"}}))
    with archive.read(author.folder / "a.capsule.zip") as capsule:
        forge(*with_older_rules(capsule.record, carry(capsule)), author.folder / "old.zip")
    checked = author.run("check", "old.zip")
    assert checked.returncode == 0, checked.stderr
    first = checked.stdout.splitlines()[1]
    assert "seed 1" in first and "e-07" in first and "line 1" in first
    assert len(author.json("check", "old.zip")["refused"]) == 1
    options = ("--trust", "--allow-host", "--runtime", "host", "--output", "b.capsule.zip")
    verified = author.run("verify", "old.zip", *options)
    assert verified.returncode in (0, 1, 3), verified.stderr
    assert "e-07" in " ".join(verified.stdout.split()[:60])
    compared = author.run("diff", "old.zip", "b.capsule.zip")
    assert "e-07" in " ".join(compared.stdout.split()[:60])
    added = author.run("run", "--add-seeds", "2", "old.zip", *options[2:4])
    assert added.returncode != 0
    # one of today has none
    assert author.json("check", "a.capsule.zip")["refused"] == []


def test_a_run_that_another_version_began_names_it(author: User) -> None:
    manifest = write(author, "raise SystemExit(1)")
    options = ("--runtime", "host", "--work", "tiny.run", "--output", "a.capsule.zip")
    assert author.run("run", manifest, *options).returncode == 5
    header = author.folder / "tiny.run" / "run.json"
    content = json.loads(header.read_text())
    for tool, version in (("0.2.9", "0.2.9"), (None, "")):
        content["tool"] = tool
        content["setup"]["levels"]["release"] = None
        header.write_text(json.dumps(content))
        ended = author.run("run", "--resume", "tiny.run")
        assert (ended.returncode, version in ended.stderr) == (2, True)
        assert "version" in ended.stderr


def test_a_constant_of_a_command_is_warned_of_even_where_it_is_0(author: User) -> None:
    publish(
        author, write(author, "print('loss: 0.0')", loss={"from": {"pattern": "loss: {number}"}})
    )
    ended = author.run("lint", "a.capsule.zip")
    assert "under different seeds" in " ".join((ended.stdout + ended.stderr).split())


def test_a_number_on_standard_error_is_named(author: User) -> None:
    script = "import sys\nprint('start')\nprint('loss: 0.5', file=sys.stderr)"
    manifest = write(author, script, loss={"from": {"pattern": "loss: {number}"}})
    ended = author.run("run", "--try", manifest, "--runtime", "host")
    assert ended.returncode == 5
    assert '"stream": "stderr"' in " ".join(ended.stderr.split())
