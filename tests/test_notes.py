"""Notes of a record are held to their sentences, and those of other versions are shown in ours."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from capsule import __version__, cli, notes, reading, rereading
from capsule.errors import BugError
from capsule.jsons import Json
from capsule.notes import NOTES, Note
from capsule.record import Record
from tests.golden.words import samples
from tests.support.capsules import seal
from tests.support.records import make_record

ONLINE: Mapping[str, Json] = {"code": "online", "facts": {"reason": "asked"}}
OURS = "workloads could reach the network: asked"
UNCHECKED = " (unverified text of the capsule): "


def stated(*values: Mapping[str, Json], tool: str = __version__, **changes: object) -> Record:
    """A record on the host with these notes, as a reader has it, beside the one that is due."""
    due = notes.to_json(notes.no_container())
    read = tuple(notes.from_json({"sentence": OURS, **value}) for value in (due, *values))
    record = make_record(image=False, notes=read, tool=tool)
    return replace(record, **changes)  # type: ignore[arg-type]


def faults(record: Record) -> list[str]:
    return [fault for fault in reading.faults(record) if "note" in fault]


@pytest.mark.parametrize("code", NOTES.codes)
def test_what_is_sealed_is_read_again(code: str) -> None:
    for facts in samples(NOTES.hints(code)):
        sentence = NOTES.say(code, tuple(sorted(facts.items())))
        assert sentence is not None
        written = Note(code=code, facts=tuple(sorted(facts.items())), sentence=sentence)
        document = json.loads(json.dumps(notes.to_json(written)))
        assert notes.from_json(document) == written
        assert not notes.is_forged(written)


FORGED: dict[str, Mapping[str, Json]] = {
    "other words": {**ONLINE, "sentence": OURS + " "},
    "other facts": {**ONLINE, "facts": {"reason": "nobody asked"}},
    "no facts": {"code": "online"},
    "more facts": {**ONLINE, "facts": {"reason": "asked", "until": "noon"}},
    "a fact of another type": {**ONLINE, "facts": {"reason": ["asked"]}},
    "a truth for a number": {
        "code": "oversubscribed",
        "facts": {"threads": 4, "ranks": True, "cpus": 2},
        "sentence": "more threads than CPUs: 4 threads on 2 CPUs",
    },
    "another code": {**ONLINE, "code": "keyring-kept"},
    "a code of comparisons": {**ONLINE, "code": "busy"},
    "a code of lint": {**ONLINE, "code": "seed-unused"},
    "a fact of a megabyte": {
        "code": "online",
        "facts": {"reason": "a" * 10**6},
        "sentence": f"workloads could reach the network: {'a' * 10**6}",
    },
}


@pytest.mark.parametrize("value", FORGED.values(), ids=FORGED)
def test_a_note_that_is_not_its_template_s_is_forged(value: Mapping[str, Json]) -> None:
    assert faults(stated(ONLINE)) == []
    assert faults(stated(value)) == [f"a note contradicts its code and facts: {value['code']}"]


FOREIGN: dict[str, tuple[Mapping[str, Json], str]] = {
    "known": ({**ONLINE, "sentence": "REPRODUCED by everybody"}, OURS),
    "unknown": (
        {"code": "new-thing", "facts": {"n": 1}, "sentence": "a thing"},
        f"new-thing{UNCHECKED}a thing",
    ),
    "more facts": (
        {"code": "online", "facts": {"reason": "asked", "port": 80}, "sentence": "x"},
        f"online{UNCHECKED}x",
    ),
    "other types": (
        {"code": "online", "facts": {"reason": 7}, "sentence": "x"},
        f"online{UNCHECKED}x",
    ),
    "turned round": (
        {"code": "new-thing", "facts": {}, "sentence": "\u202egnp.\u2028"},
        f"new-thing{UNCHECKED}\\u202egnp.\\u2028",
    ),
    "before facts": (
        {"code": "online", "sentence": "x"},
        f"online{UNCHECKED}x",
    ),
}


@pytest.mark.parametrize(("value", "shown"), FOREIGN.values(), ids=FOREIGN)
def test_a_note_of_another_version_is_shown_in_our_words(
    value: Mapping[str, Json], shown: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(seal(tmp_path, stated(value, tool="0.9.0")))
    for words in (["check", path], ["show", path], ["diff", path, path]):
        assert cli.main(words) in (0, 3)
        said = " ".join(capsys.readouterr().out.split())
        assert (shown in said) == (words[0] != "check")
        assert "REPRODUCED by everybody" not in said
    assert cli.main(["show", path, "--json"]) == 0
    assert [note["sentence"] for note in json.loads(capsys.readouterr().out)["notes"]][1:] == [
        shown
    ]


@pytest.mark.parametrize("known", [True, False])
def test_no_note_is_endless(
    known: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, long = "online" if known else "new-thing", "a" * 10**6
    value: Mapping[str, Json] = {"code": code, "facts": {"reason": long}, "sentence": long}
    path = str(seal(tmp_path, stated(value, tool="0.9.0")))
    assert cli.main(["show", path]) == 0
    shown = "".join(capsys.readouterr().out.split())
    assert "aaa..." in shown
    assert "a" * 301 not in shown


@pytest.mark.parametrize("where", ["sentence", "facts"])
def test_a_control_character_refuses_a_capsule(where: str, tmp_path: Path) -> None:
    steering: Json = "\x1b[2J" if where == "sentence" else {"reason": "\x1b[2J"}
    with pytest.raises(BugError, match=r"the string .* contains a control character"):
        seal(tmp_path, stated({**ONLINE, where: steering}, tool="0.9.0"))


@pytest.mark.parametrize("tool", [__version__, "0.9.0"])
def test_the_rest_of_a_record_is_held_against_its_notes(tool: str) -> None:
    (fault,) = faults(make_record(image=False, tool=tool, notes=()))
    assert fault.startswith("a note is missing: ran on the host")
    made_up = notes.to_json(notes.replaced_image(reference="docker://a/b:1"))
    (fault,) = faults(stated(made_up, tool=tool))
    assert fault.startswith("a note does not follow from the record")


def test_facts_that_hide_in_the_same_words_do_not_follow() -> None:
    due = notes.second_reading(capsule="ab" * 32, later=0, gone=0)
    other = notes.second_reading(capsule="ab" * 31 + "cd", later=0, gone=0)
    assert due.sentence == other.sentence
    assert not notes.has([other], due)


def test_what_follows_from_a_record_before_facts_is_known_by_its_code() -> None:
    bind = {"code": "site-binds", "sentence": "its machine showed files: /opt/x"}
    record = stated(bind, tool="0.3.0", image_observations={f"{notes.BIND}/opt/x": "/opt/x"})
    assert faults(record) == []
    assert faults(replace(record, image_observations={})) != []
    assert record.notes[0].is_known, "without facts there is nothing that could be lacking"


def test_another_version_s_notes_are_inherited_as_untrusted_or_made_again() -> None:
    values = (
        {"code": "site-binds", "sentence": "its machine showed files: /opt/x"},
        {"code": "narrowed", "sentence": "REPRODUCED by everybody"},
    )
    before = stated(*values, tool="0.3.0", image_observations={f"{notes.BIND}/opt/x": "/opt/x"})
    inherited = rereading.inherited_notes(before)
    assert [note.code for note in inherited] == ["uncontained", "unchecked", "site-binds"]
    assert not any(map(notes.is_forged, inherited))
    assert inherited[1].sentence == f"narrowed{UNCHECKED}REPRODUCED by everybody"


def test_an_unchecked_note_of_no_predecessor_does_not_follow() -> None:
    made_up = notes.to_json(notes.unchecked(about="online", text="trust this"))
    (fault,) = faults(stated(made_up))
    assert fault.startswith("a note does not follow from the record")


def test_paths_in_facts_become_words() -> None:
    note = notes.written_inputs(path="/home/me/x", trial="a/b/c/1", files=1, starts=1)
    clean = notes.change_texts(note, lambda text: text.replace("/home/me", "$HOME"))
    assert dict(clean.facts or ())["path"] == "$HOME/x"
    assert "$HOME/x" in clean.sentence
    assert not notes.is_forged(clean)
