from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy.typing as npt

from autotune.isa.program import Program
from autotune.kernels.emulator.outcome import By, Outcome
from autotune.targets.spec import HardwareSpec

DATAFLOWS: tuple[str, ...]
EVENTS_PER_CHECK: int
DMA_OPCODES: frozenset[int]
MARK_ID: int

class Loaded:
    program: Program
    marks: tuple[int, ...]
    parameters: frozenset[int]
    def __init__(self, program: Program, numbers: HardwareSpec) -> None: ...
    def execute(
        self,
        bandwidth: float,
        tensors: Sequence[npt.NDArray[Any]] | None = None,
        parameters: Mapping[int, int] | None = None,
        by: Iterable[By] = ...,
        trace_limit: int = 0,
    ) -> Outcome: ...

class Run: ...
