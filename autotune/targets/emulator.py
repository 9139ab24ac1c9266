"""The emulated accelerator: verifies, loads and runs tile programs; a ``Target``."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping
from threading import Lock

import numpy as np

from autotune.errors import InputError, ProgramError, SpecError
from autotune.isa.program import DramTensor, Program, Role
from autotune.isa.verifier import verify
from autotune.kernels.engine import Loaded
from autotune.targets.protocol import Array, Execution
from autotune.targets.spec import HardwareSpec
from autotune.targets.tally import counters_of

LOADED_LIMIT = 512
"""Programs kept decoded; the one that was used longest ago goes first."""


class EmulatorTarget:
    """Runs programs on the machine that a spec describes, by the engine's timing model.

    Deterministic: equal programs cost the same. Safe to use from several threads, which run side
    by side. ``name`` defaults to the spec's.
    """

    def __init__(self, spec: HardwareSpec, name: str | None = None) -> None:
        self._spec = spec
        self._name = spec.name if name is None else name
        self._bandwidth = 1.0
        self._loaded: OrderedDict[int, Loaded] = OrderedDict()
        self._lock = Lock()

    @property
    def name(self) -> str:
        """Name as the command line spells it."""
        return self._name

    @property
    def spec(self) -> HardwareSpec:
        """The machine."""
        return self._spec

    def derate(self, dram_bandwidth: float) -> None:
        """From now on DRAM moves ``dram_bandwidth`` times the bytes per cycle that the spec says.

        This is physical drift: spec and profile id stay as they are; 1 takes it back. Executions
        under way are not affected. Raises ``SpecError`` unless in (0, 10].
        """
        if not 0 < dram_bandwidth <= 10:
            raise SpecError(f"derate: DRAM bandwidth factor {dram_bandwidth} is not in (0, 10]")
        self._bandwidth = float(dram_bandwidth)

    def time(self, program: Program) -> Execution:
        """Cost of a program, without numerics. Raises ``ProgramError`` for an illegal program."""
        return self._execution(self._load(program).execute(self._bandwidth))

    def run(
        self, program: Program, tensors: Mapping[str, Array]
    ) -> tuple[Execution, dict[str, Array]]:
        """Execute with numbers: an array for every INPUT and CONSTANT tensor by name, float32 of
        the declared shape; returns the cost and the OUTPUT tensors.

        What no STORE reaches of an output is NaN. Raises ``ProgramError`` for an illegal program,
        ``InputError`` for arrays that do not fit.
        """
        loaded = self._load(program)
        arrays = [_array(program, tensor, tensors) for tensor in program.tensors]
        execution = self._execution(loaded.execute(self._bandwidth, arrays))
        outputs = {
            tensor.name: array
            for tensor, array in zip(program.tensors, arrays, strict=True)
            if tensor.role is Role.OUTPUT
        }
        return execution, outputs

    def _load(self, program: Program) -> Loaded:
        """The program verified and decoded; kept by identity while it is recent."""
        key = id(program)
        with self._lock:
            loaded = self._loaded.get(key)
            if loaded is not None:
                self._loaded.move_to_end(key)
                return loaded
        loaded = self._verified(program)
        with self._lock:
            self._loaded[key] = loaded  # holds the program, so that its id stays its own
            while len(self._loaded) > LOADED_LIMIT:
                self._loaded.popitem(last=False)
        return loaded

    def _verified(self, program: Program) -> Loaded:
        if len(program.streams) > self._spec.cores:
            raise ProgramError(
                f"{program.name}: made for {len(program.streams)} cores, {self._name} has "
                f"{self._spec.cores}; lower it for this target"
            )
        verify(program, self._spec.scratchpad_elements)
        return Loaded(program, self._spec)

    def _execution(self, raw: Mapping[str, object]) -> Execution:
        counters = counters_of(raw, self._spec)
        dram_bytes = counters["dram_read_bytes"] + counters["dram_write_bytes"]
        return Execution(counters["cycles"], counters["energy_fj"], dram_bytes, counters)


def _array(program: Program, tensor: DramTensor, given: Mapping[str, Array]) -> Array:
    if tensor.role is Role.OUTPUT:
        return np.full(tensor.shape, np.nan, np.float32)
    if tensor.name not in given:
        raise InputError(f"{program.name}: no array for {tensor.role} tensor {tensor.name!r}")
    array = given[tensor.name]
    if array.dtype != np.float32 or array.size != math.prod(tensor.shape):
        raise InputError(
            f"{program.name}: {tensor.name!r} is {array.dtype} {list(array.shape)}; "
            f"it must be float32 {list(tensor.shape)}"
        )
    return np.ascontiguousarray(array)
