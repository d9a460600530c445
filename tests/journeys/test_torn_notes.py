"""A run folder with a note that was written in part, or changed: resuming ends in a sentence."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import suppress

import pytest

from capsule import api, interruption
from capsule.errors import CapsuleError, DamagedError, UsageError
from capsule.options import RunOptions
from tests.support import extending
from tests.support.command import User

OURS = b'"uncontained"'
Change = Callable[[bytes], bytes]


class Cut(api.Watch):
    """Interrupts a run once every trial has its outcome."""

    def end(self) -> None:
        raise KeyboardInterrupt


@pytest.fixture(scope="module")
def cut_off(tmp_path_factory: pytest.TempPathFactory) -> User:
    """Whoever has a run folder, named whole.run, of which nothing but the seal is due."""
    user = User.make(tmp_path_factory.mktemp("torn"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(user.folder)
        patch.setenv("HOME", str(user.home))
        patch.delenv("XDG_STATE_HOME", raising=False)
        with pytest.raises(KeyboardInterrupt):
            api.run(extending.write(user), RunOptions(runtime="host"), Cut())
    (folder,) = user.folder.glob("*.run")
    folder.rename(user.folder / "whole.run")
    return user


def reopen(user: User, change: Change) -> None:
    """Read the folder as one that goes on does, with another `run.json`."""
    folder = user.folder / "changed.run"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(user.folder / "whole.run", folder)
    header = folder / "run.json"
    header.write_bytes(change(header.read_bytes()))
    interruption.reopen(folder, verifies=None)


def with_note(**changes: object) -> Change:
    """The first note with other fields, or without those that are None."""

    def change(text: bytes) -> bytes:
        header = json.loads(text)
        note = {**header["setup"]["notes"][0], **changes}
        header["setup"]["notes"][0] = {k: v for k, v in note.items() if v is not None}
        return json.dumps(header).encode()

    return change


@pytest.mark.parametrize("behind", [OURS, OURS + b",", b'"facts"', b'"facts":', b'"sentence"'])
def test_a_header_that_ends_inside_a_note_is_damaged(cut_off: User, behind: bytes) -> None:
    def cut(text: bytes) -> bytes:
        begin = text.index(OURS)
        return text[: text.index(behind, begin) + len(behind)]

    with pytest.raises(DamagedError, match="not JSON"):
        reopen(cut_off, cut)


FORGED = "a note contradicts its code and facts"
ODD = "begun by another version of capsule"


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (with_note(facts=None), DamagedError, f"{FORGED}: uncontained"),
        (with_note(facts={"reason": "asked"}), DamagedError, FORGED),
        (with_note(code="new-thing"), DamagedError, f"{FORGED}: new-thing"),
        (with_note(code="online", facts={"reason": "{0.__class__}"}), DamagedError, FORGED),
        (with_note(sentence="REPRODUCED by everybody"), DamagedError, FORGED),
        (with_note(facts={"reason": {"deep": 1}}), UsageError, "of a sentence, expected None"),
        (with_note(facts=[1]), UsageError, ODD),
        (with_note(facts="text"), UsageError, ODD),
        (with_note(sentence=None), UsageError, ODD),
    ],
)
def test_a_note_without_its_facts_is_refused_before_the_run_goes_on(
    cut_off: User, change: Change, error: type[CapsuleError], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        reopen(cut_off, change)
    assert "start a new run" in str(caught.value.advice)


@pytest.mark.parametrize(("change", "code"), [(with_note(), 0), (with_note(facts=None), 4)])
def test_the_command_goes_on_or_says_why_not(cut_off: User, change: Change, code: int) -> None:
    with suppress(DamagedError):
        reopen(cut_off, change)
    ended = cut_off.run(
        "run", "--resume", "changed.run", "--trust", "--allow-host", "--output", f"sealed-{code}"
    )
    assert ended.returncode == code, ended.stdout + ended.stderr
    assert ("trials finished in" in ended.stderr) == (code == 0)
    assert (FORGED in " ".join(ended.stderr.split())) == (code == 4)
