"""Follow a run while it is under way: the corridor itself prints nothing."""

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
    """What is called as a run proceeds; override what is of interest, the rest does nothing.

    An exception out of a method ends the run as an interrupt does: it can be resumed.

    >>> class Trials(Watch):
    ...     def trial(self, trial: str) -> None:
    ...         print("running", trial)
    >>> Trials().trial("gemm/m64n64k64/torch/17")
    running gemm/m64n64k64/torch/17
    >>> Trials().leftovers(3)

    Attributes:
        hears_output: Whether `output` is called: what nobody hears is not read.
    """

    hears_output: bool = False

    def stranger(self, whose: str, would_run: Sequence[str]) -> None:
        """A capsule or a run folder that is not this user's, and what of it would be executed."""

    def quick(self, sentence: str) -> None:
        """What of a capsule is not run again, as nothing there decides."""

    def image(self, image: Image, engine: str) -> None:
        """The engine makes the image ready, which may take long."""

    def image_pending(self, seconds: float) -> None:
        """It still does, after so many seconds; called from another thread, twice a minute."""

    def image_hashing(self, seconds: float) -> None:
        """The engine's file of the image was hashed, which took so many seconds of that."""

    def dataset(self, name: str, done_bytes: int, total_bytes: int) -> None:
        """So much of a dataset has been read."""

    def omissions(self, sentence: str) -> None:
        """What of the folders among the inputs is not carried, and why."""

    def embedding(self, sentence: str) -> None:
        """Which dataset will be sealed in the capsule, and how large it is."""

    def private(self, findings: Sequence[str]) -> None:
        """What will be sealed and may be private: file and line, and what kind of thing it is."""

    def leftovers(self, processes: int) -> None:
        """So many processes that a dead run had left behind were ended."""

    def remains(self, sentence: str) -> None:
        """What a trial left in this machine's shared memory, and how to remove it."""

    def begin(self, folder: Path, total: int, done: int) -> None:
        """Trials start: `done` of `total` have their outcome; `folder` is what can be resumed."""

    def trial(self, trial: str) -> None:
        """A trial starts."""

    def output(self, line: str) -> None:
        """The workload printed a line, on either stream; of several ranks the first's alone."""

    def attempt(self, attempt: Attempt) -> None:
        """An attempt at a trial ended."""

    def control(self, trials: Sequence[str]) -> None:
        """Every re-run of some benchmarks failed alike: each is run once under an original seed."""

    def look(self, runs: int, verdict: Verdict) -> None:
        """A planned look at the first `runs` fresh seeds."""

    def note(self, sentence: str) -> None:
        """Something that stops nothing, and that the user should know."""

    def end(self) -> None:
        """No more trials are started, whether all are done or not."""


SILENT = Watch()
"""Follows nothing."""


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
