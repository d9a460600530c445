"""The capsule file: a bag that holds a crate, in one deterministic zip, and the one strict reader.

archive.write(record, files, target) -> id     sealed whole or not at all
archive.read(path) -> Capsule                  strict; a zip, or a folder of the same form
archive.check(path) -> facts                   what was found to hold
"""

from capsule.archive.images import setup_from_json, setup_to_json
from capsule.archive.names import fault as name_fault
from capsule.archive.reader import Capsule, check, read
from capsule.archive.writer import write

__all__ = ["Capsule", "check", "name_fault", "read", "setup_from_json", "setup_to_json", "write"]
