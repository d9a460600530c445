"""Start from the folder's path alone: `python3 <folder> run <job.json> <journal.jsonl>`."""

from __future__ import annotations

import sys
from importlib import import_module, util
from pathlib import Path


def _import_as_package(folder: Path) -> None:
    """Make this folder importable as `levels`, and by that name only.

    Python puts a started folder on `sys.path`, where `job` or `streams` would hide modules of the
    same name that a framework imports; its parent may hold anything. So neither stays there.
    """
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != folder]
    spec = util.spec_from_file_location(
        "levels", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"{folder} is not a Python package")
    package = util.module_from_spec(spec)
    sys.modules["levels"] = package
    spec.loader.exec_module(package)


def _main(arguments: list[str]) -> int:
    _import_as_package(Path(__file__).resolve().parent)
    status: int
    if arguments[:1] == ["run"] and len(arguments) == 3:
        status = import_module("levels.run").main(Path(arguments[1]), Path(arguments[2]))
    elif arguments == ["probe"]:
        status = import_module("levels.probe").main()
    elif arguments[:2] == ["describe", "network"] and len(arguments) == 4:
        status = import_module("levels.describe").main(*arguments[2:])
    else:
        sys.stderr.write(
            "usage: python3 <levels> run <job.json> <journal.jsonl> | probe"
            " | describe network <name> <sizes in JSON>\n"
        )
        status = 2
    return status


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
