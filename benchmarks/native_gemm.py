"""Native GEMM kernels against this core's FMA peak: fraction reached, and milliseconds to compile.

    python -m benchmarks.native_gemm [--repeats 60] [--only conv]

The peak is a kernel of register-only FMAs by the same writer. All kernels take turns within one
run, and each one's fastest turn counts: other work on the machine only ever slows a turn down.
"""

from __future__ import annotations

import argparse
import ctypes
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from autotune.isa.functions import UnaryFn, When
from autotune.targets.native.codegen.gemm.gemm import gemm
from autotune.targets.native.codegen.gemm.panels import panel_width
from autotune.targets.native.codegen.gemm.shape import BiasAxis, GemmShape
from autotune.targets.native.codegen.writing.ir import FunctionWriter, vector
from autotune.targets.native.codegen.writing.micro_kernel import SYMBOL, MicroKernel
from autotune.targets.native.compiling.object_code import target_machine
from autotune.targets.native.cpu.host import host, host_isa
from autotune.targets.native.cpu.vector_isa import VectorIsa

TURN_SECONDS = 5e-4
DRIVER = """
define void @driver(ptr %kernel, ptr %operands, ptr %numbers, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %loop ]
  call void %kernel(ptr %operands, ptr %numbers)
  %j = add i64 %i, 1
  %more = icmp ult i64 %j, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""


@dataclass(slots=True)
class Running:
    """A compiled kernel with its operands; ``engine`` and ``arrays`` only to keep them alive."""

    name: str
    flops: float
    compile_seconds: float
    address: int
    pointers: ctypes.Array[ctypes.c_void_p]
    keep: tuple[object, ...]
    times: int = 1
    best_seconds: float = float("inf")


def compiled(text: str, symbol: str) -> tuple[int, object, float]:
    """Address, owner, seconds."""
    start = time.thread_time()
    module = llvm.parse_assembly(text)
    engine = llvm.create_mcjit_compiler(module, target_machine(host(host_isa())))
    engine.finalize_object()
    address = engine.get_function_address(symbol)
    return address, engine, time.thread_time() - start


def peak_kernel(isa: VectorIsa, trips: int) -> tuple[MicroKernel, float]:
    """Independent FMAs on registers only, and how many operations they are."""
    writer, kind, count = FunctionWriter(1), vector(isa.lanes), 12
    factor = writer.load(kind, writer.pointers[0])
    loop = writer.begin(trips, *[(kind, "zeroinitializer")] * count)
    results = list(loop.values)
    for _ in range(4):
        results = [
            writer.call(
                kind, f"llvm.fma.v{isa.lanes}f32", (kind, factor), (kind, factor), (kind, value)
            )
            for value in results
        ]
    writer.end(loop, *results)
    for at, value in enumerate(results):
        writer.store(kind, value, writer.offset(writer.pointers[0], at * isa.lanes))
    return writer.finish(), 2.0 * isa.lanes * 4 * count * trips


def running_peak(kernel: MicroKernel) -> Callable[[], None]:
    """A call of the kernel of ``peak_kernel``."""
    isa = host_isa()
    address, engine, _ = compiled(kernel.ir, SYMBOL)
    array = np.zeros(isa.lanes * 12, np.float32)
    pointers = (ctypes.c_void_p * 1)(array.ctypes.data)
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(address)

    def call(keep: tuple[object, ...] = (engine, array)) -> None:
        function(pointers, None)

    return call


def dense(m: int, n: int, k: int, **rest: Any) -> GemmShape:
    """c[m,n] = a[m,k]·b[k,n]."""
    return GemmShape(m=m, n0=n, k0=k, a_m=k, a_k0=1, b_k0=n, b_n0=1, c_m=n, c_n0=1, r_m=n, r_n0=1,
                     **rest)  # fmt: skip


def conv(
    size: int, inputs: int, outputs: int, kernel: int = 3, stride: int = 1, **rest: Any
) -> GemmShape:
    """kernel×kernel over a channels-last image that has its border; ``size``² output pixels."""
    line = ((size - 1) * stride + kernel) * inputs
    return GemmShape(
        m=outputs, n1=size, n0=size, k2=kernel, k1=kernel, k0=inputs,
        a_m=1, a_k2=kernel * inputs * outputs, a_k1=inputs * outputs, a_k0=outputs,
        b_k2=line, b_k1=inputs, b_k0=1, b_n1=stride * line, b_n0=stride * inputs,
        c_m=1, c_n1=size * outputs, c_n0=outputs, r_m=1, r_n1=size * outputs, r_n0=outputs, **rest,
    )  # fmt: skip


RELU: dict[str, Any] = {"epilogue": When.ALWAYS, "fn": UnaryFn.RELU, "bias": BiasAxis.M}
PACKED: dict[str, GemmShape] = {
    "gemm 256x16x256": dense(256, 16, 256),
    "gemm 48x64x256": dense(48, 64, 256),
    "gemm 512x512x256": dense(512, 512, 256),
    "gemm 256x256x256": dense(256, 256, 256),
    "gemm 1024x1024x1024": dense(1024, 1024, 1024),
    "gemm 512x512x256 +=": dense(512, 512, 256, accumulate=When.ALWAYS),
    "conv3x3 14x14 64>64": conv(14, 64, 64, **RELU),
    "conv3x3 7x7 512>512": conv(7, 512, 512, **RELU),
    "conv3x3 28x28 128>128": conv(28, 128, 128, **RELU),
    "conv3x3/2 14x14 128>256": conv(14, 128, 256, 3, 2, **RELU),
    "conv1x1 56x56 64>64": conv(56, 64, 64, 1, **RELU),
    "conv1x1 56x56 64>256 +r": conv(56, 64, 256, 1, adds=True, **RELU),
    "conv1x1 14x14 1024>256": conv(14, 1024, 256, 1, **RELU),
    "conv1x1 7x7 512>2048 +r": conv(7, 512, 2048, 1, adds=True, **RELU),
    "conv1x1/2 28x28 256>512": conv(28, 256, 512, 1, 2, **RELU),
    "stem7x7/2 28x28 3>64": conv(28, 3, 64, 7, 2, **RELU),
    "tile 8x8 3x3 64>32": conv(8, 64, 32, **RELU),
}
UNPACKED: dict[str, GemmShape] = {
    "plain 256x256x64": dense(256, 256, 64),
    "plain 128x512x512": dense(128, 512, 512),
    "a·bT 128x128x64": replace(dense(128, 128, 64), b_k0=1, b_n0=64),
    "vector 1x1000x512 packed": dense(1, 1000, 512),
}


def extent(shape: GemmShape, name: str, axes: str) -> int:
    """Elements that an operand spans."""
    spans: Iterable[int] = (
        (getattr(shape, x) - 1) * getattr(shape, f"{name}_{x}") for x in axes.split()
    )
    return 1 + sum(spans)


def running(name: str, shape: GemmShape, isa: VectorIsa) -> Running:
    """Compiled, with random operands."""
    kernel = gemm(shape, isa)
    address, engine, seconds = compiled(kernel.ir, SYMBOL)
    sizes = {
        "a": extent(shape, "a", "m k2 k1 k0"),
        "b": extent(shape, "b", "k2 k1 k0 n1 n0"),
        "c": extent(shape, "c", "m n1 n0"),
        "r": extent(shape, "r", "m n1 n0"),
        "bias": max(shape.m, shape.n0),
    }
    padding = (shape.panel or 0) * shape.k2 * shape.k1 * shape.k0
    rng = np.random.default_rng(0)
    arrays = [
        rng.standard_normal(sizes[operand] + padding, np.float32) for operand in shape.operands
    ]
    if shape.accumulate != When.NEVER:
        arrays[0][...] = 0
    products = shape.m * shape.n1 * shape.n0 * shape.k2 * shape.k1 * shape.k0
    pointers = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
    return Running(name, 2.0 * products, seconds, address, pointers, (engine, *arrays))


def peak(isa: VectorIsa) -> Running:
    """The peak as one more kernel to take turns."""
    kernel, flops = peak_kernel(isa, 1000)
    address, engine, seconds = compiled(kernel.ir, SYMBOL)
    array = np.zeros(isa.lanes * 12, np.float32)
    pointers = (ctypes.c_void_p * 1)(array.ctypes.data)
    return Running("peak", flops, seconds, address, pointers, (engine, array))


def turn(driver: Callable[..., None], kernel: Running) -> float:
    """Seconds of this thread's CPU time of one call."""
    start = time.thread_time()
    driver(kernel.address, kernel.pointers, None, kernel.times)
    return (time.thread_time() - start) / kernel.times


