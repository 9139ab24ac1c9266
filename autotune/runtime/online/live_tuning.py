"""Live tuning of a session: its requests, and a thread that tunes. On this CPU the proposer is another process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from autotune.cost_model.model import CostModel
from autotune.errors import AutotuneError
from autotune.measure.process import SUPPORTED
from autotune.operators.interval import Interval
from autotune.operators.tensor import Array
from autotune.runtime.execution.event import Event, EventKind
from autotune.runtime.execution.execution import RunTrace
from autotune.runtime.execution.native_table import WholeNetworks
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.program_table import CurrentTable
from autotune.runtime.online.live_tuner import LiveTuner
from autotune.runtime.online.looks import Looks
from autotune.runtime.online.pace import pace_of
from autotune.runtime.online.proposer import LocalProposer, Proposer
from autotune.runtime.online.proposer_process import ProposerProcess
from autotune.runtime.online.serving import Serving
from autotune.runtime.online.steady_clock import SteadyClock
from autotune.runtime.online.step_drafts import counted_costs
from autotune.runtime.online.thread_priority import LOW_FOR_GOOD, lower_priority
from autotune.runtime.profile.group_profile import PairProfile
from autotune.runtime.variants.edits import groupings_of
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.protocol import Target
from autotune.tuner.choice import Choice
from autotune.tuner.objective import Objective

POLL_SECONDS, MOST_POLL_SECONDS = 0.05, 1.0
"""Time between two looks at what the requests have brought, and the longest: it doubles while there is nothing to do.
A look takes Python's lock for up to a millisecond: every 0.05 s, it would make requests 1 to 2 % slower for ever."""
PAUSE_SECONDS, MOST_PAUSE_SECONDS = 4.0, 300.0
"""Pause after the first failure, which doubles with each, and the longest."""


