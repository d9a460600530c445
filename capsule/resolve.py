"""Decide once what a run uses on this machine: engine, image, data, devices, inputs.

Nothing of a manifest's is executed, and nothing is made but what caches keep.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from capsule import datasets, launch, notes, offline, placeholders, places, quick, runtimes
from capsule import image as images
from capsule import site as sites
from capsule.diff.changes import SAME_IMAGE, relate_images
from capsule.errors import CannotRunError, UsageError
from capsule.execute import embedding, inputs, payload
from capsule.execute.embedding import Embedded
from capsule.execute.inputs import Inputs
from capsule.image import Image, mirrors, platforms
from capsule.image.mirrors import Access
from capsule.image.reference import owner_of
from capsule.launch.base import Launcher
from capsule.manifest import DatasetSpec, Manifest, warnings
from capsule.notes import Note
from capsule.record import Dataset, Source
from capsule.runtimes import binds, hostmpi, local, programs, visible
from capsule.runtimes import keyring as keyrings
from capsule.runtimes.base import Prepared, Runtime
from capsule.runtimes.keyring import Keyring
from capsule.site import Site
from capsule.watch import SILENT, Watch, report_pending


@contextmanager
def cache_near(folder: Path | None, watch: Watch = SILENT) -> Iterator[None]:
    """Have a cache for as long as a run takes, where its user can write no other one.

    Args:
        folder: Folder of the run, beside which it lies; None for one in the current folder.
        watch: Is told of it.

    Raises:
        CannotRunError, ExecutionError: It cannot be made.
    """
    if not sites.lacks_cache(sites.load()):
        yield
        return
    with places.scratch(folder.parent if folder else Path()) as scratch:
        usual = sites.own_cache_folder()
        watch.note(
            f"cannot write {usual}: capsule keeps images and data of this run beside the run"
            " folder, and removes both after the run; to keep images and data, set CAPSULE_CACHE"
            " to a writable folder"
        )
        with sites.use_cache(scratch.absolute()):
            yield


@dataclass(frozen=True, kw_only=True)
class Used:
    """Files that an earlier run used; this run needs the same bytes.

    Attributes:
        image: None when it ran without one.
        datasets: With the digests that they had.
    """

    image: Image | None
    datasets: tuple[Dataset, ...]


@dataclass(frozen=True, kw_only=True)
class Request:
    """Request for a run on this machine.

    Attributes:
        manifest: What will run.
        used: By the run that is verified or taken up again, None for a new one.
        only: Ids of the benchmarks that run, None for all.
        runtime: Name of an engine, or `auto`.
        image: Reference that takes the place of the image, None for that one.
        levels: Folder of the measuring code.
        inputs: Folder that the manifest's input paths are relative to.
        data: Folder of the datasets that an earlier run carries.
        keep_keyring: True if workloads may reach the user's keys of the kernel.
    """

    manifest: Manifest
    used: Used | None = None
    only: frozenset[str] | None = None
    runtime: str = "auto"
    image: str | None = None
    levels: Path = payload.OWN_LEVELS
    inputs: Path | None
    data: Path | None = None
    keep_keyring: bool = False

    @classmethod
    def of(
        cls, manifest: Manifest, runtime: str, image: str | None, *, keep_keyring: bool = False
    ) -> Request:
        """Return the needs of a new run of a manifest."""
        return cls(
            manifest=manifest,
            runtime=runtime,
            image=image,
            inputs=manifest.folder,
            keep_keyring=keep_keyring,
        )

    @property
    def datasets(self) -> tuple[DatasetSpec, ...]:
        """Return the manifest's datasets that must be present."""
        used = self.used.datasets if self.used else ()
        return quick.needed_data(self.manifest, used, self.only)

    @property
    def has_image(self) -> bool:
        """Return whether there is an image that an engine could start."""
        own = self.used.image if self.used else self.manifest.image
        return own is not None or self.image is not None


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """Everything a run uses, present on this machine.

    Attributes:
        runtime: The engine.
        image: None without a container.
        override: What a capsule calls the image that took the place of another; None where that
            one is used, from wherever it came.
        prepared: The image, ready to start.
        datasets: What they are, with digests.
        data: Where each dataset lies.
        inputs: Every input file: its path below `inputs/`, and where it lies.
        embedded: Every file of the datasets that are carried: its path below `datasets/`, likewise.
        sources: The git checkouts that they are of.
        levels: Folder of the measuring code.
        threads: Threads that a workload may use.
        launcher: What starts the ranks.
        notes: What a reader of the numbers must know of all this.
    """

    runtime: Runtime
    image: Image | None
    override: str | None
    prepared: Prepared
    datasets: tuple[Dataset, ...]
    data: Mapping[str, Path]
    inputs: Mapping[str, Path]
    embedded: Mapping[str, Path]
    sources: tuple[Source, ...]
    levels: Path
    threads: int
    launcher: Launcher
    notes: tuple[Note, ...]

    @property
    def copies(self) -> Mapping[str, Path]:
        """Return every file that the run will copy: its path below `data/`, and where it lies."""
        inputs = {f"inputs/{name}": path for name, path in self.inputs.items()}
        return inputs | {f"{embedding.FOLDER}{name}": path for name, path in self.embedded.items()}


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Engine and image of a run, chosen before anything is fetched.

    Attributes:
        runtime: The engine.
        image: What it starts, None without a container.
        own: True if the code that it starts is this user's.
    """

    runtime: Runtime
    image: Image | None
    own: bool = True


def choose(request: Request, watch: Watch = SILENT) -> Choice:
    """Decide what starts a run here; of an image in a registry nothing is fetched but its digests.

    Args:
        request: What is wanted.
        watch: Hears of an image that takes long: a recipe is built, a file is hashed.

    Raises:
        UsageError: Engine and image do not fit together, or a reference is none.
        CannotRunError: The engine cannot be used here, or none can.
    """
    runtime = choose_engine(request)
    return Choice(runtime=runtime, image=_image(request, runtime, watch))


def choose_engine(request: Request) -> Runtime:
    """Return the engine alone; errors are those of `choose`."""
    return _engine(request, sites.load())


def resolve(request: Request, watch: Watch = SILENT, *, choice: Choice | None = None) -> Resolved:
    """Find or fetch everything that a run needs here.

    Args:
        request: What is wanted.
        watch: Follows what takes long.
        choice: Engine and image that the user consented to; None to choose now.

    Raises:
        UsageError: Engine and image do not fit together, or a reference is none.
        CannotRunError: An engine, the image, a dataset, a bind or a device is missing here.
        DamagedError: An image, a dataset or an input is not what its digest or name promises.
    """
    manifest, site = request.manifest, sites.load()
    launcher = launch.choose(manifest.resources, site)
    choice = choice or choose(request, watch)
    runtime, image = choice.runtime, choice.image
    carried = _inputs(request)
    if carried.left_out is not None:
        watch.omissions(carried.left_out)
    records, data = _datasets(request, site, watch)
    for sentence in warnings.of_pointers(_files(carried, data)):
        watch.omissions(sentence)
    embedded = _embed(request, records, data, watch)
    prepared = _prepare(choice, request, site, launcher, watch)
    if image is not None and prepared.tree is not None:
        image = replace(image, tree_digest=prepared.tree)
    override = _override(request, image)
    return Resolved(
        runtime=runtime,
        image=image,
        override=override,
        prepared=prepared,
        datasets=embedded.datasets,
        data=data,
        inputs=carried.files,
        embedded=embedded.files,
        sources=carried.sources,
        levels=request.levels,
        threads=threads(manifest),
        launcher=launcher,
        notes=tuple(_notes(request, runtime, image, prepared, override)),
    )


def _files(carried: Inputs, data: Mapping[str, Path]) -> Iterator[tuple[str, Path]]:
    """Yield all that a run reads of its author's: what each file is called, and where it lies."""
    yield from carried.files.items()
    for name, path in data.items():
        yield from placeholders.walk(f"dataset {name}: {path.name}", path)


