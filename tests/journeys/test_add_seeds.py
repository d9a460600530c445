"""Seeds added to one's own sealed run: another capsule, which says so, and decides no more."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from capsule import api, archive, digest
from capsule.errors import UsageError
from capsule.options import RunOptions
from capsule.seeds import added_seeds, fresh_seeds
from capsule.trust import ledger
from tests.support import clocks, extending
from tests.support.capsules import carry, forge
from tests.support.command import Document, User, write_script
from tests.support.rereading import LOSS, METRICS, SCRIPT, benchmark

ID = "7" * 64


def read_member(path: Path, member: str) -> Document:
    with zipfile.ZipFile(path) as capsule:
        document: Document = json.loads(capsule.read(member))
    return document


def test_seeds_are_added_where_data_is_read(author: User) -> None:
    data = author.folder / "größe"
    data.mkdir()
    (data / "Make").write_text("carried")
    (data / "make").write_text("carried, too")
    (author.folder / "large").write_text("not carried")
    extending.publish(
        author,
        datasets={"small": {"path": "größe"}, "large": {"path": "large", "embed": False}},
        benchmarks=[{**one, "datasets": ["small", "large"]} for one in benchmark(METRICS)],
    )
    # the first lay beside the manifest; now one lies in the capsule, and the site says where one is
    settings = {"data": {str(digest.of_file(author.folder / "large")): f"{author.folder}/large"}}
    file = author.home / ".config/capsule/site.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(settings))
    ended = author.run("run", "--add-seeds", "1", "a", "--output", "b")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert author.run("check", "b").returncode == 0
    there, here = (
        read_member(author.folder / name, "data/capsule.json")["datasets"] for name in ("a", "b")
    )
    assert there == here


def read_last_column(shown: str, name: str) -> str:
    """What stands below the name of a table's last column, in one line."""
    lines = shown.splitlines()
    (start,) = {
        line.rindex(name) for line in lines if line.split()[-1:] == [name] and "metric" in line
    }
    return " ".join(word for line in lines for word in line[start:].split())


def test_added_seeds_follow_each_other_and_are_no_verifiers() -> None:
    five = added_seeds(ID, [1, 2, 3], count=5)
    assert added_seeds(ID, [1, 2, 3], count=2) == five[:2]
    assert set(five).isdisjoint(fresh_seeds(ID, [1, 2, 3], count=50))
    assert set(added_seeds(ID, [1, 2], count=2, within=(1, 4))) == {3, 4}
    with pytest.raises(UsageError, match="3 more needed"):
        added_seeds(ID, [1, 2], count=3, within=(1, 4))


def test_the_runs_of_both_are_in_one_capsule_that_names_the_first(author: User) -> None:
    for name, data in extending.honest().items():
        (author.folder / name).write_bytes(data)
    first, both = (author.json("show", name) for name in ("a", "b"))
    assert both["predecessor"] == first["id"]
    assert both["seeds"] == [*first["seeds"], *added_seeds(first["id"], [1, 2, 3], count=3)]
    assert (first["metrics"][LOSS]["n"], both["metrics"][LOSS]["n"]) == (3, 6)
    there, here = (
        read_member(author.folder / name, "data/capsule.json")["claims"] for name in ("a", "b")
    )
    for before, now in zip(there, here, strict=True):
        assert (before["lower"], before["upper"]) == (now["lower"], now["upper"])
    assert [(one["type"], one["primary"], one["later"]) for one in here] == [
        ("equivalence", False, True),
        ("bound", True, False),
    ]
    shown = author.run("show", "b", "--full").stdout
    words = " ".join(shown.split())
    assert "3 of 6 seeds were added after the results of the first 3 seeds were known" in words
    assert "1 of this capsule's claims covers all runs, and is not judged" in words
    claims = read_last_column(shown, "claim")
    assert (
        "equivalence, within 0.0202 (2 sd of the runs that were sealed first), secondary"
        " (added or changed after the runs)" in claims
    )
    ended = author.run("verify", "b", "--trust", "--allow-host", "--output", "v.zip", "--full")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    words = " ".join(ended.stdout.split())
    assert words.count("(n=6)") >= 2
    assert "secondary claim: does not count for the capsule's verdict" in words
    assert "original: 3 of 6 seeds were added" in words
    assert "error rate none for 1 hard bound" in words
    assert author.run("check", "v.zip").returncode == 0
    assert author.run("diff", "b", "v.zip").returncode == 0
    for sides in (("a", "b"), ("b", "a")):
        compared = author.run("diff", *sides)
        assert compared.returncode == 3, compared.stdout + compared.stderr
        words = " ".join(compared.stdout.split())
        assert "to which seeds were added" in words
        assert "two capsules with the same run" in words
        assert "independent runs" not in words


BREAKS_UNDER_ADDED = f"{SCRIPT}\nassert seed <= 3\n"
AGAINST_CONSTANTS: list[Document] = [
    {"metric": LOSS, "type": "threshold", "at_most": 2},
    {"metric": LOSS, "type": "threshold", "at_most": 3, "failure_margin": 0.9},
    {
        "metric": LOSS,
        "type": "prediction",
        "published": {"mean": 1, "sd": 0.01},
        "margin": {"absolute": 0.5},
    },
]


