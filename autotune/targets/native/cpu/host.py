"""The CPUs that code is made for: the host, narrowed if asked, and one of each instruction set.

llvmlite is imported when a function here needs it: the rest of autotune works without it.
"""

from __future__ import annotations

import functools
import os
import platform
from dataclasses import dataclass, replace

from autotune.errors import InputError
from autotune.targets.native.cpu.tile_permission import may_use_tiles
from autotune.targets.native.cpu.vector_isa import (
    AMX,
    AMX_FEATURES,
    AVX2,
    AVX512,
    AVX512_BF16,
    AVX512_VNNI,
    AVX_VNNI,
    NEON,
    NEON_DOT,
    SSE2,
    VectorIsa,
    vector_isa,
)

VARIABLE = "AUTOTUNE_CPU_FEATURES"
"""Environment variable with LLVM's features to do without on the host, as in ``-avx512f,-avx2``."""

_NEEDED_BY = {
    "avx": ("avx", "fma", "f16c", "xop", "vaes", "vpclmulqdq"),
    "avx2": ("avx2", "avx512", "avx10", "avxvnni", "avxifma", "avxneconvert"),
    "avx512f": ("avx512", "avx10"),
    "fma": ("avx512", "avx10"),
    "amx-tile": AMX_FEATURES,
    "f16c": ("avx512", "avx10"),
}
"""What a CPU loses with a feature: all whose names begin so (LLVM's X86.td; it does likewise)."""

NARROWER = {
    AMX: AVX512_BF16,
    AVX512_BF16: AVX512_VNNI,
    AVX512_VNNI: AVX512,
    AVX512: AVX2,
    AVX_VNNI: AVX2,
    AVX2: SSE2,
    NEON_DOT: NEON,
}
"""What a CPU with an instruction set has as well."""
_LOST = {
    AMX: "amx-tile",
    AVX512_BF16: "avx512bf16",
    AVX512_VNNI: "avx512vnni",
    AVX512: "avx512f",
    AVX_VNNI: "avxvnni",
    AVX2: "avx",
    NEON_DOT: "dotprod",
}
"""The feature without which a CPU has an instruction set no more."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A CPU as LLVM knows it: triple, name, and features as ``+avx2,-avx512f``; later ones win.
    ``intrinsics`` are those of its own that code may call."""

    triple: str
    cpu: str
    features: str
    intrinsics: tuple[str, ...] = ()


_GENERIC = {
    AMX: ("x86_64-unknown-linux-gnu", "sapphirerapids"),
    AVX512_BF16: ("x86_64-unknown-linux-gnu", "cooperlake"),
    AVX512_VNNI: ("x86_64-unknown-linux-gnu", "cascadelake"),
    AVX512: ("x86_64-unknown-linux-gnu", "skylake-avx512"),
    AVX_VNNI: ("x86_64-unknown-linux-gnu", "alderlake"),
    AVX2: ("x86_64-unknown-linux-gnu", "haswell"),
    SSE2: ("x86_64-unknown-linux-gnu", "x86-64"),
    NEON_DOT: ("aarch64-unknown-linux-gnu", "neoverse-n1"),
    NEON: ("aarch64-unknown-linux-gnu", "generic"),
}
GENERIC = {isa: Machine(triple, cpu, "", isa.intrinsics) for isa, (triple, cpu) in _GENERIC.items()}
"""A CPU of each instruction set, to compile for on any host and look at the code."""


@functools.cache
def available() -> bool:
    """Whether llvmlite is installed and loads (0.1 s when first asked)."""
    try:
        import llvmlite.binding  # noqa: F401
    except (ImportError, OSError):
        return False
    return True


def host_isa() -> VectorIsa:
    """The host's widest instruction set, less what ``AUTOTUNE_CPU_FEATURES`` takes away."""
    return vector_isa(platform.machine().lower(), present_features())


def present_features() -> frozenset[str]:
    """LLVM's names of the host's features, less what ``AUTOTUNE_CPU_FEATURES`` takes away."""
    present = {name for name, has in _features().items() if has}
    for gone in _unwanted():
        lost = _NEEDED_BY.get(gone, ())
        present = {name for name in present if name != gone and not name.startswith(lost)}
    return frozenset(present)


def host(isa: VectorIsa) -> Machine:
    """The host, narrowed to ``isa``. Raises ``InputError`` when the host cannot run that."""
    import llvmlite.binding as llvm

    features = _features()
    on = [f"{'+' if has else '-'}{name}" for name, has in sorted(features.items())]
    found = Machine(llvm.get_process_triple(), llvm.get_host_cpu_name(), ",".join(on))
    without = [*_unwanted()]
    widest = here = host_isa()
    while here != isa:
        if here not in NARROWER:
            raise InputError(
                f"this CPU has {widest.name}, not {isa.name}: compile for {widest.name}"
            )
        without.append(_LOST[here])
        here = NARROWER[here]
    features_left = ",".join([*on, *(f"-{name}" for name in without)])
    return replace(found, features=features_left, intrinsics=isa.intrinsics)


def _features() -> dict[str, bool]:
    """LLVM's features of the host; without tiles where the system refuses them."""
    import llvmlite.binding as llvm

    found = dict(llvm.get_host_cpu_features())
    if found.get(AMX_FEATURES[0]) and not may_use_tiles():
        found |= dict.fromkeys(AMX_FEATURES, False)
    return found


def _unwanted() -> tuple[str, ...]:
    """What the environment takes away. Raises ``InputError`` for what is no feature."""
    given = [part.strip() for part in os.environ.get(VARIABLE, "").split(",") if part.strip()]
    known = _features() if given else {}
    for part in given:
        if not part.startswith("-") or part[1:] not in known:
            raise InputError(
                f"{VARIABLE}: {part!r} takes no feature away: give names as LLVM spells them, each "
                "behind a minus, as in -avx512f,-avx2"
            )
    return tuple(part[1:] for part in given)
