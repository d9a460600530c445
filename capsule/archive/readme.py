"""README.md of a capsule: what it is and how to verify it, for whoever has nothing but `unzip`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from capsule import averages, plain, quick, summary
from capsule.archive import hardware
from capsule.digest import Digest
from capsule.manifest import Command
from capsule.origin import Side, predecessor_id
from capsule.record import FrozenClaim, RankSamples, Record

NAME = "README.md"


def build(record: Record, payload: Mapping[str, Digest | None]) -> Iterator[bytes]:
    """The text, in Markdown, a line at a time.

    Args:
        record: What the capsule states.
        payload: Files below `data/` that it carries, with the digests that are known.
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
        "This is a capsule: one run of a benchmark with everything needed to run it again on"
        " another machine, and the rule by which the new numbers will be judged."
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
        yield f"- Re-execution of capsule: `{record.verifies}`"
    if (before := predecessor_id(record.origin)) is not None:
        yield f"- Made of capsule: `{before}`"
    if record.nonce is not None:
        yield f"- Its seeds follow from this word, too: {_plain(record.nonce)}"
    for place, value in record.manifest.changed.items():
        yield f"- Set by whoever verified (`--set`): {_plain(place)} to {_plain(str(value))}"
    if left_out := quick.not_run(record):
        names = ", ".join(f"`{name}`" for name in sorted(left_out))
        yield f"- Left out, as no claim there decides the verdict (`--quick`): {names}"
    for earlier in record.chain:
        yield f"- Counts runs of an earlier verification: {earlier.runs} of `{earlier.id}`"
    if isinstance(record.origin, Side):
        yield f"- Side {record.origin.side.upper()} of a pair that ran by turns:"
        yield f"  `{record.origin.pair}`"
    yield from (f"- Note: {_plain(note.sentence)}" for note in record.notes)


def _verify(record: Record) -> Iterator[str]:
    has_image = record.image is not None
    engine = " and a container engine (Apptainer, Docker, Podman)" if has_image else ""
    flags = "--trust" if has_image else "--trust --allow-host"
    host = (
        ""
        if has_image
        else " It ran without a container, on its author's own Python and libraries, so it runs on"
        " yours: `--allow-host` says that it may. Nothing keeps it from your files then, but the"
        " rights of your account."
    )
    yield "## Verify it"
    yield ""
    yield (
        f"It was sealed by the program `capsule`, version {_plain(record.tool)} of the project"
        " capsule-hpc (Apache-2.0). Take its source, this version or a later one, from where the"
        " authors point to: a package index may hold something else under that name. With Python"
        f" 3.11 or later{engine}, in the folder of the source:"
    )
    yield ""
    yield "    python3 -m pip install ."
    yield f"    capsule verify {record.manifest.name}.capsule.zip {flags}"
    yield ""
    yield (
        "That runs the code in this capsule, which is somebody else's: `--trust` says that you"
        f" allow it.{host} `capsule check` and `capsule show` run nothing. Verification draws fresh"
        f" seeds, runs the same plan{' in the same image' * has_image} and says REPRODUCED,"
        " DIFFERENT or INCONCLUSIVE for each claim. Give the name of this file where it is another"
        " one."
    )


def _claims(record: Record) -> Iterator[str]:
    yield "## What is claimed"
    yield ""
    if not record.claims:
        yield "Nothing: the numbers in `results/metrics.json` are reported, none is claimed."
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
            claim.type,
            _region(claim),
            "primary" if claim.primary else "secondary",
        )
        yield f"| {' | '.join(cells)} |"
    yield ""
    yield (
        "The region in `allowed` bounds the shift from this capsule's location to the"
        " re-execution's; for `threshold` it bounds the re-execution's location itself, for `bound`"
        " each of its runs, and `log` means natural logarithms."
    )


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
            yield f"  It is in here: `datasets/{dataset.name}/`"
    if any(specs[one.name].url for one in record.datasets if not one.embedded):
        yield ""
        yield "What has an address is fetched, and checked by its digest, by"
        yield ""
        yield f"    capsule data fetch {record.manifest.name}.capsule.zip"