def claims_with_seeds_added(author: User, script: str, code: int) -> list[bool]:
    """Which of the claims against constants are primary still."""
    path = extending.write(author, claims=AGAINST_CONSTANTS)
    write_script(author.folder, script)
    sealed = author.run("run", path, "--runtime", "host", "--output", "a")
    assert sealed.returncode == 0, sealed.stdout + sealed.stderr
    ended = author.run("run", "--add-seeds", "1", "a", "--keep-going", "--output", "b")
    assert ended.returncode == code, ended.stdout + ended.stderr
    checked = author.run("check", "b")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    claims = read_member(author.folder / "b", "data/capsule.json")["claims"]
    assert all(one["later"] is not one["primary"] for one in claims)
    return [one["primary"] for one in claims]


def test_claims_against_constants_decide_as_before(author: User) -> None:
    # one compares how often runs fail with how often the original's did
    assert claims_with_seeds_added(author, SCRIPT, 0) == [True, False, True]


def test_no_claim_decides_where_a_run_failed(author: User) -> None:
    assert claims_with_seeds_added(author, BREAKS_UNDER_ADDED, 5) == [False, False, False]


class Cut(api.Watch):
    """Interrupts a run once every trial has its outcome."""

    def end(self) -> None:
        raise KeyboardInterrupt


def test_what_was_cut_off_goes_on(author: User, monkeypatch: pytest.MonkeyPatch) -> None:
    extending.publish(author)
    monkeypatch.chdir(author.folder)
    monkeypatch.setenv("HOME", str(author.home))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    with pytest.raises(KeyboardInterrupt):
        api.extend("a", 2, RunOptions(), Cut())
    (folder,) = author.folder.glob("*.run")
    # all that it needs is in its folder
    (author.folder / "a").unlink()
    ended = author.run("run", "--resume", folder, "--output", "b")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "5 completed" in ended.stdout
    assert author.run("check", "b").returncode == 0
    # it is the author's own, too
    assert author.run("verify", "b", "--output", "v.zip").returncode == 0


def test_runs_that_a_clock_dates_before_the_first_ones_are_sealed_with_a_note(
    author: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(author.folder)
    monkeypatch.setenv("HOME", str(author.home))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    with clocks.moved(days=2):
        api.run(extending.write(author), RunOptions(runtime="host", output=Path("a")))
    sealed = api.extend("a", 2)
    assert "clocks" in {note.code for note in sealed.record.notes}
    assert author.run("check", sealed.path).returncode == 0


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--image", "docker://registry.example/x"), 2, "uses the capsule's own image and engine"),
        (("--runtime", "docker"), 2, "uses the capsule's own image and engine"),
        (("--frameworks", "torch"), 2, "--add-seeds and --frameworks exclude each other"),
        (("--try",), 2, "--try and --add-seeds exclude each other"),
        (("--dry-run",), 2, "--add-seeds and --dry-run exclude each other"),
        (("--resume", "x.run"), 2, "exclude each other"),
        (("--add-seeds", "4"), 2, "given twice"),
    ],
)
def test_what_cannot_be_added_is_one_error(
    own_run: User, words: tuple[str, ...], code: int, message: str
) -> None:
    ended = own_run.run("run", "--add-seeds", "2", "a", *words)
    assert ended.returncode == code, ended.stdout + ended.stderr
    assert message in " ".join(ended.stderr.split())
    assert not list(own_run.folder.glob("*.run"))


@pytest.fixture(scope="module")
def own_run(tmp_path_factory: pytest.TempPathFactory) -> User:
    user = User.make(tmp_path_factory.mktemp("own"))
    extending.publish(user)
    return user


@pytest.mark.parametrize("release", ["0.3.0", None])
def test_seeds_are_not_added_to_a_capsule_of_another_version(
    author: User, monkeypatch: pytest.MonkeyPatch, release: str | None
) -> None:
    (author.folder / "a").write_bytes(extending.honest()["a"])
    monkeypatch.setenv("HOME", str(author.home))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    with archive.read(author.folder / "a") as capsule:
        levels = {**capsule.record.levels, "release": release}
        older = replace(capsule.record, tool="0.3.0", levels=levels)
        forge(older, carry(capsule), author.folder / "older")
    with archive.read(author.folder / "older") as capsule:
        assert ledger.add(capsule.id) is None
    before = sorted(author.folder.iterdir())
    ended = author.run("run", "--add-seeds", "2", "older", "--output", "b")
    assert ended.returncode == 2, ended.stdout + ended.stderr
    assert [*map(str.strip, ended.stderr.splitlines())] == [
        "error: older: capsule-hpc 0.3.0 measured the runs; this version has other measuring code",
        "install capsule-hpc 0.3.0, or run the manifest again with all seeds",
    ]
    assert sorted(author.folder.iterdir()) == before


def test_a_manifest_is_no_capsule(author: User) -> None:
    ended = author.run("run", "--add-seeds", "2", extending.write(author))
    assert ended.returncode in (2, 4)
    assert "Traceback" not in ended.stderr
