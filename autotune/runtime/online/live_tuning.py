"""Live tuning of a session: its requests, and a thread that tunes, with the proposer in another process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from autotune.errors import AutotuneError
from autotune.measure.process import SUPPORTED
from autotune.operators.interval import Interval
from autotune.operators.tensor import Array
from autotune.runtime.execution.event import Event, EventKind
from autotune.runtime.execution.execution import RunTrace
from autotune.runtime.execution.native_table import WholeNetworks
from autotune.runtime.execution.program_table import CurrentTable
from autotune.runtime.online.live_tuner import LiveTuner
from autotune.runtime.online.proposer import Proposer
from autotune.runtime.online.proposer_process import ProposerProcess
from autotune.runtime.online.serving import Serving
from autotune.runtime.online.steady_clock import SteadyClock
from autotune.runtime.profile.group_profile import PairProfile
from autotune.targets.protocol import Target

POLL_SECONDS, MOST_POLL_SECONDS = 0.05, 1.0
"""Time between two looks at what the requests have brought, and the longest: it doubles while there is nothing to do.
A look takes Python's lock for up to a millisecond: every 0.05 s, it would make requests 1 to 2 % slower for ever."""
PAUSE_SECONDS, MOST_PAUSE_SECONDS = 4.0, 300.0
"""Pause after the first failure, which doubles with each, and the longest."""


class LiveTuning:
    """Serves requests, and tunes in a thread of its own until it is closed.

    A failure of whatever kind ends the trial under way and is told; tuning goes on after a pause, and says so.
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
        """Who says which requests need to be watched, and gives the others two ticks; None while each is watched."""
        return self._serving if self._serving.is_quiet else None

    @property
    def events(self) -> tuple[Event, ...]:
        """The newest events, oldest first."""
        return self._tuner.events

    def drift(self) -> None:
        """Note that the machine has drifted: no rest holds, and what was refused may be tried again."""
        self._tuner.drift()

    def stop(self) -> None:
        """End the trial and the proposer, whatever they do; the published version stays."""
        self._stopping.set()
        self._serving.end_trial()
        self._proposer.give_up()

    def close(self) -> None:
        """Stop, and return when the thread has ended."""
        self.stop()
        self._thread.join()

    def _loop(self) -> None:
        failures, pause = 0, POLL_SECONDS
        while not self._stopping.wait(pause):
            pause = min(2 * pause, MOST_POLL_SECONDS)
            try:
                while not self._stopping.is_set() and self._tuner.step():
                    failures = self._recovered(failures)
                    pause = POLL_SECONDS
                if self._tuner.is_trying:
                    pause = POLL_SECONDS
                failures = self._recovered(failures)
            # the one boundary of this thread: whatever a step raises, out of memory and a library's SystemExit as well,
            # the trial under way has to end, or requests would run by its version for ever
            except BaseException as error:  # noqa: BLE001
                if self._stopping.is_set():
                    return
                failures += 1
                self._fail(error, failures)

    def _recovered(self, failures: int) -> int:
        """Tell that tuning goes on if it had failed; return the failures in a row from now on."""
        if failures:
            self._tuner.tell(EventKind.RESTARTED, "online tuning goes on")
        return 0

    def _fail(self, error: BaseException, failures: int) -> None:
        """Tell of a failure, and pause. Another worker proposes next: this one's code may be gone from the disk."""
        self._tuner.drop_trial()
        self._proposer.close()
        kind = type(error).__name__
        reason = str(error) if isinstance(error, AutotuneError) else f"{kind}: {error}"
        pause = min(MOST_PAUSE_SECONDS, PAUSE_SECONDS * 2.0 ** min(failures - 1, 60))
        text = f"online tuning stopped: {reason}; it begins anew in {pause:g} s"
        self._tuner.tell(EventKind.FAILED, text, pause_seconds=pause, failures=float(failures))
        self._stopping.wait(pause)


def live_tuning(
    published: CurrentTable,
    target: Target,
    ranges: Mapping[str, Interval],
    pairs: Callable[[], Sequence[PairProfile]],
    usage: Callable[[], float],
    seed: int,
    model: bytes | None = None,
) -> LiveTuning | None:
    """Start tuning; ``pairs`` and ``usage`` are as ``LiveTuner`` has them, ``model`` as ``ProposerProcess``.

    None where the target does not run whole networks, or no other process can be had.
    """
    if not isinstance(target, WholeNetworks) or not SUPPORTED:
        return None
    proposer = ProposerProcess(published.current.graph, target.spec, ranges, seed, model)
    serving = Serving(published, target)
    tuner = LiveTuner(serving, target, proposer, pairs, usage=usage, seed=seed, clock=SteadyClock())
    return LiveTuning(serving, tuner, proposer)
