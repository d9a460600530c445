"""The machine as a whole: board, firmware, kernel, distribution, mitigations, limits, load."""

from __future__ import annotations

import re

from capsule.inventory.tree import Fact, Part, Tree, Unread, compress, expand, pick

_DMI = "sys/class/dmi/id"
_VULNERABILITIES = "sys/devices/system/cpu/vulnerabilities"
_CGROUP = "sys/fs/cgroup"

# what can move a measurement; the rest of the command line may name the host, its disks, a network
_BOOT_OPTIONS = re.compile(
    r"(amd_pstate|amd_iommu|intel_iommu|iommu|cpufreq\.default_governor|default_hugepagesz"
    r"|hugepages|hugepagesz|idle|intel_idle\.max_cstate|processor\.max_cstate|intel_pstate"
    r"|isolcpus|maxcpus|mem|mitigations|nohz|nohz_full|nosmt|numa|numa_balancing|preempt|rcu_nocbs"
    r"|spectre_v2|transparent_hugepage|tsc)(=.*)?"
)


def machine(tree: Tree) -> Part:
    """Return the board and its firmware.

    Identity: `host_name`, `machine_id`, `product_uuid`, `product_serial`, `board_serial`.
    Class: `vendor`, `product`, `board`, `virtual` (a hypervisor shows its processor flag).
    State: `firmware_version`, `firmware_date`.
    """
    cpuinfo = tree.text("proc/cpuinfo")
    return Part(
        identity={
            "host_name": tree.text("proc/sys/kernel/hostname"),
            "machine_id": tree.text("etc/machine-id"),
            "product_uuid": tree.text(f"{_DMI}/product_uuid"),
            "product_serial": tree.text(f"{_DMI}/product_serial"),
            "board_serial": tree.text(f"{_DMI}/board_serial"),
        },
        klass={
            "vendor": tree.text(f"{_DMI}/sys_vendor"),
            "product": tree.text(f"{_DMI}/product_name"),
            "board": tree.text(f"{_DMI}/board_name"),
            "virtual": cpuinfo if isinstance(cpuinfo, Unread) else " hypervisor" in cpuinfo,
        },
        state={
            "firmware_version": tree.text(f"{_DMI}/bios_version"),
            "firmware_date": tree.text(f"{_DMI}/bios_date"),
        },
    )


def software(tree: Tree) -> Part:
    """Return the operating system.

    State: `kernel_release`, `kernel_version`, `kernel_options` (boot options that can move a
    measurement), `distribution`, `distribution_version`, `mitigations` by vulnerability.
    Momentary: `load_average_1_minute`, `load_average_5_minutes`, `load_average_15_minutes`.
    """
    release = "etc/os-release" if tree.has("etc/os-release") else "usr/lib/os-release"
    fields = tree.fields(release, "=")
    return Part(
        state={
            "kernel_release": tree.text("proc/sys/kernel/osrelease"),
            "kernel_version": tree.text("proc/sys/kernel/version"),
            "kernel_options": _boot_options(tree.text("proc/cmdline")),
            "distribution": _unquote(pick(fields, "ID", release)),
            "distribution_version": _unquote(pick(fields, "VERSION_ID", release)),
            "mitigations": _mitigations(tree),
        },
        momentary=_load(tree.text("proc/loadavg")),
    )


def _unquote(text: str | Unread) -> str | Unread:
    return text if isinstance(text, Unread) else text.strip("\"'")


def _boot_options(text: str | Unread) -> list[str] | Unread:
    if isinstance(text, Unread):
        return text
    return [word for word in text.split() if _BOOT_OPTIONS.fullmatch(word)]


def _mitigations(tree: Tree) -> dict[str, Fact] | Unread:
    names = tree.names(_VULNERABILITIES)
    if not names:
        return tree.nothing(_VULNERABILITIES, "entry")
    return {name: tree.text(f"{_VULNERABILITIES}/{name}") for name in names}


