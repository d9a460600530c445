"""Train in blocks, each when it is told to: one side of `two_trees.py`, run with PYTHONPATH.

    PYTHONPATH=TREE python tree_steps.py job.json

Prints the folder of the capsule that it runs. Then for each epoch it reads a line, trains, and
prints the seconds from there to the report of the epoch's loss, once it has evaluated.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import capsule
from capsule.levels import frameworks, job, level2
from capsule.levels.report import Report


class Blocks:
    """Epochs that wait for a line each.

    The first one begins with the training, behind its checks, and is there to warm up.
    """

    def __init__(self) -> None:
        self._began = perf_counter()
        self._seconds = 0.0

    def write(self, samples: Any) -> None:
        """Take a line of the trial's journal."""
        if samples.metric == "train_loss":
            self._seconds = perf_counter() - self._began
        elif samples.metric == "evaluation_time":
            # the last that is reported of an epoch: the other side has the machine to itself then
            say(self._seconds)
            if not sys.stdin.readline():
                sys.exit(0)
            self._began = perf_counter()


def say(value: Any) -> None:
    """Print a line of JSON at once."""
    print(json.dumps(value), flush=True)


def main(path: Path) -> None:
    """Run the one trial of a job."""
    say(str(Path(capsule.__file__).parents[1]))
    (trial,) = job.parse(json.loads(path.read_text()), {}).trials
    context = trial.context
    framework = frameworks.load(context.framework, context.device, context.threads, "default")
    framework.seed(context.seed)
    level2.measure(trial, framework, Report(Blocks().write))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
