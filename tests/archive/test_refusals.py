"""What no reader takes on is refused in little memory and time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from capsule.archive.container import Entry, directory, local_header
from capsule.manifest import syntax
from tests.support.capsules import pack, rehash, sample_files
from tests.support.command import User

_MIB, _SECONDS = 256, 5.0
_RECORD, _PLAN = "data/capsule.json", "data/records/plan.json"
_ATTEMPTS, _SAMPLES = "data/results/attempts.jsonl", "data/results/samples.jsonl"
_MANY = 9_999_999

# waits for a command, and prints its status, its memory in KiB and its seconds of CPU
_MEASURE = """
import os, sys
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(child, 0)
print(os.waitstatus_to_exitcode(status), usage.ru_maxrss, usage.ru_utime + usage.ru_stime)
"""


def require_cheap(
    status: int, argv: Sequence[str | Path], source: bytes = b"", user: User | None = None
) -> None:
    """Run a command, which ends so and takes little."""
    ended = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _MEASURE, *argv],
        input=source,
        cwd=user.folder if user else None,
        env=user.environment() if user else None,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    seen, kib, seconds = ended.stdout.split()[-3:]
    assert int(seen) == status
    assert int(kib) < _MIB << 10
    assert float(seconds) < _SECONDS


def refuse(user: User, status: int, *words: str | Path) -> None:
    require_cheap(status, user.argv(*words), user=user)


def as_document(value: bytes) -> bytes:
    return b'{\n  "a": ' + value + b"\n}\n"


def as_field(value: bytes, data: bytes) -> bytes:
    place = data.index(b"{") + 1
    return data[:place] + b'"aaa":' + value + b"," + data[place:]


def as_values(value: bytes, data: bytes) -> bytes:
    start = data.index(b'"values":[') + 9
    return data[:start] + value + data[data.index(b"]", start) + 1 :]


VALUES: dict[str, Callable[[], bytes]] = {
    "string": lambda: b'"' + b"a" * 100_000_000 + b'"',
    "escapes": lambda: b'"' + b"\\u0041" * 16_000_000 + b'"',
    "zeros": lambda: b"[" + b"0," * _MANY + b"0]",
    "zeros a line each": lambda: b"[" + b"\n0," * _MANY + b"0]",
    "numbers": lambda: b"[" + b"0.5," * _MANY + b"0.5]",
    "blanks": lambda: b" " * 100_000_000 + b"0",
    "lines": lambda: b"\n" * 100_000_000 + b"0",
    "texts": lambda: b"[" + b'"",' * _MANY + b'""]',
    "objects": lambda: b"[" + b"{}," * (_MANY // 2) + b"{}]",
}


@pytest.mark.long
@pytest.mark.parametrize("name", [_RECORD, _PLAN, _ATTEMPTS])
@pytest.mark.parametrize("kind", VALUES)
def test_a_document_of_millions(stranger: User, name: str, kind: str) -> None:
    files = sample_files()
    changed = as_field(VALUES[kind](), files[name])
    capsule = pack(rehash({**files, name: changed}), stranger.folder / "a.zip")
    refuse(stranger, 4, "check", capsule)


@pytest.mark.parametrize(("name", "kind"), [(_RECORD, "string"), (_PLAN, "zeros a line each")])
def test_one_string_or_list_in_a_document(stranger: User, name: str, kind: str) -> None:
    capsule = pack(
        rehash({**sample_files(), name: as_document(VALUES[kind]())}), stranger.folder / "a.zip"
    )
    refuse(stranger, 4, "check", capsule)


@pytest.mark.parametrize("kind", ["zeros", "numbers"])
def test_a_line_of_ten_million_values(stranger: User, kind: str) -> None:
    files = sample_files()
    changed = as_values(VALUES[kind](), files[_SAMPLES])
    capsule = pack(rehash({**files, _SAMPLES: changed}), stranger.folder / "a.zip")
    refuse(stranger, 4, "check", capsule)


def test_a_zip_directory_of_37_mb(stranger: User) -> None:
    entries: list[Entry] = []
    offset = 0
    path = stranger.folder / "a.zip"
    with path.open("wb") as stream:
        for number in range(160_000):
            name = f"data/logs/{number:06}".ljust(186, "x")
            entries.append(Entry(name=name, size_bytes=0, crc=0, offset=offset))
            stream.write(local_header(entries[-1]))
            offset = entries[-1].end
        stream.write(directory(entries))
    refuse(stranger, 4, "check", path)


@pytest.mark.long
def test_many_files_that_no_crate_describes(stranger: User) -> None:
    """The right crate of so many would take longer to make than it takes to see that."""
    more = {f"data/logs/{number:06}-{'x' * 80}": b"" for number in range(60_000)}
    capsule = pack(rehash({**sample_files(), **more}), stranger.folder / "a.zip")
    refuse(stranger, 4, "check", capsule)


SOURCES = {
    "f-string": b'x = f"' + b"{a}" * 200_000 + b'"\n',
    "f-string of several lines": b"x = f'''" + b"{a}\n" * 150_000 + b"'''\n",
    "raw": b"x = fR'" + b"{a}" * 10_000 + b"'\n",
    "with quotes": b"y = 'f\"'\nx = f\"" + b'{a}\\"' * 30_000 + b'"\n',
    "names": b"a\n" * 300_000,
    "short f-strings": b"x = (" + b"f'{a}'" * 30_000 + b")\n",
    "statements": b"a;" * 90_000 + b"\n",
    "nested": b"x = " + b"[" * 90_000,
    "signs": b"x = " + b"-" * 180_000 + b"1\n",
    "sum": b"x = 1" + b"+1" * 90_000 + b"\n",
}


@pytest.mark.parametrize("kind", ["f-string", "names"])
def test_a_python_file_of_600_kb(author: User, kind: str) -> None:
    (author.folder / "own.py").write_bytes(SOURCES[kind])
    (author.folder / "tiny.json").write_text(
        '{"name": "tiny", "title": "t", "authors": [{"name": "A"}], "license": "CC0-1.0",'
        ' "seeds": [1], "benchmarks": [{"id": "own", "level": 0, "operator": {"file": "own.py"},'
        ' "inputs": ["own.py"], "cases": {"n": [1]}, "frameworks": ["numpy"]}]}'
    )
    refuse(author, 2, "lint", "tiny.json")


_PARSE = """
import sys
from capsule.manifest import syntax
try:
    syntax.definitions(sys.stdin.buffer.read(), ())
except ValueError as error:
    print(error)
"""


@pytest.mark.parametrize("kind", SOURCES)
def test_no_python_file_takes_long_to_read(kind: str) -> None:
    require_cheap(0, [sys.executable, "-c", _PARSE], SOURCES[kind])


def test_what_people_write_is_read() -> None:
    data = b"'''A network.'''\nname = 'f'\n" + b"\n".join(
        b'def f%d(x):\n    return f"%d {x} and {x!r:>10}" f\'{x}\' + rf"\\d{x}"\n' % (n, n)
        for n in range(1000)
    )
    assert len(syntax.definitions(data, ("name",)).lines) == 1001
    assert syntax.definitions(data, ("name",)).values == {"name": "f"}