def take_turns(kernels: list[Running], repeats: int) -> None:
    """Fill in each one's ``best_seconds``."""
    address, engine, _ = compiled(DRIVER, "driver")
    driver = ctypes.CFUNCTYPE(
        None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64
    )(address)
    for kernel in kernels:
        once = min(turn(driver, kernel) for _ in range(3))
        kernel.times = max(1, round(TURN_SECONDS / once))
    for _ in range(repeats):
        for kernel in kernels:
            kernel.best_seconds = min(kernel.best_seconds, turn(driver, kernel))
    del engine


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=60)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    isa = host_isa()
    shapes = {name: replace(s, panel=panel_width(s, isa)) for name, s in PACKED.items()} | UNPACKED
    chosen = {name: shape for name, shape in shapes.items() if given.only in name}
    compiled(peak_kernel(isa, 1)[0].ir, SYMBOL)  # the first pays for LLVM's set-up
    top = peak(isa)
    kernels = [running(name, shape, isa) for name, shape in chosen.items()]
    take_turns([top, *kernels], given.repeats)
    rate = top.flops / top.best_seconds
    print(f"{isa.name}: peak {rate / 1e9:.1f} GFLOP/s")
    for kernel in kernels:
        fraction = kernel.flops / kernel.best_seconds / rate
        print(
            f"{kernel.name:26} {fraction:6.1%}  {kernel.best_seconds * 1e6:9.1f} us"
            f"  compiled in {kernel.compile_seconds * 1e3:5.1f} ms  panel {chosen[kernel.name].panel}"
        )


if __name__ == "__main__":
    main()
