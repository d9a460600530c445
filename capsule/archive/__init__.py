"""The capsule file: a bag that holds a crate, in one deterministic zip, and the one strict reader.

Its verbs:

    archive.write(record, files, target) -> id     sealed whole or not at all
    archive.read(path) -> Capsule                  strict; a zip, or a folder of the same form
    archive.Hashing(path)                          what `read` begins with, beside something else
    archive.identify(path, expected) -> id         of what was fetched, before it is kept
    archive.check_names(paths)                     whether files could be sealed, asked beforehand
    archive.draft(target, uuid)                    where one lies until it is whole
    archive.require_room(plan, carried=paths)      whether all that a run will leave could be sealed
    archive.Projection(plan)                       the same by the trials that ended, and which
                                                   series of many ranks are kept whole
    archive.rehearse(record)                       whether what is known of it could be sealed
    archive.change_error(name, path)               a copied file is no longer what was copied
"""

from capsule.archive.derived import CARRIED
from capsule.archive.reader import GET_AGAIN, Capsule, identify, read
from capsule.archive.room import Projection
from capsule.archive.room import require as require_room
from capsule.archive.setup import setup_from_json, setup_to_json
from capsule.archive.whole import Hashing
from capsule.archive.writer import change_error, check_names, draft, rehearse, write

__all__ = [
    "CARRIED",
    "GET_AGAIN",
    "Capsule",
    "Hashing",
    "Projection",
    "change_error",
    "check_names",
    "draft",
    "identify",
    "read",
    "rehearse",
    "require_room",
    "setup_from_json",
    "setup_to_json",
    "write",
]
