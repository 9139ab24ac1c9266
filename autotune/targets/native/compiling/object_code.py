"""From a micro-kernel's IR to object code of one CPU, checked to need nothing but itself.

No middle-end pass runs. Measured with LLVM 22 on Zen 3 over matrix multiplies of 6×16 tiles,
element-wise rows and depthwise convolutions: the code generator alone takes 4-9 ms a kernel, the O1
pipeline 8-20 ms, O2 9-23 ms, O3 up to 70 ms. Matrix multiplies run equally fast either way, since
the code generator folds addresses and hoists constants by itself. What O1 adds,
11-18 % on short loops, is full unrolling and the removal of loops of one trip: generators know the
trips and write it so. The code generator's level 2 takes as long as 3 and gives the same code.
"""

from __future__ import annotations

import ctypes
import functools
import re
import struct
from typing import Any

from autotune.errors import ProgramError
from autotune.targets.native.codegen.writing.micro_kernel import SYMBOL, MicroKernel, Source
from autotune.targets.native.cpu.host import Machine

OPTIONS = "opt=3 reloc=pic codemodel=small -disable-lsr"
"""What else decides the code, for the key of a cache."""

LIBRARY = frozenset(("memcpy", "memmove", "memset"))
"""Functions that object code may call; every C library has them."""

_DECLARED = re.compile(r"^declare .*?@([\w.$]+)\(", re.MULTILINE)
_FOREIGN = ("llvm.x86.", "llvm.aarch64.", "llvm.arm.")
_SYMBOL_TABLE, _SYMBOL_BYTES = 2, 24


def symbol(digest: str) -> str:
    """Name of a micro-kernel's function in its object code."""
    return f"{SYMBOL}_{digest}"


class CodeGenerator:
    """LLVM's code generator for one CPU. To be used by one thread at a time; several threads with
    one each run side by side."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._target_machine = target_machine(machine)

    def object(self, kernel: Source) -> bytes:
        """A relocatable object with the function ``symbol(kernel.digest)``. Raises ``ProgramError``
        for IR that LLVM refuses, and for calls of functions that are not ours to call."""
        code = self._emit(kernel.written(), kernel.digest, True)
        refuse_undefined(code, kernel.digest)
        return code

    def assembly(self, kernel: MicroKernel) -> str:
        """The code as text, for people and tests."""
        return self._emit(kernel, kernel.digest, False).decode()

    def _emit(self, kernel: MicroKernel, digest: str, as_object: bool) -> bytes:
        _refuse_declared(kernel, self._machine.intrinsics)
        text = kernel.ir.replace(f"@{SYMBOL}(", f"@{symbol(digest)}(")
        # A context of its own is what lets threads generate code side by side. Both are closed here, the
        # module first: a collector that finds them in a cycle would free them in any order, and LLVM crash.
        llvm, said = _llvm(), ctypes.c_char_p()
        context = llvm.create_context()
        try:
            module = llvm.parse(context, text.encode(), ctypes.byref(said))
            try:
                if said:
                    raise ProgramError(f"micro-kernel {digest}: {llvm.told(said)}")
                return self._emit_module(llvm, module, digest, as_object)
            finally:
                llvm.dispose_module(module)
        finally:
            llvm.dispose_context(context)

    def _emit_module(self, llvm: _Llvm, module: Any, digest: str, as_object: bool) -> bytes:
        said = ctypes.c_char_p()
        if llvm.verify(module, ctypes.byref(said)):
            raise ProgramError(f"micro-kernel {digest}: {llvm.told(said)}")
        buffer = llvm.emit(self._target_machine, module, int(as_object), ctypes.byref(said))
        if not buffer:
            raise ProgramError(f"micro-kernel {digest}: {llvm.told(said)}")
        try:
            return ctypes.string_at(llvm.buffer_start(buffer), llvm.buffer_size(buffer))
        finally:
            llvm.dispose_buffer(buffer)


def target_machine(machine: Machine) -> Any:
    """LLVM's target machine for a CPU, with what ``OPTIONS`` says."""
    import llvmlite.binding as llvm

    _without_strength_reduction()
    if machine.triple == llvm.get_process_triple():
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(machine.triple).create_target_machine(
        machine.cpu, machine.features, opt=3, reloc="pic", codemodel="small"
    )


