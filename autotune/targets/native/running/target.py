"""The host CPU as a ``Target``: runs tile programs as machine code, and measures what they take."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from time import sleep
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from autotune.errors import ProgramError
from autotune.isa.fields import PARAMETERS
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Program, Role
from autotune.kernels.native.executor import ThreadPool
from autotune.targets.native.codegen.writing.micro_kernel import Source
from autotune.targets.native.compiling.compiler import Compiler
from autotune.targets.native.cpu.host import available, host_isa
from autotune.targets.native.linking.linking import Linkable, Linked, Packing, linked
from autotune.targets.native.running.executable import Executable, Network, Workshop, constants_of
from autotune.targets.native.running.repeats import ProgramTiming, Repeats
from autotune.targets.protocol import Array, Execution, Parameters
from autotune.targets.spec import HardwareSpec

if TYPE_CHECKING:  # a kept network runs without verifier, loader and measuring
    from autotune.targets.native.linking.loader import Bound
    from autotune.targets.native.linking.step_profile import ProgramProfile
    from autotune.targets.native.running.reference import Reference
    from autotune.targets.native.running.sampling import Sample

K = TypeVar("K")
V = TypeVar("V")

LOADED_LIMIT = 512
"""Programs kept bound, and as many linked with their constants; the one that was used longest ago
goes first."""


class NativeTarget:
    """Runs programs on this machine's CPU, one thread per core of the spec.

    ``time`` measures a program as in the midst of an inference: repeated on the same tensors without
    pause. Inputs, constants and outputs are then in cache as far as they fit, as they are behind the
    group that made them. The rest comes from memory every time. Code that crashes takes the process along:
    ``autotune.measure`` measures in workers. Safe to use from several threads: programs run one after the other. Pickles
    as spec and name.
    """

    exclusive = True
    """To be timed by one worker process at a time, and never by the tuner's own."""

    def __init__(self, spec: HardwareSpec, name: str | None = None) -> None:
        self._spec = spec
        self._name = spec.name if name is None else name
        self._bound: OrderedDict[int, _Checked] = OrderedDict()
        self._linked: OrderedDict[tuple[int, ...], _Ready] = OrderedDict()
        self._lock = Lock()

    def __reduce__(self) -> tuple[type[NativeTarget], tuple[HardwareSpec, str]]:
        return NativeTarget, (self._spec, self._name)

    @property
    def name(self) -> str:
        """Name as the command line spells it."""
        return self._name

    @property
    def spec(self) -> HardwareSpec:
        """The machine; as many cores as threads are used."""
        return self._spec

    @property
    def threads(self) -> int:
        """Threads that programs may use."""
        return self._spec.cores

    def time(self, program: Program, parameters: Parameters | None = None) -> Execution:
        """Cost of a program on seeded normal numbers; ``parameters`` are what its CASEs dispatch
        on. ``cycles`` are those of the lower quartile of visits while the machine was calm; see
        ``sampling`` for how often it repeats, ``operands`` for where its tensors lie.
        Raises ``ProgramError`` for an illegal program, or a parameter that has no value."""
        from autotune.targets.native.running.sampling import REST_SECONDS

        timing = self.prepared(program, parameters)
        while (found := timing.visit()) is None:
            sleep(REST_SECONDS)
        return found

    def prepared(self, program: Program, parameters: Parameters | None = None) -> ProgramTiming:
        """All that ``time`` does before it looks at the clock. Raises as ``time`` does."""
        from autotune.targets.native.running.operands import Operands

        checked = self._checked(program)
        given = checked.given(parameters)
        operands = Operands(program)
        linked = _linked(checked, operands.arrays)  # keeps the arrays, too
        once = Repeats(linked, _pool(self.threads), 1, operands.pointers, given)
        cost = functools.partial(self._execution, program)
        return ProgramTiming(once, operands, _compiler(), cost)

    def run(
        self,
        program: Program,
        tensors: Mapping[str, Array],
        parameters: Parameters | None = None,
    ) -> tuple[Execution, dict[str, Array]]:
        """Execute once with numbers: an array for every INPUT and CONSTANT tensor by name, of the
        declared shape and of its format's numpy type; returns the time it took and the OUTPUT
        tensors. Constants that are read-only arrays are packed for the program once, and must stay
        as they are.

        What no STORE reaches of an output is NaN, or 0 in integers. Raises ``ProgramError`` for an
        illegal program or a parameter without a value, ``InputError`` for arrays that do not fit.
        """
        from autotune.targets.arrays import array_for
        from autotune.targets.native.running.sampling import Sample, Visit
        from autotune.targets.native.running.tensors import unwritten

        checked = self._checked(program)
        given = checked.given(parameters)
        arrays = {
            tensor.name: unwritten(tensor)
            if tensor.role is Role.OUTPUT
            else array_for(program, tensor, tensors).reshape(tensor.shape)
            for tensor in program.tensors
        }
        ready = self._ready(checked, arrays)
        once = Repeats(ready.linked, _pool(self.threads), 1, _pointers(program, arrays), given)
        sample = Sample((Visit(once.run()),))
        outputs = {t.name: arrays[t.name] for t in program.tensors if t.role is Role.OUTPUT}
        return self._execution(program, sample, None), outputs

    def linkables(self, network: Network) -> tuple[Linkable, ...]:
        """The programs of a plan's parts, verified and bound. Raises ``ProgramError`` for an illegal
        program."""
        return tuple(self._checked(part.program).linkable for part in network.parts)

    def executable(
        self,
        network: Network,
        programs: Sequence[Linkable] | None = None,
        workshop: Workshop | None = None,
        packing: Packing | None = None,
    ) -> Executable:
        """A whole plan as one call: compiled, its constants packed and its tensors placed.
        ``programs`` are its ``linkables`` and ``packing`` their constants', where they are known; executables
        of a ``workshop`` share what they can. Raises ``ProgramError`` for an illegal program."""
        bound = self.linkables(network) if programs is None else programs
        return Executable(network, bound, _pool(self.threads), _compiler(), workshop, packing)

    def bound(self, program: Program) -> Linkable:
        """Return one program verified and bound. Raises ``ProgramError`` for an illegal one."""
        return self._checked(program).linkable

    def missing_code(self, program: Linkable) -> Sequence[Source]:
        """Return micro-kernels of a program whose code is neither in memory nor on disk."""
        compiler = _compiler()
        return () if compiler is None else compiler.missing(program.sources)

    def generate(self, kernel: Source) -> None:
        """Generate the code of a micro-kernel, for the next executable. Other threads run meanwhile.

        Raises ``ProgramError`` for a kernel that cannot be compiled.
        """
        compiler = _compiler()
        assert compiler is not None, "without one no code is missing"
        compiler.generate(kernel)

    def packing(self, network: Network, programs: Sequence[Linkable]) -> Packing:
        """Return the constants of a network, to be packed for the programs of its parts."""
        return Packing(programs, constants_of(network))

    def workshop(self) -> Workshop:
        """Return what executables of one network's plans may share, none of it made yet."""
        return Workshop(_compiler())

    def reference(self) -> Reference | None:
        """Return what tells how calm the machine is on the cores of a run; None where no code is generated."""
        return host_reference(self.threads)

    def profile(
        self, network: Network, inputs: Mapping[str, npt.NDArray[np.float32]], repeats: int
    ) -> tuple[ProgramProfile, ...]:
        """Where the time of every part of a plan goes, over some runs with clocks between its steps;
        constants are packed a second time for it. Raises ``ProgramError`` for an illegal program."""
        from autotune.targets.native.linking.loader import linkable
        from autotune.targets.native.linking.step_profile import program_profile

        bounds = [self._checked(part.program).bound for part in network.parts]
        timed = [linkable(bound, timed=True) for bound in bounds]
        clocked = Executable(network, timed, _pool(self.threads), _compiler())
        clocked.run(inputs)  # tensors and code come into memory
        samples = [clocked.kind_nanoseconds(inputs) for _ in range(repeats)]
        return tuple(map(program_profile, bounds, zip(*samples, strict=True)))

    def _execution(
        self, program: Program, sample: Sample, perf: Mapping[str, int] | None
    ) -> Execution:
        """Cost by the spec's clock; ``dram_bytes`` are each tensor's bytes, once."""
        from autotune.targets.native.running.tensors import tensor_bytes

        cycles = max(1, round(sample.nanoseconds * 1e-9 * self._spec.clock_hz))
        counters = sample.counters | {"perf": int(perf is not None), **(perf or {})}
        return Execution(cycles, 0, sum(map(tensor_bytes, program.tensors)), counters)

    def _checked(self, program: Program) -> _Checked:
        """The program verified and bound; kept by identity while it is recent."""
        found = self._recall(self._bound, id(program))
        if found is None:
            found = self._keep(self._bound, id(program), self._verified(program))
        return found

    def _verified(self, program: Program) -> _Checked:
        from autotune.isa.verifier.proof import verify
        from autotune.targets.native.linking.loader import bind, linkable

        if len(program.streams) > self._spec.cores:
            raise ProgramError(
                f"{program.name}: made for {len(program.streams)} cores, {self._name} has "
                f"{self._spec.cores}; lower it for this target"
            )
        verify(program, self._spec.scratchpad_elements)
        wanted = {
            instruction.get("parameter")
            for stream in program.streams
            for instruction in stream
            if instruction.opcode is Opcode.CASE
        }
        isa = host_isa() if available() else None
        bound = bind(program, isa)
        return _Checked(program, bound, linkable(bound), frozenset(wanted))

    def _ready(self, checked: _Checked, arrays: Mapping[str, Array]) -> _Ready:
        """The program linked with its constants; kept while these are recent and read-only."""
        constants = _constants(checked.program, arrays)
        if any(array.flags.writeable for array in constants):
            return _Ready(checked, constants, _linked(checked, arrays))
        key = (id(checked.program), *(array.ctypes.data for array in constants))
        found = self._recall(self._linked, key)
        if found is None:
            ready = _Ready(checked, constants, _linked(checked, arrays))
            found = self._keep(self._linked, key, ready)
        return found

    def _recall(self, kept: OrderedDict[K, V], key: K) -> V | None:
        with self._lock:
            found = kept.get(key)
            if found is not None:
                kept.move_to_end(key)
            return found

    def _keep(self, kept: OrderedDict[K, V], key: K, value: V) -> V:
        """Keeps what holds the objects and the memory that ``key`` names, so that these stay theirs."""
        with self._lock:
            kept[key] = value
            while len(kept) > LOADED_LIMIT:
                kept.popitem(last=False)
            return value


