"""Specs and programs that the target tests are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from autotune.isa.formats import Format
from autotune.isa.opcodes import Opcode
from autotune.isa.program import DramTensor, Instruction, Program, Role
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.opening import load_spec
from autotune.targets.spec import HardwareSpec

make = Instruction.make

# Round numbers, so that closed forms can be read off: a burst takes 8 cycles, a row is 16 bursts.
PLAIN = replace(
    load_spec("edge"),
    name="plain",
    matrix=replace(
        load_spec("edge").matrix, rows=4, cols=8, setup_cycles=5, bf16_macs_per_cell=1,
        int8_macs_per_cell=1,
    ),
    vector=replace(
        load_spec("edge").vector, lanes=8, setup_cycles=3, divide_cycles=4, transcendental_cycles=6
    ),
    scratchpad=replace(load_spec("edge").scratchpad, size_bytes=1 << 18, banks=8),
    dram=replace(
        load_spec("edge").dram, bytes_per_cycle=8.0, burst_bytes=64, row_bytes=1024, banks=4,
        activate_cycles=30, precharge_cycles=0, column_cycles=0, turnaround_cycles=0,
        setup_cycles=20,
    ),
    control=replace(load_spec("edge").control, dispatch_cycles=1, queue_depth=4),
)  # fmt: skip


def every_format(spec: HardwareSpec) -> HardwareSpec:
    """The machine with an array that multiplies each format, narrow ones at the rate of fp32."""
    rates = {"bf16_macs_per_cell": 1, "int8_macs_per_cell": 1}
    return replace(spec, matrix=replace(spec.matrix, **rates))


def program(
    *instructions: Instruction,
    tensors: tuple[DramTensor, ...] = (),
    credits: tuple[int, ...] = (),
    elements: int = 4096,
    cores: int = 1,
) -> Program:
    """The instructions and HALT, the same stream on every core."""
    stream = (*instructions, make(Opcode.HALT))
    return Program("case", tensors, (stream,) * cores, (credits,) * cores, elements)


def tensor(
    name: str, *shape: int, role: Role = Role.INPUT, format: Format = Format.FP32
) -> DramTensor:
    """A row of the tensor table."""
    return DramTensor(name, shape, role, format)


def counted(
    *instructions: Instruction, spec: HardwareSpec = PLAIN, **rest: object
) -> dict[str, int]:
    """Counters of a program on a machine."""
    return dict(EmulatorTarget(spec).time(program(*instructions, **rest)).counters)


def fill(base: int = 0, **fields: int | float) -> Instruction:
    """FILL of a dense row, 8 elements unless told."""
    return make(
        Opcode.FILL, **{"dst_base": base, "size4": 8, "dst_stride4": 1, "p0": 1.0, **fields}
    )


def packed(fields: Mapping[str, int | float]) -> int:
    """Elements of a transfer's format that lie in a word."""
    return 4 // Format(int(fields.get("format", 0))).bytes


def load(number: int, base: int, elements: int, **fields: int | float) -> Instruction:
    """LOAD of the first elements of a rank 1 tensor, from word ``base`` on."""
    base *= packed(fields)
    given = {"tensor": number, "dst_base": base, "size0": elements, "dst_stride0": 1}
    return make(Opcode.LOAD, **{**given, **fields})


def store(number: int, base: int, elements: int, **fields: int | float) -> Instruction:
    """STORE to the first elements of a rank 1 tensor, from word ``base`` on."""
    base *= packed(fields)
    given = {"tensor": number, "src_base": base, "size0": elements, "src_stride0": 1}
    return make(Opcode.STORE, **{**given, **fields})


def loop(trips: int, *body: Instruction, level: int = 0) -> tuple[Instruction, ...]:
    """A hardware loop around a body."""
    return (
        make(Opcode.LOOP, trips=trips, level=level), *body, make(Opcode.END, level=level)
    )  # fmt: skip


FILLED = 2048
"""Words that ``alone`` fills first, so that all of them may be read."""


def alone(instruction: Instruction, spec: HardwareSpec = PLAIN, **rest: object) -> dict[str, int]:
    """Counters of one instruction, without those of the FILL before it."""
    before = counted(fill(0, size4=FILLED), spec=spec, **rest)
    after = counted(fill(0, size4=FILLED), instruction, spec=spec, **rest)
    return {name: after[name] - before[name] for name in after}
