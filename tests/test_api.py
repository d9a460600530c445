"""The corridor as a program uses it: typed values, exceptions, not a word on the terminal."""

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from capsule import api, archive, manifest
from capsule.errors import (
    CapsuleError,
    DamagedError,
    ExecutionError,
    ManifestError,
    UntrustedError,
    UsageError,
)
from capsule.execute import payload
from capsule.record import Attempt, Record
from tests.support.command import write_manifest

pytestmark = pytest.mark.slow

Error = type[BaseException]
Become = Callable[[], None]

LOSS = "tiny/default/command/loss"
SEEDS = [1, 2, 3]
CONSENT = api.VerifyOptions(trust=True, allow_host=True)
# 1.1, 1.2, 1.3: a number that its seed decides, from a program that starts in a millisecond
SCRIPT = 'printf \'{"metric": "loss", "value": 1.%s}\\n\' "$CAPSULE_SEED" >> "$CAPSULE_RESULTS"\n'


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in and a home, both empty but for a manifest and its script."""
    folder = tmp_path / "work"
    folder.mkdir()
    for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    # a Python that answers at once: the host runtime looks for it beside capsule's own
    python = tmp_path / "bin" / "python3"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.chdir(folder)
    write(folder)
    return folder


@pytest.fixture
def stranger(here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Become:
    """Call it to go on as somebody else."""
    return lambda: monkeypatch.setenv("HOME", str(tmp_path / "stranger"))


def write(folder: Path, script: str = SCRIPT, **changes: Any) -> None:
    (folder / "tiny.sh").write_text(script)
    benchmark = {
        "id": "tiny",
        "command": ["sh", "tiny.sh"],
        "inputs": ["tiny.sh"],
        "metrics": {"loss": {"direction": "lower"}},
    }
    claim = {"metric": LOSS, "type": "equivalence", "margin": {"absolute": 5}}
    fields = {"seeds": SEEDS, "benchmarks": [benchmark], "claims": [claim], **changes}
    write_manifest(folder, **fields)


def values(record: Record) -> dict[int, tuple[float, ...]]:
    return {one.seed: tuple(one.values) for one in record.samples}


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


class Raises(api.Watch):
    """Raises at one event, the first or a later one."""

    def __init__(self, event: str, error: Error = KeyboardInterrupt, after: int = 0) -> None:
        self._left = after
        self._error = error
        setattr(self, event, self._stop)

    def _stop(self, *_: object) -> None:
        if self._left == 0:
            raise self._error
        self._left -= 1


class Follows(api.Watch):
    """Remembers every event."""

    def __init__(self) -> None:
        self.events: list[tuple[object, ...]] = []

    def begin(self, folder: Path, total: int, done: int) -> None:
        assert folder.is_dir()
        self.events.append(("begin", total, done))

    def trial(self, trial: str) -> None:
        self.events.append(("trial", trial))

    def attempt(self, attempt: Attempt) -> None:
        self.events.append((attempt.outcome, attempt.trial))

    def look(self, runs: int, verdict: api.Verdict) -> None:
        self.events.append(("look", runs, verdict.word))

    def end(self) -> None:
        self.events.append(("end",))


# what one gets


def test_a_run_returns_what_it_sealed(here: Path) -> None:
    sealed = api.run("tiny.json")
    assert sealed.path.exists()
    assert sealed.failures == ()
    assert values(sealed.record) == {1: (1.1,), 2: (1.2,), 3: (1.3,)}
    with api.open(sealed.path) as capsule:
        assert (capsule.id, capsule.record.samples) == (sealed.id, sealed.record.samples)
    assert {path.name for path in here.iterdir()} == {"tiny.json", "tiny.sh", sealed.path.name}


def test_a_verification_returns_its_verdict_and_the_second_capsule(here: Path) -> None:
    sealed = api.run(here / "tiny.json")
    verification = api.verify(sealed.path)
    assert verification.verdict.word == "REPRODUCED"
    rerun = verification.rerun
    assert rerun.record.verifies == sealed.id
    assert not set(values(rerun.record)) & set(SEEDS)
    assert api.diff(sealed.path, rerun.path) == verification.verdict


def test_several_re_executions_are_judged_together(here: Path) -> None:
    sealed = api.run("tiny.json")
    first, second = (api.verify(sealed.path).rerun for _ in range(2))
    judged = api.diff(sealed.path, first.path, second.path)
    assert [pair.verdict.word for pair in judged.pairs] == ["REPRODUCED", "REPRODUCED"]
    assert [side.id for side in judged.sides] == [sealed.id, first.id, second.id]
    none: list[Path] = []
    with pytest.raises(UsageError, match="expected at least two capsules, found one"):
        api.diff(sealed.path, *none)


def test_nothing_is_printed(stranger: Become, capfd: pytest.CaptureFixture[str]) -> None:
    sealed = api.run("tiny.json")
    stranger()
    with pytest.raises(UntrustedError):
        api.verify(sealed.path)
    api.diff(sealed.path, api.verify(sealed.path, CONSENT).rerun.path)
    assert capfd.readouterr() == ("", "")


def test_a_failed_trial_is_an_outcome_and_no_exception(here: Path) -> None:
    write(here, f'[ "$CAPSULE_SEED" != 2 ] || exit 7\n{SCRIPT}')
    sealed = api.run("tiny.json")
    (failed,) = sealed.failures
    assert (failed.seed, failed.reason, failed.exit_code) == (2, "exit", 7)
    assert set(values(sealed.record)) == {1, 3}


def test_a_manifest_may_be_a_value(here: Path) -> None:
    loaded = manifest.load(Path("tiny.json"))
    assert values(api.run(loaded).record) == values(api.run(Path("tiny.json")).record)


def test_paths_may_be_relative_or_absolute(here: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    for output, work in ((Path("../there/a.zip"), Path("a.run")), (there / "b.zip", there / "run")):
        sealed = api.run(here / "tiny.json", api.RunOptions(output=output, work=work))
        assert sealed.path == output
        assert api.open(output).id == sealed.id
        assert not work.exists()


def test_it_runs_in_threads(here: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(api.run, ["tiny.json", "tiny.json"])
    assert first.id != second.id
    assert values(first.record) == values(second.record)


def test_a_watch_hears_of_every_trial(here: Path) -> None:
    watch = Follows()
    api.run("tiny.json", watch=watch)
    trials = [f"tiny/default/command/{seed}" for seed in SEEDS]
    events = [event for trial in trials for event in (("trial", trial), ("completed", trial))]
    assert watch.events == [("begin", 3, 0), *events, ("end",)]


# what cannot be


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: api.run("none.json"), ManifestError),
        (lambda: api.run("tiny.sh"), ManifestError),
        (lambda: api.run("tiny.json", api.RunOptions(runtime="docker")), CapsuleError),
        (lambda: api.run("tiny.json", api.RunOptions(runtime="none")), UsageError),
        (lambda: api.verify("none.capsule.zip"), UsageError),
        (lambda: api.verify("tiny.json"), DamagedError),
        (lambda: api.open("none.capsule.zip"), UsageError),
        (lambda: api.diff("none.capsule.zip", "tiny.json"), UsageError),
        (lambda: api.resume("none.run"), UsageError),
        (lambda: api.resume("."), UsageError),
    ],
)
def test_what_cannot_be_is_an_exception_and_leaves_nothing(
    here: Path, call: Callable[[], object], error: Error
) -> None:
    before = sorted(here.iterdir())
    with pytest.raises(error):
        call()
    assert sorted(here.iterdir()) == before


def test_a_strangers_capsule_wants_two_permissions_without_a_container(stranger: Become) -> None:
    sealed = api.run("tiny.json")
    stranger()
    for options in (api.VerifyOptions(), api.VerifyOptions(trust=True)):
        with pytest.raises(UntrustedError):
            api.verify(sealed.path, options)
    assert api.verify(sealed.path, CONSENT).verdict.word == "REPRODUCED"


def test_an_image_that_no_engine_would_start_is_refused(here: Path) -> None:
    with pytest.raises(UsageError, match="would be ignored"):
        api.run("tiny.json", api.RunOptions(runtime="host", image="docker://debian:12"))


@pytest.mark.parametrize("runs", [0, -1])
def test_a_verification_has_a_run(here: Path, runs: int) -> None:
    sealed = api.run("tiny.json")
    with pytest.raises(UsageError, match=f"needs at least 1 run, found --runs {runs}"):
        api.verify(sealed.path, api.VerifyOptions(runs=runs))


def test_a_run_and_its_capsule_are_not_in_one_place(here: Path) -> None:
    with pytest.raises(UsageError, match="the same path"):
        api.run("tiny.json", api.RunOptions(output=Path("a"), work=here / "a"))


def test_nothing_is_waited_for_where_no_number_of_runs_decides(here: Path) -> None:
    write(here, claims=[{"metric": LOSS, "type": "exact"}])
    sealed = api.run("tiny.json")
    with pytest.raises(UsageError, match="depends on the number of runs"):
        api.verify(sealed.path, api.VerifyOptions(until_decided=True))


# what was cut off


@pytest.mark.parametrize("event", ["begin", "trial", "attempt", "end"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_a_run_goes_on_after_an_interrupt_at_any_event(
    here: Path, event: str, error: Error
) -> None:
    with pytest.raises(error):
        api.run("tiny.json", watch=Raises(event, error))
    (folder,) = here.glob("*.run")
    assert not list(here.glob("*.zip"))
    record = api.resume(folder).record
    assert values(record) == {1: (1.1,), 2: (1.2,), 3: (1.3,)}
    final = [one.trial for one in record.attempts if one.outcome == "completed"]
    assert len(final) == len(set(final)) == 3
    assert not folder.exists()


@pytest.mark.parametrize("event", ["begin", "trial", "attempt", "end", "look"])
def test_a_verification_goes_on_after_an_interrupt_at_any_event(here: Path, event: str) -> None:
    # so far apart that no few runs decide anything
    script = SCRIPT.replace("1.%s", "%s").replace('"$CAPSULE_SEED"', "$((CAPSULE_SEED % 2 * 1000))")
    claim = {"metric": LOSS, "type": "equivalence", "margin": {"absolute": 1}, "looks": [3, 5]}
    write(here, script, claims=[claim])
    sealed = api.run("tiny.json")
    options = api.VerifyOptions(until_decided=True)
    # the fourth trial is one of the second look
    after = 3 if event in ("trial", "attempt") else 0
    with pytest.raises(KeyboardInterrupt):
        api.verify(sealed.path, options, Raises(event, after=after))
    (folder,) = here.glob("*.run")
    with pytest.raises(UsageError, match="belongs to a verification of capsule"):
        api.resume(folder)
    watch = Follows()
    going_on = api.ResumeOptions(until_decided=True)
    verification = api.resume_verification(sealed.path, folder, going_on, watch)
    assert len(values(verification.rerun.record)) == 5
    looks = [look for name, look, *_ in watch.events[:-1] if name == "look"]
    assert looks == ([5] if event in ("trial", "attempt", "end") else [3, 5])


def test_an_interrupt_while_the_folder_is_made_leaves_nothing(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(here.iterdir())
    monkeypatch.setattr(payload, "fill", interrupt)
    with pytest.raises(KeyboardInterrupt):
        api.run("tiny.json")
    assert sorted(here.iterdir()) == before


def test_an_interrupt_while_sealing_loses_nothing(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(archive, "write", interrupt)
        api.run("tiny.json")
    (folder,) = here.glob("*.run")
    watch = Follows()
    assert len(values(api.resume(folder, watch=watch).record)) == 3
    assert watch.events == [("begin", 3, 3), ("end",)]


def test_a_run_under_way_is_not_taken_up_and_not_disturbed(here: Path) -> None:
    class Second(api.Watch):
        def trial(self, trial: str) -> None:
            (folder,) = here.glob("*.run")
            with pytest.raises(CapsuleError, match="another process"):
                api.resume(folder)

    record = api.run("tiny.json", watch=Second()).record
    assert [one.outcome for one in record.attempts] == ["completed"] * 3


def test_another_capsule_does_not_go_on_with_a_verification(here: Path) -> None:
    one, two = api.run("tiny.json"), api.run("tiny.json")
    with pytest.raises(KeyboardInterrupt):
        api.verify(one.path, watch=Raises("trial"))
    (folder,) = here.glob("*.run")
    with pytest.raises(UsageError, match=one.id):
        api.resume_verification(two.path, folder)
    assert api.resume_verification(one.path, folder).rerun.record.verifies == one.id


def test_a_strangers_verification_asks_again_when_it_goes_on(here: Path, stranger: Become) -> None:
    sealed = api.run("tiny.json")
    stranger()
    with pytest.raises(KeyboardInterrupt):
        api.verify(sealed.path, CONSENT, Raises("trial"))
    (folder,) = here.glob("*.run")
    for again in (api.ResumeOptions(), api.ResumeOptions(trust=True)):
        with pytest.raises(UntrustedError):
            api.resume_verification(sealed.path, folder, again)
    again = api.ResumeOptions(trust=True, allow_host=True)
    assert api.resume_verification(sealed.path, folder, again).verdict.word == "REPRODUCED"


# what was there before


def test_nothing_is_written_over(here: Path) -> None:
    taken = here / "taken.zip"
    taken.write_text("precious")
    watch = Follows()
    with pytest.raises(UsageError, match="already exists"):
        api.run("tiny.json", api.RunOptions(output=taken), watch)
    sealed = api.run("tiny.json")
    with pytest.raises(UsageError, match="already exists"):
        api.verify(sealed.path, api.VerifyOptions(output=sealed.path), watch)
    with pytest.raises(UsageError, match="already exists"):
        api.run("tiny.json", api.RunOptions(work=here), watch)
    assert watch.events == []
    assert taken.read_text() == "precious"
    assert api.open(sealed.path).id == sealed.id


def test_what_appears_at_the_output_meanwhile_is_not_written_over(here: Path) -> None:
    class Meanwhile(api.Watch):
        def end(self) -> None:
            Path("a.zip").write_text("precious")

    with pytest.raises(UsageError, match="already exists"):
        api.run("tiny.json", api.RunOptions(output=Path("a.zip")), Meanwhile())
    (folder,) = here.glob("*.run")
    assert api.resume(folder, api.ResumeOptions(output=Path("b.zip"))).path == Path("b.zip")
    assert Path("a.zip").read_text() == "precious"


@pytest.mark.parametrize(
    ("output", "error"),
    [("none/a.zip", UsageError), ("tiny.sh/a.zip", UsageError), ("/proc/a.zip", ExecutionError)],
)
def test_an_output_without_a_place_is_known_before_anything_runs(
    here: Path, output: str, error: Error
) -> None:
    watch = Follows()
    with pytest.raises(error, match="--output"):
        api.run("tiny.json", api.RunOptions(output=Path(output)), watch)
    assert watch.events == []
    assert not list(here.glob("*.run"))
