"""Pages of docs/reference that follow from the parsers, the schemas and the catalogue.

python tools/reference.py            write the pages
python tools/reference.py --check    write nothing; exit 1 when a committed page is stale
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import catalogue_rows
import metric_texts
from warning_texts import NOTE_TEXTS, WARNING_TEXTS, WarningText

from capsule import cli, notes, schema, verbs
from capsule.levels import catalog
from capsule.manifest import warnings
from capsule.sentences import Facts, from_json

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "reference"
WIDTH = 120
HELP_WIDTH = 80
NOTICE = "<!-- Written by tools/reference.py: edit its sources, then run it. -->"

BAR = "\\|"

Node = Mapping[str, Any]

# definitions whose name says more than their type
KINDS = {
    "segment": "name",
    "digest": "digest",
    "duration": "HH:MM:SS",
    "doi": "DOI",
    "license": "SPDX identifier",
    "path": "path",
}
TYPES = {"string": "text", "integer": "whole number", "boolean": "true or false"}


def pages() -> dict[Path, str]:
    """Return the text of every generated page by its path."""
    texts = {
        "manifest": manifest_page(),
        "metrics": metrics_page(),
        "warnings": warnings_page(),
        "site-file": site_page(),
        "frameworks": frameworks_page(),
        "cli/README": verbs_page(),
        **{f"cli/{word}": cli_page(word) for word in verbs.TABLE},
    }
    return {FOLDER / f"{name}.md": f"{text.strip()}\n" for name, text in texts.items()}


# cli/VERB.md


class FixedHelp(argparse.RawDescriptionHelpFormatter):
    """Help of a fixed width that is the same under every version of Python."""

    def __init__(self, prog: str, **_: object) -> None:
        super().__init__(prog, max_help_position=24, width=HELP_WIDTH)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings:
            return super()._format_action_invocation(action)
        names = ", ".join(action.option_strings)
        if action.nargs == 0:
            return names
        return f"{names} {self._format_args(action, action.dest.upper())}"


def verbs_page() -> str:
    """Return the list of all verbs."""
    rows = [f"| [{word}]({word}.md) | {purpose} |" for word, purpose in verbs.TABLE.items()]
    links = "[Exit codes](../exit-codes.md), [environment variables](../environment.md)"
    table = "\n".join(["| verb | what it does |", "| --- | --- |", *rows])
    return page("Commands", "Verbs of `capsule`: for everyone.", table, links)


def cli_page(word: str) -> str:
    """Return the page of a verb: its help, and that of each verb below it."""
    parser = below(cli._parser(word))[word]
    parts = [help_block(parser)]
    for name, inner in below(parser).items():
        parts += [f"## capsule {word} {name}", help_block(inner)]
    parts += ["[Exit codes](../exit-codes.md), [environment variables](../environment.md)"]
    return page(f"capsule {word}", f"The options of `capsule {word}`: for everyone.", *parts)


def below(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of the verbs below a parser by their names."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def help_block(parser: argparse.ArgumentParser) -> str:
    """Return what `--help` of a parser prints, as a block of code."""
    positionals = [
        FixedHelp(parser.prog)._format_args(action, action.dest)
        for action in parser._get_positional_actions()
    ]
    takes_command = getattr(parser.get_default("verb"), "takes_command", False)
    words = [*positionals, *(["[-- COMMAND ...]"] if takes_command else [])]
    parser.usage = " ".join([parser.prog, "[OPTIONS]", *words])
    parser.formatter_class = FixedHelp
    return f"```text\n{parser.format_help().strip()}\n```"


# manifest.md and site-file.md


class Section(NamedTuple):
    """An object of a schema: its path, its title, and itself with references resolved."""

    path: str
    title: str
    node: Node


def manifest_page() -> str:
    """Return the reference of every field of a manifest."""
    document = schema.load("manifest-1")
    return page(
        "Manifest",
        "Keys of a manifest: for authors. `[]` denotes an entry of a list, NAME a name"
        " that you choose.",
        say(document["description"]),
        *sections(document),
        "## Numbers of optimizers and schedules",
        "`optimizer` and `schedule` accept these numbers besides `name`, with these defaults.",
        table(("name", "numbers"), catalogue_rows.numbers()),
    )


def site_page() -> str:
    """Return the reference of every field of a site file."""
    document = schema.load("site-1")
    return page(
        "Site file",
        "Settings of a site file: for administrators of a machine. To write a site file, see"
        " [set up a site](../how-to/set-up-a-site.md).",
        say(document["description"]),
        "- The site's file is `/etc/capsule/site.json`, or the file that `CAPSULE_SITE` names.\n"
        "- Your own file is `~/.config/capsule/site.json`. Its settings replace the site's.\n"
        "- capsule merges `data`, `mirrors`, `binds` and `batch` of both files entry by entry.\n"
        "- capsule refuses a file that other users can write.",
        *sections(document),
    )


def sections(document: Node) -> Iterator[str]:
    """Yield the text of each object of a schema, an outer one before those inside, each once."""
    waiting = [Section("", "Top level", document)]
    told: set[int] = set()
    while waiting:
        path, title, node = waiting.pop(0)
        if id(node["properties"]) in told:
            continue
        told.add(id(node["properties"]))
        yield f"## {title}"
        if path:
            # where a field holds the object, its entry has said what it is
            is_entry = path.endswith(("[]", ".NAME"))
            yield say(f"At `{path}`. {node.get('description', '') * is_entry}".strip())
        yield "\n".join(fields(path, node, document))
        inside = []
        for name, field in node["properties"].items():
            for one in objects(f"{path}.{name}" if path else name, field, document):
                is_own = path == "benchmarks[]" and "$ref" not in field
                longer = f"{title}: {one.title.lower()}" if is_own else one.title
                inside.append(one._replace(title=longer))
        waiting = inside + waiting


def fields(path: str, node: Node, document: Node) -> Iterator[str]:
    """Yield an entry for each field of an object."""
    for name, raw in node["properties"].items():
        if raw is False:
            continue
        field = resolve(raw, document)
        facts = [*kind_of(raw, document), *["required"] * (name in node.get("required", ()))]
        if "default" in field:
            facts.append(f"default {code(field['default'])}")
        place = f"{path}.{name}" if path else name
        yield say(field.get("description", ""), first=f"- `{place}` ({', '.join(facts)}): ")


def objects(path: str, raw: Node | bool, document: Node) -> Iterator[Section]:
    """Yield the objects with fields of their own that a schema allows at a path."""
    if isinstance(raw, bool):
        return
    node = resolve(raw, document)
    if node.get("properties"):
        yield Section(path, node.get("title", path), node)
    for key in ("then", "else"):
        yield from objects(path, node.get(key, False), document)
    yield from objects(f"{path}[]", node.get("items", False), document)
    yield from objects(f"{path}.NAME", node.get("additionalProperties", False), document)


def resolve(node: Node, document: Node) -> Node:
    """Return a schema with the definition that it refers to merged in; its own words win."""
    reference = node.get("$ref")
    if reference is None:
        return node
    definition = document["definitions"][str(reference).rpartition("/")[2]]
    return {**definition, **{key: value for key, value in node.items() if key != "$ref"}}


def kind_of(raw: Node, document: Node) -> Iterator[str]:
    """Yield the type of a field or its values, then its range, in words."""
    name = str(raw.get("$ref", "")).rpartition("/")[2]
    if name in KINDS:
        yield KINDS[name]
        return
    node = resolve(raw, document)
    if "enum" in node:
        yield listed([code(value) for value in node["enum"] if value is not None])
        return
    kinds = node.get("type", "object")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    words = {kind: TYPES.get(kind, kind) for kind in kinds if kind != "null"}
    if "array" in words:
        entry = next(kind_of(node["items"], document))
        words["array"] = f"list of {entry}{'' if '`' in entry else 's'}"
    yield listed(list(words.values()))
    yield from range_of(node)


def range_of(node: Node) -> Iterator[str]:
    """Yield the bounds of a number or of a text's length."""
    low, high = node.get("minimum"), node.get("maximum")
    if low is not None and high is not None and abs(high) < 1e99:
        yield f"{low} to {high}"
    elif low is not None and low > -1e99:
        yield f"at least {low}"
    if "exclusiveMinimum" in node:
        yield f"above {node['exclusiveMinimum']}"
    if "exclusiveMaximum" in node:
        yield f"below {node['exclusiveMaximum']}"
    if "maxLength" in node and "string" in str(node.get("type")):
        yield f"at most {node['maxLength']} characters"


