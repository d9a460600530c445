"""What each verb of the command does, stage by stage; each returns its exit code."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from capsule.console import Console
from capsule.errors import UsageError


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Manifest -> plan -> trials -> journal -> record -> capsule."""
    from capsule import manifest, report, session
    from capsule.execute import payload

    if (arguments.manifest is None) == (arguments.resume is None):
        raise UsageError("name a manifest, or a run folder with --resume")
    if arguments.resume and arguments.frameworks:
        raise UsageError(
            "--resume and --frameworks exclude each other",
            advice="the run folder keeps the frameworks that the run was begun with",
        )
    if arguments.dry_run:
        return _dry_run(arguments, console)
    if arguments.resume:
        current = session.reopen(Path(arguments.resume), None, console)
    else:
        asked = manifest.load(Path(arguments.manifest), arguments.frameworks)
        current = session.begin(
            session.Request(
                manifest=asked,
                original=None,
                runtime=arguments.runtime,
                image=arguments.image,
                work=_path(arguments.work),
                keep_hosts=arguments.keep_hosts,
                runs=None,
                levels=payload.OWN_LEVELS,
                inputs=asked.folder,
            ),
            console,
        )
    record, capsule_id, target = _finish(current, arguments, console)
    failed = [each for each in record.attempts if each.outcome == "failed"]
    if arguments.json:
        console.data(_text({"capsule": str(target), "id": capsule_id, "failed": len(failed)}))
    else:
        console.show(*report.draw_sealed(record, capsule_id))
        console.data(f"sealed {target}")
    if failed:
        raise report.failure(record, target)
    return 0


def _dry_run(arguments: argparse.Namespace, console: Console) -> int:
    from capsule import manifest, plan

    if arguments.manifest is None:
        raise UsageError("--dry-run needs a manifest")
    planned = plan.make(manifest.load(Path(arguments.manifest), arguments.frameworks))
    if arguments.json:
        console.data(_text(plan.to_json(planned)))
        return 0
    for group in planned.groups:
        console.data(group.id)
        for trial in group.trials:
            console.data(f"  {trial.id}")
    trials = sum(len(group.trials) for group in planned.groups)
    console.data(f"{trials} trials in {len(planned.groups)} process starts, plan {planned.digest}")
    return 0


def verify(arguments: argparse.Namespace, console: Console) -> int:
    """Capsule -> checked -> same plan, fresh seeds -> second capsule -> comparison -> verdict."""
    from capsule import archive, session, verdict
    from capsule.trust import policy as trust

    opened = archive.read(Path(arguments.capsule))
    trust.require(opened, trust=arguments.trust, console=console)
    trust.require_container(
        opened, runtime=arguments.runtime, image=arguments.image, allowed=arguments.allow_host
    )
    original = session.Original(
        id=opened.id,
        manifest=opened.record.manifest,
        image=opened.record.image,
        datasets=opened.record.datasets,
        claims=opened.record.claims,
    )
    with TemporaryDirectory(prefix="capsule-") as scratch:
        if arguments.resume:
            current = session.reopen(Path(arguments.resume), original, console)
        else:
            current = session.begin(_again(opened, original, arguments, Path(scratch)), console)
    looks = _looks(opened.record, arguments)
    record, capsule_id, target = _finish(current, arguments, console, opened, looks)
    judged = _judge(opened, record, rerun_id=capsule_id)
    _tell(judged, arguments, console)
    if not arguments.json:
        console.data(f"second capsule {target}\nid {capsule_id}")
    return verdict.exit_code(judged)


def _again(opened: Any, original: Any, arguments: argparse.Namespace, scratch: Path) -> Any:
    """The request to execute a capsule's plan here."""
    from capsule import session, verdict
    from capsule.execute import payload

    levels = payload.OWN_LEVELS
    if arguments.levels == "capsule":
        levels = scratch / "levels"
        opened.extract("levels", levels)
    opened.extract("inputs", scratch / "inputs")
    looks = _looks(opened.record, arguments)
    return session.Request(
        manifest=original.manifest,
        original=original,
        runtime=arguments.runtime,
        image=arguments.image,
        work=_path(arguments.work),
        keep_hosts=arguments.keep_hosts,
        runs=looks[-1] if looks else arguments.runs or verdict.advise_runs(opened.record),
        levels=levels,
        inputs=scratch / "inputs",
    )


