"""Input files of a run, and the entries of input folders that are left out."""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from capsule import archive, leavings
from capsule.errors import DamagedError, UsageError
from capsule.execute import checkout, ignores
from capsule.execute.checkout import Checkout
from capsule.execute.ignores import Pattern
from capsule.manifest import Command, Manifest, commands
from capsule.record import Source
from capsule.sizes import size

_GIT, _CACHE = ".git", "__pycache__"
_IGNORED = "that git ignores"
_EXCLUDED = "excluded by the manifest"
_MOST_IGNORE_BYTES = 1 << 20
_WHOLE = "."
_CAPSULE_MARKS = ("bagit.txt", "data/capsule.json")
_RUN_MARKS = ("run.json", "attempts.jsonl")
_ENVIRONMENT_MARKS = ("pyvenv.cfg", "conda-meta")
# as the first file of a capsule's archive is named in its first bytes
_ARCHIVE = re.compile(rb"PK\x03\x04.{26}bag-info\.txtBag-Software-Agent: capsule", re.DOTALL)
_HEAD_BYTES = 128
_KEYS = re.compile(
    r"""(?x)(?:^|/)(?:
    id_(?:rsa|dsa|ecdsa|ecdsa_sk|ed25519|ed25519_sk|xmss)
    | [^/]+\.(?:pem|key|p12|pfx|jks|keystore|kdbx|ppk|p8|ovpn|gpg|token|secret)
    | \.env(?:\.[^/]+)? | [^/]*\.env
    | [._]netrc | \.pgpass | \.my\.cnf | \.npmrc | \.pypirc | \.git-credentials | \.htpasswd
    | \.?(?:token|secret|secrets|credential|credentials|password|passwords|api_?key)
      (?:\.(?:txt|json|ya?ml|toml|ini|csv|cfg|conf))?
    | client_secret[^/]*\.json | service[-_]account[^/]*\.json | kaggle\.json | kubeconfig
    | application_default_credentials\.json
    | \.(?:ssh|aws|gnupg|azure|kube)/.+ | \.docker/config\.json | \.huggingface/token
    )$"""
)
_MOST_SOURCES = 100
_SHOWN = 3
_KINDS = {
    stat.S_IFIFO: "a named pipe (FIFO)",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """Input files of a run.

    Attributes:
        files: Every input file: its path below `inputs/`, and where it lies now.
        left_out: What stays out of the folders that are named, and why, in one sentence; None
            where nothing does.
        sources: The git checkouts that they are of.
    """

    files: Mapping[str, Path]
    left_out: str | None = None
    sources: tuple[Source, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Rules:
    """The patterns of one file, and how many parts of an absolute path come before its own."""

    depth: int
    patterns: tuple[Pattern, ...]


@dataclass(frozen=True, kw_only=True)
class _Folder:
    """A folder whose entries are looked at.

    Attributes:
        name: Below the manifest's folder.
        parts: Parts of its absolute path.
        checkout: What it is of.
        rules: Rules of git; a later rule overrides an earlier one.
        ignored: Git ignores it, but for files in it that it keeps all the same.
        is_whole: True if it is the manifest's own, or lies in it, where that is the input.
    """

    name: str
    parts: tuple[str, ...]
    checkout: Checkout | None
    rules: tuple[_Rules, ...]
    ignored: bool = False
    is_whole: bool = False


def find_keys(files: Iterable[str]) -> list[str]:
    """Return the files whose names are typical of keys and passwords.

    >>> find_keys(["train.py", "deploy/id_rsa", "id_rsa.pub", ".env", "keys/server.pem"])
    ['deploy/id_rsa', '.env', 'keys/server.pem']
    """
    return [name for name in files if _KEYS.search(name.lower())]


def names(manifest: Manifest) -> set[str]:
    """Return the inputs that a manifest names."""
    return {name for benchmark in manifest.benchmarks for name in benchmark.inputs}


def collect(manifest: Manifest, folder: Path | None) -> Inputs:
    """Return the inputs as their author has them: of folders, what git keeps and nobody excludes.

    What is named itself is never left out. No link is followed, not even one that stays inside: a
    capsule has files alone, and what a link of somebody else's folder leads to would be sealed and
    published in its place, unseen.

    Args:
        manifest: It names them.
        folder: What its paths are relative to.

    Raises:
        DamagedError: One is not there.
        UsageError: One has a name that a capsule cannot hold, or is no plain file of its own.
    """
    data = frozenset(one.path for one in manifest.datasets if one.path is not None)
    walk = _Walk(_require(manifest, folder), data=data)
    for name, patterns in _entries(manifest):
        walk.add(name, patterns)
    archive.check_names(f"data/inputs/{name}" for name in walk.files)
    for subject in (benchmark.subject for benchmark in manifest.benchmarks):
        stdin = subject.stdin if isinstance(subject, Command) else None
        if stdin is not None and stdin not in walk.files:
            raise UsageError(
                'is the "stdin" of a command, but is left out of the inputs',
                where=stdin,
                advice='list the file itself in "inputs"',
            )
    return Inputs(
        files=dict(sorted(walk.files.items())),
        left_out=_describe(walk.left_out),
        sources=tuple(walk.sources()),
    )


def copies(manifest: Manifest, folder: Path | None) -> dict[str, Path]:
    """Return every input file below a folder that a capsule or a run laid out: nothing is left out
    there.

    Raises:
        DamagedError: One is not there.
        UsageError: As for `collect`.
    """
    walk = _Walk(_require(manifest, folder), whole=True)
    for name in sorted(names(manifest)):
        walk.add(name, ())
    archive.check_names(f"data/inputs/{name}" for name in walk.files)
    return dict(sorted(walk.files.items()))


def _entries(manifest: Manifest) -> list[tuple[str, tuple[str, ...]]]:
    """Return each input with what is excluded from it, once for each way."""
    return sorted({(name, one.exclude) for one in manifest.benchmarks for name in one.inputs})


def _require(manifest: Manifest, folder: Path | None) -> Path:
    for name in sorted(names(manifest)):
        if folder is None or not os.path.lexists(folder / name):
            raise DamagedError(
                f"input {name} is missing",
                where=str(folder),
                advice="the folder was changed; restore the folder, or start a new run",
            )
    return folder or Path()


class _Walk:
    """Walk through the named inputs.

    Args:
        base: What the names are relative to.
        whole: Nothing is left out.
        data: Paths of datasets, which are no inputs because their folder is one.
    """

    def __init__(
        self, base: Path, *, whole: bool = False, data: frozenset[str] = frozenset()
    ) -> None:
        self._data = data
        self.files: dict[str, Path] = {}
        self.left_out: dict[str, str] = {}
        self._base = base
        self._top = base.resolve()
        self._whole = whole
        self._checkouts: dict[Path, Checkout] = {}
        self._inputs: dict[Path, list[str]] = {}

    def _find_own(self, folder: str, entry: os.DirEntry[str]) -> str | None:
        """Name the kind of an entry that capsule or a Python environment made."""
        path = self._base / folder / entry.name
        if (entry.name if folder == _WHOLE else f"{folder}/{entry.name}") in self._data:
            return "datasets"
        if entry.name.startswith(".") and entry.name.endswith(
            (".capsule-partial", ".capsule-done")
        ):
            return "of a run"
        if entry.is_dir(follow_symlinks=False):
            for what, marks in (
                ("capsules", _CAPSULE_MARKS),
                ("run folders", _RUN_MARKS),
            ):
                if all((path / mark).is_file() for mark in marks):
                    return what
            if any((path / mark).exists() for mark in _ENVIRONMENT_MARKS):
                return "virtual environments"
        elif entry.name.lower().endswith(".zip") and (stream := leavings.open_file(path)):
            with stream:
                return "capsules" if _ARCHIVE.match(stream.read(_HEAD_BYTES)) else None
        return None

    def add(self, name: str, exclude: Sequence[str]) -> None:
        """Take the files of one input, which has no link on its way.

        Args:
            name: Below the manifest's folder.
            exclude: Patterns of what stays out.
        """
        for parent in reversed(Path(name).parents[:-1]):
            self._check(parent.as_posix())
        path = self._top / name
        is_folder = stat.S_ISDIR(self._check(name).st_mode)
        known = None if self._whole else self._find(path if is_folder else path.parent)
        self._note(known, name)
        if not is_folder:
            self.files[name] = self._base / name
            return
        excluded = _Rules(depth=len(self._top.parts), patterns=ignores.read("\n".join(exclude)))
        rules = tuple(self._rules_above(path, known)) if known else ()
        folders = [
            _Folder(
                name=name,
                parts=path.parts,
                checkout=known,
                rules=rules,
                is_whole=name == _WHOLE and not self._whole,
            )
        ]
        while folders:
            folders += self._enter(folders.pop(), excluded)
        if not any(commands.is_below(file, [name]) for file in self.files):
            raise self._hollow_refusal(name)

    def sources(self) -> Iterator[Source]:
        """Return the git checkouts that contain inputs."""
        carried = self._all_names()
        for root in sorted(self._inputs)[:_MOST_SOURCES]:
            known, inputs = self._checkouts[root], carried.intersection(self._inputs[root])
            if not inputs or known.commit is None:
                continue
            paths = {name: os.path.relpath(self._top / name, root) for name in sorted(inputs)}
            # what nobody added to it is not of its commit
            paths = {name: path for name, path in paths.items() if known.keeps(path)}
            if paths:
                modified = known.is_modified(list(paths.values()))
                yield Source(inputs=tuple(paths), commit=known.commit, modified=modified)

    def _find(self, folder: Path) -> Checkout | None:
        known = checkout.find(folder, within=self._top)
        return self._checkouts.setdefault(known.root, known) if known else None

    def _note(self, known: Checkout | None, name: str) -> None:
        inputs = self._inputs.setdefault(known.root, []) if known else [name]
        if name not in inputs:
            inputs.append(name)

    def _rules_above(self, path: Path, known: Checkout) -> Iterator[_Rules]:
        """Yield ignore rules from the repository's root down to the input's parent folder."""
        yield from self._read_rules(known.own_patterns, known.root)
        for folder in reversed(path.parents):
            if folder.is_relative_to(known.root):
                yield from self._read_rules(folder / ".gitignore", folder)

    def _read_rules(self, path: Path, folder: Path) -> Iterator[_Rules]:
        stream = leavings.open_file(path)
        if stream is None:
            return
        with stream:
            data = stream.read(_MOST_IGNORE_BYTES + 1)
        try:
            if len(data) > _MOST_IGNORE_BYTES:
                raise ValueError(f"exceeds {size(_MOST_IGNORE_BYTES)}")
            yield _Rules(depth=len(folder.parts), patterns=ignores.read(os.fsdecode(data)))
        except ValueError as error:
            raise UsageError(
                f"the list of ignored files {error}",
                where=str(path),
                advice="shorten the list, or copy the inputs to a folder without this file",
            ) from None

    def _enter(self, folder: _Folder, excluded: _Rules) -> Iterator[_Folder]:
        """Take the files of a folder; the folders in it come back."""
        try:
            with os.scandir(self._base / folder.name) as listing:
                entries = list(listing)
        except OSError as error:
            what = f"cannot be read: {error.strerror}"
            raise _refusal(folder.name, what, "make the folder readable") from None
        folder = self._look_up(folder, {entry.name for entry in entries})
        for entry in entries:
            name = entry.name if folder.name == _WHOLE else f"{folder.name}/{entry.name}"
            parts = (*folder.parts, entry.name)
            is_folder = entry.is_dir(follow_symlinks=False)
            why, ignored = self._reason(folder, entry.name, parts, excluded, is_folder=is_folder)
            why = why or (self._find_own(folder.name, entry) if folder.is_whole else None)
            if why:
                self.left_out[name] = why
            elif is_folder:
                yield _Folder(
                    name=name,
                    parts=parts,
                    checkout=folder.checkout,
                    rules=folder.rules,
                    ignored=ignored,
                    is_whole=folder.is_whole,
                )
            else:
                self._check(name, entry.stat(follow_symlinks=False))
                self.files[name] = self._base / name

    def _look_up(self, folder: _Folder, entries: set[str]) -> _Folder:
        """Return the same with its own ignore file, and of its own checkout where it is one's
        root.
        """
        if self._whole:
            return folder
        known, rules, path = folder.checkout, folder.rules, Path(*folder.parts)
        if _GIT in entries and (known is None or known.root != path):
            known = self._checkouts.setdefault(path, Checkout(path))
            self._note(known, folder.name)
            rules = tuple(self._read_rules(known.own_patterns, path))
        if known is not None and ".gitignore" in entries:
            rules = (*rules, *self._read_rules(path / ".gitignore", path))
        return _Folder(
            name=folder.name,
            parts=folder.parts,
            checkout=known,
            rules=rules,
            ignored=folder.ignored and known is folder.checkout,
            is_whole=folder.is_whole,
        )

    def _reason(
        self,
        folder: _Folder,
        entry: str,
        parts: tuple[str, ...],
        excluded: _Rules,
        *,
        is_folder: bool,
    ) -> tuple[str | None, bool]:
        """Return why an entry is left out, None where it is not; whether git ignores it all the
        same.
        """
        if self._whole:
            return None, False
        if entry.startswith(_GIT):
            return "of git's own", False
        if entry == _CACHE and is_folder:
            return _CACHE, False
        own = parts[excluded.depth :]
        if ignores.decide(excluded.patterns, own, is_folder=is_folder):
            return _EXCLUDED, False
        ignored = folder.ignored or _is_ignored(folder.rules, parts, is_folder=is_folder)
        if not ignored or folder.checkout is None:
            return None, False
        known = folder.checkout
        path = "/".join(parts[len(known.root.parts) :])
        kept = known.index_folders if is_folder else known.index_files or ()
        return (None, True) if path in kept else (_IGNORED, True)

    def _check(self, name: str, status: os.stat_result | None = None) -> os.stat_result:
        """Return the state of a folder, or of a file that only this name leads to.

        Raises:
            UsageError: It is something else.
        """
        try:
            status = status or (self._base / name).lstat()
        except OSError as error:
            what = f"cannot be read: {error.strerror}"
            raise _refusal(name, what, "make the file or folder readable") from None
        kind = stat.S_IFMT(status.st_mode)
        if kind == stat.S_IFLNK:
            raise self._link_refusal(name)
        if kind not in (stat.S_IFDIR, stat.S_IFREG):
            what = f"is {_KINDS.get(kind, 'a special file')}, expected a file or a folder"
            raise _refusal(name, what, "remove this entry from the inputs, or `exclude` this entry")
        if kind == stat.S_IFREG and status.st_nlink > 1:
            raise _refusal(
                name,
                f"has {status.st_nlink} hard links; some may lie outside the inputs",
                "replace the link by a copy if the file may be published, or `exclude` the link",
            )
        return status

    def _link_refusal(self, name: str) -> UsageError:
        path = self._base / name
        target = f"is a link, to {str(path.readlink())!a}"
        if not path.exists():
            advice = "remove the link, or `exclude` the link"
            return _refusal(name, f"{target}, which does not exist", advice)
        if not path.resolve().is_relative_to(self._base.resolve()):
            where = "which lies outside the manifest's folder"
            advice = (
                "replace the link by a copy if the target may be published, or `exclude` the link"
            )
        else:
            where = "and capsule does not follow links"
            advice = "replace the link by a copy of its target, or `exclude` the link"
        return _refusal(name, f"{target}, {where}", advice)

    def _all_names(self) -> set[str]:
        """Return the names of all files, and of the folders that they lie in."""
        carried = {_WHOLE, *self.files}
        for name in self.files:
            while (name := name.rpartition("/")[0]) and name not in carried:
                carried.add(name)
        return carried

    def _hollow_refusal(self, name: str) -> UsageError:
        inside = (why for path, why in self.left_out.items() if commands.is_below(path, [name]))
        reasons = ", ".join(sorted(set(inside)))
        if reasons:
            fault = f"is a folder of which all files are left out: {reasons}"
            return _refusal(name, fault, 'list the needed files one by one in "inputs"')
        advice = 'add a file to the folder, or remove the folder from "inputs"'
        return _refusal(name, "is a folder without a file", advice)


def _is_ignored(rules: Sequence[_Rules], parts: tuple[str, ...], *, is_folder: bool) -> bool:
    for one in reversed(rules):
        decision = ignores.decide(one.patterns, parts[one.depth :], is_folder=is_folder)
        if decision is not None:
            return decision
    return False


def _describe(left_out: Mapping[str, str]) -> str | None:
    """Describe the files that are left out, by reason: number and first names."""
    if not left_out:
        return None
    counts = Counter(left_out.values())
    reasons = []
    for why in sorted(counts):
        shown = list(islice((name for name in sorted(left_out) if left_out[name] == why), _SHOWN))
        more = ", ..." if counts[why] > _SHOWN else ""
        reasons.append(f"{counts[why]} {why} ({', '.join(shown)}{more})")
    return f"left out of the inputs: {'; '.join(reasons)}"


def _refusal(name: str, what: str, advice: str) -> UsageError:
    return UsageError(f"the input {name!a} {what}", where="/benchmarks", advice=advice)