def _contents(record: Record) -> Iterator[str]:
    yield "## What is in here"
    yield ""
    yield "All of it is text (UTF-8), apart from inputs that are not."
    yield ""
    many = [("results/ranks.jsonl", "series of many ranks, one line per metric and attempt")]
    for path, meaning in (
        ("manifest.json", "what was asked for, as the author wrote it"),
        ("capsule.json", "what this capsule states: claims, datasets, times"),
        ("records/", "hardware, software, settings, image and plan"),
        ("results/samples.jsonl", "every measured value, one line per metric and attempt"),
        *(many if any(isinstance(one, RankSamples) for one in record.samples) else ()),
        ("results/attempts.jsonl", "every attempt at every trial, failures included"),
        ("results/metrics.json", "one value per run: the median of its samples after warm-up"),
        ("inputs/", "the files that the benchmark read"),
        ("datasets/", "the small data that it carries, where there is any"),
        ("levels/", "the program that measured"),
        ("logs/", "what the workload printed"),
        ("evidence/", "files that trials left behind, where any are kept"),
        ("ro-crate-metadata.json", "the same in the words of schema.org (Process Run Crate 0.5)"),
    ):
        yield f"- `{path}`: {meaning}"
    yield ""
    yield (
        "In the names of files below `inputs/` and `datasets/` `=` with two hex digits stands for a"
        " byte (of UTF-8) that not every system has in names, or reads as it is: `caf=C3=A9.txt`."
    )


def _run_by_hand(record: Record, payload: Mapping[str, Digest | None]) -> Iterator[str]:
    yield "## Run it by hand"
    yield ""
    # a quick verification left some out, and a plan is compared with its manifest later
    planned = {trial["benchmark"] for trial in summary.planned_trials(record.plan)}
    ran = (one for one in record.manifest.benchmarks if one.id in planned)
    benchmarks = [one for one in ran if isinstance(one.subject, Command)]
    if not benchmarks or record.manifest.resources.ranks > 1:
        yield (
            "Operators, networks and programs of several ranks are started by the program `capsule`"
            " alone: `levels/` has what measures them."
        )
        return
    # whoever reads operators and networks would wait for it
    from capsule.archive import byhand

    yield from byhand.lines(record, benchmarks, payload)


def _by_hand(_: Record) -> Iterator[str]:
    yield "## Verify it by hand"
    yield ""
    yield "Every file has its SHA-256 in a list, and the list of lists has the id of this capsule:"
    yield ""
    yield "    unzip NAME.capsule.zip -d capsule && cd capsule"
    yield "    sha256sum tagmanifest-sha256.txt           # the id: compare it with the paper"
    yield "    sha256sum -c tagmanifest-sha256.txt        # the lists are whole"
    yield "    sha256sum -c --quiet manifest-sha256.txt   # every file is whole"
    yield "    find data -type f | wc -l                  # as many as the list has lines:"
    yield "    wc -l < manifest-sha256.txt                # nothing was added"


def _image(record: Record) -> str:
    image = record.image
    if image is None:
        return "none, the benchmark ran uncontained on the host"
    name = f"`{_plain(image.pinned or image.reference)}`, {_plain(image.platform)}"
    return name if image.pinned else f"{name}, known by its {image.identity}"


def _author(name: str, affiliation: str | None) -> str:
    return _plain(f"{name} ({affiliation})" if affiliation else name)


def _region(claim: FrozenClaim) -> str:
    lower = "-inf" if claim.lower is None else f"{claim.lower:g}"
    upper = "inf" if claim.upper is None else f"{claim.upper:g}"
    return f"[{lower}, {upper}]{' log' if claim.scale == 'log' else ''}"


def _plain(text: str) -> str:
    """Text of a stranger that can neither end its line nor become markup."""
    words = plain.clean(" ".join(text.split()))
    return "".join(f"\\{char}" if char in "\\`*_[]<>|#!" else char for char in words)


def _files(number: int) -> str:
    return "1 file" if number == 1 else f"{number} files"
