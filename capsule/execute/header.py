"""Header of a run folder, from which another process can resume the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from capsule import __version__, archive
from capsule.errors import UsageError
from capsule.jsons import JsonObject
from capsule.record import Setup

FORMAT = "capsule-run/1"


@dataclass(frozen=True, kw_only=True)
class Header:
    """Contents of `run.json`.

    Attributes:
        setup: What was decided before the first process start.
        folder: Where the manifest's relative paths start, None for a manifest out of a capsule.
        keep_hosts: Record host names and serial numbers in the clear.
        salt: Salt of the hashes that stand for them.
        runs: Number of fresh seeds of a verification, None for as many as the original has.
        plan: Digest of the plan.
        subjects: What the plan says of cases and metrics, see `manifest.read`.
        programs: Where each of the machine's own programs lies that it runs, by name.
    """

    setup: Setup
    folder: Path | None
    keep_hosts: bool
    salt: str
    runs: int | None
    plan: str
    subjects: Sequence[JsonObject]
    programs: Mapping[str, str]

    def to_json(self) -> JsonObject:
        """Return the header as it is stored in the file."""
        return {
            "format": FORMAT,
            "tool": __version__,
            "setup": archive.setup_to_json(self.setup),
            "folder": str(self.folder) if self.folder else None,
            "keep_hosts": self.keep_hosts,
            "salt": self.salt,
            "runs": self.runs,
            "plan": self.plan,
            "subjects": self.subjects,
            "programs": dict(self.programs),
        }

    @classmethod
    def from_json(cls, value: object, *, where: str) -> Header:
        """Parse the output of `to_json`.

        Raises:
            UsageError: Another version of capsule wrote it, or it is none.
        """
        try:
            if not isinstance(value, dict) or value["format"] != FORMAT:
                found = value["format"] if isinstance(value, dict) else value
                raise UsageError(
                    f'not a run folder: "format" is {found!r:.40}, expected {FORMAT!r}',
                    where=where,
                    advice="give the folder that the interrupted run printed",
                )
            _require_this_version(value, where)
            setup = archive.setup_from_json(value["setup"])
            if str(UUID(setup.uuid)) != setup.uuid:
                raise ValueError(f"not a UUID: {setup.uuid!r}")  # files are named by it
            return cls(
                setup=setup,
                folder=Path(value["folder"]) if value["folder"] else None,
                keep_hosts=bool(value["keep_hosts"]),
                salt=str(value["salt"]),
                runs=value["runs"],
                plan=str(value["plan"]),
                subjects=tuple(value["subjects"]),
                programs=dict(value["programs"]),
            )
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise UsageError(
                "this run was begun by another version of capsule:"
                f" {type(error).__name__}: {error}",
                where=where,
                advice="finish the run with that version, or start a new run",
            ) from None


def _require_this_version(value: Mapping[str, object], where: str) -> None:
    """Stop at a run that another version began, which reads and judges by other rules.

    Raises:
        UsageError: Names that version.
    """
    setup = value["setup"]
    levels = setup.get("levels") if isinstance(setup, dict) else None
    # before 0.3.0 the release of the measuring code alone told it
    release = levels.get("release") if isinstance(levels, dict) else None
    version = str(value.get("tool") or release or "before 0.3.0")
    if version != __version__:
        raise UsageError(
            f"this run was begun by capsule-hpc {version}; installed is capsule-hpc {__version__}",
            where=where,
            advice=f"finish the run with that version (pip install capsule-hpc=={version}), or"
            " start a new run"
            if version[:1].isdigit()
            else "finish the run with that version, or start a new run",
        )
