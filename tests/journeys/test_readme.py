"""The lines of the README do what it says, from an empty folder."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support import documented
from tests.support.command import User
from tests.support.documented import ROOT

README = (ROOT / "README.md").read_text()
LONGEST_LINE, MOST_LINES, MOST_WORDS = 120, 220, 80


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    text: str


def find_blocks(heading: str) -> Iterator[Block]:
    """Yield the fenced blocks of a section, those of its subsections too."""
    section = README.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    for language, text in re.findall(r"^```(\w+)\n(.*?)^```$", section, re.M | re.S):
        yield Block(language, text)


def mask(text: str) -> str:
    """Replace what differs from run to run: ids, numbers, and how many spaces separate words."""
    text = re.sub(r"\b[0-9a-f]{8,}\b", "#", text)
    return " ".join(re.sub(r"[-+]?\d+(\.\d+)?", "#", text).split())


def enter(user: User, block: str, code: int = 0) -> str:
    """Type a block at a shell, and return all that was printed."""
    programs = user.folder / ".venv" / "bin"
    ended = documented.type_at_shell(user, block, programs, COLUMNS="100")
    assert ended.returncode == code, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


def assert_printed(shown: str, printed: str) -> None:
    """Each line that is shown was printed, but for its numbers.

    Of sides that look unlike by chance no error rate is printed.
    """
    if "none for 1 claim" in printed:
        shown = re.sub(r"^error rate .*\n {13}.*$", "...", shown, flags=re.M)
    for line in shown.splitlines():
        assert line == "..." or mask(line) in mask(printed), (line, printed)


def test_the_quickstart_gives_its_verdicts(tmp_path: Path) -> None:
    user = User.make(tmp_path)
    documented.read_package(user)
    for name in ("README.md", "LICENSE", "pyproject.toml"):
        (user.folder / name).write_bytes((ROOT / name).read_bytes())
    documented.copy_folder(ROOT / "manifests", user.folder / "manifests")
    printed = ""
    for block in find_blocks("Quickstart"):
        if block.language == "sh":
            printed = enter(user, block.text, code=1 if "capsule diff" in block.text else 0)
        else:
            assert_printed(block.text, printed)
    assert "DIFFERENT" in printed


def test_a_script_of_ones_own_is_sealed_and_verified_by_somebody_else(tmp_path: Path) -> None:
    for name in ("author", "verifier"):
        (tmp_path / name).mkdir()
    author, verifier = User.make(tmp_path / "author"), User.make(tmp_path / "verifier")
    for user in (author, verifier):
        (user.folder / ".venv" / "bin").mkdir(parents=True)
        (user.folder / ".venv" / "bin" / "capsule").symlink_to(
            Path(sys.executable).parent / "capsule"
        )
    script, lines = find_blocks("Your script in five minutes")
    (author.folder / "train.py").write_text(script.text)
    enter(author, lines.text)
    (verifier.folder / "paper.capsule.zip").write_bytes(
        (author.folder / "paper.capsule.zip").read_bytes()
    )
    read, consent, verification = find_blocks("Check somebody's number")
    assert "python3 train.py" in enter(verifier, read.text)
    assert "--trust --allow-host" in enter(verifier, consent.text, code=4)
    assert "REPRODUCED" in enter(verifier, verification.text)


LIMITS = {"README.md": MOST_LINES, "tutorials": 220, "how-to": 180, "explanation": 250}
LONGER = {"troubleshooting.md": 250, "statistics.md": 700, "manifest.md": None, "warnings.md": None}


def find_limit(page: Path) -> int | None:
    """Return the most lines of a page; None for a generated page."""
    if page.name in LONGER:
        return LONGER[page.name]
    return LIMITS.get(page.name, LIMITS.get(page.parent.name, 400))


@pytest.mark.parametrize(
    "page",
    [page for page in documented.PAGES if not page.is_relative_to(ROOT / "images")],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_a_page_is_short(page: Path) -> None:
    text = page.read_text()
    lines = text.splitlines()
    assert len(lines) <= (find_limit(page) or len(lines))
    # a table's row is one line
    assert [x for x in lines if len(x) > LONGEST_LINE and not x.startswith("|")] == []
    prose = re.sub(r"^```.*?^```$|(?:^ {4}.*\n)+", "", text, flags=re.M | re.S)
    paragraphs = [one for one in re.split(r"\n\s*\n", prose) if re.match(r"[A-Z`*]", one)]
    assert [one for one in paragraphs if len(one.split()) > MOST_WORDS] == []


def test_the_list_of_pages_has_every_page() -> None:
    folder = ROOT / "docs"
    listed = set(re.findall(r"\]\(([^)#]+)\)", (folder / "README.md").read_text()))
    pages = {str(page.relative_to(folder)) for page in folder.rglob("*.md")}
    # that of each verb stands in the list of verbs
    verbs = {page for page in pages if page.startswith("reference/cli/")}
    assert listed >= pages - verbs - {"README.md"}


@pytest.mark.parametrize("page", documented.PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    targets = re.findall(r"\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)", text, re.M)
    for target in ("".join(pair) for pair in targets):
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", path):
            continue
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), target
        if anchor and there.suffix == ".md":
            assert anchor in find_anchors(there.read_text()), target


def find_anchors(text: str) -> set[str]:
    """Names that a page's headings have in links."""
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}
