"""Tile registers that the system refuses: code is that of vectors, and the hardware profile does not tell of tiles."""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Callable, Iterator

import pytest

from autotune.targets.native.cpu import host
from autotune.targets.native.cpu.host import available, host_isa, present_features
from autotune.targets.native.cpu.tile_permission import (
    ARCH_PRCTL,
    REQUEST,
    TILE_DATA,
    may_use_tiles,
)
from autotune.targets.native.cpu.vector_isa import AMX, AMX_FEATURES, AVX512_BF16

pytestmark = pytest.mark.skipif(not available(), reason="llvmlite is not installed")
SAPPHIRE_RAPIDS = dict.fromkeys(
    (
        *("avx", "avx2", "fma", "f16c", "avx512f", "avx512vl", "avx512bw", "avx512dq"),
        *("avx512vnni", "avx512bf16", *AMX_FEATURES),
    ),
    True,
)


class Kernel:
    """A C library whose system call answers as a kernel that permits tiles, or refuses them."""

    def __init__(self, answer: int) -> None:
        self.calls: list[tuple[int, ...]] = []
        self.answer = answer

    @property
    def syscall(self) -> Callable[..., int]:
        def call(*numbers: ctypes.c_long) -> int:
            self.calls.append(tuple(number.value for number in numbers))
            return self.answer

        return call


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], Kernel]]:
    """A CPU with tiles under a kernel of that answer."""
    import llvmlite.binding as llvm

    def under(answer: int) -> Kernel:
        kernel = Kernel(answer)
        monkeypatch.setattr(sys, "platform", "linux")
        monkeypatch.setattr(platform, "machine", lambda: "x86_64")
        monkeypatch.setattr(ctypes, "CDLL", lambda name: kernel)
        monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: SAPPHIRE_RAPIDS)
        may_use_tiles.cache_clear()
        return kernel

    yield under
    may_use_tiles.cache_clear()


def test_a_refusal_falls_back_to_vectors(asked: Callable[[int], Kernel]) -> None:
    kernel = asked(-1)
    assert host_isa() is AVX512_BF16
    assert present_features().isdisjoint(AMX_FEATURES)
    assert kernel.calls == [(ARCH_PRCTL, REQUEST, TILE_DATA)]
    host_isa()
    assert len(kernel.calls) == 1, "asked once"


def test_a_permission_gives_tiles(asked: Callable[[int], Kernel]) -> None:
    asked(0)
    assert host_isa() is AMX and present_features().issuperset(AMX_FEATURES)


def test_a_refused_feature_cannot_be_compiled_for(
    asked: Callable[[int], Kernel], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(-1)
    off = [f"-{name}" for name in AMX_FEATURES]
    assert set(off) <= set(host.host(AVX512_BF16).features.split(","))


@pytest.mark.parametrize("missing", [OSError("no C library"), AttributeError("no syscall")])
def test_without_the_call_there_are_no_tiles(
    missing: Exception, asked: Callable[[int], Kernel], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(0)

    def broken(name: None) -> None:
        raise missing

    monkeypatch.setattr(ctypes, "CDLL", broken)
    assert host_isa() is AVX512_BF16