# metrics.md


def metrics_page() -> str:
    """Return one table of all metrics that capsule defines."""
    head = ("metric", "unit", "kind", "direction", "one value per", "reported by", "meaning")
    return page(
        "Metrics",
        "Meaning and direction of each metric: for authors and reviewers. A command"
        " reports the metrics that its manifest declares.",
        "- A metric of kind `quality` (`portable` in the manifest) should agree between machines."
        "\n  A metric of kind `machine` depends on the machine.\n"
        "- L0 to L3 are the levels. Units: By is a byte, 1 a pure number, 1/s per second.\n"
        "- QUALITY is the quality of the network, such as `accuracy`.\n"
        "- A [claim](claims.md) names a metric by its path, `BENCHMARK/CASE/FRAMEWORK/METRIC`.",
        table(head, metric_texts.rows()),
    )


# frameworks.md


def frameworks_page() -> str:
    """Return what each framework can measure."""
    types = ("framework", "Python package", "on a CPU", "on a CUDA GPU")
    return page(
        "Frameworks",
        "Levels and subjects that each framework can run: for authors. A command can use any"
        " framework, or no framework.",
        "## Levels and subjects on CPUs",
        table(("level and subject", *catalog.FRAMEWORKS), catalogue_rows.abilities()),
        "`function` and `formula` name the part of your file that the framework runs.",
        "## Element types",
        table(types, catalogue_rows.element_types()),
        "`tf32` is float32 with products of matrices in TensorFloat-32.",
        "## Operators that a framework lacks",
        table(("framework", "operator", "where", "reason"), catalogue_rows.gaps()),
    )


