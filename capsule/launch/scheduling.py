"""What a submission asks of a scheduler, whichever it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from capsule.launch.script import Script
    from capsule.launch.slurm import Job
    from capsule.site import Site


class Scheduler(Protocol):
    """What starts job scripts when their turn comes."""

    def require(self) -> None:
        """Stop where nothing can be submitted.

        Raises:
            CannotRunError: Its programs are not here.
        """

    def submit(self, path: Path, script: Script, *, lock: int) -> str:
        """Write a job script and hand it in; returns the job's id, by which its files are named.

        Args:
            path: Where to write it.
            script: What it is to say.
            lock: Descriptor of a lock that lasts until the job is handed in, even without this
                process.

        Raises:
            UsageError: The scheduler cannot be told something that the script is to say.
            CannotRunError: It takes no such job, or does not answer.
        """

    def look(self, job: str) -> Job | None:
        """The job, None where the scheduler has forgotten it.

        Raises:
            ExecutionError: It does not answer.
        """

    def find(self, name: str) -> list[str]:
        """Ids of this user's jobs of a name that may not have ended, as far as it can tell them.

        Raises:
            ExecutionError: It does not answer.
        """

    def cancel(self, job: str) -> None:
        """End a job, or have it never begin.

        Raises:
            ExecutionError: The scheduler does not do it.
        """

    def tell_end(self, job: str) -> str:
        """The command line that ends a job."""


def choose(site: Site, folder: Path) -> Scheduler:
    """The scheduler of this site.

    Args:
        site: Names another one than Slurm, or none.
        folder: The submission's, which need not exist yet.

    Raises:
        CannotRunError: It is not here.
    """
    if site.scheduler in (None, "slurm"):
        from capsule.launch import slurm

        chosen: Scheduler = slurm
    else:
        from capsule.launch.psij import Psij

        chosen = Psij(str(site.scheduler), folder, where=site.where("/scheduler"))
    chosen.require()
    return chosen
