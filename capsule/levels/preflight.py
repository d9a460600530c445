"""Test of a world of ranks before the first trial: each rank reports itself, meets the others, and
adds up numbers with them.

The host starts this file by its path, as `python3 preflight.py <report> <seconds> <how>`, and reads
the report, one JSON object a line. An image needs only Python: ranks meet by gloo if it has torch,
else by sockets; by MPI through mpi4py, or through the library that a program needs, if the host
names it. The host judges the reports.
"""

from __future__ import annotations

import faulthandler
import hashlib
import json
import os
import re
import signal
import socket
import sys
import time
from array import array
from collections.abc import Iterator
from importlib import util
from operator import add
from pathlib import Path
from typing import Any, Callable
from urllib.parse import ParseResult, urlparse

ELEMENTS = 2**20
"""Numbers of float64 that ranks add up: 8 MiB, more than any library sends in one piece."""

_VARIABLES = ("CAPSULE_RANK", "CAPSULE_RANKS", "CAPSULE_LOCAL_RANK", "CAPSULE_RENDEZVOUS")
# by these a library of MPI finds out that it is not alone
_OF_LAUNCHERS = ("PMI_", "PMIX_", "OMPI_COMM_WORLD_")
# libraries of one ABI
_OF_MPICH = ("MPICH", "MVAPICH", "Intel(R) MPI")
_LIBRARY = re.compile(rb"lib(?:mpi|mpich|mpi_abi|mpi_cray|mpi_ibm)[.]so[.0-9]*")
_MOST_BYTES = 1 << 28
_SHOWN = 16
_LOOK_SECONDS = 0.02
_CONNECT_SECONDS = 5.0
_WORD_BYTES = 64

Reduce = Callable[["array[float]"], None]
"""Puts the sums over all ranks into an array."""


def main(arguments: list[str]) -> int:
    """Report, meet, add up; the exit status.

    Args:
        arguments: The report; seconds after which this process ends itself, should its host be
            gone; `probe` to report alone, `probe-mpi` to say which MPI the image has besides,
            `meet`, or `mpi` to meet by it too; and where a library of MPI may lie, joined as
            PATH is, to take it and not the one of mpi4py.
    """
    path, seconds, how, *libraries = arguments
    # a watchdog of C's: a rank that waits in a library runs no line of Python
    faulthandler.dump_traceback_later(float(seconds), exit=True)
    if os.getpid() == 1:
        # without a handler the first process of a container ignores it
        signal.signal(signal.SIGTERM, lambda *_: os._exit(128 + signal.SIGTERM))
    report = _Report(Path(path))
    report.tell("arrived", **_introduce())
    try:
        if how.startswith("probe"):
            if how == "probe-mpi":
                _find_mpi(report, libraries)
            return 0
        for means in (_gloo, _sockets) if util.find_spec("torch") else (_sockets,):
            if means(report):
                break
        mpi = _find_mpi(report, libraries) if how == "mpi" else None
        if mpi is not None:
            _mpi(report, mpi)
    except Exception as error:
        report.tell("failed", message=f"{type(error).__name__}: {error}"[:2000])
        return 1
    report.tell("done")
    return 0


class _Report:
    """Events of one rank, each with the system at once."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def tell(self, event: str, **facts: object) -> None:
        line = json.dumps({"event": event, **facts}) + "\n"
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line)


def _introduce() -> dict[str, object]:
    """Return a rank's facts about itself, known before it meets the others."""
    host = socket.gethostname()
    return {
        "variables": {name: os.environ.get(name) for name in _VARIABLES},
        "host": host,
        # Slurm's name, for several of its nodes may be one machine
        "node": os.environ.get("SLURMD_NODENAME", host),
        "launcher": sorted(name for name in os.environ if name.startswith(_OF_LAUNCHERS)),
    }


def contribution(rank: int, ranks: int) -> array[float]:
    """Return a rank's part: 1 everywhere, and place + 1 more at each `ranks`-th place.

    The sum is `ranks` + place + 1, exact in float64, and what it lacks or has twice tells of whom.
    """
    values = array("d", [1.0]) * ELEMENTS
    values[rank::ranks] = array("d", map(float, range(rank + 2, ELEMENTS + 2, ranks)))
    return values


