"""Stream the output of a running process (untrusted, size-limited)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from capsule import leavings
from capsule.execute.workspace import RankFiles

_MOST_BYTES = 1 << 16
_LONGEST_LINE = 1 << 12


class Talk:
    """Follows the standard output and standard error of one rank."""

    def __init__(self, files: RankFiles) -> None:
        self._streams = (_Stream(files.stdout), _Stream(files.stderr))

    def new_lines(self, *, ended: bool = False) -> Sequence[str]:
        """Return the lines that were finished since the last call, without empty ones.

        Of a line that was written over, as a bar is, what it came to. Where more was printed since
        the last call than is read at once, its end, and how much is left out.

        Args:
            ended: The process has, so what has no newline yet will not get one.
        """
        return [line for stream in self._streams for line in stream.new_lines(ended=ended)]


class _Stream:
    """One file that grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_bytes = 0
        self._rest = b""

    def new_lines(self, *, ended: bool) -> Sequence[str]:
        *lines, self._rest = (self._rest + self._new_bytes()).split(b"\n")
        shown = [_last_state(line) for line in lines]
        if b"\r" in self._rest:
            done, _, self._rest = self._rest.rpartition(b"\r")
            shown.append(_last_state(done))
        if ended or len(self._rest) > _LONGEST_LINE:
            shown.append(self._rest)
            self._rest = b""
        return [text for line in shown if (text := line.decode(errors="replace").strip())]

    def _new_bytes(self) -> bytes:
        size = leavings.size_bytes(self._path)
        if size <= self._read_bytes or (stream := leavings.open_file(self._path)) is None:
            return b""
        left_out = max(0, size - self._read_bytes - _MOST_BYTES)
        with stream:
            stream.seek(self._read_bytes + left_out)
            data = stream.read(_MOST_BYTES)
        self._read_bytes += left_out + len(data)
        if not left_out:
            return data
        return b"\n... (%d bytes more)\n" % left_out + data


def _last_state(line: bytes) -> bytes:
    """Return the final state of a line that a program overwrote, for example a progress bar."""
    states = [state for state in line.split(b"\r") if state.strip()]
    return states[-1] if states else b""
