"""Binds programs that a search tries: verified, bound, and their micro-kernels generated, as tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from autotune.isa.program import Program
from autotune.runtime.builder.limits import BuildLimits
from autotune.runtime.builder.plan_build import (
    KERNEL_BYTES,
    OPERATOR_BYTES,
)
from autotune.runtime.builder.scheduler import Scheduler
from autotune.runtime.builder.staged_networks import StagedNetworks
from autotune.runtime.builder.task import Stage, Task
from autotune.targets.native.codegen.writing.micro_kernel import Source
from autotune.targets.native.linking.linking import Linkable


def bind_programs(
    target: StagedNetworks, limits: BuildLimits, programs: Sequence[Program]
) -> tuple[Linkable, ...]:
    """Bind programs within limits; code that they lack is generated meanwhile.

    Raises ``ProgramError`` for an illegal program, ``MemoryExceeded`` beyond the limits.
    """
    bound: dict[int, Linkable] = {}
    generating: set[str] = set()

    def bind(place: int, program: Program) -> Iterable[Task]:
        bound[place] = target.bound(program)
        missing = [x for x in target.missing_code(bound[place]) if x.digest not in generating]
        generating.update(kernel.digest for kernel in missing)
        return [_generating(target, kernel) for kernel in missing]

    tasks = [
        Task(
            f"{program.name} ({place})",
            Stage.BIND,
            partial(bind, place, program),
            sum(map(len, program.streams)),
            OPERATOR_BYTES,
        )
        for place, program in enumerate(programs)
    ]
    Scheduler(limits).run(tasks)
    return tuple(bound[place] for place in range(len(programs)))


def _generating(target: StagedNetworks, kernel: Source) -> Task:
    def work() -> Iterable[Task]:
        target.generate(kernel)
        return ()

    return Task(f"kernel {kernel.digest}", Stage.GENERATE, work, 1.0, KERNEL_BYTES)
