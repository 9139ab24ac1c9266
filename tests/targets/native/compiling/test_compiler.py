"""Micro-kernels become native functions that compute what they say, once, and never end the process."""

from __future__ import annotations

import ctypes
import gc
import os
import re
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from autotune.disk.cache import DiskCache
from autotune.errors import InputError, ProgramError
from autotune.isa.functions import UnaryFn
from autotune.targets.native.codegen import kernel_spec
from autotune.targets.native.codegen.kernel_spec import KernelSpec
from autotune.targets.native.codegen.vector.vector_run import Load, Output, Unary, VectorRun
from autotune.targets.native.codegen.writing.ir import FunctionWriter, vector
from autotune.targets.native.codegen.writing.micro_kernel import MicroKernel
from autotune.targets.native.compiling import object_code
from autotune.targets.native.compiling.compiler import Compiler
from autotune.targets.native.compiling.object_code import CodeGenerator, undefined
from autotune.targets.native.cpu.host import GENERIC, available, host, host_isa
from autotune.targets.native.cpu.vector_isa import AVX2, NEON, SSE2, VECTOR_ISAS, VectorIsa

pytestmark = pytest.mark.skipif(not available(), reason="llvmlite is not installed")

Floats = NDArray[np.float32]


def scaled_sum(rows: int, lanes: int = 4) -> MicroKernel:
    """out[rows·lanes] = 3·x + y, and numbers[0] added to each."""
    writer, kind = FunctionWriter(3, 1), vector(lanes)
    x, y, out = writer.pointers
    number = writer.value(f"sitofp i64 {writer.numbers[0]} to float")
    first = writer.value(f"insertelement {kind} poison, float {number}, i32 0")
    offset = writer.value(
        f"shufflevector {kind} {first}, {kind} poison, <{lanes} x i32> zeroinitializer"
    )
    loop = writer.begin(rows)
    at = writer.value(f"mul i64 {loop.index}, {lanes}")
    three = f"<{', '.join(['float 3.0'] * lanes)}>"
    product = writer.value(f"fmul {kind} {writer.load(kind, writer.offset(x, at))}, {three}")
    both = writer.value(f"fadd {kind} {product}, {writer.load(kind, writer.offset(y, at))}")
    total = writer.value(f"fadd {kind} {both}, {offset}")
    writer.store(kind, total, writer.offset(out, at))
    writer.end(loop)
    return writer.finish()


def calling(returns: str, name: str, kind: str = "float") -> MicroKernel:
    """out = name(x)."""
    writer = FunctionWriter(2)
    x, out = writer.pointers
    writer.store(returns, writer.call(returns, name, (kind, writer.load(kind, x))), out)
    return writer.finish()


def run(address: int, arrays: list[Floats], numbers: tuple[int, ...] = ()) -> None:
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(address)
    operands = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
    function(operands, (ctypes.c_int64 * len(numbers))(*numbers))


def computes_the_sum(address: int, rows: int, lanes: int = 4) -> bool:
    x, y = np.random.default_rng(rows).standard_normal((2, rows * lanes)).astype(np.float32)
    out = np.zeros_like(x)
    run(address, [x, y, out], (7,))
    return np.array_equal(out, np.float32(3) * x + y + np.float32(7))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "objects"


@pytest.mark.parametrize("isa", [isa for isa in VECTOR_ISAS if isa is not NEON])
def test_compiled_code_equals_numpy_in_every_instruction_set_of_the_host(
    isa: VectorIsa, folder: Path
) -> None:
    if host_isa() is NEON or isa.lanes > host_isa().lanes:
        pytest.skip(f"this CPU has no {isa.name}")
    compiler = Compiler(isa, folder)
    for rows in (1, 5):
        (address,) = compiler.compile([scaled_sum(rows, isa.lanes)])
        assert computes_the_sum(address, rows, isa.lanes)


def test_equal_kernels_are_compiled_once_and_have_one_address(folder: Path) -> None:
    compiler = Compiler(cache_dir=folder)
    first, second, again = compiler.compile([scaled_sum(1), scaled_sum(2), scaled_sum(1)])
    assert first == again != second
    assert compiler.compile([scaled_sum(2)]) == [second]
    assert compiler.compiled == 2


def test_a_second_compiler_compiles_nothing(folder: Path) -> None:
    kernels = [scaled_sum(rows) for rows in range(1, 6)]
    assert len(set(Compiler(cache_dir=folder).compile(kernels))) == 5
    second = Compiler(cache_dir=folder)
    addresses = second.compile(kernels)
    assert second.compiled == 0
    assert all(computes_the_sum(at, rows) for rows, at in enumerate(addresses, 1))