def _load(text: str | Unread) -> dict[str, Fact]:
    names = ("load_average_1_minute", "load_average_5_minutes", "load_average_15_minutes")
    if isinstance(text, Unread):
        return dict.fromkeys(names, text)
    if not re.match(r"(\d+\.\d+ ){3}", text):
        unread = Unread(reason="absent", detail=f"/proc/loadavg holds {text[:40]!r}")
        return dict.fromkeys(names, unread)
    return {name: float(word) for name, word in zip(names, text.split(), strict=False)}


def limits(tree: Tree) -> Part:
    """Return the limits of this process on the machine.

    State: `cpus` it may run on as a kernel list and their number `cpu_count`; `cpu_quota` in whole
    processors and `memory_bytes`, the tightest of its control groups and their parents;
    `locked_memory_bytes` and `open_files` of its soft resource limits.
    """
    status = tree.fields("proc/self/status", ":")
    allowed = pick(status, "Cpus_allowed_list", "proc/self/status")
    online = tree.text("sys/devices/system/cpu/online")
    if isinstance(allowed, str) and isinstance(online, str):
        # the mask of an unbound process also holds processors that could be plugged in
        allowed = compress([cpu for cpu in expand(allowed) if cpu in set(expand(online))])
    resource = tree.text("proc/self/limits")
    return Part(
        state={
            "cpus": allowed,
            "cpu_count": allowed if isinstance(allowed, Unread) else len(expand(allowed)),
            "cpu_quota": _cpu_quota(tree),
            "memory_bytes": _memory_limit(tree),
            "locked_memory_bytes": _soft_limit(resource, "Max locked memory"),
            "open_files": _soft_limit(resource, "Max open files"),
        }
    )


def _soft_limit(text: str | Unread, name: str) -> int | Unread:
    if isinstance(text, Unread):
        return text
    line = next((line for line in text.splitlines() if line.startswith(name)), "")
    word = line.removeprefix(name).split()[:1]
    if word and word[0].isdecimal():
        return int(word[0])
    return Unread(reason="absent", detail=f"no limit set: {name}")


def _control_groups(tree: Tree, controller: str) -> list[str]:
    """Return folders of this process's control group and its parents, innermost first."""
    lines = tree.text("proc/self/cgroup")
    folders: list[str] = []
    for line in [] if isinstance(lines, Unread) else lines.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controller in controllers.split(","):
            top = f"{_CGROUP}/{controller}"
        elif not controllers:
            top = _CGROUP
        else:
            continue
        parts = [part for part in path.split("/") if part]
        folders += ["/".join([top, *parts[:count]]) for count in range(len(parts), -1, -1)]
    return folders


def _cpu_quota(tree: Tree) -> float | Unread:
    quotas = []
    for folder in _control_groups(tree, "cpu"):
        modern = tree.text(f"{folder}/cpu.max")
        old = tree.number(f"{folder}/cpu.cfs_quota_us")
        period = tree.number(f"{folder}/cpu.cfs_period_us")
        both = re.fullmatch(r"(\d+) ([1-9]\d*)", modern) if isinstance(modern, str) else None
        if both:
            quotas.append(int(both[1]) / int(both[2]))
        elif isinstance(old, int) and isinstance(period, int) and old > 0 and period > 0:
            quotas.append(old / period)
    return min(quotas) if quotas else _no_limit(tree)


def _memory_limit(tree: Tree) -> int | Unread:
    limits = []
    for folder in _control_groups(tree, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            limit = tree.text(f"{folder}/{name}")
            # version 1 says "no limit" as the largest multiple of a page below 2**63
            if isinstance(limit, str) and limit.isdecimal() and int(limit) < 1 << 60:
                limits.append(int(limit))
    return min(limits) if limits else _no_limit(tree)


def _no_limit(tree: Tree) -> Unread:
    groups = tree.text("proc/self/cgroup")
    return groups if isinstance(groups, Unread) else Unread(reason="absent", detail="no limit set")
