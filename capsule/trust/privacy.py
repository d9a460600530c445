"""Private text in a capsule: paths are replaced, everything else is reported before sealing.

`$HOME` and `$RUN` replace the user's home and the run folder in all output. Names of the user and
the host, and likely keys, are reported with file and line: a sealed capsule cannot be redacted.
"""

from __future__ import annotations

import os
import pwd
import re
import socket
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from io import FileIO
from itertools import islice
from pathlib import Path

from capsule import notes
from capsule.errors import ExecutionError
from capsule.execute.inputs import find_keys
from capsule.jsons import Json, JsonObject
from capsule.localpaths import CHUNK_BYTES, LocalPaths, blocks
from capsule.record import Attempt, File, Record

_TEXT_BYTES = 8192
_MOST = 1000
_SHOWN = 8
# of no one in particular: they stand in any text
_COMMON = {
    *("root", "user", "users", "admin", "ubuntu", "debian", "runner", "nobody", "test", "guest"),
    *("jovyan", "localhost", "node", "host"),
}
# what it is, a part that it always has, and its form: none is looked for twice from one place on
_KEYS = tuple(
    (what, marker, re.compile(form))
    for what, marker, form in (
        ("a private key", b"PRIVATE KEY", rb"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY"),
        ("an AWS key", b"AKIA", rb"\bAKIA[0-9A-Z]{16}\b"),
        ("an AWS key", b"ASIA", rb"\bASIA[0-9A-Z]{16}\b"),
        *(
            ("a GitHub token", prefix, rb"\b" + prefix + rb"[A-Za-z0-9_]{22,}")
            for prefix in (b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_", b"github_pat_")
        ),
        ("a GitLab token", b"glpat-", rb"(?<![\w-])glpat-[A-Za-z0-9_-]{20,}"),
        ("a Hugging Face token", b"hf_", rb"\bhf_[A-Za-z0-9]{30,}"),
        ("a Slack token", b"xox", rb"(?<![\w-])xox[abeprs]-[A-Za-z0-9-]{10,}"),
        ("an API key", b"sk-", rb"(?<![\w-])sk-[A-Za-z0-9_-]{20,}"),
        ("a Google key", b"AIza", rb"\bAIza[0-9A-Za-z_-]{35}"),
        ("a web token", b"eyJ", rb"(?<![\w-])eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\."),
        ("a bearer token", b"earer ", rb"\b[Bb]earer [A-Za-z0-9._~+/-]{20,}"),
        ("a password in an address", b"://", rb"://[^\s/:@]{1,64}:[^\s/:@]{1,128}@"),
    )
)
_Matcher = tuple[str, bytes, "re.Pattern[bytes]"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A place with possibly private text, without the text.

    Attributes:
        where: File and line, or trial.
        what: Kind of text.
    """

    where: str
    what: str

    def __str__(self) -> str:
        """Return the finding for a screen."""
        return f"{self.where}: {self.what}"


class Privacy:
    """Private names and paths of this machine, to find and replace while a run is sealed.

    Args:
        run: Run folder, None before there is one.
        keep_hosts: Whether host names may be recorded in clear.
    """

    def __init__(self, run: Path | None = None, *, keep_hosts: bool = False) -> None:
        self._paths = LocalPaths(run)
        self._names: list[_Matcher] = list(_name_matchers(keep_hosts=keep_hosts))

    def clean_record(self, record: Record) -> Record:
        """Return the record with private paths replaced in the text of programs."""
        return replace(
            record,
            attempts=tuple(map(self._clean_attempt, record.attempts)),
            notes=tuple(notes.change_texts(note, self._paths.clean_text) for note in record.notes),
            software=_change_strings(record.software, self._paths.clean_text),
            environment=_change_strings(record.environment, self._paths.clean_text),
            image_observations={
                name: self._paths.clean_text(text)
                for name, text in record.image_observations.items()
            },
        )

    def scan_record(self, record: Record) -> list[Finding]:
        """Return what is left in a clean record; its manifest may have names, but no keys."""
        findings = _lines(record.manifest.source, "manifest.json", _KEYS)
        everything = (*_KEYS, *self._names)
        for attempt in record.attempts:
            if attempt.message:
                findings += _lines(
                    _encode(attempt.message), f"message of {attempt.trial}", everything
                )
        for name in ("software", "environment", "image_observations"):
            text = " ".join(_strings(getattr(record, name)))
            findings += _lines(_encode(text), name, everything)
        return [replace(one, where=one.where.removesuffix(":1")) for one in findings[:_MOST]]

    def clean_files(self, files: Sequence[File], folder: Path) -> tuple[list[File], list[Finding]]:
        """Return logs with private paths replaced, and what is left in them.

        Args:
            files: The logs; each is read once, and stays as it is.
            folder: Where those that change are written; it is made when missing.

        Raises:
            ExecutionError: One is no file, or cannot be read or written.
        """
        clean: list[File] = []
        findings: list[Finding] = []
        for file in files:
            path = file.source if file.binary else self._clean_file(file, folder, findings)
            clean.append(replace(file, source=path))
        return clean, findings[:_MOST]

    def scan_inputs(self, inputs: Mapping[str, Path]) -> list[Finding]:
        """Return the findings in the text files of a run's inputs, by their path below `data/`.

        Raises:
            ExecutionError: One cannot be read.
        """
        findings: list[Finding] = []
        for name, path in inputs.items():
            if find_keys([name]):
                findings.append(
                    Finding(where=name, what="a file name typical of keys or passwords")
                )
            with _open(path) as stream:
                head = stream.read(_TEXT_BYTES)
                if b"\0" in head:
                    continue
                stream.seek(0)
                for line, block in blocks(stream):
                    matchers = (*_KEYS, *self._names)
                    findings += _lines(block, name, matchers, first_line=line)
        return findings[:_MOST]

    def _clean_attempt(self, attempt: Attempt) -> Attempt:
        message = self._paths.clean_text(attempt.message)
        return attempt if message == attempt.message else replace(attempt, message=message)

    def _clean_file(self, file: File, folder: Path, findings: list[Finding]) -> Path:
        source: Path = file.source
        target = folder / file.path
        done_bytes = 0
        with ExitStack() as stack:
            stream = stack.enter_context(_open(source))
            copy: FileIO | None = None
            for line, block in blocks(stream):
                clean = self._paths.clean_bytes(block)
                if len(findings) < _MOST:
                    matchers = (*_KEYS, *self._names)
                    findings += _lines(clean, file.path, matchers, first_line=line)
                if copy is None and clean != block:
                    copy = stack.enter_context(_begin_copy(source, target, done_bytes))
                if copy is not None:
                    _write(copy, clean)
                done_bytes += len(block)
        return source if copy is None else target


def summary(findings: Sequence[Finding]) -> str:
    """The first of them, in one line."""
    more = f"; and {len(findings) - _SHOWN} more" if len(findings) > _SHOWN else ""
    return "; ".join(map(str, findings[:_SHOWN])) + more


def _name_matchers(*, keep_hosts: bool) -> Iterator[_Matcher]:
    names = {}
    with suppress(KeyError):
        names[pwd.getpwuid(os.getuid()).pw_name] = "this user's name"
    if not keep_hosts:
        host = socket.gethostname()
        names |= dict.fromkeys((host, host.split(".")[0]), "this machine's host name")
    for name, what in names.items():
        if len(name) > 2 and name not in _COMMON:
            word = os.fsencode(name)
            form = rb"(?<![A-Za-z0-9])" + re.escape(word) + rb"(?![A-Za-z0-9])"
            yield what, word, re.compile(form)


def _lines(
    block: bytes, name: str, matchers: Sequence[_Matcher], *, first_line: int = 1
) -> list[Finding]:
    """Return the matches in a block, each kind once a line."""
    places = set()
    for what, marker, pattern in matchers:
        # most text has none of them, and to look for a part costs a tenth of looking for the form
        if marker not in block:
            continue
        line, here = first_line, 0
        for match in islice(pattern.finditer(block), _MOST):
            line += block.count(b"\n", here, match.start())
            here = match.start()
            places.add((line, what))
    return [Finding(where=f"{name}:{line}", what=what) for line, what in sorted(places)]


def _open(path: Path) -> FileIO:
    """A file to read, which is one: not a link, and nothing that would be waited for.

    Raises:
        ExecutionError: It is something else, or cannot be read.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise ExecutionError(
            f"cannot be read for sealing: {error.strerror}",
            where=str(path),
            advice="make the file readable, and try again",
        ) from None
    stream = FileIO(handle)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        stream.close()
        raise ExecutionError(
            "cannot be sealed: expected a regular file, found a folder or a special file",
            where=str(path),
            advice="put a regular file at this path, and try again",
        )
    return stream


def _begin_copy(source: Path, target: Path, size_bytes: int) -> FileIO:
    """A new file that has the first bytes of another one.

    Raises:
        ExecutionError: It cannot be written.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        copy = FileIO(target, "w")
    except OSError as error:
        raise _unwritable(error, target) from None
    with _open(source) as stream:
        while size_bytes > 0 and (chunk := stream.read(min(size_bytes, CHUNK_BYTES))):
            _write(copy, chunk)
            size_bytes -= len(chunk)
    return copy


def _write(copy: FileIO, data: bytes) -> None:
    view = memoryview(data)
    try:
        while view:
            view = view[copy.write(view) :]
    except OSError as error:
        raise _unwritable(error, Path(os.fsdecode(copy.name))) from None


def _unwritable(error: OSError, path: Path) -> ExecutionError:
    return ExecutionError(
        f"cannot be written: {error.strerror}",
        where=str(path),
        advice="free some space, then resume with --resume; finished trials are kept",
    )


def _encode(text: str) -> bytes:
    return text.encode(errors="replace")


def _change_strings(value: JsonObject, change: Callable[[str], str]) -> dict[str, Json]:
    """The same object with each string in it changed; names of fields stay."""

    def change_value(one: Json) -> Json:
        match one:
            case str():
                return change(one)
            case Mapping():
                return _change_strings(one, change)
            case Sequence():
                return [change_value(item) for item in one]
            case _:
                return one

    return {name: change_value(one) for name, one in value.items()}


def _strings(value: JsonObject) -> list[str]:
    texts: list[str] = []

    def keep(text: str) -> str:
        texts.append(text)
        return text

    _change_strings(value, keep)
    return texts
