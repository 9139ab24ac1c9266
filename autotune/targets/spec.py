"""The numbers that describe a machine; read from TOML, validated when made, hashed to a profile."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from functools import cached_property
from typing import assert_never

from autotune.errors import SpecError
from autotune.isa.formats import (
    ALL_FORMATS,
    CACHED_BF16_FORMATS,
    CACHED_FORMATS,
    Format,
    Formats,
)
from autotune.targets.capacity import Capacity
from autotune.targets.physical import PhysicalSpec


def _require(condition: bool, where: str, message: str) -> None:
    if not condition:
        raise SpecError(f"{where}: {message}")


DATAFLOWS = ("os", "ws", "is")
"""Which operand a systolic array holds in place; the engine's codes are the positions."""

MOST_MACS_PER_CELL = 64
"""Most multiply-adds of one cell in one cycle that a spec may state."""

LAYOUTS = ("channels_first", "channels_last")
"""Where networks keep the channels of their images on a machine; the first is the default."""


class Memory(StrEnum):
    """How a core's memory is managed: by programs, or by hardware."""

    SCRATCHPAD = "scratchpad"
    """Programs copy tiles into a scratchpad; units load ahead into a second copy."""
    CACHED = "cached"
    """Instructions read and write tensors in place, through caches; no unit loads ahead."""


@dataclass(frozen=True, slots=True)
class MatrixSpec:
    """The systolic array: ``rows × cols`` multiply-accumulate cells, one fp32 multiply-add each
    per cycle. ``dataflow`` names the operand held in place: ``os`` the output, ``ws`` the right
    operand (weights), ``is`` the left one (inputs).

    ``bf16_macs_per_cell`` and ``int8_macs_per_cell`` are a cell's multiply-adds per cycle on narrow
    operands, 0 where the array does not multiply the format. A cell takes so many neighbours of the
    summed dimension at once, as a dot product. Sums have 32 bits: fp32 of bf16, int32 of int8.
    """

    rows: int
    cols: int
    dataflow: str
    setup_cycles: int
    bf16_macs_per_cell: int = 0
    int8_macs_per_cell: int = 0

    def __post_init__(self) -> None:
        for name in ("rows", "cols"):
            value = getattr(self, name)
            _require(1 <= value <= 4096, f"matrix.{name}", f"{value} is not in 1..4096")
        _require(
            self.dataflow in DATAFLOWS,
            "matrix.dataflow",
            f"{self.dataflow!r} is not one of: {', '.join(DATAFLOWS)}",
        )
        _require(
            0 <= self.setup_cycles <= 10_000,
            "matrix.setup_cycles",
            f"{self.setup_cycles} is not in 0..10000",
        )
        for name in ("bf16_macs_per_cell", "int8_macs_per_cell"):
            value = getattr(self, name)
            _require(0 <= value <= MOST_MACS_PER_CELL, f"matrix.{name}", f"{value} is not in 0..64")

    def macs_per_cell(self, format: Format) -> int:
        """Return a cell's multiply-adds per cycle on operands of a format, 0 where it has none."""
        match format:
            case Format.FP32:
                return 1
            case Format.BF16:
                return self.bf16_macs_per_cell
            case Format.INT8 | Format.UINT8:
                return self.int8_macs_per_cell
            case Format.INT32 | Format.FP16:
                return 0
            case _:
                assert_never(format)


@dataclass(frozen=True, slots=True)
class VectorSpec:
    """The vector unit: ``lanes`` elements per pass; a pass of a simple operation takes one cycle,
    of a division or square root ``divide_cycles``, of exp, erf, tanh … ``transcendental_cycles``."""

    lanes: int
    setup_cycles: int
    divide_cycles: int
    transcendental_cycles: int

    def __post_init__(self) -> None:
        _require(1 <= self.lanes <= 65536, "vector.lanes", f"{self.lanes} is not in 1..65536")
        for name in ("setup_cycles", "divide_cycles", "transcendental_cycles"):
            value = getattr(self, name)
            _require(0 <= value <= 10_000, f"vector.{name}", f"{value} is not in 0..10000")


