"""A sealed run's numbers, read again by a corrected manifest, without running anything."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from capsule import api, diff, reading
from capsule.options import RereadOptions
from tests.support import rereading
from tests.support.command import Document, User
from tests.support.rereading import CLAIMS, CORRECTED, LOSS, METRICS, SCORE, correct, write

ACCURACY = "tiny/default/command/accuracy"


@pytest.fixture
def author_with_run(author: User) -> User:
    for name, data in rereading.honest().items():
        (author.folder / name).write_bytes(data)
    return author


def read_member(user: User, name: str, member: str) -> Document:
    with zipfile.ZipFile(user.folder / name) as capsule:
        document: Document = json.loads(capsule.read(member))
    return document


def test_numbers_are_read_again_and_claims_that_changed_decide_nothing(
    author_with_run: User,
) -> None:
    user = author_with_run
    first, second = (user.json("show", name) for name in ("a", "b"))
    assert second["predecessor"] == first["id"]
    assert (first["metrics"][SCORE]["median"], second["metrics"][SCORE]["median"]) == (
        pytest.approx(0.5, abs=0.02),
        pytest.approx(2, abs=0.2),
    )
    assert second["metrics"][LOSS] == first["metrics"][LOSS]
    assert second["metrics"][ACCURACY]["n"] == 5
    there, here = (
        {one["metric"]: one for one in read_member(user, name, "data/capsule.json")["claims"]}
        for name in ("a", "b")
    )
    assert here[LOSS] == there[LOSS]
    assert (here[SCORE]["primary"], here[SCORE]["later"]) == (False, True)
    shown = user.run("show", "b").stdout
    words = " ".join(shown.split())
    assert f"made of capsule {first['id'][:12]} " in words
    assert "secondary (added or changed after the runs)" in words
    assert "claims written or changed when re-reading: 1; claims of capsule" in words
    facts = user.json("check", "b")["checked"]
    assert "15 series of samples match the texts that they were read from" in facts
    assert any(first["id"] in fact for fact in facts)


def test_a_second_reading_is_verified_as_any_capsule(author_with_run: User) -> None:
    user = author_with_run
    # nobody sealed it in this home
    ended = user.run("verify", "b", "--trust", "--allow-host", "--output", "v.zip", "--full")
    assert ended.returncode in (0, 3), ended.stdout + ended.stderr
    shown = " ".join(ended.stdout.split())
    assert "secondary claim: does not count for the capsule's verdict" in shown
    assert "values re-read from capsule" in shown
    assert user.run("check", "v.zip").returncode == 0
    assert user.run("diff", "b", "v.zip").returncode == ended.returncode


def test_two_readings_of_a_run_are_no_evidence_of_each_other(author_with_run: User) -> None:
    with (
        reading.read(author_with_run.folder / "a") as a,
        reading.read(author_with_run.folder / "b") as b,
    ):
        differences = diff.compare(a.record, b.record)
    assert all(
        "both capsules contain the runs of" in (pair.refused or "") for pair in differences.pairs
    )


def test_a_run_that_failed_for_its_pattern_is_rescued(author: User) -> None:
    wrong: Document = {"loss": {"direction": "lower", "from": {"pattern": "lost: (.*)"}}}
    claims = [
        {"metric": LOSS, "type": "equivalence"},
        {"metric": LOSS, "type": "bound", "at_most": 2},
    ]
    manifest = write(author, wrong, claims=claims)
    options = ("--runtime", "host", "--output", "a.zip", "--keep-going")
    assert author.run("run", manifest, *options).returncode == 5
    right = correct(author, {"loss": METRICS["loss"]}, claims=claims)
    assert author.json("reread", "a.zip", "--manifest", right)["failed"] == 0
    (capsule,) = author.folder.glob("*.reread.zip")
    shown = author.json("show", capsule)
    assert shown["attempts"]["completed"] == 5
    assert [one["primary"] for one in shown["claims"]] == [False, False]
    # the author's own, who need not be asked
    ended = author.run("verify", capsule, "--output", "v.zip")
    assert ended.returncode == 3, ended.stdout + ended.stderr
    # once more, and nothing is written over
    assert author.run("reread", "a.zip", "--manifest", right).returncode == 2


def test_a_claim_that_is_only_added_leaves_the_others_as_they_were(
    author_with_run: User,
) -> None:
    user = author_with_run
    added = {"metric": SCORE, "type": "bound", "at_most": 3}
    user.json("reread", "a", "--manifest", correct(user, METRICS, claims=[*CLAIMS, added]))
    (capsule,) = user.folder.glob("*.reread.zip")
    claims = read_member(user, capsule.name, "data/capsule.json")["claims"]
    assert [(one["type"], one["primary"]) for one in claims] == [
        ("equivalence", True),
        ("equivalence", True),
        ("bound", False),
    ]


def test_what_a_command_reported_stays_and_what_nobody_declared_is_read_from_its_file(
    author: User,
) -> None:
    script = """
import json, os
seed = int(os.environ["CAPSULE_SEED"])
with open(os.environ["CAPSULE_RESULTS"], "w") as results:
    for name, value in {"loss": seed / 10, "extra": seed}.items():
        print(json.dumps({"metric": name, "value": value}), file=results)
