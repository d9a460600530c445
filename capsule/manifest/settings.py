"""Set mutable fields of a capsule's manifest for a verification."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from capsule.errors import UsageError
from capsule.manifest import mutable
from capsule.manifest.model import Manifest, Scalar
from capsule.manifest.reader import read


def change(
    manifest: Manifest, changed: Mapping[str, Scalar], subjects: Sequence[Mapping[str, Any]]
) -> Manifest:
    """Return a manifest out of a capsule, with what whoever verifies sets of its mutable part.

    Args:
        manifest: As its author wrote it; its text stays.
        changed: JSON pointer to value.
        subjects: What the capsule's plan says of cases and metrics; see `read`.

    Raises:
        UsageError: A value is fixed, or what stands there already.
        ManifestError: It makes no valid manifest.
    """
    if not changed:
        return manifest
    _, refusals = mutable.put(json.loads(manifest.source), changed)
    for pointer, reason in refusals.items():
        # the other reasons say what to write
        advice = f"leave --set {pointer} out" if reason.startswith("it ") else None
        raise UsageError(f"--set {pointer}: {reason}", where=pointer, advice=advice)
    # how trainings go is what may have been changed
    open_subjects = [
        {**subject, "recipes": None} if "recipes" in subject else subject for subject in subjects
    ]
    where = f"{manifest.name} with {', '.join(f'{key}={value}' for key, value in changed.items())}"
    return read(manifest.source, where=where, folder=None, subjects=open_subjects, changed=changed)
