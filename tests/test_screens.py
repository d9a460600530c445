"""Whatever a stranger wrote into any string of a capsule, no command's output is steered by it."""

import ast
import json
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest

import capsule
from capsule import cli, plain
from capsule.archive import codec
from capsule.console import Console
from capsule.jsons import Json
from tests.fuzz.doors.capsules import mend
from tests.support.capsules import CRATE, pack, rehash, sample, sample_files
from tests.support.records import make_attempt

pytestmark = pytest.mark.slow

PACKAGE = Path(capsule.__file__).parent

CONTROLS = "\x1b]0;owned\x07\x9b2J\r\n\0\x7f\x85\u202e\u2066\u2028"
# these pass where control characters alone are refused
TURNS = "\u202e\u2066\u2028\ufeff\U000e0041"
ENDLESS = "x" * 100_000
DOCUMENTS = sorted({f"data/{name}" for name in codec.DOCUMENTS} & sample_files().keys())


def plantings(value: Json, word: str) -> Iterator[Json]:
    """The same document with the word behind one string or key; of a list or of all metrics one."""
    if isinstance(value, str):
        yield value + word
    elif isinstance(value, list) and value:
        yield from ([planted, *value[1:]] for planted in plantings(value[0], word))
    elif isinstance(value, dict):
        is_of_metrics = all("/" in name for name in value)
        for key, member in [*value.items()][: 1 if is_of_metrics else None]:
            rest = {name: value[name] for name in value if name != key}
            yield {**rest, key + word: member}
            yield from ({**rest, key: planted} for planted in plantings(member, word))


def forge(name: str, word: str) -> Iterator[dict[str, bytes]]:
    """The files of capsules of which all fits together, each with one planted word."""
    files = sample_files()
    first, newline, rest = files[name].partition(b"\n" if name.endswith(".jsonl") else b"\0")
    for planted in plantings(json.loads(first), word):
        changed = {**files, name: json.dumps(planted).encode() + newline + rest}
        # the crate would be made anew
        yield rehash(changed if name == CRATE else mend(changed))


def assert_tame(text: str) -> None:
    """Nothing in it steers a terminal, and no line is endless."""
    rows = text.split("\n")
    assert all(map(plain.is_clean, rows)), [row for row in rows if not plain.is_clean(row)]
    # "error: " and a table's margin
    assert max(map(len, rows)) <= plain.LONGEST_LINE + 20


@pytest.mark.parametrize("word", [CONTROLS, TURNS, ENDLESS], ids=["controls", "turns", "endless"])
@pytest.mark.parametrize("name", [*DOCUMENTS, CRATE])
def test_no_string_of_a_capsule_steers_a_command(
    name: str, word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    honest, forged = tmp_path / "honest.zip", tmp_path / "forged.zip"
    honest.write_bytes(sample())
    for files in forge(name, word):
        pack(files, forged)
        status = cli.main(["show", str(forged)])
        shown = capsys.readouterr()
        assert_tame(shown.out + shown.err)
        assert status in (0, 4), shown.err
        if status:
            continue
        for command in (
            ["check", str(forged)],
            ["diff", str(forged), str(forged), "--full"],
            ["diff", str(honest), str(forged)],
            ["diff", str(honest), str(forged), str(honest)],
            ["lint", str(forged)],
        ):
            assert cli.main(command) in (0, 1, 2, 3, 4), command
            shown = capsys.readouterr()
            assert_tame(shown.out + shown.err)
        for command in (["show", str(forged)], ["diff", str(honest), str(forged)]):
            cli.main([*command, "--json"])
            document = capsys.readouterr().out
            assert document.isascii()
            json.loads(document)


def test_json_loses_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "data/records/hardware.json"
    hardware = json.loads(sample_files()[name])
    model = CONTROLS + TURNS + ENDLESS
    hardware["nodes"][0]["class"]["cpu"]["model"] = model
    files = rehash(mend({**sample_files(), name: json.dumps(hardware).encode()}))
    assert cli.main(["show", str(pack(files, tmp_path / "a.zip")), "--json"]) == 0
    shown = capsys.readouterr().out
    assert shown.isascii()
    assert json.loads(shown)["nodes"][0]["class"]["cpu"]["model"] == model


class Terminal(StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [StringIO, Terminal])
@pytest.mark.parametrize("word", [CONTROLS, TURNS, "[bold red]:bug:[/]"])
def test_no_string_of_a_run_steers_the_one_who_watches(
    stream: type[StringIO], word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    err = stream()
    console = Console(out=StringIO(), err=err)
    watch = console.watch(lambda folder: f"{word} {folder}")
    watch.stranger(word, [word])
    watch.begin(tmp_path, 2, 0)
    watch.trial(word)
    watch.attempt(make_attempt(17, failed=True, trial=word, message=word))
    watch.control([word])
    watch.end()
    console.say(word)
    console.fail(word)
    shown = err.getvalue()
    assert plain.clean(word) in shown
    # the bar itself is drawn by escape sequences; none of a stranger's is among them
    assert not {CONTROLS[:3], "\x9b", "\0", "\u202e", "\u2028"} & set(shown.split("owned")[0])
    assert CONTROLS[:4] not in shown
    assert not set("\x07\x9b\0\u202e\u2066\u2028") & set(shown)


def test_a_text_for_people_is_tame_whoever_made_it(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.text import Text

    console = Console()
    console.data(CONTROLS + ENDLESS)
    console.show(Text(CONTROLS), Text.from_ansi("\x1b[31mred"), CONTROLS, f"[link={TURNS}]x[/link]")
    shown = capsys.readouterr()
    assert_tame(shown.out)
    assert "[link=" in shown.out


STREAMS = {"stdout", "stderr", "__stdout__", "__stderr__"}
WRITERS = {"print", "print_exc", "print_exception", "print_stack", "pprint", "warn", "input"}


def test_nothing_but_the_console_writes_to_a_stream() -> None:
    """Programs that run inside images, `levels` and the guard of keys, print to a log."""
    inside = {PACKAGE / "runtimes" / "keyguard.py", *(PACKAGE / "levels").rglob("*.py")}
    writers = set()
    for path in set(PACKAGE.rglob("*.py")) - inside:
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Attribute(value=ast.Name(id="sys"), attr=name) if name in STREAMS:
                    writers.add(path.name)
                case ast.ImportFrom(module="sys", names=names):
                    writers |= {path.name for one in names if one.name in STREAMS}
                case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                    writers |= {path.name for writer in WRITERS if writer == name}
    assert writers == {"console.py", "displays.py"}
