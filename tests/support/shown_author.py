"""The commands of tutorials and of how-to pages for authors."""

from tests.support.documented import ROOT, Here, There, in_page

_DOCS = ROOT / "docs"
FOLLOWED = (
    _DOCS / "tutorials" / "first-capsule.md",
    _DOCS / "tutorials" / "your-script.md",
    _DOCS / "how-to" / "metrics-from-logs.md",
)
"""Pages that a test follows line by line from an empty folder."""

_LINE_BY_LINE = There(
    test="journeys/test_pages.py::test_a_page_is_followed_from_an_empty_folder"
)
COMMANDS: dict[str, Here | There] = {
    command: _LINE_BY_LINE for page in FOLLOWED for command in in_page(page.read_text())
}
