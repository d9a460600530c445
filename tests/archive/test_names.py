"""Files have their authors' names, and a capsule's have one form on every system."""

import unicodedata
from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from capsule import archive, resealing
from capsule.archive import escapes, names
from capsule.errors import CannotRunError, DamagedError, UsageError
from capsule.record import File
from tests.support.capsules import pack, rehash, seal, unpack
from tests.support.properties import examples
from tests.support.records import make_files

ESCAPED = {
    "plain (1)+[2],~.txt": "plain (1)+[2],~.txt",
    "café.txt": "caf=C3=A9.txt",
    "cafe\u0301.py": "cafe=CC=81.py",
    "数据.csv": "=E6=95=B0=E6=8D=AE.csv",
    "a%b": "a=25b",
    "lr=0.1": "lr=3D0.1",
    'a:b"c*d?e|f<g>h\\i': "a=3Ab=22c=2Ad=3Fe=7Cf=3Cg=3Eh=5Ci",
    " a ": "=20a=20",
    "  a": "=20 a",
    "a..": "a.=2E",
    "...": "..=2E",
    "aux.c": "=61ux.c",
    "NUL": "=4EUL",
    "com1/con .x": "=63om1/=63on .x",
    ".gitattributes": "=2Egitattributes",
    ".GitHub/x": "=2EGitHub/x",
    "git~x": "=67it~x",
    "dot./x": "dot=2E/x",
    "\U0001f469\u200d\U0001f680.txt": "=F0=9F=91=A9=E2=80=8D=F0=9F=9A=80.txt",
    "\u2764\ufe0f": "=E2=9D=A4=EF=B8=8F",
    "1\u202fpm.png": "1=E2=80=AFpm.png",
}
REFUSED = [
    "a\nb",
    "a\x1bb",
    "a\x7f",
    "a\x85",
    "a\u202eb",
    "a\u200bb",
    "a\u200db",
    "\u0628\u200d\u200d",
    "a\u2028",
    "\ufeffa",
    "a\udcff",
    ".git/config",
    "x/.GIT",
    ".git. /config",
    "git~1",
    "..",
    "a//b",
]
UNWRITTEN = [
    "caf=c3=a9",  # small hex digits
    "=61.txt",  # needs no escape
    "=4Dake",  # nothing is equal to it but for case
    "a=2Fb",
    "=2E=2E/x",
    ".=2E/x",
    "=2E",
    "=00",
    "a=0A",
    "a=E2=80=AEb",
    "=C3",
    "=C0=AF",
    "=ED=A0=80",
    "a=",
    "a=3",
    "lr=0.1",
    "a==",
    "=2Egit/config",
    "=2EGIT/config",
    "=67it~1/config",
    "a=20=20",
    "=41=55=58.c",
    "aux=2Ec",
    "=3D=C3",
]


@pytest.mark.parametrize(("name", "stored"), ESCAPED.items())
def test_what_may_not_stand_as_it_is_is_escaped(name: str, stored: str) -> None:
    assert escapes.encode([f"inputs/{name}"]) == {f"inputs/{name}": f"inputs/{stored}"}
    assert escapes.decode([f"inputs/{stored}"]) == {f"inputs/{stored}": f"inputs/{name}"}
    assert list(escapes.faults([f"inputs/{name}"])) == []
    assert names.fault(f"data/inputs/{stored}") is None


def test_names_that_are_equal_but_for_case_have_their_capitals_escaped() -> None:
    paths = ["Makefile", "makefile", "MAKEFILE", "Data/a", "data/a", "data/A", "Other", "é", "É"]
    stored = escapes.encode(paths)
    assert list(stored.values()) == [
        "=4Dakefile",
        "makefile",
        "=4D=41=4B=45=46=49=4C=45",
        "=44ata/a",
        "data/a",
        "data/=41",
        "Other",
        "=C3=A9",
        "=C3=89",
    ]
    assert names.clashes(sorted(stored.values())) == []


@pytest.mark.parametrize("name", REFUSED)
def test_a_name_that_nobody_can_read_or_that_leads_git_is_refused(name: str) -> None:
    assert len(list(escapes.faults([f"inputs/{name}"]))) == 1


def test_names_that_look_the_same_are_refused() -> None:
    (fault,) = escapes.faults(["inputs/caf\xe9/a", "inputs/cafe\u0301/b"])
    assert "look the same" in fault
    assert "caf\\xe9" in fault


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("K/a", "\u212a/b"),
        ("a;b", "a\u037eb"),
        ("`", "\u1fef"),
        ("train.py", "train\ufe0f.py"),
        ("train.py", "train\U000e0100.py"),
        ("数", "数\ufe00"),
    ],
)
def test_names_that_look_like_another_in_ascii_are_refused(name: str, other: str) -> None:
    for paths in ([f"inputs/{name}", f"inputs/{other}"], [f"inputs/{other}", f"inputs/{name}"]):
        (fault,) = escapes.faults(paths)
        assert "look the same" in fault
        stored = escapes.encode([f"inputs/{other}"])
        # by itself it is a name like others
        assert escapes.decode(stored.values()) == {path: real for real, path in stored.items()}


def test_a_name_that_is_too_long_when_it_is_written_is_refused() -> None:
    (fault,) = escapes.faults([f"inputs/{'数' * 30}"])
    assert "the limit is 200 bytes" in fault
    assert list(escapes.faults([f"inputs/{'数' * 20}", f"inputs/{'a' * 188}"])) == []
    assert len(list(escapes.faults([f"inputs/{'a' * 189}"]))) == 1


