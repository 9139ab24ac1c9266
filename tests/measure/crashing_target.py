"""A native target that runs generated code which writes where nothing is, for one candidate."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from measure_case import SPEC

from autotune.kernels.native import NOWHERE, RUN, Plan, Stream, ThreadPool
from autotune.targets.native.codegen.ir import FunctionWriter
from autotune.targets.native.compiler import Compiler
from autotune.targets.native.target import NativeTarget
from autotune.targets.protocol import Execution

UNMAPPED = 64


class Crashing(NativeTarget):
    """Costs the candidate's index; candidate ``CRASHES`` ends the process."""

    CRASHES = 3

    def __init__(self, early: bool = False) -> None:
        super().__init__(SPEC, "crashing")
        self.early = early

    def __reduce__(self) -> Any:
        return Crashing, (self.early,)

    def prepared(self, program: Any, parameters: Any = None) -> Callable[[], Execution]:
        """Runs a kernel for the index that crashes: then, or already ``early``."""
        if not self.early:
            return functools.partial(self._run, program)
        found = self._run(program)
        return lambda: found

    def _run(self, program: Any) -> Execution:
        if program == self.CRASHES:
            write_to(UNMAPPED)
        return Execution(program, 0, 0, {"pid": os.getpid()})


def write_to(address: int) -> None:
    """Run a compiled kernel that stores a float there."""
    out = FunctionWriter(1)
    out.store("float", "1.0", out.pointers[0])
    compiler = Compiler()
    (kernel,) = compiler.compile([out.finish()])
    stream = Stream([(RUN, kernel, 0, 1, 0, 0)], [(1, 0, 0, 0, 0, 0)], [], [], [])
    plan = Plan([([stream], [(0, 0), (NOWHERE, address)])], ThreadPool(1), compiler)
    plan.run(np.zeros(0, np.int64))