# warnings.md


def warnings_page() -> str:
    """Return an entry for each code of a lint warning and of a note."""
    return page(
        "Warnings and notes",
        "Warnings and notes with cause and advice: for authors and verifiers. The values in the"
        " texts are samples.",
        "## Warnings of lint",
        "`capsule lint` prints these warnings for a manifest or a capsule. Sealing prints the"
        " warnings about the sealed runs.",
        *entries(warnings.WARNINGS.codes, warnings.WARNINGS.say, WARNING_TEXTS),
        "## Notes in a capsule",
        "Sealing writes these notes into the capsule. Every screen that shows the capsule prints"
        " its notes.",
        *entries(notes.NOTES.codes, notes.NOTES.say, NOTE_TEXTS),
    )


def entries(
    codes: Sequence[str],
    word: Callable[[str, Facts], str | None],
    texts: Mapping[str, WarningText],
) -> Iterator[str]:
    """Yield the entry of each code: its sentence, why it is printed, what to do.

    Raises:
        ValueError: A code has no text, or its sample facts are not those of its template.
    """
    if set(codes) != set(texts):
        raise ValueError(f"codes without text, or texts without code: {set(codes) ^ set(texts)}")
    for name in codes:
        text = texts[name]
        sentence = word(name, from_json(text.facts))
        if sentence is None:
            raise ValueError(f"the sample facts of {name} are not those of its template")
        yield f"### {name}"
        parts = {"- Text: ": sentence, "- Why: ": text.why, "- Do: ": text.remedy}
        yield "\n".join(say(part, first=first) for first, part in parts.items())


# markdown


def page(title: str, intro: str, *parts: str) -> str:
    """Return a page: the parts of it follow its title and what it answers for whom."""
    return "\n\n".join([f"# {title}", NOTICE, say(intro), *parts])


def say(text: str, *, first: str = "") -> str:
    """Return a description, wrapped; its lines that begin with `- ` are a list."""
    lines = []
    for number, part in enumerate(text.split("\n")):
        is_item, line = part.startswith("- "), escape(part)
        indent = "  " * bool(first)
        start = first if number == 0 else indent
        lines.append(wrap(f"{start}{line}", indent + "  " * is_item))
    return "\n".join(lines)


def escape(text: str) -> str:
    """Return a text whose signs Markdown shows as they are, but for code between backticks."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([*<])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


def wrap(text: str, indent: str) -> str:
    """Return a paragraph in lines of `WIDTH`, with what all but the first begin with."""
    keep = {"break_long_words": False, "break_on_hyphens": False}
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, **keep)


def listed(words: Sequence[str]) -> str:
    """Return words with commas, and `or` before the last."""
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = []
    for cells in (head, ["---"] * len(head), *rows):
        lines.append(f"| {' | '.join(cell.replace('|', BAR) for cell in cells)} |")
    return "\n".join(lines)


def code(value: object) -> str:
    """Return a JSON value as code."""
    return f"`{json.dumps(value)}`" if not isinstance(value, str) else f"`{value}`"


def main() -> int:
    """Write the pages, or name those that are stale."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    is_check = parser.parse_args().check
    made = pages()
    stale = [path for path, text in made.items() if not path.is_file() or path.read_text() != text]
    stale += [path for path in (FOLDER / "cli").glob("*.md") if path not in made]
    if is_check:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is stale: python tools/reference.py")
        return int(bool(stale))
    for path, text in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
