"""A machine that a function times: it gets a fusion group as an ONNX model and returns seconds, or raises."""

from __future__ import annotations

import hashlib
import inspect
import pickle
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy.typing as npt

from autotune.errors import InputError, ProgramError
from autotune.targets.native.running.target import host_reference
from autotune.targets.plugins.timing import CLOCK_HZ, ModelTiming
from autotune.targets.plugins.tunables import Tunables, Value, tunables_of
from autotune.targets.protocol import Execution, Timing

TimeModel = Callable[..., Any]
"""``time_model(model)``, ``(model, inputs)``, ``(model, inputs, configuration)`` or ``(model, inputs, schedule)``: seconds
of one run, or a function that runs once and returns seconds. Arguments go by their names."""

SCHEDULE = "schedule"
"""The argument of functions that run a group by the tiles and loops of a ``ScheduledTarget``."""
ARGUMENTS = ("model", "inputs", "configuration", SCHEDULE)
"""What a timing function may ask for, by the names of its parameters."""


CPU_THREADS = "cpu_threads"
"""Attribute of timing functions that run on this CPU, on so many threads: they are timed while it is calm, at its usual clock."""

EXPORT = "nodes of the file"
"""How groups become models. Measurements of groups that were exported otherwise are another machine's."""


@dataclass(frozen=True, slots=True)
class ExportedGroup:
    """A group for such a machine: the bytes of its ONNX ``model``, drawn ``inputs`` by name, and a ``configuration``
    of the machine's parameters, or the ``schedule`` to run it by: a dict of decisions for each of its nests."""

    model: bytes
    inputs: Mapping[str, npt.NDArray[Any]]
    configuration: Mapping[str, Value] = field(default_factory=dict)
    schedule: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class ModelTarget:
    """A machine behind a function; costs are nanoseconds, as cycles of a clock of 1 GHz.

    ``identity`` tells machines of one name apart: measurements of different texts never mix. ``origin`` is the
    name that opens it again in another process; empty for a function that was registered. Raises ``InputError``
    for a function that cannot be called so.
    """

    name: str
    time_model: TimeModel
    identity: str = ""
    origin: str = ""
    exclusive: bool = True

    def __post_init__(self) -> None:
        asked = arguments_of(self.time_model, self.name)
        _cpu_threads(self.time_model, self.name)
        if SCHEDULE in asked:
            raise InputError(
                f"target {self.name}: a function that takes a schedule has a spec, whose memory bounds its tiles; give "
                "it an attribute such as time_model.spec = 'edge'"
            )
        if bool(self.tunables) != ("configuration" in asked):
            raise InputError(
                f"target {self.name}: a function that takes a configuration has parameters, and the other way "
                "round; give it an attribute such as time_model.parameters = {'threads': [1, 2]}"
            )

    @property
    def tunables(self) -> Tunables:
        """Tunable parameters: the ``parameters`` of the timing function. Raises ``InputError``."""
        return tunables_of(self.time_model, self.name)

    @property
    def spec(self) -> None:
        """No spec: such a machine runs groups, and has no schedules."""

    @property
    def profile_id(self) -> str:
        """Hardware profile: 16 hex digits over name, identity and names of parameters."""
        names = sorted(name for name, _ in self.tunables)
        text = "\n".join(("model target", EXPORT, self.name, self.identity, *names))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def clock_hz(self) -> float:
        """Cycles of a second in records and predictions."""
        return CLOCK_HZ

    def prepared(self, exported: Any) -> Timing:
        """Return the timing of an exported group."""
        assert isinstance(exported, ExportedGroup)
        return timing_of(self.time_model, self.name, exported)

    def time(self, exported: Any, parameters: object = None) -> Execution:
        """Return the cost of an exported group, timed without pause."""
        return timed_at_once(self.prepared(exported))

    def run(self, program: Any, tensors: Any, parameters: object = None) -> NoReturn:
        """Raise ``ProgramError``: such a machine times models, and runs no tile program."""
        raise ProgramError(f"{self.name} times ONNX models; it runs no tile program")

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        """Reopen by name in another process; a registered function travels by value."""
        if self.origin:
            from autotune.targets.plugins.registry import open_plugin

            return open_plugin, (self.origin,)
        return _rebuilt, (self.name, packed_function(self.time_model, self.name), self.identity)


def _rebuilt(name: str, function: bytes, identity: str) -> ModelTarget:
    return ModelTarget(name, unpacked_function(function), identity)


def packed_function(function: TimeModel, name: str) -> bytes:
    """Return a function by value, for another process. Raises ``PicklingError`` for one that holds what cannot travel."""
    import cloudpickle

    try:
        return zlib.compress(cloudpickle.dumps(function), 1)
    except Exception as error:  # noqa: BLE001  # whatever a user's objects raise when pickled
        raise pickle.PicklingError(f"{name}: {error}") from None


def unpacked_function(packed: bytes) -> TimeModel:
    """Return what ``packed_function`` made bytes of."""
    function: TimeModel = pickle.loads(zlib.decompress(packed))
    return function


def timing_of(function: TimeModel, name: str, exported: ExportedGroup) -> ModelTiming:
    """Return the timing of an exported group by a function, which gets what it asks for."""
    given = {
        "model": exported.model,
        "inputs": exported.inputs,
        "configuration": dict(exported.configuration),
        SCHEDULE: [dict(nest) for nest in exported.schedule],
    }
    asked = {argument: given[argument] for argument in arguments_of(function, name)}
    threads = _cpu_threads(function, name)
    return ModelTiming(lambda: function(**asked), host_reference(threads) if threads else None)


def _cpu_threads(function: TimeModel, name: str) -> int:
    """Return the threads of this CPU that a function says it runs on; 0 for one that says nothing. Raises ``InputError``."""
    threads = getattr(function, CPU_THREADS, 0)
    if not isinstance(threads, int) or isinstance(threads, bool) or threads < 0:
        raise InputError(
            f"target {name}: {CPU_THREADS} is a number of threads, not {threads!r:.60}"
        )
    return threads


def timed_at_once(timing: Timing) -> Execution:
    """Return the cost of a timing, visited without pause."""
    while (cost := timing.visit()) is None:
        pass
    return cost


def arguments_of(function: TimeModel, name: str) -> tuple[str, ...]:
    """Return the arguments that a timing function asks for. Raises ``InputError``."""
    if not callable(function):
        raise InputError(
            f"target {name}: {type(function).__name__} is no function that times a model"
        )
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ARGUMENTS[:1]
    asked = tuple(p.name for p in parameters if p.default is p.empty and p.kind in _NAMED)
    unknown = [x for x in asked if x not in ARGUMENTS]
    if unknown or "model" not in asked:
        raise InputError(
            f"target {name}: its function takes ({', '.join(p.name for p in parameters)}); a timing function "
            f"takes model, and may take inputs, and configuration or schedule"
        )
    return asked


_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
