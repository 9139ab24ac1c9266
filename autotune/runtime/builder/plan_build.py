"""The build of one plan: its groups lowered, bound, compiled, packed and linked, as tasks.

The way of a group: lower → bind → its micro-kernels generated; then the network: assemble → pack → link. A
group that cannot be lowered or bound is split into its operators, whose tasks take its place. Where fusions are tried,
each group and its operators are measured once they are lowered, and a group that does not pay is split, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from autotune.errors import InputError, ScheduleError
from autotune.graph.graph import Graph
from autotune.isa.program import Program
from autotune.operators.op import Family
from autotune.runtime.builder.limits import BuildLimits
from autotune.runtime.builder.payoff import payoff_of
from autotune.runtime.builder.scheduler import Scheduler
from autotune.runtime.builder.splitting import operators_alone, why_unbuildable
from autotune.runtime.builder.staged_networks import StagedNetworks
from autotune.runtime.builder.task import Stage, Task
from autotune.runtime.builder.trace import BuildTrace
from autotune.runtime.builder.trials import FusionTrials, Key, Trial, key_of
from autotune.runtime.execution.native_table import (
    Draft,
    WholeNetworks,
    draft_of,
    draft_table,
    network_of,
)
from autotune.runtime.execution.program_cache import Lowered, ProgramCache
from autotune.runtime.execution.program_table import ProgramTable, SplitGroup, compile_table
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.native.codegen.writing.micro_kernel import Source
from autotune.targets.native.linking.linking import Linkable, PackedBlock, Packing
from autotune.targets.native.running.executable import Network, arena_of
from autotune.targets.protocol import Target
from autotune.targets.spec import HardwareSpec
from autotune.tuner.choice import Choice

OPERATOR_BYTES = 1 << 20
"""Memory of lowering or binding a group while it runs, for each of its operators."""
KERNEL_BYTES = 8 << 20
"""Memory of LLVM while it generates one micro-kernel, and of the generator that it keeps."""


@dataclass(frozen=True, slots=True)
class Built:
    """A plan ready to run; ``draft`` is None on targets that run program by program."""

    table: ProgramTable
    draft: Draft | None
    trace: BuildTrace
    trials: Mapping[Key, Trial] = field(default_factory=dict)
    """Measured fusions by group and schedule, where they were tried."""

    def with_split(self, split: tuple[SplitGroup, ...]) -> Built:
        """Return the build of a plan of which these groups were split before, too."""
        known = (*split, *self.table.split)
        draft = None if self.draft is None else replace(self.draft, split=known)
        return replace(self, table=replace(self.table, split=known), draft=draft)


def build_plan(
    graph: Graph,
    choices: Sequence[Choice],
    target: Target,
    cache: ProgramCache,
    limits: BuildLimits | None = None,
    tries: bool = False,
) -> Built:
    """Build a plan within limits; a group that cannot be built is split into its operators.

    With ``tries``, so is a group that takes more cycles than they do apart.

    Raises ``InputError`` for ``tries`` on a machine that does not count cycles, ``PlanError`` for groups that do not
    cover the graph, and ``MemoryExceeded`` for a build beyond its memory. The error of a group that cannot be split is
    raised as it is.
    """
    if tries and not isinstance(target, EmulatorTarget):
        raise InputError(
            f"{target.name} is timed, which other tasks of a build would disturb; 'autotune run PLAN --profile' times its groups"
        )
    trials = FusionTrials(target) if tries else None
    build = _PlanBuild(graph, choices, target, cache, trials)
    trace = Scheduler(limits).run(build.first())
    assert build.table is not None, "linking is the last task"
    return Built(build.table, build.draft, trace, {} if trials is None else trials.found)


class _PlanBuild:
    """Results of the tasks of one build. Tasks that change it need the interpreter: one runs at a time."""

    def __init__(
        self,
        graph: Graph,
        choices: Sequence[Choice],
        target: Target,
        cache: ProgramCache,
        trials: FusionTrials | None,
    ) -> None:
        self._trials = trials
        self._graph, self._target, self._cache = graph, target, cache
        self._staged = target if isinstance(target, StagedNetworks) else None
        self._given = self._choices = tuple(choices)
        self._lowered: dict[Key, Lowered] = {}
        self._bound: dict[int, tuple[Program, Linkable]] = {}
        self._lowering: dict[Key, str] = {}
        self._binding: dict[int, str] = {}
        self._generating: dict[str, str] = {}
        self._reasons: dict[int, SplitGroup] = {}
        self._alone: set[Key] = set()
        self._pays: dict[Key, float] = {}
        self._joined = _joined(graph)
        self._rounds = 0
        self.table: ProgramTable | None = None
        self.draft: Draft | None = None

    def first(self) -> list[Task]:
        """Return the tasks to begin with: groups to lower, and the network to assemble behind them."""
        tasks = self._lower_tasks(self._choices)
        return [*tasks, self._assemble_task()] if self._trials is None else self._then(tasks)

    def _then(self, tasks: Iterable[Task]) -> list[Task]:
        """Return tasks, and the assembly behind them once all that is tried is settled."""
        trials, found = self._trials, list(tasks)
        is_settled = trials is not None and trials.is_settled and not found
        return [self._assemble_task()] if is_settled else found

    def _lower_tasks(self, choices: Iterable[Choice]) -> list[Task]:
        """Return tasks for groups that no task lowers yet."""
        tasks = []
        for choice in choices:
            if choice.schedule is None or key_of(choice) in self._lowering:
                continue
            name = f"{choice.group.ops[0].name} #{len(self._lowering)}"
            self._lowering[key_of(choice)] = name
            if self._trials is not None:
                self._trials.expect(key_of(choice))
            self._pays[key_of(choice)] = payoff_of(
                self._graph, choice.group, self._target.spec
            ).seconds
            task = Task(
                name,
                Stage.LOWER,
                partial(self._lower, choice),
                units=len(choice.group.ops),
                memory_bytes=OPERATOR_BYTES * len(choice.group.ops),
                payoff_seconds=self._pays[key_of(choice)],
                split=partial(self._smaller, choice) if len(choice.group.ops) > 1 else None,
            )
            tasks.append(task)
        return tasks

    def _lower(self, choice: Choice) -> Iterable[Task]:
        try:
            found = self._cache.lowered(choice, self._target.spec)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with a group, its operators may do
            return self._divided(choice, error)
        self._lowered[key_of(choice)] = found
        if self._trials is not None:
            return self._try(choice, found.program, self._trials)
        if self._staged is None or not self._joined.isdisjoint(choice.group.tensors):
            return ()
        return self._bind_tasks([(found.program, choice)])

    def _try(self, choice: Choice, program: Program, trials: FusionTrials) -> Iterable[Task]:
        """Return tasks that measure a group, and its operators apart."""
        name, apart = self._lowering[key_of(choice)], list[Task]()
        if len(choice.group.ops) > 1:
            try:
                parts = operators_alone(self._graph, choice, self._target)
            except ScheduleError:  # some operator does not run alone: the group stays
                parts = ()
            if parts:
                trials.hold_against(choice, parts)
                apart = self._lower_tasks(parts)
        return [trials.task(name, key_of(choice), program, self._settle), *apart]

    def _settle(self, key: Key, cycles: int) -> Iterable[Task]:
        """Take in what was measured; split the groups that it shows not to pay."""
        assert self._trials is not None
        tasks = list[Task]()
        for choice, reason in self._trials.settle(key, cycles):
            tasks += self._replaced(choice, partial(_said, reason)) or ()
        return self._then(tasks)

    def _smaller(self, choice: Choice, reason: str) -> Iterable[Task] | None:
        """Split a group that is too large for the memory."""
        if self._trials is not None:
            self._trials.give_up(key_of(choice))
        return self._replaced(choice, lambda _: reason)

    def _divided(self, choice: Choice, error: Exception) -> Iterable[Task]:
        """Split a group that failed, and all groups like it. Raises ``error`` if that does not help."""
        tasks = self._replaced(choice, lambda one: why_unbuildable(one, self._target))
        if tasks is None:
            raise error
        if self._trials is None:
            return tasks
        self._trials.give_up(key_of(choice))
        return self._then(tasks)

    def _replaced(self, choice: Choice, why: Callable[[Choice], str | None]) -> list[Task] | None:
        """Put operators in the place of a group and of those like it; return tasks for the new ones.

        None if no group goes, or an operator would have to be built as it failed."""
        key, kept = key_of(choice), list[Choice]()
        if key in self._alone:
            return None
        for one in self._choices:
            reason = why(one) if one.schedule is not None and key_of(one) == key else None
            if reason is None:
                kept.append(one)
                continue
            alone = operators_alone(self._graph, one, self._target)
            self._alone |= {key_of(part) for part in alone if part.schedule is not None}
            self._reasons[id(one)] = SplitGroup(tuple(op.name for op in one.group.ops), reason)
            kept += alone
        if key in self._alone or (len(kept) == len(self._choices) and not self._reasons):
            return None
        self._choices = tuple(kept)
        return self._lower_tasks(kept)

    def _bind_tasks(self, programs: Iterable[tuple[Program, Choice | None]]) -> list[Task]:
        """Return tasks for programs that no task binds yet."""
        tasks = []
        for program, choice in programs:
            if id(program) in self._binding:
                continue
            name = f"{program.name} ({len(self._binding)})"
            self._binding[id(program)] = name
            units = sum(map(len, program.streams))
            work = partial(self._bind, program, choice)
            pays = 0.0 if choice is None else self._pays.get(key_of(choice), 0.0)
            tasks.append(Task(name, Stage.BIND, work, units, OPERATOR_BYTES, payoff_seconds=pays))
        return tasks

    def _bind(self, program: Program, choice: Choice | None) -> Iterable[Task]:
        assert self._staged is not None
        try:
            found = self._staged.bound(program)
        except Exception as error:  # as above
            if choice is None:
                raise
            return self._divided(choice, error)
        self._bound[id(program)] = program, found
        tasks = []
        for kernel in self._staged.missing_code(found):
            if kernel.digest not in self._generating:
                name = f"kernel {kernel.digest}"
                self._generating[kernel.digest] = name
                work = partial(_generate, self._staged, kernel)
                pays = 0.0 if choice is None else self._pays.get(key_of(choice), 0.0)
                tasks.append(
                    Task(name, Stage.GENERATE, work, 1.0, KERNEL_BYTES, payoff_seconds=pays)
                )
        return tasks

    def _assemble_task(self) -> Task:
        self._rounds += 1
        after = (self._lowering[key_of(c)] for c in self._choices if c.schedule is not None)
        return Task(
            f"assemble {self._rounds}",
            Stage.ASSEMBLE,
            self._assemble,
            units=len(self._choices),
            memory_bytes=OPERATOR_BYTES,
            after=tuple(dict.fromkeys(after)),
        )

    @property
    def _is_lowered(self) -> bool:
        """False while a split has brought groups that are to be lowered."""
        return all(c.schedule is None or key_of(c) in self._lowered for c in self._choices)

    def _assemble(self) -> Iterable[Task]:
        """Order the steps, and bind the programs that no task has bound."""
        if not self._is_lowered:
            return [self._assemble_task()]
        programs = _Programs(self._cache, dict(self._lowered))
        made = compile_table(self._graph, self._choices, self._target.spec, programs)
        split = tuple(self._reasons[id(x)] for x in self._given if id(x) in self._reasons)
        table = replace(made, split=split)
        if self._staged is None:
            return [Task("link", Stage.LINK, partial(self._link_plainly, table), len(table.steps))]
        network = network_of(table)
        pairs = list(zip(network.parts, table.group_steps, strict=True))
        tasks = self._bind_tasks(
            (
                part.program,
                Choice(step.group, step.schedule) if part.program is step.program else None,
            )
            for part, step in pairs
        )
        names = tuple(dict.fromkeys(self._binding[id(part.program)] for part, _ in pairs))
        name, work = f"place {self._rounds}", partial(self._place, table, network)
        return [*tasks, Task(name, Stage.ASSEMBLE, work, len(pairs), OPERATOR_BYTES, after=names)]

    def _place(self, table: ProgramTable, network: Network) -> Iterable[Task]:
        """Give the packed constants their places, and link behind all that is under way."""
        assert self._staged is not None
        if not self._is_lowered:
            return [self._assemble_task()]
        programs = tuple(self._bound[id(part.program)][1] for part in network.parts)
        packing = self._staged.packing(network, programs)
        tasks = [
            Task(
                f"pack {number}",
                Stage.PACK,
                partial(_pack, packing, block),
                block.size_bytes,
                block.size_bytes,
                block.size_bytes,
            )
            for number, block in enumerate(packing.blocks)
            if block.size_bytes
        ]
        arena_bytes = arena_of(network).size_bytes
        work = partial(self._link, table, network, programs, packing)
        after = (*(task.name for task in tasks), *self._generating.values())
        units = len(network.parts)
        return [
            *tasks,
            Task("link", Stage.LINK, work, units, arena_bytes, arena_bytes, after=after),
        ]

    def _link(
        self,
        table: ProgramTable,
        network: Network,
        programs: Sequence[Linkable],
        packing: Packing,
    ) -> Iterable[Task]:
        assert self._staged is not None
        self.draft = draft_of(table, network, programs)
        executable = self._staged.executable(network, programs, packing=packing)
        self.table = self.draft.linked(self._graph, executable)
        return ()

    def _link_plainly(self, table: ProgramTable) -> Iterable[Task]:
        """Finish the table of a target that has no stages."""
        if isinstance(self._target, WholeNetworks):
            self.draft = draft_table(table, self._target)
            self.table = self.draft.table(self._graph, self._target)
        else:
            self.table = table
        return ()


class _Programs:
    """Programs that the build has, each with the note of how it came: once, as others find it in memory."""

    def __init__(self, cache: ProgramCache, lowered: dict[Key, Lowered]) -> None:
        self._cache, self._lowered = cache, lowered

    def lowered(self, choice: Choice, spec: HardwareSpec) -> Lowered:
        """Return the program of a group."""
        found = self._lowered.pop(key_of(choice), None)
        if found is None or tuple(found.bindings.values()) != choice.group.tensors:
            return self._cache.lowered(choice, spec)
        return found


def _said(reason: str, _: Choice) -> str:
    return reason


def _joined(graph: Graph) -> frozenset[str]:
    """Return tensors of concatenations: groups that touch them get other programs where they are aliased."""
    joins = [op for op in graph.ops if op.family is Family.CONCAT]
    return frozenset(x for op in joins for x in (*op.inputs, op.output))


def _generate(target: StagedNetworks, kernel: Source) -> Iterable[Task]:
    target.generate(kernel)
    return ()


def _pack(packing: Packing, block: PackedBlock) -> Iterable[Task]:
    packing.fill(block)
    return ()
