"""A library in the place of `pynvml`, whose cards answer as they are told."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

from capsule import processes

VARIABLE = "FAKE_NVML"
"""Names the file of a library that is imported as `pynvml`, see `install`."""

USER = b"USES_FAKE_GPU=1"
"""A process with this variable uses every card of such a library."""


class NVMLError(Exception):
    """A refusal, with NVML's code."""

    def __init__(self, value: int = 3) -> None:
        super().__init__(f"refused with code {value}")
        self.value = value


IDLE: Mapping[str, object] = {
    "energy": 1_000_000,
    "power": 70_000,
    "power_limit": 700_000,
    "sm_clock": 345,
    "memory_clock": 2619,
    "temperature": 31,
    "utilization": 0,
    "used": 4 << 20,
    "reasons": 0x1,
    "pids": (),
    "mig": (0, 0),
}
"""Answers of a card that nobody uses: mJ, mW, MHz, degrees Celsius, per cent, bytes."""


@dataclass
class Card:
    """One card; an answer that is an exception is raised, and one that is a function is called."""

    bus: int = 0x3B
    uuid: str = "GPU-0f3c"
    answers: dict[str, Any] = field(default_factory=lambda: dict(IDLE))
    asked: list[str] = field(default_factory=list)

    def answer(self, name: str) -> Any:
        self.asked.append(name)
        value = self.answers[name]
        value = value() if callable(value) else value
        if isinstance(value, BaseException):
            raise value
        return value


class FakeNvml:
    """The part of `pynvml` that capsule asks; everything else is refused.

    Args:
        cards: In the order of the library, which need not be that of the buses.
        instances: The card of each MIG instance, by the instance's UUID.
    """

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0
    NVMLError = NVMLError

    def __init__(self, *cards: Card, instances: Mapping[str, Card] = {}) -> None:
        self.cards = cards
        self.instances = instances
        self.is_open = False

    def __getattr__(self, name: str) -> object:
        if name.startswith("NVML_"):
            return -1
        if name.startswith("NVMLError_"):
            return type(name, (NVMLError,), {})
        if not name.startswith("nvml"):
            raise AttributeError(name)

        def refuse(*_: object) -> NoReturn:
            raise NVMLError

        return refuse

    def nvmlInit(self) -> None:  # noqa: N802
        self.is_open = True

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.is_open = False

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.cards)

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802
        return "580.65.06"

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Card:  # noqa: N802
        return self.cards[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> SimpleNamespace:  # noqa: N802
        if uuid not in self.instances:
            raise NVMLError
        return SimpleNamespace(card=self.instances[uuid])

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, one: SimpleNamespace) -> Card:  # noqa: N802
        card: Card = one.card
        return card

    def nvmlDeviceGetUUID(self, card: Card) -> bytes:  # noqa: N802
        return card.uuid.encode()

    def nvmlDeviceGetName(self, card: Card) -> str:  # noqa: N802
        return "NVIDIA Fake"

    def nvmlDeviceGetPciInfo(self, card: Card) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(
            domain=0,
            bus=card.bus,
            device=0,
            pciDeviceId=0x233510DE,
            busId=f"00000000:{card.bus:02X}:00.0",
        )

    def nvmlDeviceGetEnforcedPowerLimit(self, card: Card) -> int:  # noqa: N802
        return int(card.answer("power_limit"))

    def nvmlDeviceGetTotalEnergyConsumption(self, card: Card) -> int:  # noqa: N802
        return int(card.answer("energy"))

    def nvmlDeviceGetMigMode(self, card: Card) -> Sequence[int]:  # noqa: N802
        modes: Sequence[int] = card.answer("mig")
        return modes

    def nvmlDeviceGetMemoryInfo(self, card: Card | SimpleNamespace) -> SimpleNamespace:  # noqa: N802
        if isinstance(card, Card):
            return SimpleNamespace(used=card.answer("used"), total=80 << 30)
        return SimpleNamespace(used=card.card.answer("instance_used"), total=10 << 30)

    def nvmlDeviceGetPowerUsage(self, card: Card) -> int:  # noqa: N802
        return int(card.answer("power"))

    def nvmlDeviceGetUtilizationRates(self, card: Card) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(gpu=card.answer("utilization"), memory=0)

    def nvmlDeviceGetClockInfo(self, card: Card, kind: int) -> int:  # noqa: N802
        return int(card.answer("sm_clock" if kind == self.NVML_CLOCK_SM else "memory_clock"))

    def nvmlDeviceGetTemperature(self, card: Card, kind: int) -> int:  # noqa: N802
        return int(card.answer("temperature"))

    def nvmlDeviceGetCurrentClocksEventReasons(self, card: Card) -> int:  # noqa: N802
        return int(card.answer("reasons"))

    def nvmlDeviceGetComputeRunningProcesses(self, card: Card) -> list[SimpleNamespace]:  # noqa: N802
        return [SimpleNamespace(pid=pid) for pid in card.answer("pids")]


def install(folder: Path, facts: Mapping[str, object] = {}) -> dict[str, str]:
    """Lay out a library with one card for programs that are started; returns their variables.

    Args:
        folder: Where to, empty.
        facts: Answers of the card that are numbers, or the code that calls them: `hang` and `die`
            for a reading that never returns, and for one that ends its process.
    """
    path = folder / "nvml.json"
    path.write_text(json.dumps(facts))
    (folder / "pynvml.py").write_text(
        "import sys\nfrom tests.support import nvml\nsys.modules[__name__] = nvml.load()\n"
    )
    # where the tests run in a container, process ids are compared all the same
    (folder / "sitecustomize.py").write_text(
        "import os\nfrom capsule.telemetry import sources\n"
        "sources.INITIAL_NAMESPACE = os.readlink('/proc/self/ns/pid')\n"
    )
    places = (folder, Path(__file__).parents[2], os.environ.get("PYTHONPATH"))
    return {
        VARIABLE: str(path),
        "PYTHONPATH": os.pathsep.join(str(place) for place in places if place),
    }


def load() -> FakeNvml:
    """Return the library of `install`."""
    facts = json.loads(Path(os.environ[VARIABLE]).read_text())
    card = Card(answers={**IDLE, "pids": _find_users, **facts})
    for name, value in facts.items():
        if value in ("hang", "die"):
            card.answers[name] = _late(_hang if value == "hang" else _die)
    return FakeNvml(card)


def _late(fault: Callable[[], NoReturn]) -> Callable[[], int]:
    """Return a reading that works once, and then has a fault."""
    count = iter(range(1_000_000))

    def read() -> int:
        return 1 if next(count) < 1 else fault()

    return read


def _hang() -> NoReturn:
    descriptor, _ = os.pipe()
    os.read(descriptor, 1)
    raise AssertionError("nobody writes")


def _die() -> NoReturn:
    sys.stdout.flush()
    os._exit(9)


def _find_users() -> list[int]:
    def uses(pid: int, _: processes.Stat) -> bool:
        return USER in processes.read_variables(pid)

    return processes.list_living(uses)
