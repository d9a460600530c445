"""The minibatches of an epoch, gathered by threads before its steps ask for them.

A minibatch follows from its place in the epoch alone, so neither the number of threads nor which of
them is first changes a bit of what is trained. Threads, because what takes long leaves other
threads free to run: reading files, unpacking them, and copying arrays.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Callable, TypeVar

Item = TypeVar("Item")
Made = TypeVar("Made")

EACH = 2
"""Items that are made ahead for each worker, as many as torch's `DataLoader` fetches."""


@contextmanager
def gather(
    make: Callable[[Item], Made], items: Iterable[Item], workers: int
) -> Iterator[Iterator[Made]]:
    """Yield a function's result for each item, in order.

    An error of the function is raised where its item is due, as if it had been made there. Once the
    context is left no thread runs any more.

    Args:
        make: Called for one item at a time; by several threads at once where there are workers.
        items: What it is called with.
        workers: Threads; with 0 each item is made when it is due.
    """
    if not workers:
        yield map(make, items)
        return
    pool = ThreadPoolExecutor(workers, "capsule-worker")
    try:
        yield _run(pool, make, items, EACH * workers)
    finally:
        pool.shutdown(cancel_futures=True)


def _run(
    pool: ThreadPoolExecutor, make: Callable[[Item], Made], items: Iterable[Item], most: int
) -> Iterator[Made]:
    """Yield the result of each item, computing some items ahead."""
    waiting: deque[Future[Made]] = deque()
    for item in items:
        waiting.append(pool.submit(make, item))
        if len(waiting) > most:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