def find_faults(total: array[float], ranks: int) -> dict[str, object]:
    """Return the faults of a sum; empty if it is correct.

    Returns:
        `wrong`, the number of places; `first`, one of them, with the `value` there; and where that
        explains all of it `counts`: how often the rank of that number was added, if not once.
    """
    due = array("d", map(float, range(ranks + 1, ranks + 1 + ELEMENTS)))
    if total == due:
        return {}
    wrong = [place for place in range(ELEMENTS) if total[place] != due[place]]
    facts: dict[str, object] = {"wrong": len(wrong), "first": wrong[0], "value": total[wrong[0]]}
    # two places of a rank tell its part from the part that all have there
    counts = [(total[ranks + rank] - total[rank]) / ranks for rank in range(ranks)]
    base = sum(counts)
    if all(
        total[place] == base + counts[place % ranks] * (place + 1)
        for place in (*range(0, ELEMENTS, 997), *wrong[:1000], *wrong[-1000:])
    ):
        others = {str(rank): count for rank, count in enumerate(counts) if count != 1}
        facts["counts"] = dict(list(others.items())[:_SHOWN])
    return facts


def _add_up(report: _Report, means: str, rank: int, ranks: int, reduce: Reduce) -> None:
    """Say who was met, and what came of adding up."""
    report.tell("met", means=means, rank=rank, ranks=ranks)
    values = contribution(rank, ranks)
    began = time.perf_counter()
    reduce(values)
    report.tell(
        "reduced",
        means=means,
        bytes=len(values) * values.itemsize,
        seconds=time.perf_counter() - began,
        digest=hashlib.sha256(values).hexdigest(),
        faults=find_faults(values, ranks),
    )


def _read_place() -> tuple[int, int, str]:
    """Own rank, how many there are, and where they meet.

    Raises:
        ValueError: A variable is missing, or no number; or this node knows no such place, for which
            libraries would look until the others give up.
    """
    rank, ranks, _, place = (os.environ.get(name) for name in _VARIABLES)
    if rank is None or ranks is None or place is None:
        missing = ", ".join(name for name in _VARIABLES if name not in os.environ)
        raise ValueError(f"variables of this rank are not set: {missing}")
    host = urlparse(place).hostname
    try:
        if host is not None:
            socket.getaddrinfo(host, None)
    except OSError as error:
        raise ValueError(
            f"this node cannot resolve host {host!r}, where all ranks meet ({error}): use an"
            " address, or a name that every node resolves"
        ) from None
    return int(rank), int(ranks), place


def _gloo(report: _Report) -> bool:
    """Meet as a training by torch does; False where torch has nothing for it."""
    try:
        import torch
        import torch.distributed as dist

        if not (dist.is_available() and dist.is_gloo_available()):
            return False
    except (ImportError, OSError, AttributeError):
        # one that cannot be imported, or is too old, meets nobody
        return False
    rank, ranks, place = _read_place()
    dist.init_process_group("gloo", init_method=place, rank=rank, world_size=ranks)

    def reduce(values: array[float]) -> None:
        dist.all_reduce(torch.frombuffer(values, dtype=torch.float64))

    _add_up(report, "gloo", dist.get_rank(), dist.get_world_size(), reduce)
    # whoever leaves first closes connections that others still read from
    dist.barrier()
    dist.destroy_process_group()
    return True


def _find_mpi(report: _Report, libraries: list[str]) -> _Mpi | None:
    """MPI of the library that is named, else of mpi4py; None where there is neither."""
    for place in libraries[0].split(os.pathsep) if libraries else ():
        library = _Library.load(place)
        if library is not None:
            report.tell("library", version=library.version(), path="", digest="")
            return library
    return _load_mpi(report) if util.find_spec("mpi4py") else None


class _Mpi:
    """The world that a launcher gave to MPI, by mpi4py."""

    def begin(self) -> tuple[int, int]:
        """Begin MPI; own number, and how many there are."""
        from mpi4py import MPI

        MPI.Init()
        return MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()

    def reduce(self, values: array[float]) -> None:
        """Put the sums over all ranks into an array."""
        from mpi4py import MPI

        MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, [values, MPI.DOUBLE])

    def end(self) -> None:
        """End MPI: mpi4py does not, as it has not begun it."""
        from mpi4py import MPI

        MPI.Finalize()