def _engine(request: Request, site: Site) -> Runtime:
    """Return the engine that is asked for; else, for an image, the site's; else the first usable
    one.
    """
    if request.runtime != "auto" or site.runtime is None or not request.has_image:
        return runtimes.choose(request.runtime, needs_image=request.has_image)
    try:
        return runtimes.choose(site.runtime, needs_image=True)
    except CannotRunError as error:
        raise CannotRunError(
            error.what,
            where=site.where("/runtime"),
            advice="change the setting, or choose another engine with --runtime",
        ) from None


def _image(request: Request, runtime: Runtime, watch: Watch) -> Image | None:
    if not runtime.contained:
        if request.image is not None:
            raise UsageError(
                f"engine {runtime.name} uses no image; {request.image} would be ignored",
                advice="leave --image out, or choose --runtime apptainer, docker or podman",
            )
        return None
    if request.image is None and request.used is not None:
        if request.used.image is None:
            raise UsageError(
                f"the original ran without an image, so {runtime.name} has no image to run",
                advice="add --runtime host, or name an image with --image",
            )
        platforms.require(request.used.image)
        return request.used.image
    if not request.has_image:
        raise UsageError(
            f"engine {runtime.name} needs an image, and the manifest names no image",
            where="/image",
            advice="name an image in the manifest or with --image, or add --runtime host",
        )
    spec, folder, site = request.manifest.image, request.manifest.folder, sites.load()
    access = Access(mirrors=site.mirrors, cache=sites.cache_folder(site))
    with report_pending(watch):
        return images.resolve(
            spec, folder=folder, override=request.image, access=access, engines=local.find
        )


