"""The folder of a run that was cut off, changed before it is taken up again."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.hostile.case import Case, Prepare
from tests.support.command import REPORT, Document, User, write_manifest, write_script

# under its second seed the command ends capsule, once
DEADLY = REPORT + (
    "import pathlib, signal\n"
    "mark = pathlib.Path(os.environ['CAPSULE_INPUTS'], '../../../struck')\n"
    "if seed == 2 and not mark.exists():\n"
    "    mark.touch()\n"
    "    os.kill(os.getppid(), signal.SIGKILL)\n"
    "report('loss', 1)\n"
)
Change = Callable[[Path], object]


def _resume(change: Change) -> Prepare:
    """Go on with a run of three trials, of which one is done and one under way."""

    def prepare(user: User) -> list[str | Path]:
        write_script(user.folder, DEADLY)
        manifest = write_manifest(user.folder, seeds=[1, 2, 3])
        user.run("run", manifest, "--runtime", "host")
        (folder,) = user.folder.glob("*.run")
        change(folder)
        return ["run", "--resume", folder]

    return prepare


def _edit(name: str, edit: Callable[[Document], object], line: int = 0) -> Change:
    """Change one line of a document, or all of one that has no lines."""

    def change(folder: Path) -> None:
        path = folder / name
        lines = path.read_text().splitlines() if name.endswith("l") else [path.read_text()]
        document = json.loads(lines[line])
        edit(document)
        lines[line] = json.dumps(document)
        path.write_text("\n".join(lines) + "\n")

    return change


def _pipe(name: str) -> Change:
    def change(folder: Path) -> None:
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return change


def _link(name: str) -> Change:
    def change(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).symlink_to("/etc/passwd")

    return change


def _case(name: str, change: Change, says: str, status: int = 4) -> Case:
    return Case(
        name=f"run-folder/{name}",
        prepare=_resume(change),
        status=status,
        says=says,
        says_not="bug in capsule",
        seconds=120.0,
    )


LOG, HEADER, NODE = "attempts.jsonl", "run.json", "nodes/0000.json"


def _hollow(name: str) -> Change:
    """A terabyte of nothing behind what is there."""
    return lambda folder: os.truncate(folder / name, 1 << 40)


def _pair(text: str, size_bytes: int) -> Prepare:
    """The header of a pair alone: it is read before anything else."""

    def prepare(user: User) -> list[str | Path]:
        folder = user.folder / "a.pair"
        (folder / "a").mkdir(parents=True)
        (folder / "b").mkdir()
        (folder / "pair.json").write_text(text)
        os.truncate(folder / "pair.json", size_bytes)
        return ["pair", "--resume", folder]

    return prepare


_TARGETS = '{"format": "capsule-pair/1", "a": "a\\u0000.zip", "b": "b.zip"}'

CASES = (
    Case(
        name="run-folder/pair-whose-target-has-a-nul",
        prepare=_pair(_TARGETS, len(_TARGETS)),
        status=4,
        says="expected the format capsule-pair/1 and the paths of two capsules",
    ),
    Case(
        name="run-folder/pair-with-a-hollow-header",
        prepare=_pair(_TARGETS, 1 << 40),
        status=2,
        says="expected at most",
    ),
    *(
        _case(f"hollow-{name.replace('/', '-')}", _hollow(name), "expected at most", 2)
        for name in (LOG, HEADER, NODE, "manifest.json")
    ),
    _case("hollow-digests", _hollow("digests.txt"), "the list of copied files was changed"),
    _case("as-it-was", lambda folder: None, "sealed tiny-", status=0),
    _case(
        "start-of-another-plan",
        _edit(LOG, lambda d: d["start"].update(group="x")),
        "that the plan lacks",
    ),
    _case("start-of-a-list", _edit(LOG, lambda d: d["start"].update(group=[])), "log", status=2),
    _case("start-number-9", _edit(LOG, lambda d: d["start"].update(number=9)), "number 9, "),
    _case("start-on-node-7", _edit(LOG, lambda d: d["start"].update(nodes=[7])), "ran on node 7, "),
    _case("end-of-nothing", _edit(LOG, lambda d: d.update(end=77), 1), "matches no process start"),
    _case("end-without-time", _edit(LOG, lambda d: d.update(at=None), 1), "log", status=2),
    _case(
        "attempt-of-half-a-surrogate",
        _edit(LOG, lambda d: d["attempts"][0].update(message="\ud800"), 1),
        "half a surrogate pair",
    ),
    _case(
        "attempt-with-a-reason-of-its-own",
        _edit(LOG, lambda d: d["attempts"][0].update(reason="luck"), 1),
        "expected one of",
    ),
    _case("log-is-a-pipe", _pipe(LOG), "not a regular file: something replaced", status=2),
    _case("log-is-a-link", _link(LOG), "not a regular file: something replaced", status=2),
    _case("header-is-a-pipe", _pipe(HEADER), "run.json is missing", status=2),
    _case(
        "manifest-is-a-pipe",
        _pipe("manifest.json"),
        "not a regular file: something replaced",
        status=2,
    ),
    _case("node-is-a-pipe", _pipe(NODE), "not a regular file: something replaced", status=2),
    _case("lock-is-a-link", _link("lock"), "not a regular file: something replaced", status=2),
    _case(
        "uuid-is-a-path",
        _edit(HEADER, lambda d: d["setup"].update(uuid="../../..")),
        "badly formed hexadecimal UUID",
        status=2,
    ),
    _case(
        "observations-of-no-form",
        _edit(HEADER, lambda d: d["setup"].update(image_observations=True)),
        "contains data that a capsule cannot contain",
    ),
    _case(
        "levels-of-no-form",
        _edit(HEADER, lambda d: d["setup"]["levels"].update(digest=7)),
        "contains data that a capsule cannot contain",
    ),
    _case(
        "node-of-no-form",
        _edit(NODE, lambda d: d.update({"class": 3})),
        "contains data that a capsule cannot contain",
    ),
    _case("inputs-are-gone", lambda folder: shutil.rmtree(folder / "inputs"), "is missing"),
)
