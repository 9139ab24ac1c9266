"""Lowering: a group and its schedule become a tile program, ready to verify."""

from __future__ import annotations

from autotune.errors import ProgramError, ScheduleError
from autotune.fusion.analysis import nests_of
from autotune.fusion.group import Group
from autotune.fusion.nest import Nest
from autotune.isa.program import DramTensor, Instruction, Program, Role
from autotune.isa.tile import Node
from autotune.lowering.nest_emitter import NestEmitter
from autotune.lowering.synchronisation import SemaphoreError, Synchroniser
from autotune.schedule.fit import check
from autotune.schedule.schedule import Schedule
from autotune.targets.spec import HardwareSpec


def lower(group: Group, schedule: Schedule, spec: HardwareSpec) -> Program:
    """Return the program that computes ``group`` by ``schedule`` on a machine like ``spec``.

    Its tensor table has the group's names. Raises ``ScheduleError`` with the failed constraint if
    the schedule is not legal there.
    """
    nests = nests_of(group)
    rejection = check(nests, schedule, spec.capacity, spec.cores)
    if rejection is not None:
        raise ScheduleError(
            f"group of {', '.join(op.name for op in group.ops)}: {rejection.reason}"
        )
    tensors = _tensors(group)
    index = {tensor.name: i for i, tensor in enumerate(tensors)}
    streams, credits = [], []
    elements = 1
    try:
        for core in range(max(part.cores for part in schedule.nests)):
            stream, counts, need = _stream(group, nests, schedule, index, core)
            streams.append(stream)
            credits.append(counts)
            elements = max(elements, need)
    except ProgramError as error:
        raise ScheduleError(f"group of {', '.join(op.name for op in group.ops)}: {error}") from None
    name = "+".join(op.kind.value for op in group.ops)
    return Program(name, tensors, tuple(streams), tuple(credits), elements)


def _tensors(group: Group) -> tuple[DramTensor, ...]:
    def row(name: str, role: Role) -> DramTensor:
        kind = group.type_of[name]
        return DramTensor(name, kind.shape or (1,), role, kind.storage)

    inputs = [row(x, Role.CONSTANT if x in group.constants else Role.INPUT) for x in group.inputs]
    return (*inputs, *(row(x, Role.OUTPUT) for x in group.outputs))


def _stream(
    group: Group, nests: tuple[Nest, ...], schedule: Schedule, index: dict[str, int], core: int
) -> tuple[tuple[Instruction, ...], tuple[int, ...], int]:
    trees: list[tuple[Node, ...]] = []
    elements = 1
    for nest, part in zip(nests, schedule.nests, strict=True):
        emitter = NestEmitter(nest, part, group.type_of, index, core)
        trees.append(emitter.emit())
        elements = max(elements, emitter.elements)
    return *_synchronised(trees), elements


def _synchronised(
    trees: list[tuple[Node, ...]],
) -> tuple[tuple[Instruction, ...], tuple[int, ...]]:
    """Return the stream and its credits; semaphores are shared only if they would not suffice."""
    synchroniser = Synchroniser()
    try:
        synchroniser.sequence(trees)
    except SemaphoreError:
        synchroniser = Synchroniser(sparing=True)
        synchroniser.sequence(trees)
    return synchroniser.finish()