def _looks(record: Any, arguments: argparse.Namespace) -> list[int]:
    """The planned looks of a verification that stops once it is decided, else none."""
    if not arguments.until_decided:
        return []
    if arguments.runs:
        raise UsageError("--runs and --until-decided exclude each other")
    looks = sorted({runs for claim in record.claims for runs in claim.looks})
    if not looks:
        raise UsageError(
            "the capsule's claims plan no looks, and unplanned ones would raise the error rate",
            where="/claims",
            advice='use --runs N; an author plans them with "looks": [3, 6, 12]',
        )
    return looks


def _judge(opened: Any, record: Any, *, rerun_id: str | None) -> Any:
    from capsule import diff, verdict

    return verdict.judge(
        diff.compare(opened.record, record, original_id=opened.id, rerun_id=rerun_id)
    )


def diff(arguments: argparse.Namespace, console: Console) -> int:
    """Two capsules or more -> comparison -> verdict."""
    from capsule import archive, verdict

    original = archive.read(Path(arguments.original))
    reruns = [archive.read(Path(path)) for path in arguments.reruns]
    if len(reruns) > 1:
        return _several(original, reruns, arguments, console)
    judged = _judge(original, reruns[0].record, rerun_id=reruns[0].id)
    _tell(judged, arguments, console)
    return verdict.exit_code(judged)


def _several(
    original: Any, reruns: Sequence[Any], arguments: argparse.Namespace, console: Console
) -> int:
    """One original and several re-executions: pairwise verdicts beside the spread of them all."""
    from capsule import report
    from capsule.diff.several import compare_several
    from capsule.verdict import several as judging

    opened = [original, *reruns]
    judged = judging.judge_several(
        compare_several([each.record for each in opened], [each.id for each in opened])
    )
    if arguments.json:
        console.data(_text(report.several_to_json(judged)))
    else:
        console.show(*report.draw_several(judged))
    return judging.exit_code(judged)


def check(arguments: argparse.Namespace, console: Console) -> int:
    """Read a capsule by the one strict reader, and say what was found to hold."""
    from capsule import archive

    opened = archive.read(Path(arguments.capsule))
    facts = opened.facts()
    if arguments.json:
        console.data(_text({"id": opened.id, "checked": facts}))
    else:
        console.data("\n".join(["intact", *facts]))
    return 0


def show(arguments: argparse.Namespace, console: Console) -> int:
    """Read a capsule and print what it holds."""
    from capsule import archive, report

    opened = archive.read(Path(arguments.capsule))
    if arguments.json:
        console.data(_text(report.record_to_json(opened.record, opened.id)))
    else:
        console.show(*report.draw_record(opened.record, opened.id))
    return 0


def init(arguments: argparse.Namespace, console: Console) -> int:
    """Write a manifest to start from, never over another file, and its schema beside it."""
    from capsule import manifest, schema

    path = Path(arguments.path)
    started = manifest.starter(path.stem)
    try:
        with path.open("xb") as stream:
            stream.write(started)
        # editors complete the manifest's fields from it
        path.with_name("manifest-1.schema.json").write_bytes(schema.text("manifest-1"))
    except FileExistsError:
        raise UsageError("exists already", where=str(path), advice="choose another name") from None
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", where=str(path)) from None
    console.data(f"wrote {path}; next: capsule lint {path}")
    return 0


def lint(arguments: argparse.Namespace, console: Console) -> int:
    """Check a manifest, and say what its number of seeds lets anybody confirm."""
    from dataclasses import asdict

    from capsule import lint as checking
    from capsule import manifest

    asked = manifest.load(Path(arguments.manifest), arguments.frameworks)
    warnings, outlook = checking.warnings(asked), checking.outlook(asked)
    if arguments.json:
        claims = [asdict(one) for one in outlook]
        facts = {"manifest": arguments.manifest, "warnings": list(warnings), "claims": claims}
        console.data(_text(facts))
        return 0
    for one in outlook:
        console.data(one.sentence)
    for warning in warnings:
        console.data(f"warning: {warning}")
    console.data(f"{arguments.manifest} is valid")
    return 0


