"""Network interfaces and InfiniBand adapters that are hardware."""

from __future__ import annotations

from capsule.inventory.tree import Fact, Part, Tree, Unread, pick

_NET = "sys/class/net"
_INFINIBAND = "sys/class/infiniband"


def read(tree: Tree) -> Part:
    """Return interfaces with a device behind them; loopback, bridges and virtual pairs are left
    out.

    Identity: `addresses` (MAC) by interface, `infiniband_guids` by adapter.
    Class: `interfaces` by name with `driver`, `pci_id`, `speed_bits_per_second`; `infiniband` by
    adapter with `type`, `board`, and `ports` with `rate` (as the kernel words it), `link_layer`.
    State: `interfaces` with `state`, `mtu_bytes`; `infiniband` with `firmware`, and `ports` with
    `state`.
    """
    names = [name for name in tree.names(_NET) if tree.has(f"{_NET}/{name}/device")]
    adapters = tree.names(_INFINIBAND)
    return Part(
        identity={
            "addresses": {name: tree.text(f"{_NET}/{name}/address") for name in names},
            "infiniband_guids": {
                name: tree.text(f"{_INFINIBAND}/{name}/node_guid") for name in adapters
            },
        },
        klass={
            "interfaces": {name: _interface(tree, name) for name in names}
            or tree.nothing(_NET, "interface with a device"),
            "infiniband": {name: _adapter(tree, name) for name in adapters}
            or tree.nothing(_INFINIBAND, "adapter"),
        },
        state={
            "interfaces": {name: _interface_state(tree, name) for name in names},
            "infiniband": {name: _adapter_state(tree, name) for name in adapters},
        },
    )


def _interface(tree: Tree, name: str) -> dict[str, Fact]:
    uevent = f"{_NET}/{name}/device/uevent"
    fields = tree.fields(uevent, "=")
    speed = tree.number(f"{_NET}/{name}/speed")
    if isinstance(speed, int):
        unknown = Unread(reason="absent", detail=f"/{_NET}/{name}/speed is {speed}: unknown")
        return _device(fields, uevent) | {
            "speed_bits_per_second": speed * 1_000_000 if speed > 0 else unknown
        }
    return _device(fields, uevent) | {"speed_bits_per_second": speed}


def _device(fields: dict[str, str] | Unread, path: str) -> dict[str, Fact]:
    return {"driver": pick(fields, "DRIVER", path), "pci_id": pick(fields, "PCI_ID", path)}


def _interface_state(tree: Tree, name: str) -> dict[str, Fact]:
    return {
        "state": tree.text(f"{_NET}/{name}/operstate"),
        "mtu_bytes": tree.number(f"{_NET}/{name}/mtu"),
    }


def _ports(tree: Tree, adapter: str, *names: str) -> dict[str, Fact]:
    folder = f"{_INFINIBAND}/{adapter}/ports"
    return {
        port: {name: tree.text(f"{folder}/{port}/{name}") for name in names}
        for port in tree.names(folder)
    }


def _adapter(tree: Tree, name: str) -> dict[str, Fact]:
    return {
        "type": tree.text(f"{_INFINIBAND}/{name}/hca_type"),
        "board": tree.text(f"{_INFINIBAND}/{name}/board_id"),
        "ports": _ports(tree, name, "rate", "link_layer"),
    }


def _adapter_state(tree: Tree, name: str) -> dict[str, Fact]:
    return {
        "firmware": tree.text(f"{_INFINIBAND}/{name}/fw_ver"),
        "ports": _ports(tree, name, "state"),
    }
