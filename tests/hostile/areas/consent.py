"""Code and folders that are not this user's: announced, and asked about, before they run."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from capsule import digest
from capsule import manifest as manifests
from tests.hostile.case import Case, Prepare
from tests.support.capsules import seal
from tests.support.command import NOISY, User, write_manifest, write_script
from tests.support.records import SEEDS, make_plan, make_record, manifest_document

# the process dies once everything is measured, before it seals: its folder is left
_DEATH = """
import os, signal, sys
if "capsule" in sys.orig_argv:
    from capsule import sealing
    sealing.write = lambda *args, **kwargs: os.kill(os.getpid(), signal.SIGKILL)
"""
_CONSENT = ("--trust", "--allow-host")
_ASKS = "Not started. If you trust the source of this code: add --trust"
_KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\n"


def _another(user: User) -> User:
    """Somebody else, with a home of their own."""
    return User.make(user.folder, "another")


def _seal(user: User, folder: Path, script: str = NOISY) -> Path:
    """A capsule of this user's."""
    write_script(user.folder, script)
    target = folder / "a.capsule.zip"
    ended = user.run("run", write_manifest(user.folder, seeds=[1, 2]), "--output", target)
    assert ended.returncode == 0, ended.stderr
    return target


def _leave_folder(user: User, folder: Path, *words: str | Path) -> Path:
    """The folder of a run of this user's that died before it was sealed."""
    killer = user.home / "killer"
    killer.mkdir()
    (killer / "sitecustomize.py").write_text(_DEATH)
    ended = user.run(*words, "--work", folder, PYTHONPATH=str(killer))
    assert ended.returncode == -9, ended.stderr
    return folder


def _cut_off(user: User, folder: Path) -> Path:
    write_script(user.folder)
    return _leave_folder(user, folder, "run", write_manifest(user.folder, seeds=[1, 2]))


def _with_image(user: User) -> Path:
    """A stranger's capsule that ran in a container, and needs no data."""
    document = manifest_document()
    del document["datasets"], document["benchmarks"][0]["datasets"]
    manifest = manifests.read(json.dumps(document).encode(), where="manifest.json", folder=None)
    plan = make_plan(manifest, SEEDS)
    record = make_record(
        manifest=manifest, plan=plan, plan_digest=str(digest.of_json(plan)), datasets=()
    )
    return seal(user.folder, record)


def _by_site(*words: str) -> Prepare:
    def prepare(user: User) -> list[str | Path]:
        site = user.home / ".config" / "capsule"
        site.mkdir(parents=True)
        (site / "site.json").write_text('{"runtime": "host"}')
        return ["verify", _with_image(user), "--runs", "1", *words]

    return prepare


def _strangers_verification(user: User) -> list[str | Path]:
    original = _seal(_another(user), user.folder)
    ended = user.run("verify", original, "--output", "b.zip", *_CONSENT)
    assert ended.returncode in (0, 1, 3), ended.stderr
    return ["verify", "b.zip"]


def _foreign_folder(*words: str) -> Prepare:
    def prepare(user: User) -> list[str | Path]:
        return ["run", "--resume", _cut_off(_another(user), user.folder / "theirs.run"), *words]

    return prepare


def _sealed_from_a_foreign_folder(user: User) -> list[str | Path]:
    folder = _cut_off(_another(user), user.folder / "theirs.run")
    ended = user.run("run", "--resume", folder, "--output", "a.zip", *_CONSENT)
    assert ended.returncode == 0, ended.stderr
    return ["verify", "a.zip"]


def _foreign_verification(user: User) -> list[str | Path]:
    original = _seal(user, user.folder)
    folder = user.folder / "theirs.run"
    _leave_folder(_another(user), folder, "verify", original, *_CONSENT)
    return ["verify", original, "--resume", folder]


