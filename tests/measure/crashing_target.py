"""A native target that runs generated code which writes where nothing is, for one candidate."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from autotune.kernels.native.executor import NOWHERE, RUN, Plan, Stream, ThreadPool
from autotune.targets.native.codegen.writing.ir import FunctionWriter
from autotune.targets.native.compiling.compiler import Compiler
from autotune.targets.native.running.target import NativeTarget
from autotune.targets.protocol import Execution
from tests.measure.measure_case import SPEC

UNMAPPED = 64


class Crashing(NativeTarget):
    """Costs the candidate's index; candidate ``CRASHES`` ends the process."""

    CRASHES = 3

    def __init__(self, visit: int = 1) -> None:
        super().__init__(SPEC, "crashing")
        self.at = visit

    def __reduce__(self) -> Any:
        return Crashing, (self.at,)

    def prepared(self, program: Any, parameters: Any = None) -> Any:
        """Runs a kernel for the index that crashes, here or in the visit with the number ``at``."""
        if program == self.CRASHES and self.at == 0:
            write_to(UNMAPPED)
        return _Visits(program, self.at if program == self.CRASHES else 0)


class _Visits:
    def __init__(self, index: int, crashes_at: int) -> None:
        self.index, self.crashes_at, self.count = index, crashes_at, 0

    def visit(self) -> Execution | None:
        """The second one tells."""
        self.count += 1
        if self.count == self.crashes_at:
            write_to(UNMAPPED)
        return Execution(self.index, 0, 0, {"pid": os.getpid()}) if self.count == 2 else None


def write_to(address: int) -> None:
    """Run a compiled kernel that stores a float there."""
    out = FunctionWriter(1)
    out.store("float", "1.0", out.pointers[0])
    compiler = Compiler()
    (kernel,) = compiler.compile([out.finish()])
    stream = Stream([(RUN, kernel, 0, 1, 0, 0)], [(1, 0, 0, 0, 0, 0)], [], [], [])
    plan = Plan([([stream], [(0, 0), (NOWHERE, address)])], ThreadPool(1), compiler)
    plan.run(np.zeros(0, np.int64))