def inventory(arguments: argparse.Namespace, console: Console) -> int:
    """Print what this machine is."""
    import uuid

    from capsule import inventory as taking
    from capsule import runtimes

    found = taking.node(salt=uuid.uuid4().hex, keep_hosts=arguments.keep_hosts)
    engines = {
        name: {"usable": each.usable, "version": each.version, "reason": each.reason}
        for name, each in runtimes.available_all().items()
    }
    # an indented JSON object is as readable as any table of a hundred nested fields
    console.data(_text({**found, "engines": engines}))
    return 0


def data(arguments: argparse.Namespace, console: Console) -> int:
    """Name the bytes of a dataset, or make a synthetic one."""
    from capsule import datasets, site

    if arguments.kind == "hash":
        cache = site.cache_folder(site.load())
        found = datasets.digest(Path(arguments.path), cache=cache, rehash=arguments.rehash)
    else:
        parameters = dict(_assignment(each) for each in arguments.parameters)
        found = datasets.generate(arguments.generator, parameters, Path(arguments.target))
    if arguments.json:
        facts = {"digest": str(found.digest), "bytes": found.bytes, "files": found.files}
        console.data(_text(facts))
    else:
        console.data(str(found.digest))
    return 0


def image(arguments: argparse.Namespace, console: Console) -> int:
    """Resolve a reference to digests, or build a recipe folder."""
    from capsule import image as images
    from capsule.image import build
    from capsule.manifest import ImageSpec

    if arguments.kind == "resolve":
        spec = ImageSpec(reference=arguments.reference)
        found = images.resolve(spec, folder=None, override=None)
    else:
        found = build.build(
            Path(arguments.folder),
            base=arguments.base,
            wheelhouse=_path(arguments.wheelhouse),
            arguments=dict(_pair(each) for each in arguments.arg),
            push=arguments.push,
        )
    facts = {
        "reference": found.reference,
        "pinned": found.pinned,
        "manifest_digest": str(found.manifest_digest) if found.manifest_digest else None,
        "config_digest": str(found.config_digest),
        "platform": found.platform,
    }
    if arguments.json:
        console.data(_text(facts))
    else:
        console.data("\n".join(f"{name}: {value}" for name, value in facts.items() if value))
    return 0


def _finish(
    current: Any,
    arguments: argparse.Namespace,
    console: Console,
    opened: Any = None,
    looks: Sequence[int] = (),
) -> tuple[Any, str, Path]:
    """Execute what is left of a session, as far as needed, and seal it.

    Args:
        current: The session.
        arguments: Of the command.
        console: Where progress is told.
        opened: The capsule that it verifies.
        looks: Numbers of fresh seeds after which to look whether every claim is decided.
    """
    from capsule import session

    target = Path(arguments.output) if arguments.output else Path(session.capsule_name(current))
    console.say(f"run folder {current.workspace.folder} (go on with --resume if it is cut off)")
    with current.workspace.locked():
        stops: Sequence[int | None] = looks or [None]
        for runs in stops:
            stage = current if runs is None else session.look(current, runs)
            session.perform(stage, console)
            if runs is None:
                break
            execution = stage.gatherer.collect(stage.plan)
            judged = _judge(opened, session.assemble(stage, execution), rerun_id=None)
            console.say(f"look after {runs} runs: {judged.word}, {judged.sentence}")
            if all(one.word != "INCONCLUSIVE" for one in judged.claims if one.decisive):
                break
        record, capsule_id = session.seal(stage, target)
    return record, capsule_id, target


def _tell(judged: Any, arguments: argparse.Namespace, console: Console) -> None:
    from capsule import report

    if arguments.json:
        console.data(_text(report.verdict_to_json(judged)))
    else:
        console.show(*report.draw_verdict(judged))


def _text(value: Any) -> str:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=not sys.stdout.isatty())


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError(f"{text!r} is not NAME=VALUE")
    return name, value


def _assignment(text: str) -> tuple[str, Any]:
    name, value = _pair(text)
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
