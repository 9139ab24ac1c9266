"""Several targets as one session holds them: their names, their links, and one clock for all costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING

from autotune.errors import InputError, ProgramError
from autotune.isa.formats import FLOAT32_ONLY, Formats
from autotune.isa.program import Program
from autotune.targets.device_name import device_names
from autotune.targets.physical import PhysicalSpec
from autotune.targets.protocol import Array, Execution, Parameters, Target
from autotune.targets.spec import LAYOUTS, EnergySpec, HardwareSpec, Memory

if TYPE_CHECKING:  # sessions of one device do without
    from autotune.targets.link_spec import Links

CLOCK_HZ = 1e9
"""Clock of a device set: its cycles are nanoseconds, whatever its devices count."""
TIME_LIMIT_SECONDS = 60.0
"""Time by this machine's clock after which a group counts as hanging, unless told."""


@dataclass(frozen=True)
class DevicesSpec(HardwareSpec):
    """Spec of several devices together; ``shared_formats`` are those that all of them have."""

    shared_formats: Formats = FLOAT32_ONLY

    @property
    def formats(self) -> Formats:
        """Formats of tensors that any of the devices may read, and of products that any may compute."""
        return self.shared_formats


@dataclass(frozen=True)
class DeviceSet:
    """Targets that run one network together. Networks are opened in ``layout`` for all of them.

    A device that takes longer than ``time_limit_seconds`` over one group, by this machine's clock, has failed. Raises
    ``InputError`` for no device, for this CPU or one open target twice, and for unlike machines of one name;
    ``SpecError`` for devices that no link joins.
    """

    devices: tuple[Target, ...]
    links: Links
    layout: str = LAYOUTS[0]
    time_limit_seconds: float = TIME_LIMIT_SECONDS

    def __post_init__(self) -> None:
        device_names([device.name for device in self.devices])
        self._check_equals()
        self.links.check_devices(self.names)

    @classmethod
    def of(
        cls, devices: Sequence[Target], links: Links | None = None, layout: str | None = None
    ) -> DeviceSet:
        """Join devices; by default with the shipped links, in the layout of the first one."""
        from autotune.targets.link_spec import read_links

        chosen = read_links() if links is None else links
        own = devices[0].spec.layout if layout is None and devices else layout
        return cls(tuple(devices), chosen, LAYOUTS[0] if own is None else own)

    def _check_equals(self) -> None:
        """Raise ``InputError`` for an open target that stands twice, and for unlike machines of one name."""
        if len({id(device) for device in self.devices}) < len(self.devices):
            raise InputError("one open target is one device; open the machine once for each device")
        profiles: dict[str, str] = {}
        for device in self.devices:
            if profiles.setdefault(device.name, device.spec.profile_id) != device.spec.profile_id:
                raise InputError(f"two unlike machines are named {device.name}; rename one of them")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Name of each device; of equal machines the second one is ``edge#2``."""
        return device_names([device.name for device in self.devices])

    @property
    def name(self) -> str:
        """Names of the devices, joined by commas."""
        return ",".join(self.names)

    @cached_property
    def by_name(self) -> Mapping[str, Target]:
        """The devices by their names."""
        return dict(zip(self.names, self.devices, strict=True))

    @cached_property
    def specs(self) -> Mapping[str, HardwareSpec]:
        """The machines by the names of their devices."""
        return {name: device.spec for name, device in self.by_name.items()}

    @cached_property
    def spec(self) -> HardwareSpec:
        """Identity and clock of the whole: cycles are nanoseconds, energy is not told.

        Nothing is lowered for it: its other numbers are those of the first device.
        """
        first = self.devices[0].spec
        own = {row.name: getattr(first, row.name) for row in fields(HardwareSpec)}
        return replace(
            DevicesSpec(**own),
            name=self.name,
            description=f"{len(self.devices)} devices",
            clock_hz=CLOCK_HZ,
            energy=EnergySpec(**{row.name: 0 for row in fields(EnergySpec)}),
            physical=PhysicalSpec(),
            layout=self.layout,
            memory=Memory.CACHED,
            shared_formats=Formats.common(device.spec.formats for device in self.devices),
            identity="devices " + " ".join(device.spec.profile_id for device in self.devices),
        )

    def nanoseconds(self, device: str, cycles: float) -> float:
        """Return a cost on one of the devices in cycles of the whole."""
        return cycles * CLOCK_HZ / self.specs[device].clock_hz

    def time(self, program: Program, parameters: Parameters | None = None) -> Execution:
        """Raise ``ProgramError``: a program is made for one device."""
        raise self._no_program(program)

    def run(
        self,
        program: Program,
        tensors: Mapping[str, Array],
        parameters: Parameters | None = None,
    ) -> tuple[Execution, dict[str, Array]]:
        """Raise ``ProgramError``: a program is made for one device."""
        raise self._no_program(program)

    def _no_program(self, program: Program) -> ProgramError:
        return ProgramError(
            f"{program.name}: {self.name} run networks together, not single programs; name one device"
        )