def _override(request: Request, image: Image | None) -> str | None:
    """Return the name of an image that takes the place of another; None where it is that one."""
    if request.image is None or image is None or image.file is None:
        return request.image
    there = request.used.image if request.used else None
    return None if relate_images(there, image) in SAME_IMAGE else image.reference


def _datasets(
    request: Request, site: Site, watch: Watch
) -> tuple[tuple[Dataset, ...], dict[str, Path]]:
    """Return every dataset that is needed."""
    records: list[Dataset] = []
    paths: dict[str, Path] = {}
    for spec in request.datasets:
        dataset, paths[spec.name] = obtain_dataset(spec, request, site, watch)
        records.append(dataset)
    return tuple(records), paths


def obtain_dataset(
    spec: DatasetSpec, request: Request, site: Site, watch: Watch
) -> tuple[Dataset, Path]:
    """Return a dataset, and where it lies; one that was used before must be the same bytes
    again.
    """
    used, cache = request.used, sites.cache_folder(site)
    before = {dataset.name: dataset for dataset in used.datasets} if used else {}
    known = before.get(spec.name)
    if known is not None and known.embedded and request.data is not None:
        return datasets.take_copy(known, request.data / spec.name, cache=cache)
    return datasets.obtain(
        replace(spec, digest=known.digest if known else spec.digest),
        folder=request.manifest.folder,
        site=site,
        cache=cache,
        progress=partial(watch.dataset, spec.name),
    )


def _embed(
    request: Request, records: tuple[Dataset, ...], places: Mapping[str, Path], watch: Watch
) -> Embedded:
    """Return the datasets to embed: those of the earlier run, if there is one."""
    if request.used is None:
        embedded = embedding.choose(request.manifest, records, places)
        for sentence in embedded.sentences:
            watch.embedding(sentence)
        return embedded
    files = {
        name: path
        for dataset in records
        if dataset.embedded
        for name, path in embedding.files_of(dataset, places[dataset.name]).items()
    }
    return Embedded(datasets=records, files=files)


def _prepare(
    choice: Choice, request: Request, site: Site, launcher: Launcher, watch: Watch
) -> Prepared:
    runtime, image, resources = choice.runtime, choice.image, request.manifest.resources
    shown = binds.find(site) if runtime.contained else ()
    libraries = hostmpi.find(site, shown) if runtime.contained else ()
    # on its own nodes each rank of an allocation looks for itself
    is_here = not launch.starts_elsewhere(launcher)
    count = resources.gpus_per_rank * resources.ranks_per_node if is_here else 0
    if count:
        # a missing device is reported before an image of gigabytes is fetched
        _require_gpus(count, image, request)
    prepared = obtain_image(choice, site, watch, keep_keyring=request.keep_keyring)
    if prepared.hashing_seconds:
        watch.image_hashing(prepared.hashing_seconds)
    if count:
        runtime.check_gpus(count, prepared, image)
    prepared = launch.share_network(prepared, runtime, resources, launcher)
    if runtime.contained:
        return hostmpi.use(binds.show(prepared, shown), libraries)
    chosen = programs.choose(prepared, request.manifest, site)
    if choice.own:
        return chosen
    keyring: Keyring = "kept" if request.keep_keyring else "outside"
    observations = {**chosen.observations, **keyrings.observe(keyring)}
    return replace(chosen, keyring=keyring, observations=observations)


