"""Reasons of one group of a plan: what fusing it saves, the runner-up, and what it was not fused with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autotune.fusion.partition import Names
from autotune.schedule.schedule import Schedule
from autotune.tuner.reasons.on_chip_tensors import KeptTensor
from autotune.tuner.reasons.price import Comparison, Price
from autotune.tuner.reasons.rejected_fusion import RejectedFusion


@dataclass(frozen=True, slots=True)
class OtherSchedule:
    """The best schedule besides the group's own; ``comparison`` has its cost before, the plan's after."""

    schedule: Schedule
    comparison: Comparison


@dataclass(frozen=True, slots=True)
class OtherGrouping:
    """The best grouping besides the plan's: ``text`` says what changes, ``groups`` are the groups instead.

    ``comparison`` has its cost before, the plan's after.
    """

    text: str
    groups: tuple[Names, ...]
    comparison: Comparison


@dataclass(frozen=True, slots=True)
class GroupReasons:
    """Why one group of a plan, at ``index``, is as it is.

    ``apart`` compares it with its operators run apart, None for one operator; ``kept`` are the tensors that
    stay on chip. The runners-up are None where there is no other schedule or grouping.
    """

    index: int
    kinds: tuple[str, ...]
    names: Names
    price: Price
    apart: Comparison | None
    kept: tuple[KeptTensor, ...]
    other_schedule: OtherSchedule | None
    other_grouping: OtherGrouping | None
    rejected: tuple[RejectedFusion, ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        """The reasons in words, the gain of fusing first."""
        return tuple(self._sentences())

    def _sentences(self) -> Iterator[str]:
        if self.price.schedule is None:
            yield "renames memory: no program, no cost"
        elif self.apart is None:
            yield "one operator: nothing is fused"
        else:
            yield f"fused: {_gain(self.apart, len(self.names))}"
        if self.kept:
            most = self.kept[0]
            saved = sum(kept.saved_bytes for kept in self.kept)
            rest = f", and {len(self.kept) - 1} more" if len(self.kept) > 1 else ""
            yield (
                f"on chip: {most.tensor} ({'×'.join(map(str, most.shape))}, {most.size_bytes:,} bytes){rest}: "
                f"{saved:,} bytes fewer by shapes alone"
            )
        if self.other_schedule is not None:
            yield f"next schedule: {margin(self.other_schedule.comparison)}"
        if self.other_grouping is not None:
            text, comparison = self.other_grouping.text, self.other_grouping.comparison
            yield f"next grouping: {text}: {margin(comparison)}"


def _gain(comparison: Comparison, operators: int) -> str:
    how = "measured" if comparison.is_measured else "predicted"
    cycles = comparison.saved_cycles
    word = "saves" if cycles >= 0 else "costs"
    told = (
        f"{word} {abs(cycles):,.0f} of {comparison.before.cycles:,.0f} cycles "
        f"({abs(comparison.saved_share):.0%}, {how}) of its {operators} operators apart"
    )
    moved, before = comparison.saved_dram_bytes, comparison.before.dram_bytes
    if moved is None or not before:
        return told
    return f"{told}, and {moved:,.0f} of {before:,.0f} DRAM bytes ({moved / before:.0%})"


def margin(comparison: Comparison) -> str:
    """Return how far the other way is behind, against the noise."""
    saved, noise = comparison.saved_cycles, comparison.noise_cycles
    share = saved / comparison.after.cycles if comparison.after.cycles else 0.0
    how = "measured" if comparison.is_measured else "predicted"
    against = "it counts exactly" if comparison.is_measured and not noise else (
        f"{'beyond' if comparison.is_sure else 'within'} the noise of ±{noise:,.0f}"
    )  # fmt: skip
    side = "behind" if saved >= 0 else "ahead"
    return f"{abs(saved):,.0f} cycles {side} ({share:+.1%}, {how}; {against})"
