"""What reaches a screen: nothing that was sent steers it, and nothing fills it.

That a command prints no raw control character is held of every case, whatever it is about.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from capsule import __version__, digest
from capsule import manifest as manifests
from capsule.notes import NOTES
from tests.hostile.case import Case, Prepare
from tests.support.capsules import pack, rehash, sample_files, seal
from tests.support.command import User, write_manifest, write_script
from tests.support.records import (
    SEEDS,
    make_node,
    make_plan,
    make_record,
    manifest_document,
)

_STEERS = "\x1b]0;owned\x07\x9b2J\r"
_TURNS = "\u202egnp.\u2066\u2028"
_JOINED = "\u0d9a\u0dca\u200d\u0dbb\u0dd2\u0dc3\u0dca"
_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}


def _sealed(
    *words: str,
    node: str = "Example CPU",
    note: str = "nothing",
    notes: int = 1,
    tool: str = __version__,
) -> Prepare:
    """A capsule with somebody's words in its hardware and notes, shown or compared with itself."""

    def prepare(user: User) -> list[str | Path]:
        facts = make_node()
        facts["class"]["cpu"]["model"] = node
        sentences = tuple(
            NOTES("online", reason=f"{note}{number or ''}") for number in range(notes)
        )
        record = dataclasses.replace(make_record(), nodes=(facts,), notes=sentences, tool=tool)
        capsule = seal(user.folder, record)
        verb, *options = words
        return [verb, capsule, *[capsule] * (verb == "diff"), *options]

    return prepare


def _seal_by(author: str) -> Prepare:
    """A capsule of this author's, shown."""

    def prepare(user: User) -> list[str | Path]:
        document = {**manifest_document(), "authors": [{"name": author}]}
        manifest = manifests.read(json.dumps(document).encode(), where="it", folder=None)
        plan = make_plan(manifest, SEEDS)
        record = make_record(manifest=manifest, plan=plan, plan_digest=str(digest.of_json(plan)))
        return ["show", seal(user.folder, record)]

    return prepare


def _run(script: str, *options: str, **changes: object) -> Prepare:
    def prepare(user: User) -> list[str | Path]:
        write_script(user.folder, script)
        manifest = write_manifest(user.folder, **changes)
        return ["run", manifest, "--runtime", "host", "--keep-going", *options]

    return prepare


def _typed(*words: str) -> Prepare:
    return lambda user: words


def _surplus(user: User) -> list[str | Path]:
    names = (f"data/logs/{'x' * 180}{number}" for number in range(100))
    return ["check", pack({**sample_files(), **dict.fromkeys(names, b"")}, user.folder / "a.zip")]


def _odd_key(user: User) -> list[str | Path]:
    files = sample_files()
    name = "data/records/hardware.json"
    keys = f'"{_TURNS}": 1, ' * 2
    changed = files[name].replace(b'"load"', keys.encode() + b'"load"')
    return ["check", pack(rehash({**files, name: changed}), user.folder / "a.zip")]


def _file_in_out(user: User) -> list[str | Path]:
    script = (
        "import os, sys\n"
        "name = os.fsencode(os.environ['CAPSULE_OUT']) + b'/\\x1b[2J\\xff\\n'\n"
        "open(name, 'w').close()\n"
        "sys.stderr.buffer.write(name); sys.exit(1)\n"
    )
    return list(_run(script)(user))


def _site(user: User) -> list[str | Path]:
    """A folder of somebody else's, with a name that a pattern of the shell matches."""
    path = user.folder / "\x1b[2Ja\nREPRODUCED.zip"
    path.write_bytes(b"")
    return ["check", path.name]


