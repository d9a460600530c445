"""Ends the interpreter where it writes a file, asks the network for anything, or starts a program.

Python imports it by itself in every process whose PYTHONPATH names this folder.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

STATUS = 99
_EVENTS = (
    *("os.chmod", "os.chown", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir"),
    *("os.symlink", "os.truncate", "os.utime", "shutil.", "tempfile."),
    *("socket.connect", "socket.getaddrinfo", "socket.sendto", "urllib."),
    *("os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.system", "subprocess."),
)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def _is_nowhere(path: object) -> bool:
    """Whether no file comes of it."""
    is_folder = isinstance(path, str) and Path(path).is_dir()
    return path == os.devnull or is_folder or _is_trial(path)


def _is_trial(path: object = None) -> bool:
    """Whether `verify` tries thereby if it could write a capsule, before it reads one."""
    return isinstance(path, str) and path.endswith(".capsule.partial")


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open":
        path, _, flags = arguments
        if not isinstance(flags, int) or not flags & _WRITING or _is_nowhere(path):
            return
    elif not event.startswith(_EVENTS) or _is_trial(*arguments[:1]):
        return
    os.write(2, f"a reader does {event} {arguments!r}\n".encode(errors="backslashreplace"))
    os._exit(STATUS)


sys.addaudithook(_watch)
