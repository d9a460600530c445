"""A program that a Docker container could not start: its first process, tini, tells it in words.

A program can say the same words. But one that says them is there, which the daemon knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import requests

_WORDS = "[FATAL tini"
_STATUSES = (126, 127)
_USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_EXECUTABLE = 0o111
# the PATH is the image's, and each folder of it costs a question
_MOST_FOLDERS = 50
# of a mode as Go has it: folder, link, devices, pipe, socket, other
_NO_FILE = 0x8F280000


def fault(api: Any, container: str, status: int, output: str) -> str | None:
    """What tini said of a program that is not there, or is none; None for a program's own end.

    Args:
        api: The client of the daemon.
        container: Its id; it has ended and was not removed.
        status: What it ended with.
        output: The end of its standard error.
    """
    if status not in _STATUSES or _WORDS not in output or _has_program(api, container):
        return None
    return output[output.rfind(_WORDS) :].strip()


def _has_program(api: Any, container: str) -> bool:
    """Whether a program lies where the command names one, or in the PATH of the image."""
    inspection = api.inspect_container(container)
    command = str(inspection["Path"])
    variables = dict(entry.partition("=")[::2] for entry in inspection["Config"]["Env"] or ())
    folders = variables.get("PATH", _USUAL_PATH).split(":")[:_MOST_FOLDERS]
    paths = [command] if "/" in command else [f"{folder}/{command}" for folder in folders if folder]
    return any(_is_program(api, container, path) for path in paths)


def _is_program(api: Any, container: str, path: str) -> bool:
    # what is not there, or cannot be looked at
    with suppress(requests.HTTPError):
        stat = _stat(api, container, path)
        if target := stat["linkTarget"]:  # the last of a chain of links
            stat = _stat(api, container, target)
        return not stat["mode"] & _NO_FILE and bool(stat["mode"] & _EXECUTABLE)
    return False


def _stat(api: Any, container: str, path: str) -> Mapping[str, Any]:
    stream, stat = api.get_archive(container, path)
    stream.close()
    facts: Mapping[str, Any] = stat
    return facts
