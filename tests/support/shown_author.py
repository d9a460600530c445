"""The commands of tutorials and of how-to pages for authors."""

from tests.support.documented import ROOT, Here, There, in_page

_DOCS = ROOT / "docs"
FOLLOWED = (
    _DOCS / "tutorials" / "first-capsule.md",
    _DOCS / "tutorials" / "your-script.md",
    _DOCS / "how-to" / "metrics-from-logs.md",
)
"""Pages that a test follows line by line from an empty folder."""

TRAINING = _DOCS / "tutorials" / "train-a-network.md"
"""The same, with torch and for a minute."""

RECEIVED = _DOCS / "tutorials" / "check-a-paper.md"
"""A page that begins with the capsule of another user."""

_TESTS = "journeys/test_pages.py::test_"
_FOLLOWED_BY = {
    **dict.fromkeys(FOLLOWED, f"{_TESTS}a_page_is_followed_from_an_empty_folder"),
    TRAINING: f"{_TESTS}a_training_is_followed_from_an_empty_folder",
    RECEIVED: f"{_TESTS}a_capsule_of_another_user_is_read_and_verified",
}
_PUBLISHED = There(test="journeys/test_published.py::test_the_line_that_a_paper_prints_verifies")
COMMANDS: dict[str, Here | There] = {
    **{
        command: There(test=test)
        for page, test in _FOLLOWED_BY.items()
        for command in in_page(page.read_text())
    },
    "capsule verify https://papers.example/table2.capsule.zip --id 2cf24dba5fb0… --trust": (
        _PUBLISHED
    ),
}
