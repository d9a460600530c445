"""What is a job: everything else ends in one sentence that names the field."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from capsule.levels import frameworks, job, run
from tests.support import trials
from tests.support.trials import ENTRY, JOB

RELU = {**ENTRY, "level": 0, "operator": "relu", "parameters": {"n": 5}}


def parse(variables: Mapping[str, str] | None = None, **fields: Any) -> job.Job:
    return job.parse({**JOB, "trials": [RELU], **fields}, variables or {})


def without(entry: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key != name}


def test_a_job_is_read_whole(tmp_path: Path) -> None:
    network = {
        **ENTRY,
        "id": "second",
        "level": 1,
        "network": "mine",
        "source": "/capsule/inputs/mine.py",
        "trains": False,
        "parameters": {"batch": 2, "rate": 0.5, "schedule": "cosine"},
        "datasets": ["digits"],
    }
    document = {**JOB, "ranks": 3, "data": {"digits": "/capsule/data/digits"}}
    path = tmp_path / "job.json"
    path.write_text(json.dumps({**document, "trials": [RELU, network]}))
    read = job.read(path, {"CAPSULE_RANK": "2"})
    assert (read.context.rank, read.context.ranks) == (2, 3)
    assert read.context.data == {"digits": Path("/capsule/data/digits")}
    first, second = read.trials
    assert first.context is second.context is read.context
    assert (first.subject, first.source, first.trains) == ("relu", None, True)
    assert (second.subject, second.source) == ("mine", "/capsule/inputs/mine.py")
    assert not second.trains
    assert second.parameters == {"batch": 2, "rate": 0.5, "schedule": "cosine"}
    assert second.datasets == ("digits",)


@pytest.mark.parametrize("name", [*JOB, "trials"])
def test_a_job_that_lacks_a_field_is_refused(name: str) -> None:
    with pytest.raises(job.JobError, match=f"^the job lacks the field '{name}'$"):
        job.parse(without({**JOB, "trials": [RELU]}, name), {})


@pytest.mark.parametrize("name", RELU)
def test_a_trial_that_lacks_a_field_is_refused(name: str) -> None:
    with pytest.raises(job.JobError, match=rf"^trials\[1\] lacks the field '{name}'$"):
        parse(trials=[{**RELU, "id": "first"}, without(RELU, name)])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"format": "capsule-job/2"}, 'format is "capsule-job/2", expected "capsule-job/1"'),
        ({"format": None}, 'format is null, expected "capsule-job/1"'),
        ({"framework": 3}, "framework is 3, expected a string"),
        ({"seed": -1}, "seed is -1, expected a whole number >= 0 and <= 4294967295"),
        ({"seed": 2**32}, "seed is 4294967296, expected"),
        ({"seed": 1.0}, "seed is 1.0, expected"),
        ({"seed": True}, "seed is true, expected"),
        ({"determinism": "some"}, 'determinism is "some", expected "default" or "strict"'),
        ({"device": "tpu"}, 'device is "tpu", expected "cpu" or "cuda"'),
        ({"threads": 0}, "threads is 0, expected a whole number >= 1"),
        ({"ranks": "2"}, 'ranks is "2", expected a whole number >= 1'),
        ({"data": ["digits"]}, 'data is ["digits"], expected an object'),
        ({"data": {"digits": None}}, "data.digits is null, expected a string"),
        ({"trials": {}}, "trials is {}, expected an array"),
        ({"trials": [7]}, "trials[0] is 7, expected an object"),
    ],
)
def test_a_field_of_the_wrong_type_is_named(fields: Mapping[str, Any], message: str) -> None:
    with pytest.raises(job.JobError) as refusal:
        parse(**fields)
    assert str(refusal.value).startswith(message)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"id": 1}, "trials[0].id is 1, expected a string"),
        ({"level": 4}, "trials[0].level is 4, expected a whole number >= 0 and <= 3"),
        ({"level": "0"}, 'trials[0].level is "0", expected'),
        ({"operator": ["relu"]}, 'trials[0].operator is ["relu"], expected a string'),
        ({"source": None}, "trials[0].source is null, expected a string"),
        ({"trains": 1}, "trials[0].trains is 1, expected true or false"),
        ({"parameters": []}, "trials[0].parameters is [], expected an object"),
        ({"parameters": {"n": None}}, "trials[0].parameters.n is null, expected a number or a"),
        ({"parameters": {"n": True}}, "trials[0].parameters.n is true, expected a number or a"),
        ({"parameters": {"n": [1]}}, "trials[0].parameters.n is [1], expected a number or a"),
        ({"repetitions": 0}, "trials[0].repetitions is 0, expected a whole number >= 1"),
        ({"warmup": -1}, "trials[0].warmup is -1, expected a whole number >= 0"),
        ({"datasets": "digits"}, 'trials[0].datasets is "digits", expected an array'),
        (
            {"datasets": ["digits", 1]},
            'trials[0].datasets is ["digits", 1], expected a list of strings',
        ),
        ({"datasets": ["digits"]}, "trials[0].datasets names 'digits', but the field 'data'"),
        ({"id": "x" * 10**6, "level": "y" * 10**6}, f'trials[0].level is "{"y" * 79}...'),
    ],
)
def test_a_field_of_a_trial_of_the_wrong_type_is_named(
    fields: Mapping[str, Any], message: str
) -> None:
    with pytest.raises(job.JobError) as refusal:
        parse(trials=[{**RELU, **fields}])
    assert str(refusal.value).startswith(message)
    assert len(str(refusal.value)) < 200


def test_a_trial_of_a_network_names_no_operator() -> None:
    with pytest.raises(job.JobError, match=r"^trials\[0\] lacks the field 'network'$"):
        parse(trials=[{**RELU, "level": 1}])


def test_two_trials_of_one_id_are_refused() -> None:
    with pytest.raises(job.JobError, match=r"^two trials have the id 'trial'"):
        parse(trials=[RELU, {**RELU, "case": "other"}])


@pytest.mark.parametrize("word", ["2", "5", "-1", "+1", " 1", "1.0", "one", "", "١", "9" * 5000])
def test_a_rank_that_the_job_has_not_is_refused(word: str) -> None:
    with pytest.raises(job.JobError) as refusal:
        parse({"CAPSULE_RANK": word}, ranks=2)
    assert str(refusal.value) == (
        f"CAPSULE_RANK is {word[:80]!r}, expected a whole number from 0 to 1 for a job of 2 ranks"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"\xff\xfe\x00", "is not JSON"),
        (b"[" * 10**5, "is not JSON"),
        (b"[]", "the job is [], expected an object"),
        (b'{"format": NaN}', "is not JSON: NaN is not a JSON number"),
    ],
)
def test_a_file_that_holds_no_job_is_named(tmp_path: Path, text: bytes, message: str) -> None:
    path = tmp_path / "job.json"
    path.write_bytes(text)
    with pytest.raises(job.JobError) as refusal:
        job.read(path, {})
    assert str(refusal.value).startswith(str(path))
    assert message in str(refusal.value)


def test_every_level_that_a_job_may_name_can_be_measured() -> None:
    assert all(callable(run.load_level(level)) for level in job.SUBJECTS)


@pytest.mark.parametrize("value", ["5", 5.0, 0.5])
def test_sizes_of_operators_and_networks_stay_whole_numbers(value: float | str) -> None:
    numpy = frameworks.load("numpy", "cpu", 1, "default")
    with pytest.raises(ValueError, match=f"n of relu is {value!r}, expected a whole number >= 1"):
        trials.values(numpy, operator="relu", parameters={"n": value})
    with pytest.raises(
        ValueError, match=f"batch of lenet is {value!r}, expected a whole number >= 1"
    ):
        trials.values(numpy, network="lenet", parameters={"batch": value})
