"""Progress callbacks; the API itself prints nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from capsule.image import Image
    from capsule.record import Attempt
    from capsule.verdict import Verdict


# how often somebody who waits for an image hears that it is still being made ready
_PENDING_SECONDS = 30.0


class Watch:
    """Receiver of progress. Override the methods of interest; all other methods do nothing.

    An exception raised by a method interrupts the run, which can then be resumed.
    >>> class Trials(Watch):
    ...     def trial(self, trial: str) -> None:
    ...         print("running", trial)
    >>> Trials().trial("gemm/m64n64k64/torch/17")
    running gemm/m64n64k64/torch/17
    >>> Trials().leftovers(3)

    Attributes:
        hears_output: True to have `output` called; False leaves the workload's output unread.
    """

    hears_output: bool = False

    def stranger(self, whose: str, would_run: Sequence[str]) -> None:
        """Report the commands and files that an untrusted capsule or run folder would run."""

    def quick(self, sentence: str) -> None:
        """Report the benchmarks that a quick verification leaves out."""

    def image(self, image: Image, engine: str) -> None:
        """Report that the engine starts to prepare the image, which may take minutes."""

    def image_pending(self, seconds: float) -> None:
        """Report that preparing the image has taken `seconds`.

        Another thread calls this method twice a minute.
        """

    def image_hashing(self, seconds: float) -> None:
        """Report that hashing the engine's image file took `seconds` of the preparation."""

    def dataset(self, name: str, done_bytes: int, total_bytes: int) -> None:
        """Report that `done_bytes` of the `total_bytes` of a dataset were read."""

    def omissions(self, sentence: str) -> None:
        """Report the files that capsule leaves out of input folders, with the reason."""

    def embedding(self, sentence: str) -> None:
        """Report a dataset that will be sealed in the capsule, with its size."""

    def private(self, findings: Sequence[str]) -> None:
        """Report possibly private text that will be sealed: file, line and kind of finding."""

    def leftovers(self, processes: int) -> None:
        """Report that capsule ended `processes` that a killed run left behind."""

    def remains(self, sentence: str) -> None:
        """Report files that a trial left in shared memory, and the command to remove them."""

    def begin(self, folder: Path, total: int, done: int) -> None:
        """Report that trials start: `done` of `total` are finished; `folder` is the run folder."""

    def trial(self, trial: str) -> None:
        """Report that a trial starts."""

    def output(self, line: str) -> None:
        """Report a line that the workload printed; with several ranks, only of rank 0."""

    def attempt(self, attempt: Attempt) -> None:
        """Report that an attempt at a trial ended."""

    def control(self, trials: Sequence[str]) -> None:
        """Report control runs: trials that run once under a manifest seed.

        capsule makes a control run of a benchmark if every attempt under fresh seeds failed.
        """

    def look(self, runs: int, verdict: Verdict) -> None:
        """Report the verdict at a planned look, after `runs` fresh seeds."""

    def note(self, sentence: str) -> None:
        """Report a fact that the user should know; the run continues."""

    def end(self) -> None:
        """Report the end of the execution; some trials may be unfinished."""


SILENT = Watch()
"""Watch that ignores all progress."""


@contextmanager
def report_pending(watch: Watch) -> Iterator[None]:
    """Tell the watch now and then that an image still takes time: a conversion takes minutes."""
    over = threading.Event()
    began = time.monotonic()

    def tell() -> None:
        while not over.wait(_PENDING_SECONDS):
            watch.image_pending(time.monotonic() - began)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()
