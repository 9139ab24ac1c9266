"""Plans: fusion groups and schedules of a network's graphs on a machine, as a JSON file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotune.arguments import path_of
from autotune.disk.atomic_file import FileKind, replace_file
from autotune.disk.regular_file import open_regular, regular_text
from autotune.display import Card, Displayed
from autotune.errors import InputError, PlanError, ScheduleError, SpecError
from autotune.graph.accuracy import Accuracy
from autotune.isa.formats import Formats
from autotune.targets.spec import HardwareSpec
from autotune.tuner.graph_plan import AGAIN, GraphPlan, PlannedGroup, read_graph
from autotune.tuner.objective import Objective

if TYPE_CHECKING:
    from autotune.tuner.placement.planned import PlannedDevices

SCHEMA = 2
SCHEMA_OF_DEVICES = 3
"""Schema of a plan for several devices: versions that read no other than 2 refuse it."""
KIND = FileKind("plan", (b'{"schema":', b'{"tree":'))


@dataclass(frozen=True, slots=True)
class NetworkFile:
    """The ONNX file that a plan was made for, and the SHA-256 of its content."""

    path: str
    sha256: str

    @classmethod
    def of(cls, path: Path) -> NetworkFile:
        """Read and hash a file. Raises ``PlanError`` when it cannot be read."""
        return cls(str(path.resolve()), _sha256(path))

    def check(self) -> Path:
        """The path, when its content is still what the plan was made for; else ``PlanError``."""
        path = Path(self.path)
        if _sha256(path) != self.sha256:
            raise PlanError(f"{path}: has changed since the plan was made; {AGAIN}")
        return path


def _sha256(path: Path) -> str:
    try:
        with open_regular(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise PlanError(f"{path}: cannot be read: {error.strerror}; {AGAIN}") from None


@dataclass(frozen=True, slots=True, repr=False)
class Plan(Displayed):
    """Plans of a network's graphs on one machine (``profile_id``).

    A network without control flow is one graph. A graph without a plan is planned by rule when it
    runs.
    """

    graphs: tuple[GraphPlan, ...]
    network_file: NetworkFile | None
    target: str
    profile_id: str
    objective: Objective
    accuracy: Accuracy = Accuracy.EXACT
    """Accuracy that the network was opened with."""
    dims: tuple[tuple[str, int], ...] = ()
    """Symbolic dimensions that were bound, by name."""
    ranges: tuple[tuple[str, tuple[float, float]], ...] = ()
    """Ranges of inputs that the network was opened for."""
    devices: PlannedDevices | None = None
    """Devices that run the network together; None for one machine."""
    macs_per_byte: int = 0
    """Of the formats that the network was opened with (``Formats``): another machine, or another measurement of
    this one, then opens the same algorithms."""

    def __post_init__(self) -> None:
        if not self.graphs:
            raise ValueError("none of its graphs has a plan")
        names = ("",) if self.devices is None else self.devices.names
        for group in self.groups:
            if group.device not in names:
                raise ValueError(
                    f"{group.operators[0]!r} runs on {group.device!r}, not a device of it"
                )

    def _card(self) -> Card:
        measured = self.measured_cycles
        facts = [
            ("groups", str(len(self.groups))),
            ("predicted cycles", f"{self.predicted_cycles:,.0f}"),
            ("measured cycles", "none" if measured is None else f"{measured:,}"),
            ("accuracy", self.accuracy.value),
        ]
        rows = [
            (
                " + ".join(group.operators),
                f"{group.predicted_cycles:,.0f}",
                "" if group.measured_cycles is None else f"{group.measured_cycles:,}",
            )
            for group in self.groups
        ]
        title = f"Plan {self.network} on {self.target}"
        return Card(title, facts, ("group", "predicted cycles", "measured cycles"), rows)

    @property
    def network(self) -> str:
        """Name of the network."""
        if len(self.graphs) == 1 or self.network_file is None:
            return self.graphs[0].graph
        return Path(self.network_file.path).stem

    def formats_on(self, spec: HardwareSpec) -> Formats:
        """Return the formats that the network is opened with on a machine."""
        return replace(spec.formats, macs_per_byte=self.macs_per_byte)

    @property
    def groups(self) -> tuple[PlannedGroup, ...]:
        """Groups of all graphs, each graph once."""
        return tuple(group for graph in self.graphs for group in graph.groups)

    @property
    def predicted_cycles(self) -> float:
        """Predicted cycles of one run of every graph."""
        return sum(group.predicted_cycles for group in self.groups)

    @property
    def measured_cycles(self) -> int | None:
        """Measured cycles of one run of every graph; None when a group was not measured."""
        return _total([g.measured_cycles for g in self.groups if g.schedule is not None])

    @property
    def energy_fj(self) -> int | None:
        """Energy of one run of every graph in femtojoules; None when a group was not measured."""
        return _total([g.energy_fj for g in self.groups if g.schedule is not None])

    @property
    def dram_bytes(self) -> int | None:
        """Bytes between DRAM and scratchpad in one run of every graph; None when a group was not
        measured."""
        return _total([g.dram_bytes for g in self.groups if g.schedule is not None])

    def check_target(self, spec: HardwareSpec) -> None:
        """Raise ``PlanError`` unless the plan was made for a machine like ``spec``."""
        if self.profile_id != spec.profile_id:
            same = "another machine or an older version of autotune made it; "
            raise PlanError(
                f"plan of {self.network} is for {self.target} (hardware profile {self.profile_id}), "
                f"not {spec.name} ({spec.profile_id}); {same if self.target == spec.name else ''}"
                f"search again with '{'--target' if self.devices is None else '--devices'} {spec.name}'"
            )

    def only_graph(self) -> GraphPlan:
        """Return the plan of a network that is one graph. Raises ``InputError`` for several."""
        if len(self.graphs) > 1:
            raise InputError(
                f"the plans of {self.network} are for a network with control flow; open that"
            )
        return self.graphs[0]

    def to_json(self) -> str:
        """Return the text of the file; ``from_json`` reads it back without loss."""
        return json.dumps(
            {
                "schema": SCHEMA if self.devices is None else SCHEMA_OF_DEVICES,
                "network": self.network,
                "model": None if self.network_file is None else asdict(self.network_file),
                "target": self.target,
                "profile_id": self.profile_id,
                "objective": self.objective.name,
                "accuracy": self.accuracy.value,
                "dims": dict(self.dims),
                "ranges": dict(self.ranges),
                **({"macs_per_byte": self.macs_per_byte} if self.macs_per_byte else {}),
                **({} if self.devices is None else {"devices": self.devices.document()}),
                "totals": {
                    "predicted_cycles": self.predicted_cycles,
                    "measured_cycles": self.measured_cycles,
                    "energy_fj": self.energy_fj,
                    "dram_bytes": self.dram_bytes,
                },
                "graphs": [one.document() for one in self.graphs],
            },
            indent=1,
        )

    @classmethod
    def from_json(cls, text: str, where: str = "plan") -> Plan:
        """Read what ``to_json`` wrote, now or with an older schema. Raises ``PlanError`` naming
        ``where`` for anything else."""
        try:
            return _read(json.loads(text), where)
        except KeyError as error:
            raise PlanError(f"{where}: not a plan: {error} is missing; {AGAIN}") from None
        except (
            TypeError,
            ValueError,
            OverflowError,
            RecursionError,
            AttributeError,
            ScheduleError,
            SpecError,
        ) as error:
            raise PlanError(f"{where}: not a plan: {error}; {AGAIN}") from None

    @classmethod
    def load(cls, path: Path | str) -> Plan:
        """Read a plan file. Raises ``PlanError`` in one line when that is impossible."""
        path = path_of(path, "a plan")
        return cls.from_json(read_text(path), str(path))

    def save(self, path: Path | str) -> None:
        """Write the file whole or not at all. Raises ``PlanError`` when that is impossible."""
        write_text(path_of(path, "a plan"), self.to_json())


def is_plan(path: Path) -> bool:
    """Return True if a file is meant as a plan: by its suffix, or because it holds a JSON object."""
    if path.suffix in (".plan", ".json"):
        return True
    try:
        with open_regular(path) as file:
            return file.read(64).lstrip().startswith(b"{")
    except OSError:
        return False


def read_text(path: Path) -> str:
    """The text of a plan file. Raises ``PlanError`` in one line when that is impossible."""
    try:
        return regular_text(path)
    except OSError as error:
        raise PlanError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise PlanError(f"{path}: not a plan: it is not text; {AGAIN}") from None


def write_text(path: Path, text: str) -> None:
    """Write a plan file whole or not at all. Raises ``PlanError`` when that is impossible."""
    try:
        replace_file(path, text + "\n", KIND)
    except InputError as error:
        raise PlanError(str(error)) from None
    except OSError as error:
        raise PlanError(
            f"{path}: cannot be written: {error.strerror}; choose another file"
        ) from None


def _total(costs: list[int | None]) -> int | None:
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None


def _devices(plain: Any) -> PlannedDevices:
    from autotune.tuner.placement.planned import read_devices  # most plans are for one device

    return read_devices(plain)


def _objective(text: str) -> Objective:
    try:
        return Objective.parse(text)
    except InputError as error:  # of a file, and so no mistake of the caller
        raise ValueError(str(error)) from None


def _read(plain: Any, where: str) -> Plan:
    """Read a parsed file of any schema.

    Raises ``PlanError`` for an unknown schema; ``KeyError``, ``TypeError``, ``ValueError``,
    ``AttributeError`` or ``ScheduleError`` for anything that is not a plan.
    """
    if isinstance(plain, dict) and "tree" in plain:
        return _read_tree(plain, where)
    if not isinstance(plain, dict) or "schema" not in plain:
        raise ValueError("it has no schema version")
    match plain["schema"]:
        case 2 | 3:
            graphs = tuple(map(read_graph, plain["graphs"]))
        case 1:  # one graph, whose facts stood beside those of the network
            graphs = (read_graph(plain | {"graph": plain["network"]}),)
        case other:
            raise PlanError(
                f"{where}: plan of schema {other!r}, this version reads 1 to {SCHEMA_OF_DEVICES}; {AGAIN}"
            )
    return Plan(
        graphs,
        _read_model(plain["model"]),
        str(plain["target"]),
        str(plain["profile_id"]),
        _objective(plain["objective"]),
        Accuracy(plain.get("accuracy", Accuracy.EXACT)),
        tuple((str(name), int(extent)) for name, extent in plain.get("dims", {}).items()),
        tuple(
            (str(name), (float(low), float(high)))
            for name, (low, high) in plain.get("ranges", {}).items()
        ),
        _devices(plain["devices"]) if plain["schema"] == SCHEMA_OF_DEVICES else None,
        int(plain.get("macs_per_byte", 0)),
    )


def _read_tree(plain: Mapping[str, Any], where: str) -> Plan:
    """Read a file of version 1 with one plan of schema 1 for each graph of a network."""
    if plain["tree"] != 1:
        raise PlanError(
            f"{where}: plans of schema {plain['tree']!r}, this version reads 1; {AGAIN}"
        )
    plans = [_read(one, where) for one in plain["plans"]]
    if not plans:
        raise ValueError("none of its graphs has a plan")
    return replace(
        plans[0],
        graphs=tuple(graph for plan in plans for graph in plan.graphs),
        network_file=_read_model(plain["model"]),
        dims=tuple((str(name), int(extent)) for name, extent in plain["dims"].items()),
    )


def _read_model(model: Mapping[str, Any] | None) -> NetworkFile | None:
    return None if model is None else NetworkFile(str(model["path"]), str(model["sha256"]))
