"""Cache of compiled groups: one file a program, for every machine, shared by processes.

The key of a program is all that decides it: the group (structure, shapes, element types, what a class
of inputs allows), its schedule, the hardware profile and the sources that lower it. Engines verify a
program from here as any other before they run it.
"""

from __future__ import annotations

import functools
import pickle
from pathlib import Path

from autotune.disk.cache import DiskCache
from autotune.disk.home import cache_folder
from autotune.disk.source_version import hash_sources
from autotune.isa.formats import Format
from autotune.isa.opcodes import Opcode
from autotune.isa.program import DramTensor, Instruction, Program, Role
from autotune.kernels import emit
from autotune.runtime.caches.typed_pickle import read_typed
from autotune.runtime.execution.program_cache import KeptProgram, ProgramCache, ProgramKey

SCHEMA = 1
DECIDING = (
    *("operators", "fusion", "lowering"),
    *(f"graph/{x}.py" for x in ("builder", "graph", "serialization", "topological_order")),
    *(
        f"isa/{x}.py"
        for x in ("fields", "formats", "functions", "opcodes", "program", "table", "tile")
    ),
    *("schedule/fit.py", "schedule/schedule.py"),
    *("targets/capacity.py", "targets/physical.py", "targets/spec.py"),
)
"""Sources that decide the program of a group: all that lowering imports, wherever, which a test holds. A change of a pass, of
the verifier or of an engine drops no program: a program that an older engine ran is verified by the new one."""
TYPES: tuple[type, ...] = (KeptProgram, Program, Instruction, DramTensor, Role, Format, Opcode)
"""Types of an entry's objects, besides numbers, texts and containers."""


class ProgramFiles:
    """Programs on disk. Safe to use from several threads and processes.

    An entry appears whole, its checksum is checked when it is read, and only this user can read or
    write it. An entry that is damaged or foreign counts as missing.
    """

    def __init__(self, folder: Path | None = None) -> None:
        """None in ``folder`` means the user's cache, wherever that is when it is used."""
        self._folder = folder

    def load(self, key: ProgramKey) -> KeptProgram | None:
        """Return the program of a key; None where the disk has none."""
        content = self._disk().load(_text(key))
        found = None if content is None else read_typed(content, TYPES)
        return found if isinstance(found, KeptProgram) else None

    def store(self, key: ProgramKey, kept: KeptProgram) -> None:
        """Keep the program of a key; a disk that refuses only costs time."""
        self._disk().store(_text(key), pickle.dumps(kept, protocol=5))

    def _disk(self) -> DiskCache:
        return _cache(programs_folder() if self._folder is None else self._folder)


def programs_folder() -> Path:
    """Return the folder of the user's programs."""
    return cache_folder() / "programs"


@functools.cache
def shared_programs() -> ProgramCache:
    """Return the cache that all sessions of this process share; other processes share its files."""
    return ProgramCache(files=ProgramFiles())


@functools.lru_cache(maxsize=8)
def _cache(folder: Path) -> DiskCache:
    return DiskCache(folder)


def _text(key: ProgramKey) -> str:
    group, schedule, profile = key
    return f"program {SCHEMA}\n{group}\n{schedule.to_json()}\n{profile}\n{_sources_version()}"


@functools.cache
def _sources_version() -> str:
    """Hash the deciding sources and identify the compiled emitters."""
    compiled = sorted(Path(str(emit.__file__)).parent.glob("*.so"))
    marks = [(x.name, x.stat().st_size, x.stat().st_mtime_ns) for x in compiled]
    return f"{hash_sources(DECIDING)} {marks}"
