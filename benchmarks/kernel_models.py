"""Analytic models of GPU kernels: whole tuning spaces for optimisers to be judged on, where no recording is at hand.

A time follows from occupancy (threads, registers and shared memory of a block against those of a multiprocessor), from
how well it hides latency, from reuse, coalescing and the last wave; compilers' luck comes on top, by some parameters
together. Names and values of parameters are those of the auto-tuning community's benchmark hub where it has the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.targets.recorded_space import RecordedSpace

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Columns = Mapping[str, Floats]
MOST_CONFIGURATIONS = 20_000
"""Of a larger space, as many are drawn."""
NOISE = 0.01


@dataclass(frozen=True, slots=True)
class Device:
    """A made-up graphics processor: its multiprocessors' limits, its peaks, and what hides its latency."""

    name: str
    units: int
    threads: int
    blocks: int
    shared_bytes: int
    block_shared_bytes: int
    warp: int
    teraflops: float
    gigabytes: float
    latency: float
    bank_cost: float
    registers: int = 65536


@dataclass(frozen=True, slots=True)
class Work:
    """What each configuration [n] launches and does."""

    flops: Floats
    bytes: Floats
    threads: Floats
    registers: Floats
    shared_bytes: Floats
    blocks: Floats
    parallelism: Floats
    coalescing: Floats
    efficiency: Floats


@dataclass(frozen=True, slots=True)
class Kernel:
    """Levels of the parameters, which of their combinations are legal, their work, and parameters of luck."""

    levels: Mapping[str, Sequence[int]]
    legal: Callable[[Columns], Bools]
    work: Callable[[Columns, Device], Work]
    luck: tuple[tuple[str, ...], ...]


LUCK = (0.10, 0.08, 0.06)
"""Standard deviation of the logarithm of luck: by a kernel's parameters together, and twice by three at random."""
WIDE = Device("wide", 104, 2048, 40, 64 << 10, 64 << 10, 64, 24.0, 1640, 0.45, 0.7)
SMALL = Device("small", 28, 2048, 32, 128 << 10, 64 << 10, 32, 10.4, 224, 0.30, 0.9)
OLD = Device("old", 28, 2048, 32, 96 << 10, 48 << 10, 32, 11.3, 484, 0.15, 1.6)
DEVICES = (WIDE, SMALL, OLD)


def model(kernel: str, device: Device) -> RecordedSpace:
    """Return the whole space of a kernel of ``KERNELS`` on a device, in milliseconds."""
    parts, rng = KERNELS[kernel], np.random.default_rng(list(KERNELS).index(kernel))
    columns = _legal(parts, rng)
    seconds, fits = _seconds(parts.work(columns, device), device)
    own = np.random.default_rng([list(KERNELS).index(kernel), device.units, device.warp])
    varied = [name for name, column in columns.items() if np.ptp(column)]
    for together in parts.luck:
        seconds = seconds * _luck(columns, together, LUCK[0], rng)
    for deviation in LUCK[1:]:
        seconds = seconds * _luck(
            columns, own.choice(varied, 3, replace=False).tolist(), deviation, own
        )
    times = np.where(fits, 1e3 * seconds * np.exp(NOISE * own.standard_normal(len(fits))), np.nan)
    rows = np.stack([column.astype(int) for column in columns.values()], axis=1)
    return RecordedSpace(
        f"model of {kernel} on {device.name}",
        tuple(columns),
        tuple(map(tuple, rows.tolist())),
        times,
        1e-3,
        tuple("" if fit else "too much for a multiprocessor" for fit in fits),
    )


def _legal(kernel: Kernel, rng: np.random.Generator) -> dict[str, Floats]:
    grid = np.meshgrid(*(np.array(v, np.float64) for v in kernel.levels.values()), indexing="ij")
    columns = {name: axis.ravel() for name, axis in zip(kernel.levels, grid, strict=True)}
    rows = np.flatnonzero(kernel.legal(columns))
    if len(rows) > MOST_CONFIGURATIONS:
        rows = np.sort(rng.choice(rows, MOST_CONFIGURATIONS, replace=False))
    return {name: column[rows] for name, column in columns.items()}