"""
    declared: Document = {"loss": {"direction": "lower"}}
    claims = [{"metric": LOSS, "type": "bound", "at_most": 2}]
    manifest = write(author, declared, script, claims=claims)
    ended = author.run("run", manifest, "--runtime", "host", "--output", "a.zip")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    refused = author.run(
        "reread", "a.zip", "--manifest", correct(author, {**declared, "extra": {}}, claims=claims)
    )
    assert refused.returncode == 2
    assert 'read the metric with "from" and "file": "results.jsonl"' in " ".join(
        refused.stderr.split()
    )
    pattern = '"extra", "value": ([0-9]+)'
    extra = {"from": {"pattern": pattern, "file": "results.jsonl"}}
    right = correct(author, {"loss": {"direction": "higher"}, "extra": extra}, claims=claims)
    assert author.run("reread", "a.zip", "--manifest", right, "-o", "b.zip").returncode == 0
    metrics = author.json("show", "b.zip")["metrics"]
    assert metrics["tiny/default/command/extra"]["median"] == 3
    assert (metrics[LOSS]["median"], metrics[LOSS]["direction"]) == (0.3, "higher")
    assert author.run("check", "b.zip").returncode == 0


@pytest.mark.parametrize(
    ("metrics", "changes", "message"),
    [
        (METRICS, {}, "has the same metrics and claims as the capsule"),
        (METRICS, {"title": "Another"}, "the manifest changes title"),
        (METRICS, {"seeds": [1, 2, 3, 4]}, "the manifest changes seeds"),
        ({**METRICS, "more": {}}, {}, "tiny: the results in the capsule lack more"),
        (
            {**METRICS, "more": {"from": {"json": "/x", "file": "out.json"}}},
            {},
            "tiny: more needs out.json, which the capsule lacks",
        ),
        (METRICS, {"claims": [{"metric": "tiny/*/*/no", "type": "ratio"}]}, "no"),
    ],
)
def test_what_cannot_be_read_again_is_one_error(
    author_with_run: User, metrics: Document, changes: Document, message: str
) -> None:
    ended = author_with_run.run(
        "reread", "a", "--manifest", correct(author_with_run, metrics, **changes)
    )
    assert ended.returncode == 2, ended.stderr
    assert message in " ".join(ended.stderr.split())
    assert not list(author_with_run.folder.glob("*.reread.zip"))


def test_a_claim_that_is_dropped_is_told(author_with_run: User) -> None:
    user = author_with_run
    path = correct(user, METRICS, claims=CLAIMS[:1])
    shown = " ".join(user.run("reread", "a", "--manifest", path, "-o", "c").stdout.split())
    assert "removed or changed: 1" in shown


def test_a_capsule_that_is_a_folder_is_read_again(author_with_run: User) -> None:
    user = author_with_run
    with zipfile.ZipFile(user.folder / "a") as capsule:
        capsule.extractall(user.folder / "folder")
    path = correct(user)
    assert user.run("reread", "folder", "--manifest", path, "-o", "c").returncode == 0
    assert user.json("check", "c")["id"] == user.json("check", "b")["id"]


def test_only_a_run_of_its_authors_own_is_read_again(author_with_run: User) -> None:
    user = author_with_run
    ended = user.run("reread", "b", "--manifest", correct(user))
    assert ended.returncode == 2
    first = user.json("show", "a")["id"]
    assert f"name capsule {first}" in " ".join(ended.stderr.split())
    assert user.run("reread", "no.zip", "--manifest", correct(user)).returncode == 2
    assert user.run("reread", "a", "--manifest", "no.json").returncode == 2


def test_nothing_private_is_sealed_where_nothing_private_may_be(author_with_run: User) -> None:
    key = "ghp_" + "a1B2" * 9
    secret = {**CORRECTED, "score": {"from": {"pattern": f"score: (.*)|{key}"}}}
    path = correct(author_with_run, secret)
    ended = author_with_run.run("reread", "a", "--manifest", path, "--strict-privacy")
    assert ended.returncode == 5
    assert "possibly private" in " ".join(ended.stderr.split())


def test_from_python(author_with_run: User, tmp_path: Path) -> None:
    options = RereadOptions(output=tmp_path / "c.zip")
    sealed = api.reread(author_with_run.folder / "a", correct(author_with_run), options)
    with api.open(sealed.path) as capsule:
        assert capsule.id == sealed.id


def test_a_label_that_is_added_changes_no_claim(author_with_run: User) -> None:
    user = author_with_run
    labelled = [{**CLAIMS[0], "label": "Table 2"}, CLAIMS[1]]
    manifest = correct(user, METRICS, claims=labelled)
    ended = user.run("reread", "a", "--manifest", manifest, "--output", "c")
    assert ended.returncode == 0, ended.stderr
    assert user.run("check", "c").returncode == 0
    first, second = user.json("show", "c")["claims"]
    assert (first["label"], second["label"]) == ("Table 2", None)
    assert (first["primary"], second["primary"]) == (True, True)
