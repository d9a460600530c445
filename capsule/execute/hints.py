"""What would most likely mend a trial that failed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from capsule import plain
from capsule.manifest import Benchmark
from capsule.manifest.pitfalls import find_pitfalls, name_interpreter
from capsule.record import Attempt

# what shells, and engines after them, end with where a program cannot be started
_NOT_STARTED = (126, 127)


def hint(attempt: Attempt, benchmark: Benchmark, folder: Path | None) -> Iterator[str]:
    """What to look at first, one sentence each.

    Args:
        attempt: What failed.
        benchmark: Of which it is a trial.
        folder: Where the manifest's files lie, None where they are not at hand.
    """
    message = attempt.message
    if attempt.reason == "timeout":
        yield 'give it more by "timeout" in the manifest, or less to do'
    if message.startswith("ended well but did not report"):
        yield (
            'append {"metric": NAME, "value": NUMBER} to the file that CAPSULE_RESULTS names, or'
            ' say by "from" in the manifest where the number is printed'
        )
    if "EOFError" in message:
        yield "a benchmark has no standard input: give what it asks for by its words"
    if "no seed was injected" in message:
        yield 'leave "seeding" out where no Python program runs, and hand over {seed}'
    yield from find_pitfalls(benchmark, folder)
    interpreter = name_interpreter(benchmark, folder)
    if interpreter and (attempt.reason == "engine" or attempt.exit_code in _NOT_STARTED):
        yield f"the command is a script that {plain.clean(interpreter)} starts: it has to be there"
