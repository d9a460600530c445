"""Get a capsule from where it was published: an address, a registry, a DOI. Nothing is executed.

    store.fetch: locations.parse -> cache, or download.save -> archive.identify -> cache by its id

Whoever has a path pays for `is_remote` alone.
"""

from __future__ import annotations

import os
import re

DOI = re.compile(r"10\.\d{4,9}/\S+")


def is_remote(text: str) -> bool:
    """Return whether a capsule is named by something else than a path of this machine.

    >>> is_remote("a.capsule.zip"), is_remote("doi:10.5281/zenodo.1"), is_remote("10.5281/zenodo.1")
    (False, True, True)
    """
    if "://" in text or text.startswith("doi:"):
        return True
    return text.startswith("10.") and bool(DOI.fullmatch(text)) and not os.path.lexists(text)
