"""The compiler: micro-kernels to addresses of native functions, by way of a cache on disk.

KernelSpec → IR → object code (``object_code``, in several threads) → ``object_cache`` → linked into memory here.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotune.disk.cache import DiskCache
from autotune.disk.home import cache_folder
from autotune.errors import ProgramError
from autotune.targets.native.codegen.writing.micro_kernel import Source
from autotune.targets.native.compiling.object_code import (
    OPTIONS,
    CodeGenerator,
    refuse_undefined,
    symbol,
    target_machine,
)
from autotune.targets.native.cpu.host import host, host_isa
from autotune.targets.native.cpu.topology import core_count
from autotune.targets.native.cpu.vector_isa import VectorIsa


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class _Function:
    """Code in memory, which goes with the last function of its library."""

    address: int
    tracker: Any


@dataclass(frozen=True, slots=True)
class LoadedCode:
    """Functions of micro-kernels in memory: they stay as long as this object does."""

    functions: tuple[_Function, ...]

    @property
    def addresses(self) -> list[int]:
        """Addresses of the micro-kernels' functions, in the order they were given."""
        return [function.address for function in self.functions]


class Compiler:
    """Compiles micro-kernels for this CPU. Safe to use from several threads."""

    def __init__(
        self,
        isa: VectorIsa | None = None,
        cache_dir: Path | None = None,
        workers: int | None = None,
    ) -> None:
        """``isa`` is the instruction set to keep to, None the host's widest; ``cache_dir`` where
        object code is kept, None ``objects`` in the user's cache folder; ``workers`` how many
        threads generate code, None one per core. Raises ``InputError`` for an ``isa`` that this CPU
        cannot run. Needs llvmlite (``host.available``)."""
        import llvmlite.binding as llvm

        self.isa = host_isa() if isa is None else isa
        self._machine = host(self.isa)
        self._made_for = f"{self._machine}\n{OPTIONS}\n{_versions()}"
        self._cache = DiskCache(cache_folder() / "objects" if cache_dir is None else cache_dir)
        self._workers = core_count() if workers is None else workers
        # JITLink puts all of an object's sections side by side, as the small code model needs.
        self._linker = llvm.create_lljit_compiler(
            target_machine(self._machine), use_jit_link=True, suppress_errors=True
        )
        self._idle: list[CodeGenerator] = []
        self._numbers = itertools.count()
        self._loaded: weakref.WeakValueDictionary[str, _Function] = weakref.WeakValueDictionary()
        self._pinned: dict[str, _Function] = {}
        self._made: dict[str, bytes] = {}
        self._lock = threading.Lock()
        self.compiled = 0
        """Micro-kernels for which code was generated, not found in memory or on disk."""

    def compile(self, kernels: Sequence[Source]) -> list[int]:
        """Addresses of the kernels' functions, valid as long as this compiler exists; equal kernels
        have equal addresses. Raises ``ProgramError`` for a kernel that cannot be compiled."""
        loaded = self.load(kernels)
        with self._lock:
            for kernel, function in zip(kernels, loaded.functions, strict=True):
                self._pinned[kernel.digest] = function
        return loaded.addresses

    def load(self, kernels: Sequence[Source]) -> LoadedCode:
        """As ``compile``, but the code is valid as long as what is returned, so that a search that
        tries many kernels does not fill memory (4 KiB each, or more)."""
        digests = [kernel.digest for kernel in kernels]
        with self._lock:
            known = {digest: self._loaded.get(digest) for digest in digests}
            functions = {digest: at for digest, at in known.items() if at is not None}
            absent = {
                digest: kernel
                for digest, kernel in zip(digests, kernels, strict=True)
                if digest not in functions
            }
            if absent:
                functions |= self._link(self._objects(absent))
                self._loaded.update(functions)
        return LoadedCode(tuple(functions[digest] for digest in digests))

    def missing(self, kernels: Sequence[Source]) -> list[Source]:
        """Return the kernels that are neither in memory nor on disk, each once."""
        absent = []
        for kernel in {kernel.digest: kernel for kernel in kernels}.values():
            if kernel.digest in self._loaded or kernel.digest in self._made:
                continue
            code = self._cache.load(self._key(kernel.digest))
            if code is None:
                absent.append(kernel)
            else:
                self._made[kernel.digest] = code
        return absent

    def generate(self, kernel: Source) -> None:
        """Generate the code of one kernel, which the next ``load`` of it takes; other threads may do so for others.

        Raises ``ProgramError`` for a kernel that cannot be compiled.
        """
        digest, code = self._generate(kernel)
        self._made[digest] = code
        with self._lock:
            self.compiled += 1

    def _objects(self, kernels: dict[str, Source]) -> dict[str, bytes]:
        """Object code by digest, generated before, from disk, or made here."""
        codes = {d: code for d in kernels if (code := self._made.pop(d, None)) is not None}
        found = {d: self._cache.load(self._key(d)) for d in kernels if d not in codes}
        codes |= {digest: code for digest, code in found.items() if code is not None}
        missing = [kernel for digest, kernel in kernels.items() if digest not in codes]
        workers = 1 if generates_alone() else min(self._workers, len(missing))
        if workers > 1:
            from concurrent.futures import ThreadPoolExecutor  # not where all code is kept

            with ThreadPoolExecutor(workers) as pool:
                codes |= pool.map(self._generate, missing)
        else:
            codes |= map(self._generate, missing)
        self.compiled += len(missing)
        return codes

    def _generate(self, kernel: Source) -> tuple[str, bytes]:
        try:
            generator = self._idle.pop()
        except IndexError:
            generator = CodeGenerator(self._machine)
        try:
            code = generator.object(kernel)
        finally:
            self._idle.append(generator)
        digest = kernel.digest
        self._cache.store(self._key(digest), code)
        return digest, code

    def _link(self, codes: dict[str, bytes]) -> dict[str, _Function]:
        """Functions by digest. Linked together, as that takes 0.1 ms a kernel and not 0.3, and LLVM
        keeps 9 KiB of each library for good; so they leave memory together too."""
        import llvmlite.binding as llvm

        library = llvm.JITLibraryBuilder()
        for digest, code in codes.items():
            refuse_undefined(code, digest)
            library.add_object_img(code).export_symbol(symbol(digest))
        try:
            tracker = library.link(self._linker, f"micro_kernels_{next(self._numbers)}")
        except RuntimeError as error:
            raise ProgramError(f"{len(codes)} micro-kernels do not link: {error}") from error
        return {digest: _Function(tracker[symbol(digest)], tracker) for digest in codes}

    def _key(self, digest: str) -> str:
        """All that decides a kernel's object code."""
        return f"{digest}\n{self._made_for}"


_THREAD = threading.local()


def generate_alone() -> None:
    """Let this thread generate code without helpers from now on: they would take cores from runs."""
    _THREAD.is_alone = True


def generates_alone() -> bool:
    """Return True if this thread generates code without helpers."""
    return getattr(_THREAD, "is_alone", False)


def _versions() -> str:
    """Return the versions of llvmlite and of its LLVM."""
    import llvmlite
    import llvmlite.binding as llvm

    return f"{llvmlite.__version__} {llvm.llvm_version_info}"
