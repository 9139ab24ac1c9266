"""Cache of program tables: a network that is opened again is not fused, lowered, verified or bound.

The key of a table is all that decides it: the network, its plan, the machine and every source of this
program. Reading makes objects of a few named types only; programs were verified before they were stored.
"""

from __future__ import annotations

import functools
import pickle
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from autotune.disk.cache import DiskCache
from autotune.disk.home import cache_folder
from autotune.disk.source_version import PACKAGE_FOLDER, hash_sources
from autotune.fusion.group import Group
from autotune.graph.graph import Graph
from autotune.isa.formats import Format
from autotune.isa.opcodes import Opcode
from autotune.isa.program import DramTensor, Instruction, Program, Role
from autotune.kernels.micro import words
from autotune.kernels.native import executor
from autotune.operators.op import Op, OpKind
from autotune.operators.tensor import DType, TensorType
from autotune.runtime.caches.typed_pickle import read_typed
from autotune.runtime.execution.compilation import Compilation, ProgramSource
from autotune.runtime.execution.native_table import Draft, WholeNetworks
from autotune.runtime.execution.program_table import (
    GroupStep,
    ProgramTable,
    SplitGroup,
    Step,
    ViewStep,
)
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.targets.native.binding.narrow_packing import NarrowPacked
from autotune.targets.native.binding.packing import Packed
from autotune.targets.native.cpu.host import available, host_isa
from autotune.targets.native.linking.linking import CodeGone, KeptCode, Linkable, Tables
from autotune.targets.native.running.executable import AliasedSlice, Part
from autotune.targets.spec import HardwareSpec
from autotune.tuner.graph_plan import GraphPlan

SCHEMA = 2
ABOVE = ("cli", "serve", "report", "backend", "adapters", "api", "quantisation", "__main__.py")
"""Packages that stand above sessions in the flow: nothing that makes a table may import them."""
DECIDING = (
    *sorted(
        path
        for path in PACKAGE_FOLDER.iterdir()
        if path.name not in ABOVE and (path.suffix == ".py" or (path / "__init__.py").is_file())
    ),
    Path(str(executor.__file__)).parents[1],
)
"""All other sources: nearly every one decides a table. Kernels lie beside the package where it is not installed."""
TYPES: tuple[type, ...] = (
    *(
        Draft,
        GroupStep,
        ViewStep,
        SplitGroup,
        Group,
        Op,
        OpKind,
        TensorType,
        DType,
        Schedule,
        NestSchedule,
    ),
    *(Program, Instruction, DramTensor, Role, Format, Opcode, Part, AliasedSlice),
    *(Linkable, Tables, KeptCode, Packed, NarrowPacked),
)
"""Types of a draft's objects, besides numbers, texts and containers."""


def table_key(graph: Graph, plan: GraphPlan | None, spec: HardwareSpec) -> str:
    """Return the key of a network's table on this machine, by a plan or by rule."""
    rows = "by rule" if plan is None else repr(plan.groups)
    isa = host_isa() if available() else None
    parts = (
        f"table {SCHEMA} {sys.version}",
        f"{graph.fingerprint} {sorted(graph.constants)}",
        rows,
        f"{spec.profile_id} {spec.cores} {isa}",
        _sources_version(),
    )
    return "\n".join(parts)


def cached_table(
    key: str,
    graph: Graph,
    target: WholeNetworks,
    make: Callable[[], tuple[Draft | None, ProgramTable]],
    folder: Path | None = None,
) -> ProgramTable:
    """Return the table cached under ``key``; a miss calls ``make`` and stores its draft.

    None in ``folder`` means the user's cache.
    """
    cache = DiskCache(cache_folder() / "tables" if folder is None else folder)
    began = time.perf_counter()
    found = _read(cache.load(key))
    if found is not None:
        try:
            return _from_disk(found.table(graph, target), began)
        except CodeGone:
            pass
    draft, table = make()
    if draft is not None:
        cache.store(key, _written(draft))
    return table


def _from_disk(table: ProgramTable, began: float) -> ProgramTable:
    """Return the table with a note of each program's way here: its share of the time since ``began``."""
    seconds = (time.perf_counter() - began) / max(1, len(table.group_steps))
    note = Compilation(time.time(), seconds, ProgramSource.DISK)
    return replace(table, steps=_noted(table.steps, note))


def _noted(steps: tuple[Step, ...], note: Compilation | None) -> tuple[Step, ...]:
    """Return the steps with another note of their compilation, and nothing that was derived of them."""
    return tuple(replace(x, compiled=note) if isinstance(x, GroupStep) else x for x in steps)


def _written(draft: Draft) -> bytes:
    programs = tuple(program.by_name for program in draft.programs)
    steps = _noted(draft.steps, None)  # the same bytes whenever it was made
    return pickle.dumps(replace(draft, programs=programs, steps=steps), protocol=5)


def _read(content: bytes | None) -> Draft | None:
    found = None if content is None else read_typed(content, TYPES)
    return found if isinstance(found, Draft) else None


@functools.cache
def _sources_version() -> str:
    """Hash all sources and identify the compiled kernels."""
    compiled = [Path(str(module.__file__)).stat() for module in (words, executor)]
    marks = [(status.st_size, status.st_mtime_ns) for status in compiled]
    return f"{hash_sources(DECIDING)} {marks}"