def _foreign_pair(user: User) -> list[str | Path]:
    another = _another(user)
    write_script(another.folder, NOISY + 'report("seconds", 1.0 + seed % 7)\n')
    metrics = {
        "loss": {"direction": "lower"},
        "seconds": {"direction": "lower", "unit": "s", "kind": "machine"},
    }
    benchmark = {
        "id": "tiny",
        "command": ["python3", "tiny.py"],
        "inputs": ["tiny.py"],
        "metrics": metrics,
    }
    manifest = write_manifest(another.folder, seeds=[1, 2], benchmarks=[benchmark])
    folder = user.folder / "theirs.pair"
    _leave_folder(another, folder, "pair", manifest)
    return ["pair", "--resume", folder]


def _own_folder(change: Callable[[Path], Path]) -> Prepare:
    """One's own folder, cut off, and changed since."""

    def prepare(user: User) -> list[str | Path]:
        return ["run", "--resume", change(_cut_off(user, user.folder / "mine.run"))]

    return prepare


def _move(folder: Path) -> Path:
    return folder.rename(folder.with_name("elsewhere.run"))


def _ask_for_the_host(folder: Path) -> Path:
    header = folder / "run.json"
    header.write_text(header.read_text().replace('"threads": ', '"threads": 1'))
    return folder


def _open_to_all(folder: Path) -> Path:
    folder.chmod(0o777)
    return folder


def _change_input(folder: Path) -> Path:
    (folder / "inputs" / "tiny.py").write_text("print('something else')\n")
    return folder


def _link_input(folder: Path) -> Path:
    (folder / "key").write_text(_KEY)
    (folder / "inputs" / "tiny.py").unlink()
    (folder / "inputs" / "tiny.py").symlink_to(folder / "key")
    return folder


def _plant_fifo(folder: Path, name: str) -> Path:
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    return folder


def _write(folder: Path, name: str, data: bytes) -> Path:
    (folder / name).write_bytes(data)
    return folder


def _list_too(folder: Path, name: str) -> Path:
    with (folder / "digests.txt").open("a") as stream:
        stream.write(f"{'0' * 64}  {name}\n")
    return folder


def _list_a_file_beside_it(folder: Path) -> Path:
    (folder.parent / "x").touch()
    with (folder / "digests.txt").open("a") as stream:
        stream.write(f"{hashlib.sha256().hexdigest()}  inputs/../../x\n")
    return folder


def _ledger(change: Callable[[Path], None]) -> Prepare:
    """One's own capsule, and a ledger that somebody else could have written."""

    def prepare(user: User) -> list[str | Path]:
        capsule = _seal(user, user.folder)
        change(user.home / ".local" / "state" / "capsule")
        return ["verify", capsule]

    return prepare


def _with_permission(user: User) -> list[str | Path]:
    write_script(user.folder)
    return ["run", write_manifest(user.folder), "--trust"]


def _fill_with_bytes(state: Path) -> None:
    (state / "sealed.txt").write_bytes(b"\xff\xfe" * 99)


def _planted_ledger(user: User) -> list[str | Path]:
    another = _another(user)
    capsule = _seal(another, user.folder)
    shutil.copytree(another.home / ".local" / "state", user.folder / "state")
    return ["verify", capsule]


def _endless(user: User) -> list[str | Path]:
    """A capsule whose trials took longer than a number can say."""
    record = make_record()
    attempts = tuple(replace(one, seconds=1e308) for one in record.attempts)
    return ["verify", seal(user.folder, replace(record, attempts=attempts))]


