"""Runs programs on the native engine, as tests of its parts need it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from autotune.isa.program import Program, Role
from autotune.kernels.native.executor import Plan, ThreadPool
from autotune.targets.arrays import array_for
from autotune.targets.native.compiling.compiler import Compiler
from autotune.targets.native.cpu.host import host_isa
from autotune.targets.native.cpu.vector_isa import VectorIsa
from autotune.targets.native.linking.loader import Bound, bind, link


def executed(
    program: Program,
    tensors: Mapping[str, np.ndarray],
    compiler: Compiler | None = None,
    bound: Bound | None = None,
) -> dict[str, np.ndarray]:
    """The outputs of a program; generated code with a compiler, else compiled kernels."""
    isa: VectorIsa | None = None if compiler is None else host_isa()
    arrays = {t.name: array_for(program, t, tensors).reshape(t.shape) for t in program.tensors}
    found = bind(program, isa) if bound is None else bound
    (linked,) = link([found], [arrays], compiler)
    pool = ThreadPool(len(program.streams))
    plan = Plan([(linked.streams, linked.table)], pool, linked)
    pointers = np.array([arrays[t.name].ctypes.data for t in program.tensors], np.int64)
    plan.run(pointers, np.zeros(256, np.int64))
    return {t.name: arrays[t.name] for t in program.tensors if t.role is Role.OUTPUT}
