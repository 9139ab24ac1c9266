"""Targets whose networks are built in stages, which tasks of several threads share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from autotune.isa.program import Program
from autotune.runtime.execution.native_table import WholeNetworks
from autotune.targets.native.codegen.writing.micro_kernel import Source
from autotune.targets.native.linking.linking import Linkable, Packing
from autotune.targets.native.running.executable import Executable, Network, Workshop


@runtime_checkable
class StagedNetworks(WholeNetworks, Protocol):
    """A target whose networks are built in stages that threads may share."""

    def bound(self, program: Program) -> Linkable:
        """One program, verified and bound."""
        ...

    def missing_code(self, program: Linkable) -> Sequence[Source]:
        """Micro-kernels of a program that have to be generated."""
        ...

    def generate(self, kernel: Source) -> None:
        """Generate the code of a micro-kernel for the next executable."""
        ...

    def packing(self, network: Network, programs: Sequence[Linkable]) -> Packing:
        """The constants of a network, to be packed."""
        ...

    def executable(
        self,
        network: Network,
        programs: Sequence[Linkable] | None = None,
        workshop: Workshop | None = None,
        packing: Packing | None = None,
    ) -> Executable:
        """Place a network, whose constants may be packed."""
        ...