def test_object_code_of_another_instruction_set_is_not_taken(folder: Path) -> None:
    if host_isa() is SSE2 or host_isa() is NEON:
        pytest.skip("this CPU has one instruction set")
    Compiler(cache_dir=folder).compile([scaled_sum(1)])
    narrow = Compiler(SSE2, folder)
    narrow.compile([scaled_sum(1)])
    assert narrow.compiled == 1


def damage_nothing_left(entry: bytes) -> bytes:
    return b""


def damage_cut(entry: bytes) -> bytes:
    return entry[:-1]


def damage_longer(entry: bytes) -> bytes:
    return entry + b"\0"


def damage_bit(entry: bytes) -> bytes:
    return entry[:-100] + bytes([entry[-100] ^ 1]) + entry[-99:]


def damage_no_cache_file(entry: bytes) -> bytes:
    return b"\x7fELF" * 200


@pytest.mark.parametrize(
    "damage",
    [damage_nothing_left, damage_cut, damage_longer, damage_bit, damage_no_cache_file],
)
def test_a_damaged_entry_is_compiled_again_and_replaced(damage: object, folder: Path) -> None:
    assert callable(damage)
    Compiler(cache_dir=folder).compile([scaled_sum(3)])
    (entry,) = folder.iterdir()
    whole = entry.read_bytes()
    entry.write_bytes(damage(whole))
    second = Compiler(cache_dir=folder)
    assert computes_the_sum(second.compile([scaled_sum(3)])[0], 3)
    assert second.compiled == 1
    assert entry.read_bytes() == whole


def test_an_entry_under_another_kernels_name_is_not_taken(folder: Path) -> None:
    cache = DiskCache(folder)
    cache.store("one", b"code of one")
    (one,) = folder.iterdir()
    cache.store("two", b"code of two")
    (two,) = set(folder.iterdir()) - {one}
    two.write_bytes(one.read_bytes())
    assert cache.load("one") == b"code of one"
    assert cache.load("two") is None


def test_no_code_is_taken_that_another_user_could_have_written(folder: Path) -> None:
    cache = DiskCache(folder)
    cache.store("one", b"code")
    (entry,) = folder.iterdir()
    entry.chmod(0o666)
    assert cache.load("one") is None
    entry.chmod(0o600)
    assert cache.load("one") == b"code"
    folder.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="chmod go-w"):
        assert DiskCache(folder).load("one") is None


def test_the_cache_is_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        DiskCache(tmp_path / "home" / "cache" / "objects").store("one", b"code")
    finally:
        os.umask(before)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "home").rglob("*")]
    assert sorted(modes) == [0o600, 0o700, 0o700]
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700


def test_a_pipe_in_the_place_of_an_entry_is_passed_over(folder: Path) -> None:
    cache = DiskCache(folder)
    cache.store("one", b"code")
    (entry,) = folder.iterdir()
    entry.unlink()
    os.mkfifo(entry)
    assert cache.load("one") is None


def test_the_cache_removes_what_was_longest_unused_beyond_its_limit(folder: Path) -> None:
    cache = DiskCache(folder, limit_bytes=10_000)
    for index in range(9):
        cache.store(str(index), bytes(1000))
        for age, path in enumerate(sorted(folder.iterdir(), key=lambda p: p.stat().st_mtime_ns)):
            os.utime(path, (1e9 + age, 1e9 + age))
    assert cache.load("0") is not None  # now the one used last
    cache.store("9", bytes(1000))
    present = [index for index in range(10) if cache.load(str(index)) is not None]
    assert 0 in present and 9 in present and 1 not in present
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 10_000


def test_a_cache_that_cannot_be_written_costs_only_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    compiler = Compiler(cache_dir=tmp_path / "file" / "objects")
    assert computes_the_sum(compiler.compile([scaled_sum(2)])[0], 2)


