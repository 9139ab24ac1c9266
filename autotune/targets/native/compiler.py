"""The compiler: micro-kernels to addresses of native functions, by way of a cache on disk.

IR → object code (``object_code``, in several threads) → ``object_cache`` → linked into memory here.
"""

from __future__ import annotations

import importlib.metadata
import itertools
import os
import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotune.errors import ProgramError
from autotune.home import cache_folder
from autotune.targets.native.codegen.micro_kernel import MicroKernel
from autotune.targets.native.codegen.vector_isa import VectorIsa
from autotune.targets.native.host import host, host_isa
from autotune.targets.native.object_cache import ObjectCache
from autotune.targets.native.object_code import (
    OPTIONS,
    CodeGenerator,
    refuse_undefined,
    symbol,
    target_machine,
)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class _Function:
    """Code in memory; goes with the object."""

    address: int
    tracker: Any


@dataclass(frozen=True, slots=True)
class LoadedCode:
    """Functions of micro-kernels in memory: they stay as long as this object does."""

    functions: tuple[_Function, ...]

    @property
    def addresses(self) -> list[int]:
        """Of each micro-kernel's function, in the order they were given."""
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
        self._cache = ObjectCache(cache_folder() / "objects" if cache_dir is None else cache_dir)
        self._workers = _cores() if workers is None else workers
        # JITLink puts all of an object's sections side by side, as the small code model needs.
        self._linker = llvm.create_lljit_compiler(
            target_machine(self._machine), use_jit_link=True, suppress_errors=True
        )
        self._idle: list[CodeGenerator] = []
        self._numbers = itertools.count()
        self._loaded: weakref.WeakValueDictionary[str, _Function] = weakref.WeakValueDictionary()
        self._pinned: dict[str, _Function] = {}
        self._lock = threading.Lock()
        self.compiled = 0
        """Micro-kernels for which code was generated, not found in memory or on disk."""

    def compile(self, kernels: Sequence[MicroKernel]) -> list[int]:
        """Addresses of the kernels' functions, valid as long as this compiler exists; equal kernels
        have equal addresses. Raises ``ProgramError`` for a kernel that cannot be compiled."""
        loaded = self.load(kernels)
        with self._lock:
            for kernel, function in zip(kernels, loaded.functions, strict=True):
                self._pinned[kernel.digest] = function
        return loaded.addresses

    def load(self, kernels: Sequence[MicroKernel]) -> LoadedCode:
        """As ``compile``, but the code is valid as long as what is returned, so that a search that
        tries many kernels does not fill memory (some 12 KiB each)."""
        distinct = {kernel.digest: kernel for kernel in kernels}
        with self._lock:
            functions = {
                digest: self._loaded[digest] for digest in distinct if digest in self._loaded
            }
            absent = [kernel for digest, kernel in distinct.items() if digest not in functions]
            for kernel, code in zip(absent, self._objects(absent), strict=True):
                functions[kernel.digest] = self._loaded[kernel.digest] = self._link(kernel, code)
        return LoadedCode(tuple(functions[kernel.digest] for kernel in kernels))

    def _objects(self, kernels: Sequence[MicroKernel]) -> list[bytes]:
        codes = {kernel.digest: self._cache.load(self._key(kernel)) for kernel in kernels}
        missing = [kernel for kernel in kernels if codes[kernel.digest] is None]
        workers = min(self._workers, len(missing))
        if workers > 1:
            with ThreadPoolExecutor(workers) as pool:
                made = list(pool.map(self._generate, missing))
        else:
            made = [self._generate(kernel) for kernel in missing]
        codes.update(zip((kernel.digest for kernel in missing), made, strict=True))
        self.compiled += len(made)
        return [code for code in codes.values() if code is not None]

    def _generate(self, kernel: MicroKernel) -> bytes:
        try:
            generator = self._idle.pop()
        except IndexError:
            generator = CodeGenerator(self._machine)
        try:
            code = generator.object(kernel)
        finally:
            self._idle.append(generator)
        self._cache.store(self._key(kernel), code)
        return code

    def _link(self, kernel: MicroKernel, code: bytes) -> _Function:
        import llvmlite.binding as llvm

        refuse_undefined(code, kernel)
        name = symbol(kernel)
        library = llvm.JITLibraryBuilder().add_object_img(code).export_symbol(name)
        try:
            tracker = library.link(self._linker, f"{name}_{next(self._numbers)}")
        except RuntimeError as error:
            raise ProgramError(f"micro-kernel {kernel.digest} does not link: {error}") from error
        return _Function(tracker[name], tracker)

    def _key(self, kernel: MicroKernel) -> str:
        """All that decides a kernel's object code."""
        machine = self._machine
        parts = (kernel.digest, machine.triple, machine.cpu, machine.features, OPTIONS, _versions())
        return "\n".join(parts)


def _versions() -> str:
    """Of llvmlite and of the LLVM in it."""
    import llvmlite.binding as llvm

    return f"{importlib.metadata.version('llvmlite')} {llvm.llvm_version_info}"


def _cores() -> int:
    """Cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return os.cpu_count() or 1 if affinity is None else len(affinity(0))