def _luck(
    columns: Columns, names: Sequence[str], deviation: float, rng: np.random.Generator
) -> Floats:
    together = np.stack([columns[name] for name in names], axis=1)
    groups, place = np.unique(together, axis=0, return_inverse=True)
    return np.asarray(np.exp(deviation * rng.standard_normal(len(groups)))[place.ravel()])


def _seconds(work: Work, device: Device) -> tuple[Floats, Bools]:
    """Return times [n], and where a block fits a multiprocessor."""
    warps = np.ceil(work.threads / device.warp)
    lanes, used = warps * device.warp, np.minimum(work.registers, 255)
    resident = np.minimum(device.threads // lanes, device.blocks)
    resident = np.minimum(resident, device.registers // (np.ceil(used / 8) * 8 * lanes))
    resident = np.minimum(resident, device.shared_bytes // np.maximum(work.shared_bytes, 1))
    fits = (resident >= 1) & (work.threads <= 1024)
    fits &= work.shared_bytes <= device.block_shared_bytes
    resident = np.maximum(resident, 1)
    occupancy = resident * lanes / device.threads
    hidden = 1 - np.exp(-occupancy * work.parallelism / device.latency)
    hidden_loads = 1 - np.exp(-occupancy * np.sqrt(work.parallelism) / (1.3 * device.latency))
    spill = np.maximum(work.registers - 255, 0) / 64
    waves = np.maximum(work.blocks / (resident * device.units), 1e-3)
    flops = device.teraflops * 1e12 * hidden * work.efficiency * work.threads / lanes
    rate = device.gigabytes * 1e9 * hidden_loads * work.coalescing
    parts = (work.flops / flops * (1 + spill), work.bytes / rate * (1 + 0.5 * spill))
    seconds = np.cbrt(parts[0] ** 3 + parts[1] ** 3) * (np.ceil(waves) / waves) ** 0.8
    return seconds + 3e-6, fits


def _threads(c: Columns) -> Floats:
    return np.asarray(c["block_size_x"] * c["block_size_y"])


def _tile(c: Columns) -> tuple[Floats, Floats, Floats]:
    """Return width, height and results of a thread's part of a block's tile."""
    wide, high = c["block_size_x"] * c["tile_size_x"], c["block_size_y"] * c["tile_size_y"]
    return wide, high, c["tile_size_x"] * c["tile_size_y"]


def _gemm_is_legal(c: Columns) -> Bools:
    threads = c["MDIMC"] * c["NDIMC"]
    legal = (c["MWG"] % (c["MDIMC"] * c["VWM"]) == 0) & (c["MWG"] % (c["MDIMA"] * c["VWM"]) == 0)
    legal &= (c["NWG"] % (c["NDIMC"] * c["VWN"]) == 0) & (c["NWG"] % (c["NDIMB"] * c["VWN"]) == 0)
    legal &= (c["KWG"] % (threads / c["MDIMA"]) == 0) & (c["KWG"] % (threads / c["NDIMB"]) == 0)
    return np.asarray(legal)


def _gemm(c: Columns, d: Device) -> Work:
    size, rows, columns = 4096.0, c["MWG"] / c["MDIMC"], c["NWG"] / c["NDIMC"]
    results = rows * columns
    again_a = np.where(c["SA"] == 1, 1, np.sqrt(c["NDIMC"]) * 0.8)
    again_b = np.where(c["SB"] == 1, 1, np.sqrt(c["MDIMC"]) * 0.6)
    vectors = np.exp(-0.06 * ((np.log2(c["VWM"]) - 2) ** 2 + (np.log2(c["VWN"]) - 1.5) ** 2))
    loads = rows / np.sqrt(c["VWM"]) + columns / np.sqrt(c["VWN"])
    waits = 1 - 0.1 * (c["SA"] + c["SB"]) * 16 / c["KWG"]
    return Work(
        np.full(len(rows), 2 * size**3),
        1.4 * size**3 * (again_a / c["NWG"] + again_b / c["MWG"]),
        c["MDIMC"] * c["NDIMC"],
        results + rows + columns + 24 + 2 * (c["VWM"] + c["VWN"]),
        4 * c["KWG"] * (c["SA"] * c["MWG"] + c["SB"] * c["NWG"]),
        size / c["MWG"] * size / c["NWG"],
        np.sqrt(results) / 2,
        np.minimum(1, vectors * (0.8 + 0.2 * np.minimum(c["MDIMA"] / d.warp, 1))),
        waits * results / (results + 1.2 * d.bank_cost * loads),
    )


def _dedispersion(c: Columns, d: Device) -> Work:
    samples, measures, channels = 25_000.0, 2048.0, 1536.0
    wide, high, results = _tile(c)
    blocks = np.ceil(samples / wide) * np.ceil(measures / high)
    done = blocks * wide * high * channels
    strided = np.where((c["tile_stride_x"] == 0) & (c["tile_size_x"] > 1), 0.75, 1)
    cached = 1 / (1 + 0.3 * np.maximum(wide * high / 16384 - 1, 0))
    return Work(
        2 * done,
        done * (high**-0.75 + 0.02),
        _threads(c),
        20 + 1.8 * results + 4 * c["tile_stride_y"],
        np.zeros(len(wide)),
        blocks,
        np.sqrt(results),
        np.minimum(1, c["block_size_x"] / d.warp) ** 0.7 * strided * cached,
        0.6 * results / (results + 0.7) * np.where(c["tile_stride_y"] == 1, 0.96, 1),
    )


def _hotspot_bytes(c: Columns) -> Floats:
    wide, high, _ = _tile(c)
    halo = 2 * c["temporal_tiling_factor"]
    return np.asarray(4 * (wide + halo) * (high + halo) * (2 + c["sh_power"]))


def _hotspot_is_legal(c: Columns) -> Bools:
    threads, shared = _threads(c), _hotspot_bytes(c)
    legal = (threads >= 32) & (threads <= 1024) & (shared <= 49152)
    legal &= c["temporal_tiling_factor"] % c["loop_unroll_factor_t"] == 0
    return np.asarray(legal & (c["blocks_per_sm"] * threads <= 2048))


def _hotspot(c: Columns, d: Device) -> Work:
    size, steps, factor = 4096.0, 60.0, c["temporal_tiling_factor"]
    wide, high, results = _tile(c)
    halo = (wide + 2 * factor) * (high + 2 * factor) / (wide * high)
    wanted = 18 + 2.5 * results + 3 * c["loop_unroll_factor_t"]
    most = d.registers / (np.maximum(c["blocks_per_sm"], 1) * np.ceil(_threads(c) / 32) * 32)
    most = np.maximum(np.where(c["blocks_per_sm"] > 0, most, 255), 16)
    spilled = np.maximum(wanted / most - 1, 0)
    narrow = 1 + 0.08 * d.bank_cost * (c["block_size_x"] < 32)
    return Work(
        15 * size**2 * steps * (0.5 + 0.5 * halo) * (1 + spilled),
        12 * size**2 * steps / factor * halo * (1.15 - 0.15 * c["sh_power"]),
        _threads(c),
        np.minimum(wanted, most),
        _hotspot_bytes(c),
        np.ceil(size / wide) * np.ceil(size / high),
        np.sqrt(results),
        np.minimum(1, c["block_size_x"] / d.warp) ** 0.8,
        0.35 * (1 + 0.08 * np.log2(c["loop_unroll_factor_t"])) / narrow,
    )


def _nbody_is_legal(c: Columns) -> Bools:
    legal = (c["local_mem"] == 1) | (c["inner_unroll_factor2"] == 0)
    legal &= c["outer_unroll_factor"] * np.maximum(c["inner_unroll_factor1"], 1) <= 64
    return np.asarray(legal & ((c["use_soa"] == 0) | (c["vector_type"] < 4)))


def _nbody(c: Columns, d: Device) -> Work:
    bodies, outer = 131_072.0, c["outer_unroll_factor"]
    inner = np.where(c["local_mem"] == 1, np.maximum(c["inner_unroll_factor2"], 1), 1)
    unrolled = np.maximum(c["inner_unroll_factor1"], 1) * inner
    vector = np.choose(np.log2(c["vector_type"]).astype(int), (1.15, 1.0, 0.92))
    loads = np.where(c["local_mem"] == 1, 1.0, 1.8) / np.sqrt(outer) * vector
    fetched = 1 / (1 + 0.12 * np.maximum(np.log2(unrolled * outer / 64), 0))
    return Work(
        np.full(len(outer), 20 * bodies**2),
        4.8 * bodies**2 / c["block_size"],
        c["block_size"],
        26 + 8 * outer + 0.7 * np.minimum(unrolled, 64),
        np.where(c["local_mem"] == 1, 16 * c["block_size"], 0),
        np.ceil(bodies / (c["block_size"] * outer)),
        np.sqrt(outer * np.minimum(unrolled, 4)),
        np.full(len(outer), 0.9),
        0.75 / (1 + 0.25 * loads) * fetched * (1 + 0.04 * np.minimum(np.log2(unrolled), 4)),
    )


POWERS = tuple(2**i for i in range(6))
KERNELS: dict[str, Kernel] = {
    "gemm": Kernel(
        dict.fromkeys(("MWG", "NWG"), (16, 32, 64, 128))
        | {"KWG": (16, 32)}
        | dict.fromkeys(("MDIMC", "NDIMC", "MDIMA", "NDIMB"), (8, 16, 32))
        | dict.fromkeys(("VWM", "VWN"), (1, 2, 4, 8))
        | dict.fromkeys(("SA", "SB"), (0, 1)),
        _gemm_is_legal,
        _gemm,
        (("MWG", "MDIMC", "KWG"), ("VWM", "VWN", "SA")),
    ),
    "dedispersion": Kernel(
        {"block_size_x": POWERS, "block_size_y": tuple(range(32, 257, 8))}
        | {"tile_size_x": (1, 2, 3, 4), "tile_size_y": tuple(range(1, 9))}
        | dict.fromkeys(("tile_stride_x", "tile_stride_y"), (0, 1)),
        lambda c: np.asarray(
            (_threads(c) <= 1024)
            & ((c["tile_size_x"] > 1) | (c["tile_stride_x"] == 0))
            & ((c["tile_size_y"] > 1) | (c["tile_stride_y"] == 0))
        ),
        _dedispersion,
        (("tile_size_x", "tile_size_y", "tile_stride_x"), ("tile_size_y", "block_size_x")),
    ),
    "hotspot": Kernel(
        {"block_size_x": (1, 2, 4, 8, 16, *range(32, 257, 32)), "block_size_y": POWERS}
        | dict.fromkeys(("tile_size_x", "tile_size_y"), range(1, 9))
        | dict.fromkeys(("temporal_tiling_factor", "loop_unroll_factor_t"), range(1, 9))
        | {"sh_power": (0, 1), "blocks_per_sm": range(5)},
        _hotspot_is_legal,
        _hotspot,
        (("tile_size_x", "tile_size_y", "loop_unroll_factor_t"), ("tile_size_y", "block_size_y")),
    ),
    "nbody": Kernel(
        {"block_size": (64, 128, 256, 512, 1024), "outer_unroll_factor": (1, 2, 4, 8)}
        | dict.fromkeys(("inner_unroll_factor1", "inner_unroll_factor2"), (0, *POWERS))
        | dict.fromkeys(("use_soa", "local_mem"), (0, 1))
        | {"vector_type": (1, 2, 4)},
        _nbody_is_legal,
        _nbody,
        (("inner_unroll_factor1", "inner_unroll_factor2", "outer_unroll_factor"),),
    ),
}
