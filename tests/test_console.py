"""What is said while a run goes on, by a clock that the test turns."""

from io import StringIO
from pathlib import Path

import pytest

from capsule import inventory, report
from capsule.console import Console
from capsule.errors import ExecutionError
from tests.support.patience import until
from tests.support.records import make_attempt


class Clock:
    """Stands still until it is told to go on."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def err() -> StringIO:
    return StringIO()


@pytest.fixture
def console(clock: Clock, err: StringIO) -> Console:
    return Console(out=StringIO(), err=err, clock=clock)


def lines(err: StringIO) -> list[str]:
    return err.getvalue().splitlines()


def test_a_log_says_how_long_it_took_and_how_long_it_will(
    console: Console, clock: Clock, err: StringIO, tmp_path: Path
) -> None:
    watch = console.watch(lambda folder: f"capsule run --resume {folder}")
    watch.begin(tmp_path, 8, 2)
    watch.trial("moons/default/command/17")
    watch.attempt(make_attempt(17, False, False))
    clock.seconds = 60
    watch.trial("moons/default/command/18")
    clock.seconds = 3600
    watch.trial("moons/default/command/19")
    watch.end()
    _, first, second, third, last = lines(err)
    assert first == "trial 3 of 8 (seed 17), 0 s elapsed"
    assert second == "trial 4 of 8 (seed 18), 1 min elapsed, about 5 min left"
    # the second is over as soon as the third starts, though its process has not ended
    assert third == "trial 5 of 8 (seed 19), 1 h elapsed, about 2 h left"
    assert last == "3 of 8 trials finished in 1 h"


def test_what_one_process_ran_stays_counted_when_it_ends(
    console: Console, clock: Clock, err: StringIO, tmp_path: Path
) -> None:
    watch = console.watch(str)
    watch.begin(tmp_path, 8, 0)
    for trial in ("a", "b", "c", "d"):
        watch.trial(trial)
    for number in range(4):
        clock.seconds += 60
        watch.attempt(make_attempt(number, False, False))
    # a journal that broke off began trials that no attempt is of
    for trial in ("e", "f", "g"):
        watch.trial(trial)
    watch.attempt(make_attempt(5, False, False))
    clock.seconds += 60
    watch.trial("h")
    shown = [line.partition(",")[0] for line in lines(err)[1:]]
    finished = ["4 of 8 trials finished"] * 4
    assert shown == ["trial 1 of 8 (seed a)", *finished, "trial 6 of 8 (seed h)"]


def test_a_log_stays_short(console: Console, clock: Clock, err: StringIO, tmp_path: Path) -> None:
    watch = console.watch(str)
    watch.begin(tmp_path, 1000, 0)
    for number in range(1000):
        clock.seconds += 0.1
        watch.trial(f"trial-{number}")
    watch.end()
    assert len(lines(err)) == 2 + 10


def test_one_process_that_takes_all_its_trials_along_is_one_line(
    console: Console, err: StringIO, tmp_path: Path
) -> None:
    watch = console.watch(str)
    watch.begin(tmp_path, 3, 0)
    before = len(lines(err))
    for _ in range(3):
        watch.attempt(make_attempt(1, False, True))
    assert sum("failed" in line for line in lines(err)[before:]) == 1


def test_what_a_script_prints_is_followed_where_that_is_wanted(
    console: Console, err: StringIO, tmp_path: Path
) -> None:
    quiet = console.watch(str)
    assert not quiet.hears_output
    watch = console.watch(str, follow=True)
    assert watch.hears_output
    watch.begin(tmp_path, 1, 0)
    watch.trial("a")
    watch.output("epoch 1\x1b[2J")
    assert lines(err)[-1] == r"| epoch 1\x1b[2J"


class Terminal(StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_has_a_bar_and_no_command_in_two_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    err = Terminal()
    watch = Console(out=StringIO(), err=err).watch(
        lambda folder: f"capsule run {'x' * 80} {folder}"
    )
    watch.begin(tmp_path, 2, 0)
    watch.trial("a/b/c/1")
    watch.attempt(make_attempt(1, False, False))
    watch.attempt(make_attempt(2, False, False))
    watch.end()
    assert f"capsule run {'x' * 80} {tmp_path}\n" in err.getvalue()
    assert "2 of 2 trials finished in" in err.getvalue()


def test_strangers_words_do_not_steer_the_terminal(console: Console, err: StringIO) -> None:
    console.watch(str).stranger("f" * 64, ["x: '\x1b[2J'"])
    assert "\x1b" not in err.getvalue()
    assert "x          '\\x1b[2J'" in err.getvalue()


def test_the_way_on_is_told_as_long_as_there_is_a_folder(
    console: Console, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "a.run"
    folder.mkdir()
    assert console.way_on is None
    watch = console.watch(lambda name: f"capsule run --resume {name}")
    assert console.way_on is None
    watch.begin(folder, 1, 0)
    assert console.way_on == "capsule run --resume a.run"
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert console.way_on == f"capsule run --resume {folder}"
    folder.rmdir()
    assert console.way_on is None


def test_large_data_is_told_of_now_and_then(console: Console, clock: Clock, err: StringIO) -> None:
    watch = console.watch(str)
    for step in range(30):
        clock.seconds = step
        watch.dataset("corpus", step * 10**9, 30 * 10**9)
    assert lines(err) == ["dataset corpus: 10.0 of 30.0 GB", "dataset corpus: 20.0 of 30.0 GB"]


def test_an_image_that_takes_minutes_is_told_of(console: Console, err: StringIO) -> None:
    console.watch(str).image_pending(150)
    (line,) = lines(err)
    assert line.startswith("preparing the image, 2 min 30 s elapsed")


def test_an_error_is_two_lines_of_plain_text(console: Console, err: StringIO) -> None:
    console.fail(str(ExecutionError("it [bold]broke[/]", where="here", advice="mend it")))
    assert lines(err) == ["error: here: it [bold]broke[/]", "  mend it"]


def test_a_terminal_has_the_last_line_of_a_script_beside_the_bar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "140")
    err = Terminal()
    watch = Console(out=StringIO(), err=err).watch(str)
    assert watch.hears_output
    watch.begin(tmp_path, 2, 0)
    watch.trial("a/b/c/1")
    watch.output("loss 0.5" + "\x07" * 100)
    until(lambda: r"elapsed  loss 0.5\x07" in err.getvalue(), "the line of the workload")
    watch.end()
    assert "\x07" not in err.getvalue()
    assert r"\x07" * 40 not in err.getvalue()


def test_no_line_of_a_table_ends_in_spaces() -> None:
    out = StringIO()
    Console(out=out).show(*report.draw_inventory(inventory.node(salt="", keep_hosts=False), {}))
    shown = out.getvalue().splitlines()
    assert len(shown) > 3
    assert [line for line in shown if line != line.rstrip()] == []