CASES = (
    Case(
        name="consent/a-screen-of-endless-seconds",
        prepare=_endless,
        status=4,
        says="5 process starts, about",
    ),
    Case(
        name="consent/a-site-file-that-prefers-the-host",
        prepare=_by_site("--trust"),
        status=4,
        says="Not started. No container: the code can read and write whatever you can",
    ),
    Case(
        name="consent/the-screen-says-what-was-decided",
        prepare=_by_site(),
        status=4,
        says="whatever you can capsule ignores the image that the manifest names",
    ),
    Case(
        name="consent/a-verification-of-a-strangers-capsule",
        prepare=_strangers_verification,
        status=4,
        says=_ASKS,
    ),
    Case(
        name="consent/a-strangers-run-folder",
        prepare=_foreign_folder(),
        status=4,
        says="You did not begin this run in this folder",
    ),
    Case(
        name="consent/a-strangers-run-folder-on-the-host",
        prepare=_foreign_folder("--trust"),
        status=4,
        says="Not started. No container",
    ),
    Case(
        name="consent/a-capsule-of-a-strangers-run-folder",
        prepare=_sealed_from_a_foreign_folder,
        status=4,
        says=_ASKS,
    ),
    Case(
        name="consent/a-strangers-verification-of-ones-own-capsule",
        prepare=_foreign_verification,
        status=4,
        says="You did not begin this run in this folder",
    ),
    Case(
        name="consent/a-strangers-pair",
        prepare=_foreign_pair,
        status=4,
        says="You did not begin this run in this folder",
    ),
    Case(
        name="consent/a-run-folder-that-was-moved", prepare=_own_folder(_move), status=4, says=_ASKS
    ),
    Case(
        name="consent/a-run-folder-whose-terms-were-changed",
        prepare=_own_folder(_ask_for_the_host),
        status=4,
        says=_ASKS,
    ),
    Case(
        name="consent/a-run-folder-that-all-can-write",
        prepare=_own_folder(_open_to_all),
        status=4,
        says=_ASKS,
    ),
    Case(
        name="consent/a-run-folder-with-another-input",
        prepare=_own_folder(_change_input),
        status=4,
        says="inputs/tiny.py was changed or removed since the run began",
    ),
    Case(
        name="consent/a-run-folder-with-a-link-for-an-input",
        prepare=_own_folder(_link_input),
        status=2,
        says="is a link",
    ),
    *(
        Case(
            name=f"consent/a-fifo-for-{name}-of-a-run-folder",
            prepare=_own_folder(partial(_plant_fifo, name=name)),
            status=2,
            says="not a regular file: something replaced",
        )
        for name in ("manifest.json", "attempts.jsonl", "digests.txt", "lock")
    ),
    Case(
        name="consent/a-run-folder-without-its-list",
        prepare=_own_folder(partial(_write, name="digests.txt", data=b"\xff")),
        status=4,
        says="the list of copied files was changed",
    ),
    Case(
        name="consent/a-run-folder-whose-list-is-empty",
        prepare=_own_folder(partial(_write, name="digests.txt", data=b"")),
        status=4,
        says="the list of copied files was changed",
    ),
    Case(
        name="consent/a-run-folder-whose-list-leads-out",
        prepare=_own_folder(partial(_list_too, name="inputs/../../x")),
        status=4,
        says="the list of copied files was changed",
    ),
    Case(
        name="consent/a-run-folder-whose-list-leads-out-rightly",
        prepare=_own_folder(_list_a_file_beside_it),
        status=4,
        says="the list of copied files was changed",
    ),
    Case(
        name="consent/a-run-folder-whose-list-names-what-has-no-place",
        prepare=_own_folder(partial(_list_too, name="manifest.json")),
        status=4,
        says="the list of copied files was changed",
    ),
    Case(
        name="consent/a-ledger-that-all-can-write",
        prepare=_ledger(lambda state: (state / "sealed.txt").chmod(0o666)),
        status=4,
        says="writable by other users, so capsule does not use this path",
    ),
    Case(
        name="consent/a-ledger-in-a-folder-that-all-can-write",
        prepare=_ledger(lambda state: state.chmod(0o777)),
        status=4,
        says="writable by other users, so capsule does not use this path",
    ),
    Case(
        name="consent/a-ledger-that-is-no-text",
        prepare=_ledger(_fill_with_bytes),
        status=4,
        says=_ASKS,
    ),
    Case(
        name="consent/a-ledger-planted-in-the-current-folder",
        prepare=_planted_ledger,
        variables={"XDG_STATE_HOME": "state"},
        status=4,
        says=_ASKS,
    ),
    Case(
        name="consent/permission-for-ones-own-manifest",
        prepare=_with_permission,
        status=2,
        says="--trust needs --resume",
    ),
)
