"""Authors, their organisations and the licence, as entities of the crate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from capsule.manifest import Author

_NO_AFFILIATION = "no affiliation given"


def entities(authors: Sequence[Author]) -> list[dict[str, Any]]:
    """Return a Person for each author, and an Organization for each affiliation, or for having
    none.
    """
    persons = {identifier(number, author): author for number, author in enumerate(authors, 1)}
    organizations = {affiliation(author): author.affiliation for author in authors}
    return [
        {
            "@id": key,
            "@type": "Person",
            "name": author.name,
            "affiliation": {"@id": affiliation(author)},
        }
        for key, author in persons.items()
    ] + [
        {
            "@id": key,
            "@type": "Organization",
            "name": name or _NO_AFFILIATION,
            # a manifest knows no address of it; what this capsule says of it stands in there
            "url": "README.md",
        }
        for key, name in organizations.items()
    ]


def identifier(number: int, author: Author) -> str:
    """Return the `@id` of an author, counted from 1."""
    return f"https://orcid.org/{author.orcid}" if author.orcid else f"#author-{number}"


def affiliation(author: Author) -> str:
    """Return the `@id` of an author's organisation.

    >>> affiliation(Author(name="A", affiliation="Example Lab & Co"))
    '#organization-example-lab-co'
    """
    if not author.affiliation:
        return "#unaffiliated"
    words = "".join(char if char.isalnum() else " " for char in author.affiliation.lower()).split()
    return f"#organization-{'-'.join(words)}"


def license_entity(expression: str) -> dict[str, Any]:
    """Return the licence by its SPDX identifier."""
    key = f"https://spdx.org/licenses/{'-'.join(expression.split())}"
    return {"@id": key, "@type": "CreativeWork", "name": expression}
