"""A micro-kernel by what it is made of, a generator's constants: what calls hold and code is kept
under. Text is written only where there is no code of it yet: that takes far longer than a look."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import assert_never

from autotune.isa import access, formats, functions, notation
from autotune.targets.native.codegen.gemm.narrow_shape import NarrowShape
from autotune.targets.native.codegen.gemm.panel_copy import PanelCopy, panel_copy
from autotune.targets.native.codegen.gemm.shape import GemmShape
from autotune.targets.native.codegen.rows.reduction import Reduction, reduction
from autotune.targets.native.codegen.rows.row_run import RowRun
from autotune.targets.native.codegen.tile_runs.tile_run import TileRun
from autotune.targets.native.codegen.vector.vector_run import VectorRun
from autotune.targets.native.codegen.winograd import TileTransform, tile_transform
from autotune.targets.native.codegen.writing.micro_kernel import MicroKernel
from autotune.targets.native.cpu import vector_isa
from autotune.targets.native.cpu.vector_isa import VectorIsa

TABLES = (functions, notation, access, formats, vector_isa)
"""Modules outside of this package that generators take constants from."""
Constants = (
    GemmShape | NarrowShape | TileRun | PanelCopy | VectorRun | RowRun | Reduction | TileTransform
)


@dataclass(frozen=True)
class KernelSpec:
    """The constants of one of the generators, and the instruction set to write for."""

    constants: Constants
    isa: VectorIsa

    def written(self) -> MicroKernel:
        """The text. Raises ``ProgramError`` for constants that no kernel can have. The writers are
        imported with the first text: that takes longer than most networks' code takes to load."""
        match self.constants:
            case GemmShape():
                from autotune.targets.native.codegen.gemm.gemm import gemm

                return gemm(self.constants, self.isa)
            case NarrowShape():
                from autotune.targets.native.codegen.gemm.narrow_gemm import narrow_gemm

                return narrow_gemm(self.constants, self.isa)
            case TileRun():
                from autotune.targets.native.codegen.tile_runs.tile_run_writer import tile_run

                return tile_run(self.constants, self.isa)
            case PanelCopy():
                return panel_copy(self.constants, self.isa)
            case VectorRun():
                from autotune.targets.native.codegen.vector.elementwise import elementwise

                return elementwise(self.constants, self.isa)
            case RowRun():
                from autotune.targets.native.codegen.rows.rows import rows

                return rows(self.constants, self.isa)
            case Reduction():
                return reduction(self.constants, self.isa)
            case TileTransform():
                return tile_transform(self.constants, self.isa)
            case _:
                assert_never(self.constants)

    @cached_property
    def digest(self) -> str:
        """32 hex digits over the constants and the generators: equal ones mean equal code."""
        text = f"{self.constants!r} {self.isa!r} {generators_version()}"
        return hashlib.sha256(text.encode()).hexdigest()[:32]


@cache
def generators_version() -> str:
    """Return a hash of the generators' sources, so that code of other generators is never taken. Nobody has
    to raise a number."""
    tables = [Path(str(module.__file__)) for module in TABLES]
    sources = [*sorted(Path(__file__).parent.rglob("*.py")), *tables]
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()
