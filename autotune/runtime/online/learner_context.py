"""What the parts of a learner work on and with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from autotune.runtime.execution.event import Event
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.program_table import CurrentTable
from autotune.runtime.online.learning import OnlineOptions
from autotune.runtime.online.recorder import Recorder
from autotune.runtime.online.run_monitor import Followed
from autotune.store.store import Store
from autotune.targets.protocol import Target
from autotune.tuner.choice import Choice


@dataclass(frozen=True, slots=True)
class LearnerContext:
    """A learner's session: what it works on and with.

    ``waiting`` gives the newest runs that are not yet taken in. ``stopping`` says that the session wants to close.
    ``tell`` takes an event, ``hand_over`` a plan to try.
    """

    published: CurrentTable
    target: Target
    cache: ProgramCache
    store: Store
    recorder: Recorder
    options: OnlineOptions
    waiting: Callable[[int], Sequence[Followed]]
    clock: Callable[[], float]
    stopping: Callable[[], bool]
    tell: Callable[[Event], None]
    hand_over: Callable[[Sequence[Choice]], None]