class _Library(_Mpi):
    """The same by a library of MPI alone, of MPICH's ABI or of Open MPI's.

    Args:
        library: Loaded.
        world, double, total, in_place: Its handles, as calls from C take them.
    """

    def __init__(self, library: Any, *, world: Any, double: Any, total: Any, in_place: int) -> None:
        self._library, self._in_place = library, in_place
        self._world, self._double, self._total = world, double, total

    @classmethod
    def load(cls, place: str) -> _Library | None:
        """Return the library at a path, or of a name; None for none, and for one of another ABI."""
        try:
            import ctypes

            library = ctypes.CDLL(place, mode=ctypes.RTLD_GLOBAL)
        except (ImportError, OSError):
            return None
        if hasattr(library, "ompi_mpi_comm_world"):
            names = "ompi_mpi_comm_world", "ompi_mpi_double", "ompi_mpi_op_sum"
            handles = [ctypes.byref(ctypes.c_char.in_dll(library, name)) for name in names]
            return cls(library, world=handles[0], double=handles[1], total=handles[2], in_place=1)
        world, double, total = map(ctypes.c_int, (0x44000000, 0x4C00080B, 0x58000003))
        made = cls(library, world=world, double=double, total=total, in_place=-1)
        is_mpich = any(name in made.version() for name in _OF_MPICH)
        return made if is_mpich and "mpi_abi" not in place else None

    def version(self) -> str:
        """Return the library's version, as mpi4py gives it."""
        import ctypes

        text, length = ctypes.create_string_buffer(8192), ctypes.c_int()
        self._library.MPI_Get_library_version(text, ctypes.byref(length))
        return _shorten(text.value.decode(errors="replace"))

    def begin(self) -> tuple[int, int]:
        """Begin MPI; own number, and how many there are."""
        import ctypes

        rank, ranks = ctypes.c_int(-1), ctypes.c_int(-1)
        self._call("MPI_Init", None, None)
        self._call("MPI_Comm_rank", self._world, ctypes.byref(rank))
        self._call("MPI_Comm_size", self._world, ctypes.byref(ranks))
        return rank.value, ranks.value

    def reduce(self, values: array[float]) -> None:
        """Put the sums over all ranks into an array."""
        import ctypes

        address, count = values.buffer_info()
        whole, in_place = ctypes.c_void_p(address), ctypes.c_void_p(self._in_place)
        handles = self._double, self._total, self._world
        self._call("MPI_Allreduce", in_place, whole, ctypes.c_int(count), *handles)

    def end(self) -> None:
        """End MPI."""
        self._call("MPI_Finalize")

    def _call(self, name: str, *arguments: Any) -> None:
        """Call a function of MPI.

        Raises:
            RuntimeError: It failed.
        """
        status = getattr(self._library, name)(*arguments)
        if status:
            raise RuntimeError(f"{name} failed with error {status}")


def _shorten(version: str) -> str:
    """Return the version of an MPI library without its build details."""
    return " ".join(version.partition("\n")[0].strip("\x00").split(",")[0].split())


def _load_mpi(report: _Report) -> _Mpi:
    """Say which library of MPI it is, which has to be known of one that dies when it begins."""
    import mpi4py

    report.tell("binding", built=_find_builds(Path(mpi4py.__file__).parent))
    mpi4py.rc.initialize = False
    from mpi4py import MPI

    library = _shorten(MPI.Get_library_version())
    path = os.environ.get("MPI4PY_LIBMPI", "")
    if not _is_loaded(path):
        path = ""
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest() if path else ""
    report.tell("library", version=library, path=path, digest=digest)
    return _Mpi()


def _find_builds(package: Path) -> list[str]:
    """Return the MPI families or libraries that a build of mpi4py is for."""
    names: set[str] = set()
    for path in sorted(package.glob("MPI.*.so")):
        family = path.name.split(".")[1]
        if not family.startswith(("cpython", "abi3", "so")):
            names.add(family)
            continue
        with path.open("rb") as file:
            names.update(one.decode() for one in _LIBRARY.findall(file.read(_MOST_BYTES)))
    return sorted(names)