@dataclass(frozen=True, slots=True)
class ScratchpadSpec:
    """Software-managed memory of one core: capacity, word-interleaved banks (4-byte words), and
    ports: units (load, store, matrix, vector) that may work on it at the same time.

    ``accumulator_bytes`` of the capacity hold sums of 32 bits and nothing else, as ``Capacity`` has it; 0 where one memory
    holds both, or the machine's own is not published."""

    size_bytes: int
    banks: int
    ports: int
    accumulator_bytes: int = 0

    def __post_init__(self) -> None:
        _require(
            1024 <= self.size_bytes <= 1 << 28,
            "scratchpad.size_bytes",
            f"{self.size_bytes} is not in 1024..2^28",
        )
        _require(
            self.size_bytes % 4 == 0,
            "scratchpad.size_bytes",
            f"{self.size_bytes} is not a multiple of 4",
        )
        _require(
            self.banks >= 1 and self.banks & (self.banks - 1) == 0,
            "scratchpad.banks",
            f"{self.banks} is not a power of two",
        )
        _require(1 <= self.ports <= 4, "scratchpad.ports", f"{self.ports} is not in 1..4")
        sums = self.accumulator_bytes
        _require(
            0 <= sums < self.size_bytes and sums % 4 == 0,
            "scratchpad.accumulator_bytes",
            f"{sums} is no multiple of 4 below size_bytes, {self.size_bytes}",
        )


_LATENCIES = (
    "activate_cycles",
    "precharge_cycles",
    "column_cycles",
    "turnaround_cycles",
    "setup_cycles",
)


@dataclass(frozen=True, slots=True)
class DramSpec:
    """Main memory, shared by all cores, in core clock cycles.

    ``bytes_per_cycle`` is the peak of the channel; a transfer moves whole bursts. It takes
    ``column_cycles`` (tCL) from an open row, ``activate_cycles`` (tRCD) more where its bank has no
    row open, and ``precharge_cycles`` (tRP) more where it has another one; the channel changes
    between reading and writing in ``turnaround_cycles``. A DMA instruction takes ``setup_cycles``
    before it asks for the channel (address generation, fabric). With ``converts_fp16`` it converts IEEE binary16 in memory to
    and from fp32, so that programs keep tensors of float16 in two bytes."""

    bytes_per_cycle: float
    burst_bytes: int
    row_bytes: int
    banks: int
    activate_cycles: int
    precharge_cycles: int
    column_cycles: int
    turnaround_cycles: int
    setup_cycles: int
    converts_fp16: bool = False

    def __post_init__(self) -> None:
        _require(
            0.01 <= self.bytes_per_cycle <= 1e5,
            "dram.bytes_per_cycle",
            f"{self.bytes_per_cycle} is not in 0.01..100000",
        )
        for name in ("burst_bytes", "row_bytes", "banks"):
            value = getattr(self, name)
            _require(
                value >= 1 and value & (value - 1) == 0,
                f"dram.{name}",
                f"{value} is not a power of two",
            )
        for name in _LATENCIES:
            value = getattr(self, name)
            _require(0 <= value <= 100_000, f"dram.{name}", f"{value} is not in 0..100000")

    @property
    def latency_cycles(self) -> int:
        """Cycles of a transfer before its first word, from an open row; others may use the channel."""
        return self.setup_cycles + self.column_cycles

    @property
    def row_miss_cycles(self) -> int:
        """To open a row in a bank that has another one open."""
        return self.precharge_cycles + self.activate_cycles


@dataclass(frozen=True, slots=True)
class ControlSpec:
    """The sequencer: cycles to dispatch one instruction, entries of each unit's queue."""

    dispatch_cycles: int
    queue_depth: int

    def __post_init__(self) -> None:
        _require(
            0 <= self.dispatch_cycles <= 1000,
            "control.dispatch_cycles",
            f"{self.dispatch_cycles} is not in 0..1000",
        )
        _require(
            1 <= self.queue_depth <= 256,
            "control.queue_depth",
            f"{self.queue_depth} is not in 1..256",
        )


