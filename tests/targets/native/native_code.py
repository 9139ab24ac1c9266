"""Compiles micro-kernels for this host and calls them on numpy arrays; for tests and benchmarks."""

from __future__ import annotations

import ctypes
import functools

import llvmlite.binding as llvm
import numpy as np

from autotune.targets.native.codegen.micro_kernel import SYMBOL, MicroKernel
from autotune.targets.native.codegen.vector_isa import AVX2, SSE2, VectorIsa

FEATURES = {AVX2: "+avx2,+fma", SSE2: "+sse2,-sse3,-avx"}


@functools.cache
def _set_up() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


class Native:
    """Callable machine code of a kernel; keeps its engine alive."""

    def __init__(self, kernel: MicroKernel, isa: VectorIsa = AVX2) -> None:
        _set_up()
        module = llvm.parse_assembly(kernel.ir)
        module.verify()
        cpu = "x86-64" if isa is SSE2 else llvm.get_host_cpu_name()
        machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=cpu, features=FEATURES[isa], opt=2
        )
        self.machine, self.kernel = machine, kernel
        self._engine = llvm.create_mcjit_compiler(module, machine)
        self._engine.finalize_object()
        self.address = self._engine.get_function_address(SYMBOL)
        self._call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(self.address)

    def __call__(self, *operands: np.ndarray, numbers: tuple[int, ...] = ()) -> None:
        assert len(operands) == self.kernel.operands and len(numbers) == self.kernel.numbers
        pointers = (ctypes.c_void_p * len(operands))(*(array.ctypes.data for array in operands))
        values = (ctypes.c_int64 * max(len(numbers), 1))(*numbers)
        self._call(pointers, values)


def can_run(isa: VectorIsa) -> bool:
    """Whether this host has it."""
    features = llvm.get_host_cpu_features()
    if isa is AVX2:
        return bool(features.get("avx2") and features.get("fma"))
    return isa is SSE2 and bool(features.get("sse2"))
