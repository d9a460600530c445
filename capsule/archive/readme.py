"""README.md of a capsule: contents, and how to verify it, for readers who have only `unzip`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from capsule import averages, plain, quick, summary
from capsule.archive import hardware
from capsule.digest import Digest
from capsule.manifest import Command, otherdevice
from capsule.origin import Side, predecessor_id
from capsule.record import FrozenClaim, RankSamples, Record

NAME = "README.md"


def build(record: Record, payload: Mapping[str, Digest | None]) -> Iterator[bytes]:
    """Yield the text in Markdown, a line at a time.

    Args:
        record: Of the capsule.
        payload: Files below `data/`, with their digests where these are known.
    """
    sections = (
        _head(record),
        _verify(record),
        _claims(record),
        _data(record),
        _contents(record),
        _run_by_hand(record, payload),
        _by_hand(record),
    )
    for place, section in enumerate(sections):
        if place:
            yield b"\n"
        yield from (f"{line}\n".encode() for line in section)


def _head(record: Record) -> Iterator[str]:
    manifest = record.manifest
    yield f"# {_plain(manifest.title or manifest.name)}"
    yield ""
    yield (
        "This is a capsule: the runs of a benchmark, the files and settings to run the benchmark"
        " again on another machine, and the rules to judge the new numbers."
    )
    yield ""
    authors = ", ".join(_author(author.name, author.affiliation) for author in manifest.authors)
    yield f"- Authors: {authors}"
    if manifest.paper_doi:
        yield f"- Paper: https://doi.org/{_plain(manifest.paper_doi)}"
    yield f"- Licence: {_plain(manifest.license)}"
    yield f"- Measured: {record.started} to {record.ended}"
    yield f"- Image: {_image(record)}"
    yield from (f"- Hardware: {_plain(kind)}" for kind in hardware.summaries(record.nodes))
    if record.verifies:
        yield f"- Verification of capsule: `{record.verifies}`"
    if (before := predecessor_id(record.origin)) is not None:
        yield f"- Derived from capsule: `{before}`"
    if record.nonce is not None:
        yield f"- Nonce of the fresh seeds (`--nonce`): {_plain(record.nonce)}"
    for place, value in record.manifest.changed.items():
        yield f"- Changed by the verifier (`--set`): {_plain(place)} to {_plain(str(value))}"
    if record.manifest.other_device is not None:
        yield f"- Device chosen by the verifier (`--device`): {record.manifest.other_device}"
    for sentence in otherdevice.list_left_out(record.manifest):
        yield f"- Not run on this device: {_plain(sentence)}"
    if left_out := quick.not_run(record):
        names = ", ".join(f"`{name}`" for name in sorted(left_out))
        yield f"- Benchmarks left out by `--quick`, needed for no primary claim: {names}"
    for earlier in record.chain:
        yield f"- Includes the runs of an earlier verification: {earlier.runs} of `{earlier.id}`"
    if isinstance(record.origin, Side):
        yield f"- Side {record.origin.side.upper()} of a pair of variants that ran alternately:"
        yield f"  `{record.origin.pair}`"
    yield from (f"- Note: {_plain(note.sentence)}" for note in record.notes)


def _verify(record: Record) -> Iterator[str]:
    has_image = record.image is not None
    engine = " and a container engine (Apptainer, Docker, Podman)" if has_image else ""
    flags = "--trust" if has_image else "--trust --allow-host"
    host = (
        ""
        if has_image
        else " The sealed runs used no container, so the re-run uses your Python and packages."
        " `--allow-host` allows the code to read and write all your files."
    )
    yield "## Verify the capsule"
    yield ""
    yield (
        f"The program `capsule`, version {_plain(record.tool)} of the project capsule-hpc"
        " (Apache-2.0), sealed this capsule. A package index may have another program named"
        " capsule, so get the source of this or a later version from the address that the authors"
        " name."
        f" With Python 3.11 or later{engine}, type in the folder of the source:"
    )
    yield ""
    yield "    python3 -m pip install ."
    yield f"    capsule verify {record.manifest.name}.capsule.zip {flags}"
    yield ""
    yield (
        "`--trust` allows `capsule verify` to run the code in the capsule."
        f"{host} `capsule check` and `capsule show` run no code. The verification draws fresh"
        f" seeds, runs the same plan{' in the same image' * has_image} and judges each claim:"
        " REPRODUCED, DIFFERENT or INCONCLUSIVE. If the capsule has another file name, type that"
        " name."
    )


def _claims(record: Record) -> Iterator[str]:
    yield "## Claims"
    yield ""
    if not record.claims:
        yield "None: the numbers in `results/metrics.json` are reported, but not claimed."
        return
    runs = summary.metric_runs(record)
    yield "| metric | median of the runs | unit | runs | claim | allowed | |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for claim in record.claims:
        metric = runs.get(claim.metric)
        values = summary.list_values(metric.runs) if metric else []
        cells = (
            f"`{claim.metric}`",
            str(averages.median(values)) if metric else "not run",
            f"`{_plain(metric.unit)}`" if metric else "",
            str(len(values)),
            f"{_plain(claim.pattern.label)} ({claim.type})" if claim.pattern.label else claim.type,
            _region(claim),
            "primary" if claim.primary else "secondary",
        )
        yield f"| {' | '.join(cells)} |"
    yield ""
    yield "`allowed` is an interval (`log`: of natural logarithms) for:"
    yield ""
    yield "- `threshold`: the location of the re-run"
    yield "- `bound`: each run of the re-run"
    yield "- other claims: the difference between the locations of re-run and original"


def _data(record: Record) -> Iterator[str]:
    yield "## Data"
    yield ""
    if not record.datasets:
        yield "None: the benchmarks read no datasets."
    specs = {spec.name: spec for spec in record.manifest.datasets}
    for dataset in record.datasets:
        spec = specs[dataset.name]
        yield f"- `{dataset.name}`: {dataset.bytes} bytes in {_files(dataset.files)}"
        yield f"  `{dataset.digest}`"
        if spec.description:
            yield f"  {_plain(spec.description)}"
        yield f"  {_plain(spec.provenance)}"
        if dataset.embedded:
            yield f"  In this capsule: `datasets/{dataset.name}/`"
    if any(specs[one.name].url for one in record.datasets if not one.embedded):
        yield ""
        yield "To fetch the datasets that have an address, and check their digests:"
        yield ""
        yield f"    capsule data fetch {record.manifest.name}.capsule.zip"


def _contents(record: Record) -> Iterator[str]:
    yield "## Contents"
    yield ""
    yield "All files are text (UTF-8), except binary inputs, datasets and evidence."
    yield ""
    many = [
        (
            "results/ranks.jsonl",
            "samples of every rank of an attempt with many ranks, one line per metric",
        )
    ]
    devices = [("results/devices.jsonl", "clocks, power and memory of each device and attempt")]
    for path, meaning in (
        ("manifest.json", "the manifest, as the author wrote it"),
        ("capsule.json", "claims, datasets, times"),
        ("records/", "hardware, software, settings, image and plan"),
        ("results/samples.jsonl", "every measured value, one line per metric and attempt"),
        *(many if any(isinstance(one, RankSamples) for one in record.samples) else ()),
        *(devices if record.devices else ()),
        ("results/attempts.jsonl", "every attempt at every trial, failures included"),
        ("results/metrics.json", "one value per run and metric, with summaries"),
        ("inputs/", "the author's files"),
        ("datasets/", "embedded datasets, if any"),
        ("levels/", "the measuring code"),
        ("logs/", "the output of the workload"),
        ("evidence/", "files that trials wrote, if any are kept"),
        ("ro-crate-metadata.json", "the run in schema.org terms (Process Run Crate 0.5)"),
    ):
        yield f"- `{path}`: {meaning}"
    yield ""
    yield (
        "In file names below `inputs/` and `datasets/`, `=` and two hex digits stand for one byte"
        " (of UTF-8) that some systems do not allow in names: `caf=C3=A9.txt`."
    )


def _run_by_hand(record: Record, payload: Mapping[str, Digest | None]) -> Iterator[str]:
    yield "## Run the commands by hand"
    yield ""
    # a quick verification left some out, and a plan is compared with its manifest later
    planned = {trial["benchmark"] for trial in summary.planned_trials(record.plan)}
    ran = (one for one in record.manifest.benchmarks if one.id in planned)
    benchmarks = [one for one in ran if isinstance(one.subject, Command)]
    if not benchmarks or record.manifest.resources.ranks > 1:
        yield (
            "Only the program `capsule` can start operators, networks and programs of several"
            " ranks. `levels/` contains the measuring code."
        )
        return
    # whoever reads operators and networks would wait for it
    from capsule.archive import byhand

    yield from byhand.lines(record, benchmarks, payload)


def _by_hand(_: Record) -> Iterator[str]:
    yield "## Check the files by hand"
    yield ""
    yield "`manifest-sha256.txt` lists the SHA-256 of every file in `data/`. The id is the SHA-256"
    yield "of `tagmanifest-sha256.txt`, which lists the SHA-256 of `manifest-sha256.txt`:"
    yield ""
    yield "    unzip NAME.capsule.zip -d capsule && cd capsule"
    yield "    sha256sum tagmanifest-sha256.txt           # the id: compare it with the paper"
    yield "    sha256sum -c tagmanifest-sha256.txt        # the lists are unchanged"
    yield "    sha256sum -c --quiet manifest-sha256.txt   # every file is unchanged"
    yield "    find data -type f | wc -l                  # number of files in data/"
    yield "    wc -l < manifest-sha256.txt                # equal number: no file was added"


def _image(record: Record) -> str:
    image = record.image
    if image is None:
        return "none (run on the host, without a container)"
    name = f"`{_plain(image.pinned or image.reference)}`, {_plain(image.platform)}"
    return name if image.pinned else f"{name}, identified by its {image.identity}"


def _author(name: str, affiliation: str | None) -> str:
    return _plain(f"{name} ({affiliation})" if affiliation else name)


def _region(claim: FrozenClaim) -> str:
    lower = "-inf" if claim.lower is None else f"{claim.lower:g}"
    upper = "inf" if claim.upper is None else f"{claim.upper:g}"
    return f"[{lower}, {upper}]{' log' if claim.scale == 'log' else ''}"


def _plain(text: str) -> str:
    """Return untrusted text so that it can neither end its line nor become markup."""
    words = plain.clean(" ".join(text.split()))
    return "".join(f"\\{char}" if char in "\\`*_[]<>|#!" else char for char in words)


def _files(number: int) -> str:
    return "1 file" if number == 1 else f"{number} files"