@dataclass(frozen=True, slots=True)
class EnergySpec:
    """Energy of each action in femtojoules (as in Accelergy, Wu et al., ICCAD 2019).

    Computing: per useful multiply-add of each number format, and per element of a simple vector
    operation. Moving: per byte of scratchpad and of DRAM burst, and per opened DRAM row. Others: per
    dispatched instruction, and per core and cycle of leakage and clock."""

    mac_fj: int
    mac_bf16_fj: int
    mac_int8_fj: int
    vector_fj: int
    scratchpad_read_byte_fj: int
    scratchpad_write_byte_fj: int
    dram_read_byte_fj: int
    dram_write_byte_fj: int
    dram_activate_fj: int
    dispatch_fj: int
    static_cycle_fj: int

    def __post_init__(self) -> None:
        for row in fields(self):
            value = getattr(self, row.name)
            _require(0 <= value <= 10**12, f"energy.{row.name}", f"{value} is not in 0..10^12")

    def mac_of(self, format: Format) -> int:
        """Return the price of a multiply-add on operands of a format; INT32 and FP16 are no operands, and free."""
        match format:
            case Format.FP32:
                return self.mac_fj
            case Format.BF16:
                return self.mac_bf16_fj
            case Format.INT8 | Format.UINT8:
                return self.mac_int8_fj
            case Format.INT32 | Format.FP16:
                return 0
            case _:
                assert_never(format)

    @property
    def known(self) -> bool:
        """Whether the machine's energy is known at all: a real one may not tell it."""
        return any(getattr(self, row.name) for row in fields(self))


def _without(numbers: Mapping[str, object], name: str) -> dict[str, object]:
    """Return a section's numbers but for one."""
    return {key: value for key, value in numbers.items() if key != name}


WINOGRAD_SAVING = 4
"""Multiply-adds of a direct 3×3 convolution over those of Winograd's F(4×4)."""
WEIGHTS_SLOWDOWN = 1.2
"""Time of a weight from memory within products, over that of memory read in order: on a Xeon with AVX-512
products that wait for weights read 10 to 13 GB/s where memory gives 15.4, and weights used a moment ago more."""

FIGURES = frozenset(("clock_hz", "matrix", "dram"))
"""Fields that probes measure on a machine with an ``identity``, or that follow from the clock."""