@dataclass(frozen=True, slots=True)
class _Checked:
    """A program that may run, its micro-kernels chosen, and the parameters that it wants."""

    program: Program
    bound: Bound
    linkable: Linkable
    wanted: frozenset[int]

    def given(self, parameters: Parameters | None) -> npt.NDArray[np.int64]:
        """The runtime parameters as plans take them. Raises ``ProgramError`` for a missing one."""
        values = np.zeros(PARAMETERS, np.int64)
        for number in sorted(self.wanted):
            if parameters is None or number not in parameters:
                raise ProgramError(
                    f"{self.program.name}: dispatches on parameter {number}, which has no value; "
                    f"pass parameters={{{number}: …}}"
                )
            values[number] = parameters[number]
        return values


@dataclass(frozen=True, slots=True)
class _Ready:
    """A linked program with the constants that it was linked with."""

    checked: _Checked
    constants: list[Array]
    linked: Linked


def _linked(checked: _Checked, arrays: Mapping[str, Array]) -> Linked:
    (found,) = linked([checked.linkable], [arrays], _compiler())
    return found


def _constants(program: Program, arrays: Mapping[str, Array]) -> list[Array]:
    return [arrays[t.name] for t in program.tensors if t.role is Role.CONSTANT]


def _pointers(program: Program, arrays: Mapping[str, Array]) -> npt.NDArray[np.int64]:
    return np.array([arrays[t.name].ctypes.data for t in program.tensors], np.int64)


@functools.cache
def _compiler() -> Compiler | None:
    """The process's compiler; None without llvmlite."""
    return Compiler() if available() else None


def host_reference(threads: int) -> Reference | None:
    """Return what tells how calm this machine is for so many threads; None where no code is generated."""
    from autotune.targets.native.running.reference import reference  # a session runs without

    compiler = _compiler()
    return None if compiler is None else reference(_pool(threads), compiler, threads)


@functools.cache
def _pool(threads: int) -> ThreadPool:
    """The process's threads."""
    return ThreadPool(threads)
