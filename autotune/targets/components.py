"""Area of a machine from a sourced table of its parts, and energies that follow the sizes of parts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path

from autotune.disk.regular_file import regular_text
from autotune.errors import SpecError
from autotune.isa.formats import Format
from autotune.targets.settings import Value
from autotune.targets.spec import HardwareSpec, MatrixSpec

FOLDER = Path(__file__).parent / "components"
DEFAULT = FOLDER / "45nm.toml"
"""The table that ships with the package."""
SHARED = {Format.BF16: 2, Format.INT8: 4}
"""Narrow multiply-adds per cycle that a cell's fp32 multiplier does in parts: significands of 8 bits, of 24."""


@dataclass(frozen=True, slots=True)
class Components:
    """Area of parts in µm²: a cell of the array, a lane, a byte of scratchpad, the rest of a core, and of the
    DRAM interface 10⁹ bytes a second. A cell's fp32 multiplier does ``SHARED`` narrow multiply-adds as well;
    each one beyond them takes area of its own. A scratchpad's energy per byte goes with its capacity to the power
    of ``scratchpad_energy_exponent``."""

    description: str
    sources: tuple[str, ...]
    cell_um2: float
    lane_um2: float
    scratchpad_byte_um2: float
    core_um2: float
    dram_gigabyte_um2: float
    scratchpad_energy_exponent: float
    bf16_mac_um2: float = 0.0
    int8_mac_um2: float = 0.0

    def __post_init__(self) -> None:
        for row in fields(self)[2:]:
            value = getattr(self, row.name)
            if not (math.isfinite(value) and value >= 0):
                raise SpecError(f"{row.name}: {value} is not a number from 0 on")

    def core_mm2(self, spec: HardwareSpec) -> float:
        """Return the area of one core, its scratchpad included."""
        um2 = (
            spec.matrix.rows * spec.matrix.cols * self._cell_um2(spec.matrix)
            + spec.vector.lanes * self.lane_um2
            + spec.scratchpad.size_bytes * self.scratchpad_byte_um2
            + self.core_um2
        )
        return um2 * 1e-6

    def _cell_um2(self, matrix: MatrixSpec) -> float:
        bf16 = max(0, matrix.bf16_macs_per_cell - SHARED[Format.BF16])
        int8 = max(0, matrix.int8_macs_per_cell - SHARED[Format.INT8])
        return self.cell_um2 + bf16 * self.bf16_mac_um2 + int8 * self.int8_mac_um2

    def area_mm2(self, spec: HardwareSpec) -> float:
        """Return the area of all cores and of the DRAM interface."""
        gigabytes = spec.dram.bytes_per_cycle * spec.clock_hz / 1e9
        return spec.cores * self.core_mm2(spec) + gigabytes * self.dram_gigabyte_um2 * 1e-6

    def energies(self, spec: HardwareSpec, base: HardwareSpec) -> dict[str, Value]:
        """Return the energies of a machine that differ from those of its ``base``, as settings.

        A byte of scratchpad costs by its capacity; leakage and clock of a core go with its area.
        """
        ratio = spec.scratchpad.size_bytes / base.scratchpad.size_bytes
        access = ratio**self.scratchpad_energy_exponent
        static = self.core_mm2(spec) / self.core_mm2(base)
        energy = base.energy
        return {
            "energy.scratchpad_read_byte_fj": round(energy.scratchpad_read_byte_fj * access),
            "energy.scratchpad_write_byte_fj": round(energy.scratchpad_write_byte_fj * access),
            "energy.static_cycle_fj": round(energy.static_cycle_fj * static),
        }


def read_components(path: Path = DEFAULT) -> Components:
    """Read a table of components. Raises ``SpecError`` with file, key and value."""
    import tomllib  # for exploration only

    try:
        document = tomllib.loads(regular_text(path))
    except OSError as error:
        raise SpecError(f"{path}: cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SpecError(f"{path}: not valid TOML: {error}") from None
    try:
        return _parsed(document)
    except SpecError as error:
        raise SpecError(f"{path}: {error}") from None


def _parsed(document: Mapping[str, object]) -> Components:
    names = [row.name for row in fields(Components)]
    optional = [row.name for row in fields(Components) if row.default is not MISSING]
    for name in document:
        if name not in names:
            raise SpecError(f"{name}: unknown key; known: {', '.join(names)}")
    numbers: dict[str, float] = {}
    for name in names:
        value = document.get(name)
        if value is None:
            if name in optional:
                continue
            raise SpecError(f"{name}: missing; known: {', '.join(names)}")
        if name not in ("description", "sources"):
            if type(value) not in (int, float):
                raise SpecError(f"{name}: {value!r} is not a number")
            numbers[name] = float(value)  # type: ignore[arg-type]
    description, sources = document["description"], document["sources"]
    if not isinstance(description, str) or not isinstance(sources, list):
        raise SpecError("description is a text, sources is a list of texts")
    return Components(description, tuple(map(str, sources)), **numbers)