@pytest.mark.parametrize(
    ("kernel", "named"),
    [
        (calling("float", "expf"), "expf"),
        (calling("float", "no_such_function"), "no_such_function"),
        (calling("float", "llvm.exp.f32"), "expf"),
        (calling("<8 x float>", "llvm.sin.v8f32", "<8 x float>"), "sinf"),
        (
            calling("<16 x float>", "llvm.x86.avx512.rcp14.ps.512", "<16 x float>"),
            "llvm.x86.avx512.rcp14.ps.512",
        ),
        (MicroKernel("define void @kernel(ptr %a, ptr %b) { nonsense }", 0), "nonsense"),
        (
            MicroKernel(
                "@there = external global float\ndefine void @kernel(ptr %a, ptr %b) {\n"
                "  %x = load float, ptr @there\n  store float %x, ptr %a\n  ret void\n}\n",
                0,
            ),
            "there",
        ),
    ],
)
def test_code_that_cannot_stand_alone_is_an_error_and_the_compiler_goes_on(
    kernel: MicroKernel, named: str, folder: Path
) -> None:
    compiler = Compiler(cache_dir=folder, workers=2)
    with pytest.raises(ProgramError, match=named):
        compiler.compile([scaled_sum(1), kernel, scaled_sum(2)])
    addresses = compiler.compile([scaled_sum(1), scaled_sum(2)])
    assert computes_the_sum(addresses[0], 1) and computes_the_sum(addresses[1], 2)


def test_an_intrinsic_that_the_instruction_set_lacks_is_refused() -> None:
    writer = FunctionWriter(1)
    x = writer.load("<4 x float>", writer.pointers[0])
    argument = ("<4 x float>", x)
    fused = writer.call("<4 x float>", "llvm.fma.v4f32", argument, argument, argument)
    writer.store("<4 x float>", fused, writer.pointers[0])
    kernel = writer.finish()
    assert CodeGenerator(GENERIC[AVX2]).object(kernel)
    with pytest.raises(ProgramError, match="fmaf"):
        CodeGenerator(GENERIC[SSE2]).object(kernel)


def copying() -> MicroKernel:
    """out[1000] = x."""
    writer = FunctionWriter(2)
    x, out = writer.pointers
    writer.declare("void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
    writer.line(f"call void @llvm.memcpy.p0.p0.i64(ptr {out}, ptr {x}, i64 4000, i1 false)")
    return writer.finish()


def test_memory_functions_of_the_c_library_may_be_called(folder: Path) -> None:
    source = np.arange(1000, dtype=np.float32)
    out_array = np.zeros_like(source)
    loaded = Compiler(cache_dir=folder).load([copying()])
    run(loaded.addresses[0], [source, out_array])
    assert np.array_equal(source, out_array)


def test_undefined_symbols_are_those_of_the_object_code() -> None:
    generator = CodeGenerator(GENERIC[AVX2])
    assert undefined(generator.object(scaled_sum(2))) == frozenset()
    assert undefined(generator.object(copying())) == {"memcpy"}


def test_threads_that_compile_at_once_share_one_result(folder: Path) -> None:
    compiler = Compiler(cache_dir=folder, workers=3)
    kernels = [scaled_sum(rows) for rows in range(1, 13)]
    start = threading.Barrier(4)

    def work(turn: int) -> list[int]:
        start.wait()
        rotated = kernels[turn:] + kernels[:turn]
        addresses = compiler.compile(rotated)
        return addresses[len(kernels) - turn :] + addresses[: len(kernels) - turn]

    with ThreadPoolExecutor(4) as pool:
        first, *others = pool.map(work, range(4))
    assert all(other == first for other in others)
    assert compiler.compiled == len(kernels)
    assert all(computes_the_sum(at, rows) for rows, at in enumerate(first, 1))


def test_threads_generate_the_code_that_one_thread_does(tmp_path: Path) -> None:
    kernels = [scaled_sum(rows, lanes) for rows in range(1, 9) for lanes in (4, 8, 16)]
    for workers in (1, 4):
        Compiler(cache_dir=tmp_path / str(workers), workers=workers).compile(kernels)
    one, four = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
        for name in ("1", "4")
    )
    assert len(one) == len(kernels) and one == four


def test_loaded_code_outlives_its_compiler(folder: Path) -> None:
    loaded = Compiler(cache_dir=folder).load([scaled_sum(4)])
    gc.collect()
    assert computes_the_sum(loaded.addresses[0], 4)


def test_code_that_nobody_holds_is_dropped_and_loaded_again(folder: Path) -> None:
    compiler = Compiler(cache_dir=folder)
    for _ in range(3):
        loaded = compiler.load([scaled_sum(4)])
        assert computes_the_sum(loaded.addresses[0], 4)
        del loaded
    assert compiler.compiled == 1


@pytest.mark.parametrize("isa", VECTOR_ISAS)
def test_every_instruction_set_is_compiled_for_on_any_host(isa: VectorIsa) -> None:
    text = CodeGenerator(GENERIC[isa]).assembly(scaled_sum(2, isa.lanes))
    widest = {"avx512": "zmm", "avx2": "ymm", "sse2": "xmm", "neon": "v0.4s"}
    assert widest[isa.name] in text