class LiveTuning:
    """Serves requests, and tunes in a thread of its own until it is closed.

    A failure of whatever kind ends the trial under way and is told; tuning goes on after a pause, and says so.
    ``wait_idle`` may take steps in the thread's place.
    """

    def __init__(
        self,
        serving: Serving,
        tuner: LiveTuner,
        proposer: Proposer,
        stopping: threading.Event | None = None,
    ) -> None:
        self._serving, self._tuner, self._proposer = serving, tuner, proposer
        self._stopping = threading.Event() if stopping is None else stopping
        self._stepping = threading.Lock()
        self._failures = 0
        self._thread = threading.Thread(target=self._loop, name="autotune-tuning", daemon=True)
        self._thread.start()

    def run(
        self, inputs: Mapping[str, Array], tick: int | None = None
    ) -> tuple[dict[str, Array], RunTrace]:
        """Run one request by the published version, or by one on trial; return outputs and costs. ``tick`` is that of
        ``Serving.run``."""
        return self._serving.run(inputs, tick)

    @property
    def quiet(self) -> Serving | None:
        """Who counts requests, and says which are looked at; None while each is."""
        return self._serving if self._serving.is_quiet else None

    @property
    def looks(self) -> Looks:
        """Requests that were looked at, which the thread takes in."""
        return self._serving.looks

    @property
    def events(self) -> tuple[Event, ...]:
        """The newest events, oldest first."""
        return self._tuner.events

    def drift(self) -> None:
        """Note that the machine has drifted: no rest holds, and what was refused may be tried again."""
        self._tuner.drift()

    def consider(self, choices: Sequence[Choice]) -> None:
        """Take a plan that a search found, which is tried on live requests next."""
        self._tuner.consider(groupings_of(choices))

    def wait_idle(self, timeout_seconds: float | None = None) -> None:
        """Return when there is nothing to do before the next request. On this CPU, where a trial may take minutes of
        requests, return at once.

        Raises ``AutotuneError`` when that takes longer, or fails.
        """
        if self._serving.pace.is_here:
            return
        if not self._stepping.acquire(timeout=-1 if timeout_seconds is None else timeout_seconds):
            raise AutotuneError(
                f"online tuning is still busy after {timeout_seconds:g} s; wait longer"
            )
        try:
            self._take_steps()
        finally:
            self._stepping.release()

    def stop(self) -> None:
        """End the trial and the proposer, whatever they do; the published version stays. Nobody takes in looks any more."""
        self._stopping.set()
        self._serving.looks.takers = ()  # they hold variants
        self._serving.end_trial()
        self._proposer.give_up()

    def close(self) -> None:
        """Stop, and return when the thread has ended."""
        self.stop()
        self._thread.join()
        self._tuner.close()

    def _loop(self) -> None:
        if not self._serving.pace.is_here:  # elsewhere it proposes in this thread
            lower_priority(LOW_FOR_GOOD)
        pause = POLL_SECONDS
        while not self._stopping.wait(pause):
            pause = min(2 * pause, MOST_POLL_SECONDS)
            try:
                self._serving.looks.take_in()
                with self._stepping:
                    has_stepped = self._take_steps()
                if has_stepped or self._tuner.is_trying:
                    pause = POLL_SECONDS
            # the boundary of this thread: whatever a step raises, the trial has to end, or requests run by it for ever
            except BaseException as error:  # noqa: BLE001
                if self._stopping.is_set():
                    return
                self._stopping.wait(self._fail(error))

    def _take_steps(self) -> bool:
        """Take steps until there is nothing to do; return True if some were taken."""
        has_stepped = False
        while not self._stopping.is_set() and self._tuner.step():
            self._recovered()
            has_stepped = True
        self._recovered()
        return has_stepped

    def _recovered(self) -> None:
        """Tell that tuning goes on if it had failed."""
        if self._failures:
            self._failures = 0
            self._tuner.tell(EventKind.RESTARTED, "online tuning goes on")

    def _fail(self, error: BaseException) -> float:
        """Tell of a failure; return the seconds to pause. Another worker proposes next: this one's code may be gone from
        the disk."""
        self._failures += 1
        self._tuner.drop_trial()
        self._proposer.close()
        kind = type(error).__name__
        reason = str(error) if isinstance(error, AutotuneError) else f"{kind}: {error}"
        pause = min(MOST_PAUSE_SECONDS, PAUSE_SECONDS * 2.0 ** min(self._failures - 1, 60))
        text = f"online tuning stopped: {reason}; it begins anew in {pause:g} s"
        self._tuner.tell(
            EventKind.FAILED, text, pause_seconds=pause, failures=float(self._failures)
        )
        return pause


def live_tuning(
    published: CurrentTable,
    target: Target,
    ranges: Mapping[str, Interval],
    pairs: Callable[[], Sequence[PairProfile]],
    usage: Callable[[], float],
    seed: int,
    model: CostModel | None,
    cache: ProgramCache,
    objective: Objective,
) -> LiveTuning | None:
    """Start tuning; ``pairs`` and ``usage`` are as ``LiveTuner`` has them. The ``model`` ranks proposals.

    ``cache`` and ``objective`` are for machines that run programs one after the other. None on this CPU where no other
    process can be had.
    """
    graph, pace = published.current.graph, pace_of(target)
    proposer: Proposer
    if isinstance(target, WholeNetworks):
        if not SUPPORTED:
            return None
        ranked_by = None if model is None or model.is_typical else model.to_bytes()
        proposer = ProposerProcess(graph, target.spec, ranges, seed, ranked_by)
        serving = Serving(published, target)
    else:
        # the session's own machine has a history, and its drift is no matter of numbers
        twin = EmulatorTarget(target.spec) if isinstance(target, EmulatorTarget) else target
        proposer = LocalProposer(graph, twin, target.spec, ranges, seed, model, cache)
        serving = Serving(published, target, pace, counted_costs(objective, target.spec))
    tuner = LiveTuner(serving, target, proposer, pairs, usage=usage, seed=seed, clock=SteadyClock())
    return LiveTuning(serving, tuner, proposer)
