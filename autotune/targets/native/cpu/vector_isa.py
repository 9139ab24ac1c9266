"""What generated code may use of a CPU: vector width, registers, narrow products; generators take one as input."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class DotProduct:
    """How narrow numbers are multiplied: ``group`` neighbours of the reduction are summed to a lane of 32 bits.

    ``intrinsic`` is LLVM's. Of bytes, fours take the broadcast factor's ``unsigned`` or signed and the
    other's signed; pairs take them widened to 16 bits. No sum saturates: all are modulo 2^32. Of bf16,
    pairs take the numbers themselves, and sums are fp32.
    """

    intrinsic: str
    group: int
    unsigned: bool = False


@dataclass(frozen=True, slots=True)
class TileUnit:
    """A unit that multiplies tiles of ``rows`` × ``row_bytes`` in registers of its own (AMX). LLVM's names of its
    products: of signed and of unsigned bytes by signed ones, and of bf16; and of what else it takes to use it."""

    rows: int
    row_bytes: int
    signed: str
    unsigned: str
    halves: str
    others: tuple[str, ...]

    @property
    def intrinsics(self) -> tuple[str, ...]:
        """All of them."""
        return (self.signed, self.unsigned, self.halves, *self.others)


@dataclass(frozen=True, slots=True)
class VectorIsa:
    """A vector instruction set: fp32 lanes of a register, how many registers there are, and how it
    multiplies bytes (by what every CPU has, without ``dot``) and bf16 (not at all, without ``halves``).
    ``tiles`` multiply either faster where a product is large enough."""

    name: str
    lanes: int
    registers: int
    dot: DotProduct = DotProduct("", 2)
    halves: DotProduct | None = None
    tiles: TileUnit | None = None

    @property
    def intrinsics(self) -> tuple[str, ...]:
        """LLVM's names of the instructions of its own that code may call."""
        found = tuple(each.intrinsic for each in (self.dot, self.halves) if each is not None)
        return found if self.tiles is None else (*found, *self.tiles.intrinsics)

    @property
    def bytes(self) -> int:
        """Bytes of one vector register."""
        return 4 * self.lanes

    @property
    def fused(self) -> bool:
        """Whether it multiplies and adds in one rounding; else ``llvm.fma`` would call libm."""
        return self.name != "sse2"

    @property
    def rounds(self) -> bool:
        """Whether it has instructions that round to whole numbers; else LLVM would call libm."""
        return self.name != "sse2"

    @property
    def widens_fp16(self) -> bool:
        """Whether one instruction widens a vector of fp16 (F16C, AVX-512, NEON); else LLVM would call its library."""
        return self.name != "sse2"


AVX512 = VectorIsa("avx512", 16, 32, DotProduct("llvm.x86.avx512.pmaddw.d.512", 2))
AVX2 = VectorIsa("avx2", 8, 16, DotProduct("llvm.x86.avx2.pmadd.wd", 2))
SSE2 = VectorIsa("sse2", 4, 16, DotProduct("llvm.x86.sse2.pmadd.wd", 2))
NEON = VectorIsa("neon", 4, 32)
VECTOR_ISAS = (AVX512, AVX2, SSE2, NEON)
"""Those that fp32 code knows; AVX2 means with FMA."""

AVX512_VNNI = VectorIsa(
    "avx512vnni", 16, 32, DotProduct("llvm.x86.avx512.vpdpbusd.512", 4, unsigned=True)
)
AVX512_BF16 = replace(
    AVX512_VNNI, name="avx512bf16", halves=DotProduct("llvm.x86.avx512bf16.dpbf16ps.512", 2)
)
"""With products of bf16, on CPUs that have those of bytes too."""
AMX = replace(
    AVX512_BF16,
    name="amx",
    tiles=TileUnit(
        16,
        64,
        "llvm.x86.tdpbssd",
        "llvm.x86.tdpbusd",
        "llvm.x86.tdpbf16ps",
        (
            *("llvm.x86.ldtilecfg", "llvm.x86.tilerelease", "llvm.x86.tilezero"),
            *("llvm.x86.tileloadd64", "llvm.x86.tilestored64"),
        ),
    ),
)
"""With tiles of bytes and of bf16, which the system has to permit (``tile_permission.py``)."""
AMX_FEATURES = ("amx-tile", "amx-int8", "amx-bf16")
AVX_VNNI = VectorIsa("avxvnni", 8, 16, DotProduct("llvm.x86.avx512.vpdpbusd.256", 4, unsigned=True))
NEON_DOT = VectorIsa("neondot", 4, 32, DotProduct("llvm.aarch64.neon.sdot.v4i32.v16i8", 4))
DOT_ISAS = (AVX512_BF16, AVX512_VNNI, AVX_VNNI, NEON_DOT)
"""The same with dot products of bytes, and of bf16."""
TILE_ISAS = (AMX,)
"""The same with tiles."""


def vector_isa(architecture: str, features: frozenset[str]) -> VectorIsa:
    """The widest instruction set of a CPU, by its architecture (``x86_64``, ``aarch64``) and
    LLVM's names of its features. AVX-512 is F, VL, BW and DQ together; AVX2 needs FMA and F16C."""
    if architecture in ("aarch64", "arm64"):
        return NEON_DOT if "dotprod" in features else NEON
    if features.issuperset(("avx512f", "avx512vl", "avx512bw", "avx512dq")):
        if "avx512vnni" not in features:
            return AVX512
        if "avx512bf16" not in features:
            return AVX512_VNNI
        return AMX if features.issuperset(AMX_FEATURES) else AVX512_BF16
    if features.issuperset(("avx2", "fma", "f16c")):
        return AVX_VNNI if "avxvnni" in features else AVX2
    return SSE2