def _is_loaded(library: str) -> bool:
    """Return whether this process has a file mapped."""
    try:
        path = os.path.realpath(library)
        return any(line.split(None, 5)[5:] == [path] for line in _read_maps())
    except OSError:
        return False


def _read_maps() -> list[str]:
    return Path("/proc/self/maps").read_text(errors="surrogateescape").splitlines()


def _mpi(report: _Report, mpi: _Mpi) -> None:
    """Meet by the world that the launcher gave to the image's MPI."""
    _add_up(report, "mpi", *mpi.begin(), mpi.reduce)
    # Open MPI's mpirun kills the others of a rank that leaves without
    mpi.end()


def _sockets(report: _Report) -> bool:
    """Meet at rank 0, which adds up for all."""
    rank, ranks, place = _read_place()
    peers = [] if rank else list(_listen(place, ranks))
    root = _connect(place) if rank else None

    def reduce(values: array[float]) -> None:
        if root is not None:
            root.sendall(values)
            values[:] = _receive(root)
            return
        for peer in peers:
            values[:] = array("d", map(add, values, _receive(peer)))
        for peer in peers:
            peer.sendall(values)

    _add_up(report, "sockets", rank, 1 + len(peers) if root is None else ranks, reduce)
    return True


def _listen(place: str, ranks: int) -> Iterator[socket.socket]:
    """Yield connections to all other ranks, at rank 0."""
    address = urlparse(place)
    port = 0 if address.scheme == "file" else int(address.port or 0)
    with socket.create_server(("", port), backlog=ranks) as server:
        word = os.urandom(_WORD_BYTES // 2).hex()
        if address.scheme == "file":
            # the name first: by it other nodes reach this one
            hosts = [socket.gethostname(), *_own_addresses(), "127.0.0.1"]
            text = json.dumps({"hosts": hosts, "port": server.getsockname()[1], "word": word})
            partial = Path(f"{address.path}.partial")
            partial.write_text(text, encoding="utf-8")
            partial.replace(address.path)
        for _ in range(ranks - 1):
            peer, _ = server.accept()
            if address.scheme == "file":
                peer.sendall(word.encode())
            yield peer


def _own_addresses() -> list[str]:
    try:
        return sorted({str(one[4][0]) for one in socket.getaddrinfo(socket.gethostname(), None)})
    except OSError:
        return []


def _connect(place: str) -> socket.socket:
    """Return the connection to rank 0, which may take its time to be there."""
    address = urlparse(place)
    while True:
        hosts, port, word = _look_up(address)
        for host in hosts:
            try:
                root = socket.create_connection((host, port), timeout=_CONNECT_SECONDS)
            except OSError:
                continue
            # of a number of addresses one may be another machine's
            if _receive_word(root, len(word)) == word.encode():
                root.settimeout(None)
                return root
            root.close()
        time.sleep(_LOOK_SECONDS)


def _look_up(address: ParseResult) -> tuple[list[str], int, str]:
    """Return the address of rank 0 and its word; an empty place is no address."""
    if address.scheme != "file":
        return [str(address.hostname)], int(address.port or 0), ""
    try:
        facts = json.loads(Path(address.path).read_bytes())
    except FileNotFoundError:
        return [], 0, ""
    return facts["hosts"], facts["port"], facts["word"]


def _receive_word(peer: socket.socket, count: int) -> bytes:
    word = b""
    try:
        while len(word) < count and (part := peer.recv(count - len(word))):
            word += part
    except OSError:
        return b""
    return word


def _receive(peer: socket.socket) -> array[float]:
    """Return the numbers of another rank.

    Raises:
        ConnectionError: It has left.
    """
    values = array("d", bytes(8 * ELEMENTS))
    rest = memoryview(values).cast("B")
    while rest:
        count = peer.recv_into(rest)
        if not count:
            raise ConnectionError("a rank ended before the all-reduce was finished")
        rest = rest[count:]
    return values


if __name__ == "__main__":
    # beside this file nothing is to be imported
    sys.path[:] = [
        one for one in sys.path if Path(one).resolve() != Path(__file__).resolve().parent
    ]
    sys.exit(main(sys.argv[1:]))
