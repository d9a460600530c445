"""What is published of a machine and its user."""

import os
import pwd
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from capsule.errors import ExecutionError
from capsule.localpaths import LocalPaths
from capsule.record import File
from capsule.trust.privacy import Finding, Privacy
from tests.support.records import make_record

# no key of anybody's
KEYS = {
    "a private key": "-----BEGIN EC PRIVATE KEY-----",
    "an AWS key": "AKIA" + "A1" * 8,
    "a GitHub token": "ghp_" + "a1" * 18,
    "a GitLab token": "glpat-" + "a-" * 10,
    "a Hugging Face token": "hf_" + "aB" * 17,
    "a Slack token": "xoxb-" + "12" * 10,
    "an API key": "sk-" + "a1" * 16,
    "a Google key": "AIza" + "a" * 35,
    "a web token": "eyJ" + "a" * 20 + ".eyJ" + "b" * 20 + ".c",
    "a bearer token": "Authorization: Bearer " + "a1" * 12,
    "a password in an address": "https://me:secret@host.example/",
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's, who is called otherwise than anything in a test."""
    home = tmp_path / "home" / "zoe"
    home.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    account = pwd.getpwuid(os.getuid())
    named = pwd.struct_passwd(("zoewriter", *account[1:5], str(home), account[6]))
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: named)
    monkeypatch.setattr(socket, "gethostname", lambda: "machine17.cluster.example")
    return home


def clean(tmp_path: Path, data: bytes) -> tuple[bytes, list[Finding]]:
    source = tmp_path / "stderr.txt"
    source.write_bytes(data)
    privacy = Privacy(tmp_path / "home" / "zoe" / "tiny.run")
    ((file,), findings) = privacy.clean_files(
        [File(path="logs/0001-stderr.txt", source=source)], tmp_path / "clean"
    )
    assert source.read_bytes() == data
    return Path(file.source).read_bytes(), findings


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("at {home}/work/a.py", "at $HOME/work/a.py"),
        ("at {home}/tiny.run/inputs/a.py:3", "at $RUN/inputs/a.py:3"),
        ('File "{home}", line 1', 'File "$HOME", line 1'),
        ("in {home}.", "in $HOME."),
        ("in {home}2/a and {home}.old/b", "in {home}2/a and {home}.old/b"),
        ("below /mnt{home}", "below /mnt{home}"),
        ("nothing of the kind", "nothing of the kind"),
    ],
)
def test_paths_become_words_and_only_whole_ones(
    home: Path, tmp_path: Path, line: str, expected: str
) -> None:
    line, expected = line.format(home=home), expected.format(home=home)
    assert LocalPaths(home / "tiny.run").clean_text(line) == expected
    cleaned, _ = clean(tmp_path, b"first \xff\n" + line.encode() + b"\nlast")
    assert cleaned == b"first \xff\n" + expected.encode() + b"\nlast"


def test_a_path_far_behind_the_first_piece_becomes_a_word_too(home: Path, tmp_path: Path) -> None:
    lines = b"a line of forty bytes, of which are many\n" * 70_000
    cleaned, _ = clean(tmp_path, lines + bytes(home) + b"\n" + lines)
    assert cleaned == lines + b"$HOME\n" + lines


@pytest.mark.parametrize("what", KEYS)
def test_what_looks_like_a_key_is_told_with_its_line_and_never_itself(
    home: Path, tmp_path: Path, what: str
) -> None:
    data = f"first\n\nx {KEYS[what]}\nlast\n".encode()
    cleaned, findings = clean(tmp_path, data)
    assert cleaned == data
    assert list(map(str, findings)) == [f"logs/0001-stderr.txt:3: {what}"]


def test_names_of_user_and_host_are_told(home: Path, tmp_path: Path) -> None:
    _, findings = clean(tmp_path, b"zoewriter@machine17\nzoewriters\nmachine17.cluster.example\n")
    assert {str(one) for one in findings} == {
        "logs/0001-stderr.txt:1: this user's name",
        "logs/0001-stderr.txt:1: this machine's host name",
        "logs/0001-stderr.txt:3: this machine's host name",
    }
    privacy = Privacy(keep_hosts=True)
    source = tmp_path / "stderr.txt"
    assert [one.what for one in privacy.scan_inputs({"a.txt": source})] == ["this user's name"]


def test_words_that_only_look_like_a_key_are_not_told(home: Path, tmp_path: Path) -> None:
    data = b"task-based-scheduling-of-many-kernels asks-for sk-short https://host:8080/a@b\n"
    assert clean(tmp_path, data)[1] == []


def test_a_record_is_cleaned_wherever_a_program_speaks(home: Path) -> None:
    privacy = Privacy(home / "tiny.run")
    record = make_record()
    attempt = record.attempts[0]
    spoken = replace(attempt, message=f"no {home}/a, {KEYS['an AWS key']}")
    record = privacy.clean_record(
        replace(
            record,
            attempts=(spoken, *record.attempts[1:]),
            software={"torch": {"paths": [f"{home}/lib"], "version": "2"}},
        )
    )
    assert record.attempts[0].message == f"no $HOME/a, {KEYS['an AWS key']}"
    assert record.software == {"torch": {"paths": ["$HOME/lib"], "version": "2"}}
    findings = list(map(str, privacy.scan_record(record)))
    assert findings == [f"message of {attempt.trial}: an AWS key"]


def test_inputs_that_are_no_text_are_not_searched(home: Path, tmp_path: Path) -> None:
    weights = tmp_path / "weights.bin"
    weights.write_bytes(b"\0" * 10 + KEYS["an AWS key"].encode())
    assert Privacy().scan_inputs({"weights.bin": weights}) == []


def test_a_log_that_is_no_file_is_not_waited_for(home: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/etc/passwd")
    for name in ("pipe", "link"):
        log = File(path="logs/0001-stderr.txt", source=tmp_path / name)
        with pytest.raises(ExecutionError, match=r"sealed|sealing"):
            Privacy().clean_files([log], tmp_path / "clean")
