"""Compiles micro-kernels in this process, to run them on arrays; tests of the generators use it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache

import llvmlite.binding as llvm
import numpy as np

from autotune.targets.native.codegen.writing.micro_kernel import SYMBOL, MicroKernel
from autotune.targets.native.cpu.host import NARROWER
from autotune.targets.native.cpu.tile_permission import may_use_tiles
from autotune.targets.native.cpu.vector_isa import (
    AMX_FEATURES,
    AVX512,
    VECTOR_ISAS,
    VectorIsa,
    vector_isa,
)
from tests.targets.native.codegen.emulated_tiles import TILES, with_emulated_tiles

Run = Callable[..., None]
PLAIN_CPUS = {
    "amx": "sapphirerapids",
    "avx512bf16": "cooperlake",
    "avx512vnni": "cascadelake",
    "avx512": "x86-64-v4",
    "avxvnni": "alderlake",
    "avx2": "x86-64-v3",
    "sse2": "x86-64",
    "neondot": "neoverse-n1",
    "neon": "generic",
}
_KEPT: list[llvm.ExecutionEngine] = []


@cache
def _initialised() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def _machine(isa: VectorIsa) -> llvm.TargetMachine:
    _initialised()
    triple = (
        "aarch64-unknown-linux-gnu" if isa.name.startswith("neon") else llvm.get_process_triple()
    )
    target = llvm.Target.from_triple(triple)
    return target.create_target_machine(cpu=PLAIN_CPUS[isa.name], opt=2, jit=True)


def host_isas() -> tuple[VectorIsa, ...]:
    """Instruction sets whose fp32 code this machine runs, widest first."""
    return tuple(isa for isa in dot_isas() if isa in VECTOR_ISAS)


@cache
def dot_isas() -> tuple[VectorIsa, ...]:
    """The same with what it multiplies bytes by."""
    triple = llvm.get_process_triple()
    features = frozenset(name for name, on in llvm.get_host_cpu_features().items() if on)
    if not may_use_tiles():
        features -= frozenset(AMX_FEATURES)
    found = [vector_isa(triple.split("-")[0], features)]
    while found[-1] in NARROWER:
        found.append(NARROWER[found[-1]])
    return tuple(found)


def runs_tiles() -> bool:
    """Whether code with tiles runs here: in tile registers, or in emulated ones beside AVX-512."""
    return AVX512 in dot_isas()


def compiled(kernel: MicroKernel, isa: VectorIsa) -> Run:
    """A function of the operands (arrays, or addresses) and of ``numbers``.

    Tiles of a host without them are emulated."""
    is_emulated = isa.tiles is not None and isa not in dot_isas()
    module = llvm.parse_assembly(with_emulated_tiles(kernel.ir) if is_emulated else kernel.ir)
    module.verify()
    engine = llvm.create_mcjit_compiler(module, _machine(dot_isas()[0] if is_emulated else isa))
    engine.finalize_object()
    _KEPT.append(engine)
    code = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(
        engine.get_function_address(SYMBOL)
    )

    def run(*operands: np.ndarray | int, numbers: Sequence[int] = ()) -> None:
        assert len(operands) == kernel.operands and len(numbers) == kernel.numbers
        given = [each if isinstance(each, int) else each.ctypes.data for each in operands]
        pointers = (ctypes.c_void_p * max(1, len(given)))(*given)
        code(pointers, (ctypes.c_int64 * max(1, len(numbers)))(*numbers))
        assert not TILES.faults, TILES.faults
        assert not TILES.shapes, "tiles are not released"

    return run
