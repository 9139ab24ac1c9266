"""The measured fp32 peak of this CPU: generated code that multiplies and adds in registers alone.

Runs in a process of its own for `cpu.py`; argument: threads. Prints GFLOP/s as a JSON object.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from autotune.targets.native.codegen.writing.ir import FunctionWriter, vector
from autotune.targets.native.codegen.writing.micro_kernel import MicroKernel
from autotune.targets.native.compiling.compiler import Compiler
from autotune.targets.native.cpu.vector_isa import VectorIsa
from benchmarks.child import raise_priority, spent

TRIPS = 1 << 20
TURNS = 100


def chains(isa: VectorIsa) -> int:
    """Independent sums: more than latency times issue width, fewer than registers."""
    return min(12, isa.registers - 4)


def fma_loop(isa: VectorIsa) -> MicroKernel:
    """``TRIPS`` times acc = acc · x + x on every chain; x and the sums' place are the operand."""
    writer = FunctionWriter(1)
    kind = vector(isa.lanes)
    x = writer.load(kind, writer.pointers[0])
    loop = writer.begin(TRIPS, *((kind, x) for _ in range(chains(isa))))
    fma = f"llvm.fma.v{isa.lanes}f32"
    sums = [writer.call(kind, fma, (kind, a), (kind, x), (kind, x)) for a in loop.values]
    writer.end(loop, *sums)
    total = sums[0]
    for one in sums[1:]:
        total = writer.value(f"fadd {kind} {total}, {one}")
    writer.store(kind, total, writer.pointers[0])
    return writer.finish()


def peak_gflops(threads: int) -> float:
    """The best of ``TURNS`` runs on ``threads`` threads at once; ctypes calls without the GIL."""
    compiler = Compiler()
    isa = compiler.isa
    (address,) = compiler.compile([fma_loop(isa)])
    kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(address)

    def run(_: int) -> None:
        values = (ctypes.c_float * isa.lanes)()
        kernel(ctypes.byref(ctypes.c_void_p(ctypes.addressof(values))), None)

    seconds = []
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(TURNS):
            start = time.perf_counter()
            list(pool.map(run, range(threads)))
            seconds.append(time.perf_counter() - start)
    return 2 * isa.lanes * chains(isa) * TRIPS * threads / min(seconds) / 1e9


def main() -> None:
    """Measure and print."""
    raise_priority()
    print(json.dumps({"gflops": peak_gflops(int(sys.argv[1])), **spent()}))


if __name__ == "__main__":
    main()
