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
from autotune.runtime.profile.group_profile import PairProfile
from autotune.targets.protocol import Target

POLL_SECONDS = 0.05
"""Time between two looks at what the requests have brought."""
FAILURES = 4
"""Failures in a row after which tuning ends."""
PAUSE_SECONDS = 4.0
"""Pause after the first failure; it doubles with each."""


class LiveTuning:
    """Serves requests, and tunes in a thread of its own until it is closed.

    A failure of the proposer ends the trial under way and is told; tuning goes on after a pause.
    """

    def __init__(self, serving: Serving, tuner: LiveTuner, proposer: Proposer) -> None:
        self._serving, self._tuner, self._proposer = serving, tuner, proposer
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="autotune-tuning", daemon=True)
        self._thread.start()

    def run(self, inputs: Mapping[str, Array]) -> tuple[dict[str, Array], RunTrace]:
        """Run one request by the published version, or by one on trial; return outputs and costs."""
        return self._serving.run(inputs)

    @property
    def events(self) -> tuple[Event, ...]:
        """The newest events, oldest first."""
        return self._tuner.events

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
        failures = 0
        while not self._stopping.wait(POLL_SECONDS):
            try:
                while not self._stopping.is_set() and self._tuner.step():
                    failures = 0
            except AutotuneError as error:
                if self._stopping.is_set():
                    return
                failures += 1
                self._fail(str(error), failures)
                if failures == FAILURES:
                    return
            except Exception as error:  # noqa: BLE001 - a defect of tuning must not end the requests
                self._fail(f"{type(error).__name__}: {error}", FAILURES)
                return

    def _fail(self, reason: str, failures: int) -> None:
        """Tell of a failure, and pause."""
        self._tuner.drop_trial()
        pause = PAUSE_SECONDS * 2 ** (failures - 1)
        ends = failures == FAILURES
        then = "tuning has ended" if ends else f"tuning goes on in {pause:g} s"
        self._tuner.tell(EventKind.FAILED, f"{reason}; {then}", failures=float(failures))
        if not ends:
            self._stopping.wait(pause)


def live_tuning(
    published: CurrentTable,
    target: Target,
    ranges: Mapping[str, Interval],
    pairs: Callable[[], Sequence[PairProfile]],
    usage: Callable[[], float],
    seed: int,
) -> LiveTuning | None:
    """Start tuning; ``pairs`` and ``usage`` are as ``LiveTuner`` has them.

    None where the target does not run whole networks, or no other process can be had.
    """
    if not isinstance(target, WholeNetworks) or not SUPPORTED:
        return None
    proposer = ProposerProcess(published.current.graph, target.spec, ranges, seed)
    serving = Serving(published, target)
    tuner = LiveTuner(serving, target, proposer, pairs, usage=usage, seed=seed)
    return LiveTuning(serving, tuner, proposer)
