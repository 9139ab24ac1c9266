"""Tile registers (AMX) in numpy: code with tiles runs on a CPU without them.

Calls of LLVM's intrinsics become calls of functions of this file. They do what Intel's "Architecture Instruction Set
Extensions Programming Reference" says (chapter 3), and refuse operands that raise an exception there.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from functools import cache

import llvmlite.binding as llvm
import numpy as np

REGISTERS, ROW_BYTES, MOST_ROWS, CONFIG_BYTES = 8, 64, 16, 64
_OF_TILES = re.compile(r"@llvm\.x86\.(tile|ldtile|tdp)")
_PREFIX = "emulated_"


class Tiles:
    """Sizes and bytes of the registers; none is configured at first.

    ``faults`` says what code did that hardware refuses: an exception cannot pass through generated code."""

    def __init__(self) -> None:
        self.shapes: list[tuple[int, int]] = []
        self.registers = np.zeros((REGISTERS, MOST_ROWS, ROW_BYTES), np.uint8)
        self.faults: list[str] = []

    def configure(self, address: int) -> None:
        """LDTILECFG: rows and bytes of a row of each register, all zeros."""
        config = _bytes(address, CONFIG_BYTES)
        rows = [int(count) for count in config[48 : 48 + REGISTERS]]
        sizes = [int(size) for size in config[16 : 16 + 2 * REGISTERS].view(np.uint16)]
        self.shapes = list(zip(rows, sizes, strict=True))
        self._need(config[0] == 1, "palette 1")
        self._need(max(rows) <= MOST_ROWS and max(sizes) <= ROW_BYTES, "at most 16 rows of 64 bytes")  # fmt: skip
        self.registers[...] = 0

    def release(self) -> None:
        """TILERELEASE."""
        self.shapes = []

    def zero(self, number: int) -> None:
        """TILEZERO."""
        self._shape(number)
        self.registers[number] = 0

    def load(self, number: int, address: int, stride: int) -> None:
        """TILELOADD: rows ``stride`` bytes apart, zeros behind them."""
        rows, size = self._shape(number)
        self.registers[number] = 0
        for row in range(rows):
            self.registers[number, row, :size] = _bytes(address + row * stride, size)

    def store(self, number: int, address: int, stride: int) -> None:
        """TILESTORED."""
        rows, size = self._shape(number)
        for row in range(rows):
            _bytes(address + row * stride, size)[...] = self.registers[number, row, :size]

    def multiply(self, signed: bool, sums: int, a: int, b: int) -> None:
        """TDPBSSD, or TDPBUSD: signed bytes of b by signed or unsigned ones of a, modulo 2^32."""
        rows, depth, lanes = self._product(sums, a, b)
        kind = np.int8 if signed else np.uint8
        left = self.registers[a].view(kind)[:rows, : 4 * depth].astype(np.int64)
        right = self._neighbours(b, depth, lanes, np.int8, 4).astype(np.int64)
        total = self.registers[sums].view(np.int32)[:rows, :lanes]
        total[...] = (total + left @ right).astype(np.int32)

    def multiply_halves(self, sums: int, a: int, b: int) -> None:
        """TDPBF16PS: sums of even and of odd neighbours, then both together, added to the sums."""
        rows, depth, lanes = self._product(sums, a, b)
        left = _widened(self.registers[a].view(np.uint16)[:rows, : 2 * depth])
        right = _widened(self._neighbours(b, depth, lanes, np.uint16, 2))
        total = self.registers[sums].view(np.float32)[:rows, :lanes]
        halves = [np.zeros((rows, lanes), np.float32) for _ in range(2)]
        with np.errstate(over="ignore", invalid="ignore"):  # lanes behind the last hold any bytes
            for place in range(2 * depth):
                product = left[:, place : place + 1].astype(float) * right[place : place + 1]
                halves[place % 2] += product
            total += halves[0] + halves[1]

    def _neighbours(
        self, number: int, depth: int, lanes: int, kind: type[np.generic], count: int
    ) -> np.ndarray:
        """A register as [depth · count][lanes]: ``count`` neighbours of the depth lie side by side in a lane."""
        found = self.registers[number].view(kind)[:depth, : lanes * count]
        return found.reshape(depth, lanes, count).transpose(0, 2, 1).reshape(depth * count, lanes)

    def _product(self, sums: int, a: int, b: int) -> tuple[int, int, int]:
        rows, size = self._shape(sums)
        left, right = self._shape(a), self._shape(b)
        self._need(len({sums, a, b}) == 3, "three registers")
        self._need(left[0] == rows, "as many rows of a as of sums")
        self._need(right[1] == size, "as many lanes of b as of sums")
        self._need(left[1] == 4 * right[0], "as deep an a as b")
        return rows, right[0], size // 4

    def _shape(self, number: int) -> tuple[int, int]:
        self._need(bool(self.shapes), "a configuration")
        rows, size = self.shapes[number] if self.shapes else (0, 0)
        self._need(rows > 0 and size > 0 and size % 4 == 0, f"register {number} configured")
        return rows, size

    def _need(self, holds: bool, what: str) -> None:
        if not holds:
            self.faults.append(f"tiles need {what}")


def _bytes(address: int, size: int) -> np.ndarray:
    return np.frombuffer((ctypes.c_uint8 * size).from_address(address), np.uint8)


def _widened(halves: np.ndarray) -> np.ndarray:
    """bf16 as fp32; subnormal numbers count as zeros."""
    found = (halves.astype(np.uint32) << 16).view(np.float32)
    return np.where(abs(found) < np.finfo(np.float32).tiny, np.float32(0), found)


TILES = Tiles()
_BYTE, _ADDRESS, _STRIDE = ctypes.c_uint8, ctypes.c_void_p, ctypes.c_int64
_FUNCTIONS: dict[str, tuple[Callable[..., None], tuple[type, ...]]] = {
    "ldtilecfg": (TILES.configure, (_ADDRESS,)),
    "tilerelease": (TILES.release, ()),
    "tilezero": (TILES.zero, (_BYTE,)),
    "tileloadd64": (TILES.load, (_BYTE, _ADDRESS, _STRIDE)),
    "tilestored64": (TILES.store, (_BYTE, _ADDRESS, _STRIDE)),
    "tdpbssd": (lambda *given: TILES.multiply(True, *given), (_BYTE,) * 3),
    "tdpbusd": (lambda *given: TILES.multiply(False, *given), (_BYTE,) * 3),
    "tdpbf16ps": (TILES.multiply_halves, (_BYTE,) * 3),
}


@cache
def _linked() -> list[object]:
    """Callbacks that generated code finds by name, kept alive."""
    found: list[object] = []
    for name, (function, kinds) in _FUNCTIONS.items():
        callback = ctypes.CFUNCTYPE(None, *kinds)(function)
        address = ctypes.cast(callback, ctypes.c_void_p).value
        llvm.add_symbol(_PREFIX + name, address)
        found.append(callback)
    return found


def with_emulated_tiles(ir: str) -> str:
    """A module that calls the functions of this file instead of intrinsics of tiles."""
    _linked()
    lines = [
        line.replace("llvm.x86.", _PREFIX).replace(" immarg", "")
        if _OF_TILES.search(line)
        else line
        for line in ir.splitlines()
    ]
    return "\n".join(lines)