def _require_gpus(count: int, image: Image | None, request: Request) -> None:
    """Stop unless this node shows so many GPUs.

    Raises:
        CannotRunError: Says what is missing, and for a capsule, whose manifest is sealed, how to
            verify it without a GPU.
    """
    try:
        visible.require(count, image)
    except CannotRunError as error:
        is_sealed = request.manifest.folder is None
        if not is_sealed or error.where != "/resources/gpus_per_rank":
            raise
        raise CannotRunError(
            error.what,
            where=error.where,
            advice="use a machine with a GPU, or verify the capsule on CPUs: --device cpu",
        ) from None


def obtain_image(
    choice: Choice, site: Site, watch: Watch, *, keep_keyring: bool = False
) -> Prepared:
    """Return the image out of what is kept here, else from the site's mirror, else from its
    registry.

    Raises:
        CannotRunError: It cannot be had.
        DamagedError: What was fetched is not what its digest names.
    """
    cache, runtime, image = sites.cache_folder(site), choice.runtime, choice.image
    prepare = partial(runtime.prepare, cache=cache, keep_keyring=keep_keyring, own=choice.own)
    if image is None:
        return prepare(None)
    watch.image(image, runtime.name)
    with report_pending(watch):
        mirrored = mirrors.reroute(image, site.mirrors)
        if mirrored is None or runtime.keeps(image, cache=cache):
            return prepare(image)
        try:
            prepared = prepare(mirrored)
        except CannotRunError:
            if offline.is_on():
                raise
            return prepare(image)
    return replace(prepared, observations={**prepared.observations, "mirror": "of the site"})


def _inputs(request: Request) -> Inputs:
    """Return the inputs of an earlier run, else those in the author's folders."""
    if request.used is not None:
        return Inputs(files=inputs.copies(request.manifest, request.inputs))
    return inputs.collect(request.manifest, request.inputs)


def threads(manifest: Manifest) -> int:
    """Return the number of threads of each rank: the ranks of a node share its CPUs."""
    resources = manifest.resources
    share = len(os.sched_getaffinity(0)) // resources.ranks_per_node
    return resources.cpus_per_rank or max(1, share)


def _notes(
    request: Request,
    runtime: Runtime,
    image: Image | None,
    prepared: Prepared,
    override: str | None,
) -> Iterator[Note]:
    manifest = request.manifest
    if image is not None and (owner := owner_of(image.reference)):
        yield notes.NOTES(notes.IMAGE_LOCAL, reference=image.reference, owner=owner)
    if not runtime.contained:
        yield notes.no_container()
        if request.has_image:
            yield notes.NOTES(notes.IMAGE_UNUSED, verifies=request.used is not None)
    if manifest.narrowed_from is not None:
        names = [name for benchmark in manifest.benchmarks for name in benchmark.frameworks]
        frameworks = tuple(dict.fromkeys(names))
        yield notes.NOTES("narrowed", frameworks=frameworks, whole=str(manifest.narrowed_from))
    if manifest.left_out:
        yield notes.NOTES("frameworks-left-out", frameworks=manifest.left_out)
    yield from notes.site_files(prepared.observations)
    yield from notes.kept_keyring(prepared.observations)
    if override is not None:
        yield notes.choice_of_image(
            override,
            replaces=replace(request, image=None).has_image,
            verifies=request.used is not None,
        )
    if (reason := _explain_network(manifest, runtime, prepared)) is not None:
        yield notes.NOTES("online", reason=reason)
    ranks, cpus = manifest.resources.ranks_per_node, len(os.sched_getaffinity(0))
    if (wanted := threads(manifest) * ranks) > cpus:
        yield notes.oversubscription(threads=wanted, ranks=ranks, cpus=cpus)


def _explain_network(manifest: Manifest, runtime: Runtime, prepared: Prepared) -> str | None:
    """Return why workloads in containers could reach the network, None if they could not.

    Without a container they always can, which another note says.
    """
    if prepared.open_network is not None:
        return prepared.open_network
    online = [one.id for one in manifest.benchmarks if one.online]
    if not online or not runtime.contained:
        return None
    says = "benchmark {} says" if len(online) == 1 else "{} and {} more benchmarks say"
    return f'{says.format(online[0], len(online) - 1)} "online": true'
