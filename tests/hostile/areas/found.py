"""What a workload prints, or leaves in its files, where a manifest says that numbers are."""

from __future__ import annotations

from pathlib import Path

from tests.hostile.case import Case, Prepare
from tests.support.command import Document, User, write_manifest, write_script

LOSS: Document = {"pattern": "loss: (.*)"}


def _run(script: str, source: Document = LOSS) -> Prepare:
    def prepare(user: User) -> list[str | Path]:
        write_script(user.folder, f"import os\n{script}\n")
        (user.folder / "secret.json").write_text('{"loss": 42}')
        benchmark = {
            "id": "tiny",
            "command": ["python3", "tiny.py"],
            "inputs": ["tiny.py"],
            "metrics": {"loss": {"from": source}},
        }
        manifest = write_manifest(user.folder, benchmarks=[benchmark], seeds=[1, 2])
        return ["run", manifest, "--runtime", "host"]

    return prepare


def fail(name: str, script: str, says: str, source: Document = LOSS, mib: int = 512) -> Case:
    """A run whose script leaves what gives no number, and that therefore fails."""
    return Case(name=f"found/{name}", prepare=_run(script, source), status=5, says=says, mib=mib)


def _refuse(name: str, source: Document, says: str) -> Case:
    return Case(name=f"found/{name}", prepare=_run("", source), status=2, says=says)


_FILE: Document = {"json": "/loss", "file": "out.json"}
_BELOW: Document = {"json": "/loss", "file": "a/secret.json"}
_NONE = "no file"
_SECRET = "os.environ['CAPSULE_OUT'] + '/../../../../secret.json'"

CASES = (
    # the secret is on the host, where a link that is followed would find it
    fail("link", f"os.symlink({_SECRET}, 'out.json')", _NONE, _FILE),
    fail("link-on-the-way", f"os.symlink(os.path.dirname({_SECRET}), 'a')", _NONE, _BELOW),
    fail("pipe", "os.mkfifo('out.json')", _NONE, _FILE),
    fail("folder", "os.mkdir('out.json')", _NONE, _FILE),
    fail(
        "holes",
        "open('out.json', 'w').truncate(1 << 40)",
        "the most that capsule searches",
        {"pattern": "(x)", "file": "out.json"},
    ),
    fail("deep", "open('out.json', 'w').write('[' * 10**6)", "out.json as JSON", _FILE),
    fail(
        "empty-lists",
        "open('out.json', 'w').write('[],' * 10**7)",
        "the limit of a JSON file",
        _FILE,
    ),
    fail("endless-digits", "print('loss: ' + '1' * 10**6 + 'x')", "expected a number, found"),
    fail("steers", r"print('loss: \x1b[2J')", r"\x1b[2J"),
    fail("names-that-steer", r"open('\x1b[2J\n', 'w')", _NONE, _FILE),
    fail("half-a-surrogate", r"open(b'\xff', 'w')", _NONE, _FILE),
    # a match for each of its ways takes Python's own engine longer than there is time
    fail(
        "many-ways",
        "print('a' * 10**6)",
        "no line of stdout",
        {"pattern": "^(a+)+b$"},
    ),
    fail(
        "many-states",
        "print('ab' * 10**5)",
        "no line of stdout",
        {"pattern": "(?:a|b)*a(?:a|b){300}(x)"},
    ),
    fail(
        "many-numbers",
        "print('1\\n' * 3 * 10**5)",
        "more than 200000 values",
        {"pattern": "(.*)", "occurrence": "all"},
    ),
    fail(
        "many-columns",
        "open('out.csv', 'w').write(',' * 10**7)",
        "no column loss",
        {"csv": "loss", "file": "out.csv"},
        mib=1024,
    ),
    fail(
        "endless-cell",
        "open('out.csv', 'w').write('loss\\n\"' + 'x\\n' * 10**6)",
        " as CSV: ",
        {"csv": "loss", "file": "out.csv"},
    ),
    _refuse("look-ahead", {"pattern": "(?=x)(y)"}, "look-around"),
    _refuse("back-reference", {"pattern": r"(x)\1"}, "backreferences to a group"),
    _refuse("large", {"pattern": r"(\pL{1,200})"}, "is too large"),
    _refuse("repeated", {"pattern": "(((a{1,99}){1,99}){1,99})"}, "invalid pattern"),
    _refuse("up", {"json": "", "file": "../secret.json"}, "not a plain relative path"),
    _refuse("elsewhere", {"json": "", "file": "/etc/passwd"}, "not a plain relative path"),
)
