"""Strike the journeys at random calls, or at every one, and print what came of it."""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.kills.journey import JOURNEYS, Journey, Struck, Tally, Template
from tests.kills.victim import Strike, fill_disk, kill

KINDS = (
    *("trials lost", "half capsules", "cannot go on", "second ids", "second capsules"),
    *("left running", "litter", "crashes"),
)


@dataclass(frozen=True, kw_only=True)
class Course:
    """A journey as it goes undisturbed.

    Attributes:
        lead: The call at which a first process of it is killed beforehand, 0 for none.
        calls: The names of those that follow.
    """

    journey: Journey
    lead: int
    calls: tuple[str, ...]
    tally: Tally


def main() -> int:
    """Strike, print; the exit status is 1 where something did not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.kills", description=__doc__)
    parser.add_argument("--points", type=int, default=20, help="random ones, over all journeys")
    parser.add_argument("--seed", default="1", help="of the choice")
    parser.add_argument("--every", action="store_true", help="every call of every journey instead")
    parser.add_argument("--behind", metavar="CALL", help="every call that follows one of this name")
    parser.add_argument("--journey", default="", help="only those whose name holds it")
    parser.add_argument("--full", action="store_true", help="the disk is full instead of a kill")
    arguments = parser.parse_args()
    strike = fill_disk if arguments.full else kill
    with TemporaryDirectory(prefix="capsule-kills-") as folder:
        template = Template(Path(folder) / "users")
        wanted = [one for one in JOURNEYS if arguments.journey in one.name]
        courses = [_survey(template, journey) for journey in wanted]
        chance = random.Random(arguments.seed)
        if arguments.behind:
            plan = _behind(courses, arguments.behind)
        else:
            plan = _every(courses) if arguments.every else _draw(courses, arguments.points, chance)
        for course, points in plan:
            _strike(template, course, points, strike)
    return _print(courses)


def _survey(template: Template, journey: Journey) -> Course:
    whole = Struck(journey, template.copy(), Tally()).strike(0)
    assert whole.calls, whole.output
    lead, calls = round(journey.lead * len(whole.calls)), whole.calls
    if lead:
        struck = Struck(journey, template.copy(), Tally())
        struck.strike(lead)
        rest = struck.strike(0)
        assert rest.calls, rest.output
        calls = rest.calls
    return Course(journey=journey, lead=lead, calls=calls, tally=Tally())


def _every(courses: Sequence[Course]) -> Iterator[tuple[Course, list[int]]]:
    for course in courses:
        yield from ((course, [at]) for at in range(1, len(course.calls) + 1))


def _behind(courses: Sequence[Course], call: str) -> Iterator[tuple[Course, list[int]]]:
    for course in courses:
        yield from ((course, [at + 1]) for at, name in enumerate(course.calls, 1) if name == call)


def _draw(
    courses: Sequence[Course], count: int, chance: random.Random
) -> Iterator[tuple[Course, list[int]]]:
    """Points, of some courses a second one, at which the way on is struck as well.

    A kind of call is drawn first: most calls copy files, and a rename is as interesting as all of
    these together.
    """
    for number in range(count):
        course = courses[number % len(courses)]
        points = []
        for _ in range(chance.randint(1, 2)):
            kind = chance.choice(sorted(set(course.calls)))
            points.append(
                chance.choice([n for n, one in enumerate(course.calls, 1) if one == kind])
            )
        yield course, points


def _strike(template: Template, course: Course, points: Sequence[int], strike: Strike) -> None:
    struck = Struck(course.journey, template.copy(), course.tally)
    if course.lead:
        struck.strike(course.lead)
    for at in points:
        if not struck.is_done():
            struck.strike(at, strike)
    struck.finish()


def _print(courses: Sequence[Course]) -> int:
    print(f"| journey | calls | points | {' | '.join(KINDS)} |")
    print("| --- |" + " ---: |" * (len(KINDS) + 2))
    for course in courses:
        counts = " | ".join(str(course.tally.faults[kind]) for kind in KINDS)
        print(f"| {course.journey.name} | {len(course.calls)} | {course.tally.points} | {counts} |")
    for course in courses:
        for line in course.tally.lines:
            print(line)
    return int(any(course.tally.faults.total() for course in courses))


if __name__ == "__main__":
    sys.exit(main())