CASES = (
    Case(
        name="screen/model-of-a-processor",
        prepare=_sealed("show", node=_STEERS),
        status=0,
        says=r"\x1b]0;owned\x07\x9b2J\r",
        reads_only=True,
    ),
    Case(
        name="screen/model-of-a-processor-as-json",
        prepare=_sealed("show", "--json", node=_STEERS + _TURNS),
        status=0,
        says=json.dumps(_STEERS + _TURNS)[1:-1],
        reads_only=True,
    ),
    Case(
        name="screen/model-of-a-processor-in-a-verdict",
        prepare=_sealed("diff", node=_STEERS),
        status=3,
        says=r"\x1b]0;owned\x07\x9b2J\r",
        reads_only=True,
    ),
    Case(
        name="screen/note-that-turns-its-line",
        prepare=_sealed("show", note=_TURNS),
        status=0,
        says=r"note: workloads could reach the network: \u202egnp.\u2066\u2028",
        reads_only=True,
    ),
    Case(
        name="screen/note-that-is-markup",
        prepare=_sealed("show", note="[red]:bug: <b>[/red]"),
        status=0,
        says="note: workloads could reach the network: [red]:bug: <b>[/red]",
        reads_only=True,
    ),
    Case(
        name="screen/note-without-end",
        prepare=_sealed("show", note="x" * 4_400_000, tool="0.9.0"),
        status=0,
        says="(unverified text of the capsule): workloads could reach",
        reads_only=True,
    ),
    Case(
        name="screen/notes-without-end",
        prepare=_sealed("show", notes=10_000),
        status=0,
        says="and 9995 more notes: --full",
        reads_only=True,
    ),
    Case(
        name="screen/notes-without-end-in-a-verdict",
        prepare=_sealed("diff", notes=10_000),
        status=3,
        says="warning",
        reads_only=True,
    ),
    Case(
        name="screen/message-without-end",
        prepare=_surplus,
        status=4,
        says="characters)",
        reads_only=True,
    ),
    Case(
        name="screen/key-that-turns-its-line",
        prepare=_odd_key,
        status=4,
        says=r"duplicate key '\u202egnp.\u2066\u2028'",
        reads_only=True,
    ),
    Case(
        name="screen/locale-without-the-letter",
        prepare=_sealed("show", node="Prozeßor 処理"),
        status=0,
        says=r"Proze\xdfor \u51e6\u7406",
        variables=_LOCALE,
        reads_only=True,
    ),
    Case(
        name="screen/name-of-a-file-that-forges-a-line",
        prepare=_site,
        status=4,
        says=r"error: \x1b[2Ja\nREPRODUCED.zip: not a capsule",
        reads_only=True,
    ),
    Case(
        name="screen/option-that-is-none",
        prepare=_typed("check", "a.zip", "--\x1b[2J"),
        status=2,
        says=r"unrecognized arguments: --\x1b[2J",
        reads_only=True,
    ),
    Case(
        name="screen/reference-of-an-image",
        prepare=_typed("image", "resolve", "docker://\x1b[2J\u202e"),
        status=2,
        says=r"\x1b[2J",
        reads_only=True,
    ),
    Case(
        name="screen/title-that-steers",
        prepare=_run("", title=_STEERS),
        status=2,
        says="contains a character that cannot be printed",
    ),
    Case(
        name="screen/names-of-people",
        prepare=_seal_by(_JOINED),
        status=0,
        says=_JOINED,
        says_not="\\u",
        reads_only=True,
    ),
    Case(
        name="screen/joiner-that-hides",
        prepare=_run("", "--dry-run", authors=[{"name": "Ada\u200d Author"}]),
        status=2,
        says=r"\u200d",
    ),
    Case(
        name="screen/last-words-of-a-workload",
        prepare=_run(f"import sys; sys.exit({_STEERS + _TURNS!r})", seeds=[1]),
        status=5,
        says=r"failed (exit): exit code 1 \x1b]0;owned\x07\x9b2J",
    ),
    Case(
        name="screen/last-words-that-forge-a-line",
        prepare=_run("import sys; sys.exit('x\\nREPRODUCED  all is well')", seeds=[1]),
        status=5,
        says="REPRODUCED all is well",
        says_not="\nREPRODUCED",
    ),
    Case(
        name="screen/last-words-without-end",
        prepare=_run("import sys; sys.exit('x' * 4_400_000)", seeds=[1]),
        status=5,
        says="failed (exit)",
    ),
    Case(
        name="screen/odd-file-and-its-name-in-bytes",
        prepare=_file_in_out,
        status=5,
        says=r"\x1b[2J",
    ),
)
