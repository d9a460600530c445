"""Start from the folder's path alone: `python3 <folder> run <job.json> <journal.jsonl>`."""

from __future__ import annotations

import sys
from importlib import util
from pathlib import Path


def _as_package(folder: Path) -> None:
    """Make this folder importable as `levels`, and by that name only.

    Python puts a started folder on `sys.path`, where `words` or `timing` would hide modules of the
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
    _as_package(Path(__file__).resolve().parent)
    if arguments[:1] == ["run"] and len(arguments) == 3:
        from levels import run

        return run.main(Path(arguments[1]), Path(arguments[2]))
    if arguments == ["probe"]:
        from levels import probe

        return probe.main()
    sys.stderr.write("usage: python3 <levels> run <job.json> <journal.jsonl> | probe\n")
    return 2


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
