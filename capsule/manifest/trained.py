"""Network and trainer of a Level 2 entry, from the catalogue or from users' files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from capsule.levels.catalog import FRAMEWORKS, NETWORKS, optimizers, refuse_device, training
from capsule.manifest import devices, subjects
from capsule.manifest.kinds import Module, OwnOptimizer
from capsule.manifest.problems import Problems, instead, quote

Raw = Mapping[str, Any]


class Trained(NamedTuple):
    """Network and optimizer of a training.

    Attributes:
        name: Name of the network in the catalogue, or the path of the user's file.
        module: What that file says, None for a network of the catalogue.
        optimizer: What the user's file says, None for an optimizer of the catalogue.
    """

    name: str
    module: Module | None = None
    optimizer: OwnOptimizer | None = None

    @property
    def quality(self) -> str:
        """Return the metric by which it is judged."""
        return self.module.quality if self.module else training.QUALITY[self.name]

    @property
    def options(self) -> set[str]:
        """Return the sizes of the network that a case may vary."""
        return set() if self.module else _options(self.name)

    def numbers(self, raw: Raw) -> tuple[training.Number, ...]:
        """Return the numbers that an entry gives its optimizer."""
        if self.optimizer is None:
            return training.OPTIMIZERS[raw["optimizer"]["name"]]
        return _facts(self.optimizer).numbers

    @property
    def has_formula(self) -> bool:
        """Return whether its optimizer has one that its steps are held to."""
        return self.optimizer is None or self.optimizer.has_formula

    def check(self, sizes: Mapping[str, Any]) -> dict[str, int]:
        """Return options of a case, each what it may be.

        Raises:
            ValueError: One is not.
        """
        if self.module:
            return {}
        complete = NETWORKS[self.name].complete({**sizes, "batch": 1})
        return {name: complete[name] for name in sizes}


def read(raw: Raw, here: str, files: subjects.Files, problems: Problems) -> Trained | None:
    """Return the training of an entry, or None after noting the problem.

    Args:
        raw: The entry.
        here: Its JSON pointer.
        files: Where a user's file is read from.
        problems: Collects what is wrong.
    """
    file = subjects.source(raw)
    if file is None:
        if "inputs" in raw and "file" not in raw["optimizer"]:
            problems.add(
                f"{here}/inputs",
                '"inputs" is set, but neither network nor optimizer names a file: remove "inputs"',
            )
        named = check_name(raw["network"], f"{here}/network", problems)
        network = Trained(raw["network"]) if named else None
    else:
        network = _of_module(raw, file, here, files, problems)
    if "file" not in raw["optimizer"] or network is None:
        return network
    optimizer = _optimizer(raw, network, here, files, problems)
    return None if optimizer is None else network._replace(optimizer=optimizer)


def restate(
    raw: Raw, module: Raw | None, optimizer: Raw | None, here: str, problems: Problems
) -> Trained | None:
    """Return the training with the plan's statements about users' files.

    Args:
        raw: The entry.
        module: As `to_json` gave it.
        optimizer: Likewise.
        here: Its JSON pointer.
        problems: Collects where the two contradict each other.
    """
    if (subjects.source(raw) is None) != (module is None):
        problems.add(f"{here}/network", _contradiction("network", in_plan=module is not None))
    if ("file" in raw["optimizer"]) != (optimizer is not None):
        problems.add(
            f"{here}/optimizer", _contradiction("optimizer", in_plan=optimizer is not None)
        )
    if problems.below(here):
        return None
    own = None
    if optimizer is not None:
        own = OwnOptimizer(raw["optimizer"]["file"], optimizer["numbers"], optimizer["formula"])
        try:
            _facts(own)
        except ValueError as error:
            problems.add(f"{here}/optimizer", f"the plan's {error}")
            return None
    if module is not None:
        made = Module(quality=module["quality"], choices=module["choices"])
        return Trained(subjects.require_path(raw), made, own)
    named = check_name(raw["network"], f"{here}/network", problems)
    return Trained(raw["network"], optimizer=own) if named else None


def _contradiction(field: str, *, in_plan: bool) -> str:
    """Describe that plan and manifest take a network or optimizer from different sources."""
    places = ("a file", "the catalogue") if in_plan else ("the catalogue", "a file")
    return f"the plan takes the {field} from {places[0]}, expected {places[1]} as in the manifest"


def to_json(module: Module | None, optimizer: OwnOptimizer | None) -> dict[str, Any]:
    """Return a plan's statements about users' files."""
    return {
        **({"module": {"quality": module.quality, "choices": module.choices}} if module else {}),
        **(
            {"optimizer": {"numbers": dict(optimizer.numbers), "formula": optimizer.has_formula}}
            if optimizer
            else {}
        ),
    }


def refusals(
    raw: Raw, trained: Trained, dtype: str, device: str, here: str
) -> Iterator[tuple[str, str]]:
    """JSON pointers of frameworks, or of an optimizer, that cannot train so, and why.

    A framework that lacks the device is left out if another framework has the device.

    Args:
        raw: The entry.
        trained: What it trains.
        dtype: Its element type.
        device: `cpu` or `cuda`.
        here: Its JSON pointer.
    """
    own = trained.optimizer
    chosen = own.path if own else raw["optimizer"]["name"]
    lacking = devices.list_lacking(raw["frameworks"], device)
    for index, name in enumerate(raw["frameworks"]):
        if name in lacking:
            continue
        reason: str | None = f"unknown framework {quote(name)}; {instead(name, training.TRAINERS)}"
        if name in FRAMEWORKS:
            is_module = trained.module is not None
            reason = training.refusal(name, chosen, dtype, is_module=is_module)
            if own and reason is None:
                reason = optimizers.refusal(name, _facts(own))
            reason = reason or refuse_device(name, device)
        if reason:
            yield f"{here}/frameworks/{index}", reason
    if mismatch := optimizers.mismatch(trained.quality, chosen):
        yield f"{here}/optimizer/name", mismatch


def check_name(name: str, here: str, problems: Problems) -> bool:
    """Note a network that is not in the catalogue; whether all is well."""
    if name not in NETWORKS:
        message = f"unknown network {quote(name)}; {instead(name, NETWORKS)}"
        problems.add(here, message)
    return not problems.below(here)


def _of_module(
    raw: Raw, file: tuple[str, str], here: str, files: subjects.Files, problems: Problems
) -> Trained | None:
    form, path = file
    if not subjects.check_path(raw, here, problems):
        return None
    where = f"{here}/network/{form}"
    facts = subjects.run_reader(lambda: subjects.read_module(path, files), path, where, problems)
    if facts is None:
        return None
    return Trained(path, Module(quality=facts.quality, choices=facts.choices))


def _optimizer(
    raw: Raw, network: Trained, here: str, files: subjects.Files, problems: Problems
) -> OwnOptimizer | None:
    path, where = raw["optimizer"]["file"], f"{here}/optimizer/file"
    if not subjects.check_input(path, "file", where, raw, problems):
        return None
    taken = network.options
    facts = subjects.run_reader(
        lambda: subjects.read_optimizer(path, files, taken), path, where, problems
    )
    if facts is None:
        return None
    _, *numbers = facts.numbers
    defaults = {number.name: number.default or 0 for number in numbers}
    return OwnOptimizer(path, defaults, facts.has_formula)


def _facts(own: OwnOptimizer) -> optimizers.Optimizer:
    return optimizers.read(dict(own.numbers), 0, ("formula",) if own.has_formula else ())


def _options(network: str) -> set[str]:
    return {option.name for option in NETWORKS[network].options} - {"limit_mib"}
