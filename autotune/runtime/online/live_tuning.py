"""Starts tuning on live requests, with the proposer in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from autotune.measure.process import SUPPORTED
from autotune.operators.interval import Interval
from autotune.runtime.execution.native_table import WholeNetworks
from autotune.runtime.execution.program_table import CurrentTable
from autotune.runtime.online.live_tuner import LiveTuner
from autotune.runtime.online.proposer_process import ProposerProcess
from autotune.runtime.profile.group_profile import PairProfile
from autotune.targets.protocol import Target


def live_tuner(
    published: CurrentTable,
    target: Target,
    ranges: Mapping[str, Interval],
    pairs: Callable[[], Sequence[PairProfile]],
    usage: Callable[[], float],
    seed: int,
) -> LiveTuner | None:
    """Start tuning; ``pairs`` and ``usage`` are as ``LiveTuner`` has them. None where the target does not run whole networks, or no other process can be had."""
    if not isinstance(target, WholeNetworks) or not SUPPORTED:
        return None
    proposer = ProposerProcess(published.current.graph, target.spec, ranges, seed)
    tuner = LiveTuner(published, target, proposer, pairs, usage=usage, seed=seed)
    tuner.start()
    return tuner
