"""Proves that a program is safe before an engine runs it; stands between lowering and targets.

Proven, for every core and every trip of every loop:

- every field holds a value of its type that fits its bits, no scalar is NaN, codes are known;
- loops nest, are closed, bounded and at most ``MAX_LOOP_DEPTH`` deep; ``level`` fields say their
  nesting; every loop level that a field names encloses its instruction; HALT ends the stream;
- every scratchpad access lies in ``[0, program.scratchpad_elements)``, and that in what the
  target has. A rectangle's extreme addresses are exact: they are affine in the loop indices, and
  the second slot counts as reached wherever a loop turns it;
- rectangles agree with the rank of their tensor (they may lie outside of it: padding); only OUTPUT
  tensors are stored to; an OUTPUT is loaded only after a STORE to it earlier in the same stream;
- semaphores neither deadlock nor lose a signal (``balance``).

Checked, short of a proof: reads of scratchpad that was never written. A read is refused when, the
first time it runs, its first or last element lies in no interval written by an instruction before
it; or when, over all trips, the same holds of its lowest or highest element and intervals written
before it or in its outermost loop. An interval runs from the lowest to the highest element that an
instruction writes over all trips. So no program that writes all it reads is refused, and an
accepted one may still read a gap between the elements written. Such a read meets old numbers,
never memory outside of the scratchpad.

Not checked: races between units that no semaphore orders, and between cores in DRAM.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.errors import ProgramError
from autotune.isa.access import ACCESSES, BIAS_ACCESSES, EXTENTS, Access, Values
from autotune.isa.balance import Balance
from autotune.isa.notation import CODES, EPILOGUE_FUNCTIONS, LEVEL_POSITIONS
from autotune.isa.program import DramTensor, Instruction, Program, Role, field_index
from autotune.isa.ranges import Ranges
from autotune.isa.table import (
    INSTRUCTIONS,
    MAX_LOOP_DEPTH,
    MAX_RANK,
    NO_LEVEL,
    FieldType,
    Opcode,
    Unit,
    When,
)

TENSOR_LIMIT = 1 << 10
"""Tensors that the ``tensor`` field can tell apart."""


def verify(program: Program, scratchpad_elements: int | None = None) -> None:
    """Return if the program is proven safe (see the module); raise ``ProgramError`` that names
    core, instruction and reason otherwise.

    ``scratchpad_elements`` is what one core of the target has, None to ask only for what the
    program itself declares.
    """
    declared = program.scratchpad_elements
    if declared < 0:
        raise ProgramError(f"{program.name}: {declared} scratchpad elements; it must be 0 or more")
    if scratchpad_elements is not None and declared > scratchpad_elements:
        raise ProgramError(
            f"{program.name}: needs {declared} scratchpad elements, the target has "
            f"{scratchpad_elements}; choose smaller tiles"
        )
    if len(program.tensors) > TENSOR_LIMIT:
        raise ProgramError(
            f"{program.name}: {len(program.tensors)} tensors; a program names at most "
            f"{TENSOR_LIMIT}; split the group"
        )
    for core, stream in enumerate(program.streams):
        _StreamProof(program, core, stream).run()
