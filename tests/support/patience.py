"""How long tests wait: one limit, for what never comes, that a busy machine does not reach."""

import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from threading import Thread
from typing import TypeVar

T = TypeVar("T")

# more than ten times what the slowest command of the tests takes on two quiet cores
PATIENCE_SECONDS = 1200.0


def until(condition: Callable[[], bool], what: str, seconds: float = PATIENCE_SECONDS) -> None:
    """Wait for a condition.

    Raises:
        AssertionError: It never came true; names `what`.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)


def in_time(call: Callable[[], T]) -> T:
    """What a call returns that might hang.

    Raises:
        TimeoutError: It does.
    """
    future: Future[T] = Future()

    def work() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    Thread(target=work, daemon=True).start()
    return future.result(PATIENCE_SECONDS)


def read_lines(path: Path, lines: int = 1) -> list[str]:
    """What a started program writes to a file, once it wrote that many whole lines."""

    def written() -> str:
        return path.read_text() if path.exists() else ""

    until(lambda: written().count("\n") >= lines, f"{lines} lines in {path}")
    return written().splitlines()