@pytest.mark.parametrize(
    ("without", "expected"),
    [
        ("-avx", SSE2),
        ("-avx2", SSE2),
        ("-fma", SSE2),
        ("-f16c", SSE2),
        ("-avx512f, -avxvnni", AVX2),
    ],
)
def test_features_taken_away_narrow_the_instruction_set(
    without: str, expected: VectorIsa, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    if host_isa() in (SSE2, NEON):
        pytest.skip("this CPU has one instruction set")
    monkeypatch.setenv("AUTOTUNE_CPU_FEATURES", without)
    assert host_isa() is expected
    loaded = Compiler(cache_dir=folder).load([scaled_sum(3)])
    assert computes_the_sum(loaded.addresses[0], 3)


@pytest.mark.parametrize("given", ["avx", "+avx512f", "-no-such-feature", "-avx2;-fma"])
def test_features_that_cannot_be_taken_away_are_refused(
    given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOTUNE_CPU_FEATURES", given)
    with pytest.raises(InputError, match="behind a minus"):
        host_isa()


def test_an_instruction_set_that_the_host_lacks_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = AVX2 if host_isa() is NEON else NEON
    with pytest.raises(InputError, match=foreign.name):
        Compiler(foreign, folder)
    if host_isa() is not NEON:
        monkeypatch.setenv("AUTOTUNE_CPU_FEATURES", "-avx")
        with pytest.raises(InputError, match="avx2"):
            Compiler(AVX2, folder)


def test_importing_the_compiler_imports_no_llvmlite() -> None:
    program = (
        "import sys, autotune, autotune.targets.native.compiling.compiler; "
        "sys.exit(any(name.startswith('llvmlite') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_without_llvmlite_the_engine_says_that_it_is_not_available() -> None:
    program = (
        "import sys; sys.modules['llvmlite'] = None; "
        "from autotune.targets.native.cpu.host import available; sys.exit(available())"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_code_is_found_by_its_recipe_and_no_text_is_written_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = VectorRun((64,), ((1,),), (Output((1,), 1),), (Load(0), Unary(UnaryFn.RELU, 0)))
    Compiler(cache_dir=folder).load([KernelSpec(run, host_isa())])

    def written(kernel: KernelSpec) -> MicroKernel:
        raise AssertionError(f"{kernel} is written though its code is there")

    monkeypatch.setattr(KernelSpec, "written", written)
    second = Compiler(cache_dir=folder)
    assert second.load([KernelSpec(run, host_isa())]).addresses
    assert second.compiled == 0


def test_specs_that_differ_in_a_constant_a_set_or_a_generator_have_code_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clips = [Unary(UnaryFn.CLIP, 0, low, 6.0) for low in (0.0, -0.0, 1.0)]
    runs = [VectorRun((64,), ((1,),), (Output((1,), 1),), (Load(0), clip)) for clip in clips]
    kernels = [KernelSpec(run, isa) for run in runs for isa in (AVX2, SSE2)]
    digests = {kernel.digest for kernel in kernels}
    assert len(digests) == len(kernels)
    monkeypatch.setattr(
        "autotune.targets.native.codegen.kernel_spec.generators_version", lambda: "next"
    )
    assert KernelSpec(runs[0], AVX2).digest not in digests


def test_generators_take_constants_only_from_what_the_digest_is_over() -> None:
    folder = Path(kernel_spec.__file__).parent
    known = {"autotune.errors", *(module.__name__ for module in kernel_spec.TABLES)}
    for path in folder.rglob("*.py"):
        taken = set(re.findall(r"^ *from (autotune[\w.]*) import", path.read_text(), re.MULTILINE))
        taken = {x for x in taken if not x.startswith("autotune.targets.native.codegen")}
        assert taken <= known | {"autotune.isa", "autotune.targets.native.cpu"}, path.name


def test_what_llvm_holds_is_freed_in_order_also_after_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Freed in any other order, LLVM crashes; what is not freed stays in memory."""
    real, freed = object_code._llvm(), list[str]()

    class Noting:
        def __getattr__(self, name: str) -> Any:
            if name.startswith("dispose"):
                freed.append(name)
            return getattr(real, name)

    monkeypatch.setattr(object_code, "_llvm", Noting)
    generator = CodeGenerator(host(host_isa()))
    assert generator.object(scaled_sum(2))
    assert freed == ["dispose_buffer", "dispose_module", "dispose_context"]
    freed.clear()
    with pytest.raises(ProgramError, match="nonsense"):
        generator.object(MicroKernel("define void @kernel(ptr %a, ptr %b) { nonsense }", 0))
    assert freed == ["dispose_module", "dispose_context"]
