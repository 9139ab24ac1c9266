"""The host CPU as a hardware spec: its identity is what the machine is, its figures are measured once.

The hardware profile depends on the identity alone: figures drift from one probe to the next, and
plans and cost models must outlive them. The figures are kept in the user's home, not in the cache:
cycles are seconds by the measured clock, and records of one store should share it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path

from autotune.disk.atomic_file import PRIVATE_MODE, replace_file
from autotune.disk.home import home
from autotune.disk.private_folder import make_private
from autotune.disk.regular_file import regular_text
from autotune.errors import InputError, SpecError
from autotune.targets.native.cpu import topology
from autotune.targets.native.cpu.host import NARROWER, available, host_isa, present_features
from autotune.targets.native.cpu.vector_isa import VectorIsa, vector_isa
from autotune.targets.spec import (
    ControlSpec,
    DramSpec,
    EnergySpec,
    HardwareSpec,
    MatrixSpec,
    Memory,
    ScratchpadSpec,
    VectorSpec,
)

SCHEMA = 4
"""Of the file with the figures, and of what is measured: raise it when either changes."""

DECIDING_FEATURES = frozenset(
    (
        *("avx", "avx2", "fma", "f16c", "avxvnni", "avx512f", "avx512vl", "avx512bw", "avx512dq"),
        *("avx512vnni", "avx512bf16", "avx512fp16", "amx-tile", "amx-int8", "amx-bf16"),
        *("neon", "dotprod", "i8mm", "bf16", "fullfp16", "sve", "sve2"),
    )
)
"""LLVM's features that decide how fast kernels can be. Others are no part of the identity: a newer
kernel or LLVM tells of more of them on the same machine."""

TILE_BF16_MACS = 16
"""Multiply-adds of bf16 in tiles (AMX) for each of fp32. A product of tiles, 16 × 32 by 32 × 16, takes 16 cycles: 512 a
cycle. Two pipes of fp32 vectors make 32."""

THREADS_LIMIT = 64
"""Cores that a spec may have."""

DEFAULT_L2_BYTES = 512 << 10
MOST_NEAR_BYTES = 32 << 20
STREAM_BYTES = (64 << 20, 512 << 20)
"""Memory that the bandwidth is measured on, at least and at most: four times the L3 between."""

ASSUMED_CLOCK_HZ, ASSUMED_PIPES, ASSUMED_BYTES_PER_CYCLE = 2.5e9, 2, 4.0
"""Of a machine without llvmlite, which cannot be probed: a server core of these years."""


@dataclass(frozen=True, slots=True)
class HostFigures:
    """The measured part of the host's spec, rounded to two digits. ``pipes`` are multiply-adds of a
    whole vector per cycle and core; ``clock_hz`` is such that they make up the measured peak.
    ``near_bytes`` is what a core may keep in cache at once."""

    clock_hz: float
    pipes: int
    lanes: int
    near_bytes: int
    bytes_per_cycle: float


def default_threads() -> int:
    """One per core that this process may use."""
    return min(THREADS_LIMIT, topology.core_count())


def detected(threads: int | None = None) -> HardwareSpec:
    """This machine with ``threads`` cores (None: all that this process may use) as a spec,
    ``cpu:2`` of two threads. Measures for about a second when the machine was never seen before, with that many
    threads. Raises ``SpecError`` for threads that the machine has not."""
    most = default_threads()
    count = most if threads is None else threads
    if not 1 <= count <= most:
        raise SpecError(f"cpu: {count} threads; this process may use 1 to {most} cores")
    return host_spec(count, _figures(count, home()), identity(count), _bf16_macs(_isa()))


def _bf16_macs(isa: VectorIsa) -> int:
    """Return multiply-adds of bf16 in the time of one of fp32 at the most, 0 where it has none."""
    if isa.halves is None or not available():
        return 0
    return TILE_BF16_MACS if isa.tiles is not None else isa.halves.group


def host_spec(
    threads: int, figures: HostFigures, identity: str = "", bf16_macs: int = 0
) -> HardwareSpec:
    """Make the spec of a CPU from its figures; ``identity`` names the machine that was measured, ``bf16_macs``
    are multiply-adds of bf16 for each of fp32, 0 where it has none.

    Scratchpad is what a core keeps in cache, DRAM main memory; a cache line is a burst, a page a row.
    Set-up times are those of a call, and latencies typical of servers: both are coarse, and the cost
    model learns the rest. Images are channels-last, tiles whole pairs of vectors."""
    clock, lanes = figures.clock_hz, figures.lanes
    nanoseconds = clock / 1e9
    return HardwareSpec(
        name=f"cpu:{threads}",
        description=f"{threads} × {topology.model_name()}, measured",
        sources=("measured on this machine (autotune/targets/native/detection/probe.py)",),
        cores=threads,
        clock_hz=clock,
        matrix=MatrixSpec(
            figures.pipes, lanes, "os", setup_cycles=20, bf16_macs_per_cell=bf16_macs
        ),
        vector=VectorSpec(lanes, setup_cycles=20, divide_cycles=5, transcendental_cycles=12),
        scratchpad=ScratchpadSpec(figures.near_bytes, banks=2 * lanes, ports=4),
        dram=DramSpec(
            bytes_per_cycle=figures.bytes_per_cycle,
            burst_bytes=64,
            row_bytes=4096,
            banks=64,
            activate_cycles=round(14 * nanoseconds),
            precharge_cycles=round(14 * nanoseconds),
            column_cycles=round(14 * nanoseconds),
            turnaround_cycles=0,
            setup_cycles=20,
        ),
        control=ControlSpec(dispatch_cycles=10, queue_depth=64),
        energy=EnergySpec(*(0,) * 11),
        layout="channels_last",
        tile_multiple=2 * lanes,
        memory=Memory.CACHED,
        identity=identity,
    )


def profile_of(threads: int) -> str:
    """Return the hardware profile of this machine with so many threads, without measuring anything:
    figures take no part in it."""
    near = near_bytes(topology.cache_bytes(2), topology.cache_bytes(3))
    unmeasured = HostFigures(ASSUMED_CLOCK_HZ, 1, _isa().lanes, near, ASSUMED_BYTES_PER_CYCLE)
    return host_spec(threads, unmeasured, identity(threads)).profile_id


def near_bytes(l2_bytes: int | None, l3_bytes: int | None) -> int:
    """What a core may keep in cache: its L2, or its part of the L3 where that is more.
    Operands are read where they lie, so that schedules need no tile to fit the L2: larger tiles
    leave the blocking to the micro-kernels, which know it better."""
    nearest = l2_bytes or DEFAULT_L2_BYTES
    return min(MOST_NEAR_BYTES, max(nearest, l3_bytes or 0)) // 4 * 4


@functools.cache
def _figures(threads: int, folder: Path) -> HostFigures:
    """From the file, or measured now and kept there."""
    key = f"{SCHEMA} {identity(threads)}"
    path = folder / "hosts" / f"{identity(threads)}.json"
    known = _read(path, key)
    if known is not None:
        return known
    found = _measured(_isa(), threads)
    _write(path, key, found)
    return found


def _isa() -> VectorIsa:
    """The widest instruction set, also on a host without llvmlite."""
    if available():
        return host_isa()
    return vector_isa(platform.machine().lower(), topology.flags())


_ON_CORES_OF_THEIR_OWN = "on cores of their own"
"""What tells measurements of several threads from those of before: all threads of a program had one core then."""


def identity(threads: int) -> str:
    """What the machine is, for programs of so many threads, as 16 hex digits: CPU, features, caches
    and cores. No measurement takes part, nor do the cores that this process may use."""
    compiles = available()
    features = present_features() if compiles else topology.flags()
    facts = (
        topology.model_name(),
        topology.family(),
        sorted(features & DECIDING_FEATURES),
        _before_bf16(_isa()).name,
        "compiled" if compiles else "interpreted",
        [topology.cache_bytes(level) for level in (1, 2, 3)],
        os.cpu_count(),
        threads,
        *((_ON_CORES_OF_THEIR_OWN,) if threads > 1 else ()),
    )
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


def _before_bf16(isa: VectorIsa) -> VectorIsa:
    """The instruction set less bf16 and tiles, which ``DECIDING_FEATURES`` tell of: measurements of other formats stay."""
    while isa.halves is not None:
        isa = NARROWER[isa]
    return isa


def _measured(isa: VectorIsa, threads: int) -> HostFigures:
    near = near_bytes(topology.cache_bytes(2), topology.cache_bytes(3))
    if not available():
        clock = topology.clock_hz() or ASSUMED_CLOCK_HZ
        return HostFigures(rounded(clock), ASSUMED_PIPES, isa.lanes, near, ASSUMED_BYTES_PER_CYCLE)
    from autotune.targets.native.compiling.compiler import Compiler
    from autotune.targets.native.detection.probe import probed

    l3_bytes = (topology.cache_bytes(3) or 0) * topology.core_count()
    low, high = STREAM_BYTES
    found = probed(Compiler(isa), threads, min(high, max(low, 4 * l3_bytes)))
    pipes = max(1, round(found.fmas_per_second / isa.lanes / found.clock_hz))
    clock = rounded(found.fmas_per_second / isa.lanes / pipes)
    return HostFigures(clock, pipes, isa.lanes, near, rounded(found.bytes_per_second / clock))


def rounded(value: float) -> float:
    """To two digits: what another measurement of the same machine most often finds too."""
    return float(f"{value:.1e}")


def _read(path: Path, key: str) -> HostFigures | None:
    """What the file says of this machine; None for none, or one that is not whole."""
    try:
        plain = json.loads(regular_text(path))
        return HostFigures(**plain["figures"]) if plain["key"] == key else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(path: Path, key: str, figures: HostFigures) -> None:
    """Keep the figures; a folder that cannot be written costs measuring again."""
    with contextlib.suppress(OSError, InputError):
        make_private(path.parent)
        plain = {"key": key, "figures": asdict(figures)}
        replace_file(path, json.dumps(plain, indent=1) + "\n", mode=PRIVATE_MODE)