@pytest.mark.parametrize("stored", UNWRITTEN)
def test_what_no_name_becomes_is_refused(stored: str) -> None:
    with pytest.raises(ValueError, match=r"inputs/"):
        escapes.decode([f"inputs/{stored}"])


@pytest.mark.parametrize(
    "stored",
    [
        ("a=3Ab", "a=3ab"),
        ("=61ux.c", "=61UX.c"),
        ("caf=C3=A9", "cafe=CC=81"),
        ("=4Dake", "=6Dake"),
        ("=4Dake", "Make"),
        ("a=25/x", "=61=25/y"),
        ("a=25", "=61=25/y"),
        ("a", "=61/b"),
        ("=61", "a"),
    ],
)
def test_names_of_which_one_would_be_written_otherwise_are_refused(stored: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"look the same|decode to one file name|wrong escapes"):
        escapes.decode([f"inputs/{name}" for name in stored if names.fault(name) is None])


letters = st.one_of(
    st.sampled_from("aAbBcCmM.= ~%:\\éÉ数git2E3D\u0301"),
    st.characters(codec="utf-8", exclude_characters="/"),
)
parts = st.one_of(
    st.text(letters, min_size=1, max_size=6),
    st.sampled_from(["aux", "AUX.c", "con ", ".gitx", "git~", "Makefile", "makefile", "=4D", "a."]),
)
trees = st.sets(st.lists(parts, min_size=1, max_size=3).map("/".join), min_size=1, max_size=8)


@given(trees)
@example({"aux.c", "AUX.c", "auX.C", "aux.C"})
@examples(300)
def test_names_come_back_as_they_were(paths: set[str]) -> None:
    paths = {path for path in paths if escapes.fault(path) is None}
    assume(not list(escapes.twins(paths)))
    assume(not any(one.startswith(f"{other}/") for one in paths for other in paths))
    stored = escapes.encode(paths)
    assert stored.keys() == paths
    assert all(names.fault(path) in (None, "longer than 200 bytes") for path in stored.values())
    assert names.clashes(sorted(stored.values())) == []
    assert escapes.decode(stored.values()) == {path: name for name, path in stored.items()}


pieces = st.sampled_from(["=", "=4", "=41", "=4D", "=6D", "=2E", "=2F", "=00", "=C3", "=A9", "=c3"])
stored_parts = st.lists(st.one_of(pieces, st.sampled_from("aAmM.x/ ")), min_size=1, max_size=6)


@given(st.sets(stored_parts.map("".join), min_size=1, max_size=6))
@examples(500)
def test_nothing_else_is_read(paths: set[str]) -> None:
    paths = {path for path in paths if names.fault(path) is None}
    assume(not names.clashes(sorted(paths)))
    try:
        real = escapes.decode(paths)
    except ValueError:
        return
    assert not list(escapes.faults(real.values()))
    assert escapes.encode(list(real.values())) == {name: path for path, name in real.items()}
    assert len({unicodedata.normalize("NFC", name) for name in real.values()}) == len(paths)


# capsules


def test_a_capsule_gives_files_the_names_that_they_had(tmp_path: Path) -> None:
    files = [File(path=f"inputs/{name}", source=name.encode()) for name in ESCAPED]
    with archive.read(seal(tmp_path, files=[*make_files(), *files])) as capsule:
        assert {f"inputs/{name}" for name in ESCAPED} < capsule.digests.keys()
        assert capsule.open("inputs/数据.csv") == "数据.csv".encode()
        written = capsule.extract("inputs", tmp_path / "out")
    assert {path.relative_to(tmp_path / "out").as_posix() for path in written} == {
        *ESCAPED,
        "train.py",
    }
    assert all((tmp_path / "out" / name).read_bytes() == name.encode() for name in ESCAPED)


def test_a_capsule_that_is_made_of_one_has_its_names(tmp_path: Path) -> None:
    files = [File(path=f"inputs/{name}", source=b"x") for name in ESCAPED]
    path = seal(tmp_path, files=[*make_files(), *files])
    with archive.read(path) as capsule:
        carried = resealing.carry(capsule, tmp_path / "again")
    again = seal(tmp_path, files=carried, name="again.zip")
    assert unpack(again) == unpack(path)


@pytest.mark.parametrize("stored", UNWRITTEN)
def test_a_capsule_with_another_form_of_a_name_is_refused(tmp_path: Path, stored: str) -> None:
    files = unpack(seal(tmp_path)) | {f"data/inputs/{stored}": b""}
    with pytest.raises(DamagedError, match=r"another program wrote the list|not allowed in a name"):
        archive.read(pack(rehash(files), tmp_path / "b.zip"))


@pytest.mark.parametrize("name", ["evidence/0001/é", "logs/a:b", "levels/NUL.py"])
def test_names_that_capsule_itself_gives_are_never_escaped(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError):
        seal(tmp_path, files=[*make_files(), File(path=name, source=b"")])


def test_no_name_is_written_in_a_locale_that_has_another_encoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = seal(tmp_path, files=[*make_files(), File(path="inputs/é", source=b"")])
    monkeypatch.setattr("sys.getfilesystemencoding", lambda: "iso-8859-1")
    with (
        archive.read(path) as capsule,
        pytest.raises(CannotRunError, match=r"iso-8859-1.*\n?.*LC_ALL=C\.UTF-8"),
    ):
        capsule.extract("inputs", tmp_path / "out")
    assert not (tmp_path / "out").exists()
