"""Git checkouts: their lists of what is ignored, and the files that tell their commit."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

from capsule.execute import ignores
from capsule.execute.checkout import Checkout
from tests.fuzz import mutate
from tests.fuzz.campaign import Door

_COMMIT = "0123456789abcdef0123456789abcdef01234567"
_FILES = {
    ".gitignore": "*.log\n!keep.log\n/build/\nsub/**/raw\n[a-c]?[!x]\\ \n[[:alpha:]]*\n\\#a\n",
    ".git/HEAD": "ref: refs/heads/main\n",
    ".git/packed-refs": f"# pack-refs with: peeled\n{_COMMIT} refs/heads/main\n^{_COMMIT}\n",
    ".git/commondir": "../.git\n",
}
_PATHS = ("a.log", "sub/keep.log", "build", "sub/1/2/raw", "abc ", "#a", "[", "\udcff", "a" * 200)


def make_checkout(random: Random) -> bytes:
    """The files of a checkout, one of them changed."""
    name = random.choice(list(_FILES))
    changed = mutate.text(_FILES[name].encode(), random).decode("utf-8", "surrogateescape")
    return json.dumps({**_FILES, name: changed}).encode()


def send_checkout(data: bytes, folder: Path) -> None:
    """Read what it ignores, and its commit."""
    files: dict[str, str] = json.loads(data)
    (folder / ".git").mkdir()
    for name, text in files.items():
        (folder / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    commit = Checkout(folder).commit
    assert commit is None or set(commit) <= set("0123456789abcdef")
    try:
        patterns = ignores.read(files[".gitignore"])
    except ValueError:
        return
    for path in _PATHS:
        for is_folder in (True, False):
            decision = ignores.decide(patterns, path.split("/"), is_folder=is_folder)
            assert decision in (None, True, False)


CHECKOUT = Door(name="checkout", make=make_checkout, send=send_checkout)
