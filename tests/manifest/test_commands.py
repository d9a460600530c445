"""A command's words, cases and variables: what is read, and what each mistake is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsule import manifest
from capsule.errors import ManifestError
from capsule.jsons import Json, JsonObject
from capsule.manifest import Case, Command, templates
from tests.support.properties import examples

ENTRY: JsonObject = {"id": "t", "command": ["run"], "metrics": {"loss": {}}}


def read(folder: Path | None = None, **fields: Json) -> manifest.Benchmark:
    gpus = fields.pop("gpus", 0)
    entry = {**ENTRY, **fields}
    document = {
        "name": "small",
        "title": "Small",
        "authors": [{"name": "Ada"}],
        "license": "CC-BY-4.0",
        "seeds": [1],
        "datasets": {
            name: {"generator": "regression"} for name in ("cifar-10", "cifar.10", "mnist")
        },
        "benchmarks": [entry],
        "resources": {"gpus_per_rank": gpus},
    }
    (benchmark,) = manifest.read(
        json.dumps(document).encode(), where="m.json", folder=folder
    ).benchmarks
    return benchmark


def complaint(folder: Path | None = None, **fields: Json) -> str:
    with pytest.raises(ManifestError) as caught:
        read(folder, **fields)
    return str(caught.value)


def cases(raw: Json) -> list[str]:
    return [case.name for case in read(cases=raw).cases]


def test_words_variables_and_folder_are_kept_as_they_were_written() -> None:
    benchmark = read(
        command=["{inputs}/a", "--lr={lr}", "{{seed}}", "{data:mnist}"],
        cases={"lr": [0.1]},
        datasets=["mnist"],
        environment={"MY_LR": "{lr}"},
        inputs=["repo"],
        cwd="repo/src",
    )
    assert benchmark.subject == Command(
        words=("{inputs}/a", "--lr={lr}", "{{seed}}", "{data:mnist}"),
        environment={"MY_LR": "{lr}"},
        cwd="repo/src",
    )
    assert benchmark.cases == (Case(name="lr0.1", parameters={"lr": 0.1}),)


def test_a_command_without_cases_has_one() -> None:
    assert read().cases == (Case(name="default", parameters={}),)


@pytest.mark.parametrize(
    ["raw", "names"],
    [
        ({"lr": [0.1, 1e-5], "n": [-2]}, ["lr0.1-n-2", "lr1e-05-n-2"]),
        ({"amp": [True, False], "opt": ["adam"]}, ["amp-adam", "no-amp-adam"]),
        ({"opt": ["a b/c", "_d"]}, ["a_b_c", "d"]),
        ([{"n": 1}, {"n": 2, "name": "two"}], ["n1", "two"]),
        ({"n": [1, True]}, ["n1", "n"]),
    ],
)
def test_cases_are_named_by_their_values(raw: Json, names: list[str]) -> None:
    assert cases(raw) == names


@pytest.mark.parametrize(
    ["raw", "message"],
    [
        ({"n": [1, 1]}, "1 is given twice"),
        ({"n": [1, 1.0]}, "1.0 is given twice"),
        ({"opt": ["a b", "a_b"]}, "two cases have the name 'a_b'; rename one"),
        ({"opt": ["-"]}, "the values of this case make a name of 0 characters, expected 1 to 64"),
        (
            {"opt": ["x" * 65]},
            "the values of this case make a name of 65 characters, expected 1 to",
        ),
        ([{"n": 1}, {"m": 2}], 'found parameters ["m"], expected ["n"] as in the first case'),
        ([{"n": 1, "name": "a"}, {"n": 2, "name": "a"}], "two cases have the name 'a'"),
        ({"seed": [1]}, "'seed' is a reserved name; rename the parameter"),
        ({"name": ["a"]}, "'name' is a reserved name"),
        ({"a-b": [1]}, '"a-b" is not a parameter name: use letters, digits and _'),
        (
            {f"n{place}": list(range(51)) for place in range(3)},
            "makes 132651 cases; at most 100000",
        ),
        ({"n": []}, "too few entries: found 0, expected at least 1"),
        ({"n": [None]}, "is not a whole number or a number or a text or true or false"),
        ({}, "too few entries: found 0, expected at least 1"),
    ],
)
def test_wrong_cases_are_told(raw: Json, message: str) -> None:
    assert message in complaint(cases=raw)


@pytest.mark.parametrize(
    ["word", "message"],
    [
        (
            "{sed}",
            "unknown placeholder {sed}; did you mean {seed}? (write {{sed}} for the text itself)",
        ),
        ("--x={lrr}", "unknown placeholder {lrr}; did you mean {lr}?"),
        ("{zzzzzz}", "unknown placeholder {zzzzzz}; there are: {lr}, {seed}, {case}"),
        ("{data:mnits}", "unknown placeholder {data:mnits}; there are: {data:mnist}"),
    ],
)
def test_an_unknown_placeholder_is_told_with_the_nearest(word: str, message: str) -> None:
    by_word = complaint(command=["run", word], cases={"lr": [1]}, datasets=["mnist"])
    assert f"/benchmarks/0/command/1: {message}" in by_word
    by_variable = complaint(environment={"X": word}, cases={"lr": [1]}, datasets=["mnist"])
    assert f"/benchmarks/0/environment/X: {message}" in by_variable


def test_wrong_cases_do_not_make_their_parameters_unknown() -> None:
    message = complaint(command=["run", "{lr}"], cases={"lr": [1, 1]})
    assert "1 is given twice" in message
    assert "unknown placeholder" not in message


def test_data_that_a_benchmark_does_not_have_is_told() -> None:
    assert "this benchmark has no datasets" in complaint(command=["{data:mnist}"])


@pytest.mark.parametrize(
    "word",
    ["${HOME}", "${seed}", "{}", "{print $1}", '{"a": 1}', "{1..3}", "{{x}}", "{a,b}", "{ x }"],
)
def test_what_is_no_name_in_braces_is_a_word_like_any_other(word: str) -> None:
    subject = read(command=["run", word]).subject
    assert isinstance(subject, Command)
    expected = "{x}" if word == "{{x}}" else word
    assert templates.fill(subject.words[1], {}) == expected


@given(st.text(alphabet="ab{}$:_1 -"), st.text())
@examples(200)
def test_a_text_in_braces_twice_is_the_text_itself(text: str, value: str) -> None:
    values = dict.fromkeys(templates.names(text), value)
    filled = templates.fill(text, values)
    if not any(mark in text for mark in "{}"):
        assert filled == text
    if not values and "{{" not in text:
        assert filled == text


@pytest.mark.parametrize(
    "name",
    [
        *("PATH", "HOME", "LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONSTARTUP", "IFS"),
        *(
            "BASH_ENV",
            "ENV",
            "PERL5OPT",
            "GIT_SSH_COMMAND",
            "DOCKER_HOST",
            "CUDA_VISIBLE_DEVICES",
            "ZE_AFFINITY_MASK",
        ),
        *("APPTAINER_BIND", "APPTAINERENV_X", "SINGULARITY_BIND", "SLURM_NTASKS", "PMI_RANK"),
        *("PMIX_RANK", "OMPI_COMM_WORLD_SIZE", "CAPSULE_SEED", "CAPSULE_RUN", "CAPSULE_X"),
    ],
)
def test_variables_of_engines_launchers_and_loaders_are_not_free(name: str) -> None:
    assert f"{name} cannot be set: it starts programs" in complaint(environment={name: "x"})


@pytest.mark.parametrize("name", ["path", "My", "1A", "", "A-B", "A B", "Ä"])
def test_other_names_are_none(name: str) -> None:
    message = "expected capital letters, digits and _, starting with a letter"
    assert message in complaint(environment={name: "x"})


def test_variables_that_settings_make_name_the_setting() -> None:
    assert "set cpus_per_rank" in complaint(environment={"OMP_NUM_THREADS": "1"})
    assert '"determinism": "strict"' in complaint(environment={"TF_DETERMINISTIC_OPS": "1"})


@pytest.mark.parametrize("name", ["NCCL_DEBUG", "KMP_AFFINITY", "X", "PATHS", "MY_PATH", "HOMEDIR"])
def test_other_variables_are_free(name: str) -> None:
    subject = read(environment={name: "1"}).subject
    assert isinstance(subject, Command)
    assert subject.environment == {name: "1"}


def test_a_working_folder_lies_among_the_inputs() -> None:
    assert '"src" is outside this benchmark\'s inputs' in complaint(cwd="src", inputs=["repo"])
    assert "is outside of the manifest's folder" in complaint(cwd="repo/../..", inputs=["repo"])


def test_a_working_folder_is_there_and_a_folder(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "a.py").touch()
    for cwd, message in (
        ("repo/a.py", "is a file, expected a folder"),
        ("repo/b", "does not exist"),
    ):
        assert message in complaint(cwd=cwd, inputs=["repo"], folder=tmp_path)


def test_standard_input_is_a_file_among_the_inputs(tmp_path: Path) -> None:
    (tmp_path / "repo" / "b").mkdir(parents=True)
    (tmp_path / "repo" / "a.in").touch()
    read(tmp_path, stdin="repo/a.in", inputs=["repo"])
    assert '"a.in" is outside this benchmark\'s inputs' in complaint(stdin="a.in", inputs=["repo"])
    for path, message in (
        ("repo/b", "is a folder or a special file, expected a regular file"),
        ("repo/c", "does not exist"),
        ("repo/../../etc/passwd", "is outside of the manifest's folder"),
    ):
        assert message in complaint(stdin=path, inputs=["repo"], folder=tmp_path)


def test_two_datasets_of_one_variable_are_told() -> None:
    message = complaint(datasets=["cifar-10", "cifar.10"])
    assert "would share the variable CAPSULE_DATA_CIFAR_10; rename one" in message


def test_a_command_may_require_the_gpu_that_it_asks_for() -> None:
    command = read(gpus=1, gpu_required=True).subject
    assert isinstance(command, Command)
    assert command.gpu_required
    for benchmark in (read(gpus=1), read(gpu_required=False)):
        assert isinstance(benchmark.subject, Command)
        assert not benchmark.subject.gpu_required
    assert complaint(gpu_required=True).endswith(
        "/benchmarks/0/gpu_required: the resources have no GPU: set gpus_per_rank, or remove"
        " gpu_required"
    )
    assert "gpu_required" in complaint(gpus=1, gpu_required="yes")
