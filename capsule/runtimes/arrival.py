"""Record that Apptainer reached the program of an image, written inside just before its start.

Afterwards, a failure of Apptainer and a program that imitates one look alike: exit status 255 and a
line on stderr. So capsule adds a script to the folder where Apptainer keeps those that set the
environment; Apptainer's own shell runs it before any code of the image. The script writes a note.
The program can overwrite the note, but cannot undo its writing: the kernel records the time.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from capsule.runtimes.base import Invocation, Mount

_NOTE = "/capsule/arrival"
# the first by name; the PATH of an image is in a script that Apptainer makes of its configuration
_SCRIPTS = "/.singularity.d/env"
_WORD = "PLACE"
_SCRIPT = f"""\
if [ -f {_SCRIPTS}/10-docker2singularity.sh ]; then
    . {_SCRIPTS}/10-docker2singularity.sh
fi
if command -v "${{{_WORD}}}" >/dev/null; then
    echo yes >>{_NOTE}
fi
"""


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """The note of one process start.

    Attributes:
        note: The file.
        changed_ns: When the kernel saw it change last, before the start.
        mounts: What the container has to see.
    """

    note: Path
    changed_ns: int
    mounts: tuple[Mount, ...]

    @property
    def is_there(self) -> bool:
        """Return whether the program was about to start."""
        try:
            return self.note.stat().st_ctime_ns != self.changed_ns
        except OSError:
            return False


def expect(invocation: Invocation, place: int) -> Arrival:
    """Lay out an empty note beside the logs of an invocation.

    Args:
        invocation: The start.
        place: Which word of what is started inside is the program, from 1.

    Raises:
        OSError: It cannot be written.
    """
    note = invocation.stdout.with_name("arrival")
    script = invocation.stdout.with_name("arrival.sh")
    script.write_text(_SCRIPT.replace(_WORD, str(place)))
    note.write_bytes(b"")
    return Arrival(
        note=note,
        changed_ns=note.stat().st_ctime_ns,
        mounts=(
            Mount(source=script, target=f"{_SCRIPTS}/00-capsule.sh"),
            Mount(source=note, target=_NOTE, writable=True),
        ),
    )
