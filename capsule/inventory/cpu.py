"""The processors: what they are, how they are wired, and how their clocks are governed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from statistics import median_low

from capsule.inventory.tree import Fact, Part, Tree, Unread, expand, whole

_CPU = "sys/devices/system/cpu"
_POLICIES = f"{_CPU}/cpufreq"

# Arm cores tell two numbers instead of a name: MIDR_EL1 implementer and part (Linux cputype.h)
_IMPLEMENTERS = {
    "0x41": "Arm",
    "0x43": "Cavium",
    "0x46": "Fujitsu",
    "0x48": "HiSilicon",
    "0x4e": "NVIDIA",
    "0x61": "Apple",
    "0x6d": "Microsoft",
    "0xc0": "Ampere",
}
_PARTS = {
    ("0x41", "0xd08"): "Cortex-A72",
    ("0x41", "0xd0b"): "Cortex-A76",
    ("0x41", "0xd0c"): "Neoverse-N1",
    ("0x41", "0xd40"): "Neoverse-V1",
    ("0x41", "0xd49"): "Neoverse-N2",
    ("0x41", "0xd4f"): "Neoverse-V2",
    ("0x41", "0xd84"): "Neoverse-V3",
    ("0x41", "0xd8e"): "Neoverse-N3",
    ("0x43", "0x0af"): "ThunderX2",
    ("0x46", "0x001"): "A64FX",
    ("0x48", "0xd01"): "Kunpeng-920",
    ("0x4e", "0x004"): "Carmel",
    ("0x6d", "0xd49"): "Azure-Cobalt-100",
    ("0xc0", "0xac3"): "Ampere-1",
    ("0xc0", "0xac4"): "Ampere-1a",
}


def read(tree: Tree) -> Part:
    """Return the processors of one node.

    Class: `model`, `vendor`, `revision`, `architecture`; `sockets`, `cores`, `threads` and
    `threads_per_core` that are online, `online` as a kernel list; `caches`, one entry for each
    level and type with `size_bytes` of one instance and `instances` on the node;
    `frequency_min_hertz`, `frequency_max_hertz` and `frequency_base_hertz` of the hardware;
    `features`, the instruction set extensions.

    State: `microcode`, `smt`, `boost`, `governor`, `frequency_driver`, `energy_preference` and the
    limits set in `governor_min_hertz`, `governor_max_hertz`. Where processors differ in a setting,
    its distinct values are joined by commas.

    Momentary: `frequency_current_hertz` with `min`, `median` and `max` over the processors.
    """
    blocks = _blocks(tree.text("proc/cpuinfo"))
    first = next((block for block in blocks if "processor" in block), {}) | _tail(blocks)
    return Part(
        klass={**_model(first, tree), **_topology(tree), **_hardware_clocks(tree)},
        state={**_settings(tree), "microcode": _field(first, "microcode")},
        momentary={"frequency_current_hertz": _current(blocks, tree)},
    )


def _blocks(text: str | Unread) -> list[dict[str, str]]:
    if isinstance(text, Unread):
        return []
    blocks = []
    for block in text.split("\n\n"):
        pairs = (line.partition(":") for line in block.splitlines())
        blocks.append({name.strip(): value.strip() for name, mark, value in pairs if mark})
    return blocks


def _tail(blocks: list[dict[str, str]]) -> dict[str, str]:
    # POWER describes the machine in a last block that has no processor number
    return blocks[-1] if blocks and "processor" not in blocks[-1] else {}


def _field(block: dict[str, str], *names: str) -> str | Unread:
    for name in names:
        if block.get(name):
            return block[name]
    return Unread(reason="absent", detail=f"/proc/cpuinfo has no {names[0]!r}")


def _model(block: dict[str, str], tree: Tree) -> dict[str, Fact]:
    features = _field(block, "flags", "Features")
    known: dict[str, Fact] = {
        "model": _field(block, "model name", "cpu"),
        "vendor": _field(block, "vendor_id"),
        "revision": _field(block, "revision"),
        "architecture": tree.text("proc/sys/kernel/arch"),
        "features": features if isinstance(features, Unread) else sorted(set(features.split())),
    }
    if "CPU implementer" in block:
        known |= _arm(block)
    elif "cpu family" in block:
        names = {"family": "cpu family", "model": "model", "stepping": "stepping"}
        known["revision"] = " ".join(f"{n} {block.get(field, '?')}" for n, field in names.items())
    if isinstance(known["architecture"], Unread):  # before Linux 6.1
        known["architecture"] = _architecture(block)
    return known


def _arm(block: dict[str, str]) -> dict[str, str]:
    implementer, part = block["CPU implementer"].lower(), block.get("CPU part", "?").lower()
    vendor = _IMPLEMENTERS.get(implementer, f"implementer {implementer}")
    return {
        "model": _PARTS.get((implementer, part), f"{vendor} part {part}"),
        "vendor": vendor,
        "revision": f"variant {block.get('CPU variant', '?')}"
        f" revision {block.get('CPU revision', '?')}",
    }


def _architecture(block: dict[str, str]) -> str | Unread:
    if "CPU implementer" in block:
        return "aarch64" if block.get("CPU architecture") == "8" else "arm"
    if "cpu family" in block:
        return "x86_64" if "lm" in block.get("flags", "").split() else "i686"
    return Unread(reason="absent", detail="/proc/sys/kernel/arch")


def _topology(tree: Tree) -> dict[str, Fact]:
    online = tree.text(f"{_CPU}/online")
    if isinstance(online, Unread):
        counts = ("online", "threads", "sockets", "cores", "threads_per_core", "caches")
        return dict.fromkeys(counts, online)
    cpus = expand(online)
    packages = [tree.text(f"{_CPU}/cpu{cpu}/topology/physical_package_id") for cpu in cpus]
    siblings = [tree.text(f"{_CPU}/cpu{cpu}/topology/thread_siblings_list") for cpu in cpus]
    unread = next((item for item in packages + siblings if isinstance(item, Unread)), None)
    cores = {item for item in siblings if isinstance(item, str)}
    return {
        "online": online,
        "threads": len(cpus),
        "sockets": unread or len(set(packages)),
        "cores": unread or len(cores),
        "threads_per_core": unread or max((len(expand(core)) for core in cores), default=0),
        "caches": _caches(tree, cpus),
    }


def _caches(tree: Tree, cpus: list[int]) -> list[dict[str, Fact]] | Unread:
    instances: set[tuple[int, str, int, str]] = set()
    for cpu in cpus:
        for index in tree.names(f"{_CPU}/cpu{cpu}/cache"):
            folder = f"{_CPU}/cpu{cpu}/cache/{index}"
            level, kind = tree.number(f"{folder}/level"), tree.text(f"{folder}/type")
            size, shared = (
                _kibibytes(tree, f"{folder}/size"),
                tree.text(f"{folder}/shared_cpu_list"),
            )
            if not any(isinstance(fact, Unread) for fact in (level, kind, size, shared)):
                instances.add((level, kind, size, shared))  # type: ignore[arg-type]
    if not instances:
        return tree.nothing(f"{_CPU}/cpu{cpus[0]}/cache" if cpus else _CPU, "readable cache")
    kinds = Counter((level, kind, size) for level, kind, size, _ in instances)
    return [
        {
            "level": level,
            "type": kind.lower(),
            "size_bytes": size,
            "instances": count,
        }
        for (level, kind, size), count in sorted(kinds.items())
    ]


def _kibibytes(tree: Tree, path: str) -> int | Unread:
    text = tree.text(path)
    size = whole(text.removesuffix("K") if isinstance(text, str) else text, f"/{path}")
    return size if isinstance(size, Unread) else size * 1024


def _policies(tree: Tree, name: str) -> list[str] | Unread:
    folders = [entry for entry in tree.names(_POLICIES) if entry.startswith("policy")]
    values = [tree.text(f"{_POLICIES}/{folder}/{name}") for folder in folders]
    texts = [value for value in values if isinstance(value, str)]
    if texts:
        return texts
    unread = next((value for value in values if isinstance(value, Unread)), None)
    return unread or tree.nothing(_POLICIES, "policy")


def _all_hertz(tree: Tree, name: str) -> list[int] | Unread:
    texts = _policies(tree, name)
    if isinstance(texts, Unread):
        return texts
    hertz = [int(text) * 1000 for text in texts if text.isdecimal()]
    return hertz or Unread(reason="absent", detail=f"{name} holds {texts[0][:40]!r}, not a number")


def _hertz(tree: Tree, name: str, choose: Callable[[Iterable[int]], int]) -> int | Unread:
    values = _all_hertz(tree, name)
    return values if isinstance(values, Unread) else choose(values)


def _distinct(values: Iterable[str] | Unread) -> str | Unread:
    return values if isinstance(values, Unread) else ",".join(sorted(set(values)))


def _hardware_clocks(tree: Tree) -> dict[str, Fact]:
    return {
        "frequency_min_hertz": _hertz(tree, "cpuinfo_min_freq", min),
        "frequency_max_hertz": _hertz(tree, "cpuinfo_max_freq", max),
        "frequency_base_hertz": _hertz(tree, "base_frequency", max),
    }


def _settings(tree: Tree) -> dict[str, Fact]:
    return {
        "smt": tree.text(f"{_CPU}/smt/control"),
        "boost": _boost(tree),
        "governor": _distinct(_policies(tree, "scaling_governor")),
        "frequency_driver": _distinct(_policies(tree, "scaling_driver")),
        "energy_preference": _distinct(_policies(tree, "energy_performance_preference")),
        "governor_min_hertz": _hertz(tree, "scaling_min_freq", min),
        "governor_max_hertz": _hertz(tree, "scaling_max_freq", max),
    }


def _boost(tree: Tree) -> bool | Unread:
    no_turbo = tree.number(f"{_CPU}/intel_pstate/no_turbo")
    if isinstance(no_turbo, int):
        return no_turbo == 0
    boost = tree.number(f"{_CPU}/cpufreq/boost")
    return boost if isinstance(boost, Unread) else boost == 1


def _current(blocks: list[dict[str, str]], tree: Tree) -> dict[str, int] | Unread:
    # one read of cpuinfo samples all x86 processors at once; scaling_cur_freq slept 20 ms for each
    # of them before Linux 5.18
    texts = [block["cpu MHz"] for block in blocks if "cpu MHz" in block]
    hertz: list[int] | Unread = [
        round(float(text) * 1e6) for text in texts if re.fullmatch(r"\d+\.\d+", text)
    ]
    hertz = hertz or _all_hertz(tree, "scaling_cur_freq")
    if isinstance(hertz, Unread):
        return hertz
    return {"min": min(hertz), "median": median_low(hertz), "max": max(hertz)}