@dataclass(frozen=True)
class HardwareSpec:
    """A machine. Equal numbers make an equal ``profile_id``, whatever the name. ``physical`` is all
    off by default: equal programs then cost the same, always. Networks are opened in ``layout``.
    ``identity`` names a real machine whose figures are measured: the ``profile_id`` then depends on it
    and not on ``FIGURES``, which drift from one probe to the next.
    Innermost tiles of schedules are multiples of ``tile_multiple`` elements, or whole: what the
    machine moves or computes at once. ``memory`` decides how tiles are held, and with it which
    schedules exist and which cost model applies.
    """

    name: str
    description: str
    sources: tuple[str, ...]
    cores: int
    clock_hz: float
    matrix: MatrixSpec
    vector: VectorSpec
    scratchpad: ScratchpadSpec
    dram: DramSpec
    control: ControlSpec
    energy: EnergySpec
    physical: PhysicalSpec = field(default_factory=PhysicalSpec)
    layout: str = LAYOUTS[0]
    tile_multiple: int = 1
    memory: Memory = Memory.SCRATCHPAD
    identity: str = ""

    def __post_init__(self) -> None:
        _require(1 <= self.cores <= 64, "cores", f"{self.cores} is not in 1..64")
        _require(1e6 <= self.clock_hz <= 1e11, "clock_hz", f"{self.clock_hz} is not in 1e6..1e11")
        _require(
            self.layout in LAYOUTS, "layout", f"{self.layout!r} is not one of: {', '.join(LAYOUTS)}"
        )
        _require(
            1 <= self.tile_multiple <= 4096,
            "tile_multiple",
            f"{self.tile_multiple} is not in 1..4096",
        )

    @cached_property
    def profile_id(self) -> str:
        """Hardware profile: 16 hex digits over every number, not over name and prose, nor over
        physics that is off and defaults of what schedules and networks look like. Of a machine with
        an ``identity`` the measured ``FIGURES`` are left out as well."""
        left_out = {"name", "description", "sources"}
        left_out |= FIGURES if self.identity else {"identity"}
        if not self.physical.active:
            left_out.add("physical")
        left_out |= {"tile_multiple", "memory"} | (
            {"layout"} if self.layout == LAYOUTS[0] else set()
        )
        numbers = {k: v for k, v in asdict(self).items() if k not in left_out}
        if "matrix" in numbers:  # what a machine lacks was no number of older specs
            numbers["matrix"] = {
                k: v for k, v in numbers["matrix"].items() if v or not k.endswith("_per_cell")
            }
        if not self.scratchpad.accumulator_bytes:  # no number of older specs either
            numbers["scratchpad"] = _without(numbers["scratchpad"], "accumulator_bytes")
        if "dram" in numbers:  # decides which programs are made, not what they cost
            numbers["dram"] = _without(numbers["dram"], "converts_fp16")
        # under the names that profiles of stored measurements were hashed with
        if self.tile_multiple != 1:
            numbers["grain"] = self.tile_multiple
        if self.memory is Memory.CACHED:
            numbers["buffers"] = self.max_buffers
        return hashlib.sha256(repr(sorted(numbers.items())).encode()).hexdigest()[:16]

    @property
    def max_buffers(self) -> int:
        """Copies that a tile may have: a second one only where units load ahead."""
        return 2 if self.memory is Memory.SCRATCHPAD else 1

    @property
    def formats(self) -> Formats:
        """Formats that programs for it store tensors in, and multiply.

        Narrow tensors lie in DRAM as they are where the arrays multiply their format, else in fp32; those of fp16 where
        transfers convert it.
        Machines with caches multiply bytes; where they multiply bf16, by constants alone, else they store
        weights of it. How long weights take counts there, as operands are read where they lie.
        """
        if self.memory is Memory.CACHED:
            formats = CACHED_BF16_FORMATS if self.multiplies(Format.BF16) else CACHED_FORMATS
            peak = self.peak_macs_per_cycle / self.dram.bytes_per_cycle
            per_byte = max(1, round(WEIGHTS_SLOWDOWN * peak))
            rates = {x: self.matrix.macs_per_cell(x) for x in formats.by_constants}
            fast = frozenset(x for x, rate in rates.items() if rate > WINOGRAD_SAVING)
            return replace(formats, macs_per_byte=per_byte, fast=fast)
        multiplied = frozenset(filter(self.multiplies, ALL_FORMATS.multiplied))
        converted = frozenset((Format.FP16,) if self.dram.converts_fp16 else ())
        return Formats(multiplied | converted, multiplied, converted=converted)

    @property
    def timed(self) -> bool:
        """True if costs are clock times, which vary; False if they are exact counts."""
        return self.memory is Memory.CACHED

    @property
    def peak_macs_per_cycle(self) -> int:
        """fp32 multiply-adds per cycle over all cores."""
        return self.peak_macs(Format.FP32)

    def peak_macs(self, format: Format) -> int:
        """Return multiply-adds per cycle over all cores on operands of a format, 0 where the arrays
        do not multiply it."""
        return self.cores * self.matrix.rows * self.matrix.cols * self.matrix.macs_per_cell(format)

    def multiplies(self, format: Format) -> bool:
        """Return True if the arrays multiply operands of a format."""
        return self.matrix.macs_per_cell(format) > 0

    @property
    def scratchpad_elements(self) -> int:
        """fp32 elements that one core's scratchpad holds."""
        return self.scratchpad.size_bytes // 4

    @property
    def tile_elements(self) -> int:
        """fp32 elements of one core's scratchpad that schedules may use: all, as addresses reach them."""
        return self.scratchpad_elements

    @property
    def capacity(self) -> Capacity:
        """What the tiles of one core may take."""
        return Capacity(self.tile_elements, self.scratchpad.accumulator_bytes // 4)
