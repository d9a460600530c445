r"""Datasets, named by what is in them: hashed, found, or made.

The digest of a dataset (`capsule-data-1`)
    A file's is the SHA-256 of its bytes, `sha256sum FILE`. A folder's is the SHA-256 of what
    `sha256sum` prints for the files below it, sorted bytewise by their path below the folder:

        cd FOLDER && find -L . -type f -printf '%P\0' | LC_ALL=C sort -z \
            | xargs -0 sha256sum -- | sha256sum

    Modes, times, owners and empty folders do not count. A symbolic link to a file counts as that
    file, and may only lead, by a relative path, to a file in the same folder: in a container
    any other one would lead nowhere, or elsewhere. Links to folders, sockets, devices, names
    that are not UTF-8, that hold a line break or are just `-`, and folders without a file are
    refused.

The digest of generated data
    is that of its arrays, not of the files that hold them: see `capsule.levels.generators.digest`.
"""

from capsule.datasets.find import generate, locate, obtain, take_copy
from capsule.datasets.hashing import DatasetDigest, Progress, digest

__all__ = ["DatasetDigest", "Progress", "digest", "generate", "locate", "obtain", "take_copy"]
