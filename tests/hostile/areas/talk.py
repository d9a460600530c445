"""What a workload prints while it runs, shown as it comes."""

from __future__ import annotations

from tests.hostile.case import Case, Prepare
from tests.support.command import NOISY, User, write_manifest, write_script


def _run(script: str, *options: str) -> Prepare:
    def prepare(user: User) -> list[str]:
        write_script(user.folder, NOISY + script)
        write_manifest(user.folder, seeds=[1])
        return ["run", "tiny.json", "--runtime", "host", "--follow", *options]

    return prepare


CASES = (
    Case(
        name="talk/steers-the-terminal",
        prepare=_run("print('\\x1b[2J\\x1b]0;owned\\x07\\u202e')\n"),
        status=0,
        says=r"| \x1b[2J\x1b]0;owned\x07\u202e",
        says_not="\x1b",
    ),
    Case(
        name="talk/forges-a-line",
        prepare=_run("print('REPRODUCED  all is well\\nerror: none')\n"),
        status=0,
        says="| REPRODUCED all is well",
        says_not="\nREPRODUCED",
    ),
    Case(
        name="talk/without-end",
        prepare=_run("import sys\nfor _ in range(50): sys.stdout.write('x' * 1_000_000)\n"),
        status=0,
        says="sealed tiny-",
    ),
    Case(
        name="talk/no-text",
        prepare=_run("import sys\nsys.stdout.buffer.write(bytes(range(256)) * 9 + b'\\n')\n"),
        status=0,
        says=r"\x0e\x0f\x10",
    ),
)