@functools.cache
def _without_strength_reduction() -> None:
    """Loop strength reduction takes a sixth of the time. Generators write pointers that advance by
    constants: without it 16 of 19 matrix multiplies are the same bytes, and vector runs, which do
    change, are no slower (benchmarks/native_vector.py, Zen 3). For all of the process, since LLVM
    has the option only so; giving it twice does no harm."""
    import llvmlite.binding as llvm

    llvm.set_option("", "-disable-lsr")


class _Llvm:
    """llvmlite's functions that generate code, without llvmlite's lock around them.

    The lock lets one thread at a time into LLVM. LLVM itself asks only that threads share no
    context and no target machine (its own parallel code generation works so), and generating code
    is nine tenths of the time. Worker processes would need 0.15 s each to start. Only what takes
    long lets other Python threads run meanwhile: getting back from them takes longer than the rest.
    """

    def __init__(self) -> None:
        import llvmlite.binding as llvm

        known = llvm.ffi.lib
        long, short = ctypes.CDLL(known._name), ctypes.PyDLL(known._name)

        def function(library: ctypes.CDLL, name: str) -> Any:
            found, declared = getattr(library, name), getattr(known, name)
            found.argtypes, found.restype = declared.argtypes, declared.restype
            return found

        self.parse = function(long, "LLVMPY_ParseAssembly")
        self.verify = function(long, "LLVMPY_VerifyModule")
        self.emit = function(long, "LLVMPY_TargetMachineEmitToMemory")
        self.create_context = function(short, "LLVMPY_ContextCreate")
        self.dispose_context = function(short, "LLVMPY_ContextDispose")
        self.dispose_module = function(short, "LLVMPY_DisposeModule")
        self.buffer_start = function(short, "LLVMPY_GetBufferStart")
        self.buffer_size = function(short, "LLVMPY_GetBufferSize")
        self.dispose_buffer = function(short, "LLVMPY_DisposeMemoryBuffer")
        self._dispose_string = function(short, "LLVMPY_DisposeString")

    def told(self, said: ctypes.c_char_p) -> str:
        """Return what LLVM said, and free it."""
        text = (said.value or b"").decode(errors="replace")
        self._dispose_string(said)
        return text


@functools.cache
def _llvm() -> _Llvm:
    return _Llvm()


def _refuse_declared(kernel: MicroKernel, own: tuple[str, ...]) -> None:
    """LLVM ends the process over an intrinsic of a CPU that the code is not for: only the machine's
    ``own`` are taken."""
    for name in _DECLARED.findall(kernel.ir):
        if name in own:
            continue
        if name.startswith(_FOREIGN) or not (name.startswith("llvm.") or name in LIBRARY):
            raise ProgramError(
                f"micro-kernel {kernel.digest} declares {name}: only LLVM's intrinsics that every "
                "CPU has may be called, and the machine's dot product"
            )


def refuse_undefined(code: bytes, digest: str) -> None:
    """Raise ``ProgramError`` when object code calls more than ``LIBRARY``: an intrinsic such as
    ``llvm.exp`` became a call of ``expf``, slow and different on each system."""
    missing = undefined(code) - LIBRARY
    if missing:
        raise ProgramError(
            f"micro-kernel {digest} calls {', '.join(sorted(missing))}: use intrinsics that "
            "are instructions of the CPU it is compiled for"
        )


def undefined(code: bytes) -> frozenset[str]:
    """Symbols that a 64-bit little-endian ELF object needs from elsewhere, by its symbol table (ELF
    specification, figures 1-3, 1-8 and 1-15). None of other formats: there linking tells."""
    if not code.startswith(b"\x7fELF\x02\x01"):
        return frozenset()
    (start,) = struct.unpack_from("<Q", code, 0x28)
    size, count = struct.unpack_from("<HH", code, 0x3A)
    # A section's header: name, type, flags, address, offset, size, link.
    headers = [struct.unpack_from("<IIQQQQI", code, start + i * size) for i in range(count)]
    names: set[str] = set()
    for _, kind, _, _, offset, length, link in headers:
        if kind != _SYMBOL_TABLE:
            continue
        for entry in range(offset, offset + length, _SYMBOL_BYTES):
            name, _, _, section = struct.unpack_from("<IBBH", code, entry)
            if name and section == 0:
                begin = headers[link][4] + name
                names.add(code[begin : code.index(b"\0", begin)].decode())
    return frozenset(names)
