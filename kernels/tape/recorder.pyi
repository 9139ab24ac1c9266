from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

MOST_NODES: int

class Untraceable(Exception): ...

class Recorder:
    inputs: int
    functions: list[Any]
    def __init__(self, inputs: int) -> None: ...
    def traced(self, ids: npt.ArrayLike, kind: str) -> Any: ...
    def compiled(
        self, outputs: Sequence[int]
    ) -> tuple[
        npt.NDArray[np.int64],
        npt.NDArray[np.int32],
        npt.NDArray[np.int32],
        list[int],
        list[tuple[int, Callable[..., Any], int, int, int, int]],
        int,
    ]: ...

class Traced:
    recorder: Recorder
    ids: npt.NDArray[np.int32]
    @property
    def shape(self) -> tuple[int, ...]: ...
    def __iter__(self) -> Iterator[Traced]: ...

def run(
    registers: npt.NDArray[np.int64],
    code: npt.NDArray[np.int32],
    lists: npt.NDArray[np.int32],
    begin: int,
    end: int,
) -> None: ...
def recorded_step(name: str, *operands: Any) -> Any: ...
def called(function: Callable[..., Any], arrays: Sequence[Any]) -> list[Any]: ...
