"""What generated code may use of a CPU: vector width and registers; generators take one as input."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class VectorIsa:
    """A vector instruction set: fp32 lanes of a register, and how many registers there are."""

    name: str
    lanes: int
    registers: int

    @property
    def bytes(self) -> int:
        """Of one vector register."""
        return 4 * self.lanes

    @property
    def fused(self) -> bool:
        """Whether it multiplies and adds in one rounding; else ``llvm.fma`` would call libm."""
        return self.name != "sse2"

    @property
    def rounds(self) -> bool:
        """Whether it has instructions that round to whole numbers; else LLVM would call libm."""
        return self.name != "sse2"


AVX512 = VectorIsa("avx512", 16, 32)
AVX2 = VectorIsa("avx2", 8, 16)
SSE2 = VectorIsa("sse2", 4, 16)
NEON = VectorIsa("neon", 4, 32)
VECTOR_ISAS = (AVX512, AVX2, SSE2, NEON)
"""All of them; AVX2 means with FMA."""


def vector_isa(architecture: str, features: frozenset[str]) -> VectorIsa:
    """The widest instruction set of a CPU, by its architecture (``x86_64``, ``aarch64``) and
    LLVM's names of its features. AVX-512 is F, VL, BW and DQ together; AVX2 needs FMA."""
    if architecture in ("aarch64", "arm64"):
        return NEON
    if features.issuperset(("avx512f", "avx512vl", "avx512bw", "avx512dq")):
        return AVX512
    return AVX2 if features.issuperset(("avx2", "fma")) else SSE2
