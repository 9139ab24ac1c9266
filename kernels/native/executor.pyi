from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Table = npt.NDArray[np.int64]

RUN: int
LOOP: int
END: int
CASE: int
NULL_BASE: int
NOWHERE: int
LEVELS: int
MOST_PARTS: int
STEP_COLUMNS: int
OPERAND_COLUMNS: int
NUMBER_COLUMNS: int
TERM_COLUMNS: int
SAMPLE_KERNELS: dict[str, int]
CLOCK_KERNEL: int
OVERDUE_SECONDS: float

class ThreadPool:
    threads: int
    lanes: int
    def __init__(self, threads: int) -> None: ...
    def set_apart(self, apart: bool) -> None: ...
    def hop_nanoseconds(self, threads: int, rounds: int) -> float: ...

class Stream:
    base_count: int
    scratchpad_bytes: int
    dispatches: bool
    before: Stream | None
    def __init__(
        self,
        steps: npt.ArrayLike,
        operands: npt.ArrayLike,
        terms: npt.ArrayLike,
        turns: npt.ArrayLike,
        numbers: npt.ArrayLike,
        scratchpad_bytes: int = 0,
        before: Stream | None = None,
    ) -> None: ...

class Plan:
    pool: ThreadPool
    threads: int
    pointer_count: int
    scratchpad_bytes: int
    dispatches: bool
    def __init__(
        self,
        programs: Iterable[tuple[Iterable[Stream], npt.ArrayLike]],
        pool: ThreadPool,
        keeps: object = None,
        many: bool = False,
    ) -> None: ...
    def __len__(self) -> int: ...
    def run(
        self,
        pointers: Table,
        parameters: Table | None = None,
        nanoseconds: Table | None = None,
        own_time: bool = False,
        memory: Any = None,
    ) -> None: ...

class RunMemory:
    made: int
    most: int
    def __init__(self, maker: Callable[[], npt.NDArray[np.float32]], most: int) -> None: ...
    def take(self) -> npt.NDArray[np.float32]: ...
    def give(self, block: npt.NDArray[np.float32]) -> None: ...
    def begin_anew(self) -> None: ...

class Call:
    def __init__(
        self,
        plan: Plan,
        memory: Any,
        inputs: Iterable[tuple[str, tuple[int, ...]]],
        outputs: Sequence[
            tuple[str, tuple[int, ...], Callable[[], npt.NDArray[np.float32]] | None]
        ],
    ) -> None: ...
    def run(self, inputs: object) -> tuple[dict[str, npt.NDArray[Any]], Table] | None: ...

def addresses(arrays: Sequence[npt.NDArray[Any]]) -> Table: ...
