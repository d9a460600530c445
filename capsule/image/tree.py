"""The digest of a root file system's tree, `capsule-tree-1`: equal however an image is packed.

It is the SHA-256 of one record per path, sorted by the bytes of the path: kind (`f`, `d`, `l`),
a space, the octal mode (none for links), a space, the SHA-256 of a file's bytes or a link's target,
NUL, the path below the root, NUL. Left out are owners, times, extended attributes, devices, pipes
and sockets; and what engines write themselves when they make or start a container.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from capsule.digest import Digest, of_pieces
from capsule.errors import DamagedError

# Apptainer's own, Docker's mark of a container, and what is mounted over
_OMITTED = frozenset(
    {
        *(b".singularity.d", b".exec", b".run", b".shell", b".test", b"environment"),
        *(b"singularity", b".dockerenv", b"dev", b"proc", b"sys"),
        *(b"etc/hosts", b"etc/resolv.conf", b"etc/hostname", b"etc/mtab"),
    }
)
# folders that Apptainer makes where an image lacks them: what is in them counts
_GRANTED = frozenset({b"root", b"tmp", b"var", b"var/tmp", b"etc", b"home"})
# as the kernel has it
_MOST_LINKS = 40
# parts of links that paths led through, all together
_MOST_FOLLOWED = 5_000_000
_MOST_DEPTH = 512
_MODE = 0o7777


@dataclass(kw_only=True, slots=True)
class Node:
    """A file, a link or a folder.

    Attributes:
        kind: `f`, `l` or `d`; `x` for a device or pipe, which takes its place and does not count.
        mode: Permissions.
        value: Hex digits of a file's SHA-256, or a link's target.
        children: Children of a folder, by name.
        layer: Number of the layer that it is of.
    """

    kind: str
    mode: int = 0
    value: bytes = b""
    children: dict[bytes, Node] = field(default_factory=dict)
    layer: int = 0


class Tree:
    """A root file system as it is read: files in any order, layers lowest first."""

    def __init__(self) -> None:
        self.root = Node(kind="d", mode=0o755)
        self._followed = 0

    def digest(self) -> Digest:
        """Return the digest of what is in it now."""
        return of_pieces(record for _, record in sorted(_records(self.root, b"")))

    def put(self, path: bytes, node: Node, *, where: str) -> None:
        """Put a file, a link or a folder in its place, over whatever is there.

        A folder over a folder changes its mode alone, as unpacking does.

        Raises:
            DamagedError: The path leaves the root.
        """
        parent, name = self._parent(path, node.layer, where)
        if name == b"":
            return
        there = parent.children.get(name)
        if there is not None and there.kind == "d" and node.kind == "d":
            there.mode, there.layer = node.mode, node.layer
        else:
            parent.children[name] = node

    def find(self, path: bytes, *, where: str) -> Node | None:
        """Return the entry at a path; links on the way are followed, a link at its end is not.

        Raises:
            DamagedError: The path leaves the root.
        """
        parent, name = self._parent(path, None, where)
        return parent.children.get(name) if name else self.root

    def remove(self, path: bytes, *, layer: int, where: str) -> None:
        """Take away what lower layers have at a path: a whiteout.

        Raises:
            DamagedError: The path leaves the root.
        """
        parent, name = self._parent(path, None, where)
        there = parent.children.get(name)
        if there is not None and there.layer < layer:
            del parent.children[name]

    def clear(self, path: bytes, *, layer: int, where: str) -> None:
        """Take away what lower layers have in a folder: an opaque whiteout.

        Raises:
            DamagedError: The path leaves the root.
        """
        folder = self.find(path, where=where)
        if folder is not None:
            kept = {name: node for name, node in folder.children.items() if node.layer >= layer}
            folder.children = kept

    def _parent(self, path: bytes, layer: int | None, where: str) -> tuple[Node, bytes]:
        """Return the folder that a path ends in, and the last name; folders on the way are made.

        Args:
            path: Below the root.
            layer: Layer of folders that are made; None for a temporary copy.
            where: The image, for messages.
        """
        parts = [part for part in path.split(b"/") if part not in (b"", b".")]
        if b".." in parts:
            shown = path[:100].decode(errors="replace")
            raise DamagedError(f"expected a path below the root, found {shown!r}", where=where)
        chain, links = [self.root], 0
        waiting = parts[-2::-1] if len(parts) > 1 else []
        while waiting:
            name = waiting.pop()
            if name == b"..":
                # the parent of the root is the root
                del chain[max(1, len(chain) - 1) :]
                continue
            below = chain[-1].children.get(name)
            if below is not None and below.kind == "l":
                links += 1
                if links > _MOST_LINKS:
                    shown = path[:100].decode(errors="replace")
                    raise DamagedError(
                        f"{shown!r} leads through more than {_MOST_LINKS} links", where=where
                    )
                chain = [self.root] if below.value.startswith(b"/") else chain
                waiting.extend(self._follow(below.value, where))
                continue
            if below is None or below.kind != "d":
                below = Node(kind="d", mode=0o755, layer=layer or 0)
                if layer is not None:
                    chain[-1].children[name] = below
            chain.append(below)
            if len(chain) > _MOST_DEPTH:
                shown = path[:100].decode(errors="replace")
                raise DamagedError(
                    f"{shown!r} is nested deeper than {_MOST_DEPTH} folders", where=where
                )
        return chain[-1], parts[-1] if parts else b""

    def _follow(self, target: bytes, where: str) -> list[bytes]:
        """Return the parts of a link's target, last first."""
        parts = [part for part in target.split(b"/") if part not in (b"", b".")]
        self._followed += 1 + len(parts)
        if self._followed > _MOST_FOLLOWED:
            raise DamagedError(
                f"the links of the image lead through more than {_MOST_FOLLOWED} folders, the"
                " limit",
                where=where,
            )
        return parts[::-1]


def _records(folder: Node, path: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the path and record of everything below a folder that counts."""
    for name, node in folder.children.items():
        place = path + name
        if place in _OMITTED or node.kind == "x":
            continue
        if node.kind != "d" or place not in _GRANTED:
            mode = b"" if node.kind == "l" else b"%o" % (node.mode & _MODE)
            yield place, b"%s %s %s\0%s\0" % (node.kind.encode(), mode, node.value, place)
        if node.kind == "d":
            yield from _records(node, place + b"/")
