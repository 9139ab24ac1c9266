"""Resources of a compiled group: scratchpad, threads, and the bytes that it reads and writes."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.isa.program import Program, Role

FLOAT_BYTES = 4
"""Bytes of a scratchpad element."""


@dataclass(frozen=True, slots=True)
class GroupResources:
    """What a program needs while it runs. ``scratchpad_bytes`` are one core's; on a CPU they lie in its
    cache. ``program_bytes`` estimates what the program itself takes in this process."""

    threads: int
    scratchpad_bytes: int
    input_bytes: int
    constant_bytes: int
    output_bytes: int
    program_bytes: int

    @classmethod
    def of(cls, program: Program) -> GroupResources:
        """Return the resources of a program."""
        sizes = dict.fromkeys(Role, 0)
        for tensor in program.tensors:
            elements = 1
            for extent in tensor.shape:
                elements *= extent
            sizes[tensor.role] += elements * tensor.format.bytes
        return cls(
            len(program.streams),
            FLOAT_BYTES * program.scratchpad_elements,
            sizes[Role.INPUT],
            sizes[Role.CONSTANT],
            sizes[Role.OUTPUT],
            program_bytes(program),
        )

    def document(self) -> dict[str, int]:
        """Return the resources as JSON has them."""
        return {
            "threads": self.threads,
            "scratchpad_bytes": self.scratchpad_bytes,
            "input_bytes": self.input_bytes,
            "constant_bytes": self.constant_bytes,
            "output_bytes": self.output_bytes,
            "program_bytes": self.program_bytes,
        }


_OBJECT_BYTES = 96
"""An instruction and its tuple, without the values."""
_VALUE_BYTES = 12
"""A value of an instruction: a pointer, and the share of numbers that are not small integers."""


def program_bytes(program: Program) -> int:
    """Estimate the memory of a program's objects."""
    values = sum(len(one.values) for stream in program.streams for one in stream)
    count = sum(map(len, program.streams)) + len(program.tensors)
    return _OBJECT_BYTES * count + _VALUE_BYTES * values
