"""Why a group falls short of its roofline on this machine, guessed from what was measured of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from autotune.runtime.session.roofline import Limit
from autotune.targets.native.linking.step_kinds import StepKind
from autotune.targets.native.linking.step_profile import ProgramProfile

NEAR = 0.8
"""Fraction of its bound from which on a group needs no reason."""

SHORT_SECONDS = 3e-6
"""Below it, starting a program and waiting for its threads are much of its time."""

MUCH = 0.2
"""Share of a group's time that is worth a word."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of a group: its time, and where the time went.

    ``fraction`` is the part of the time that its bound explains, ``limit`` the bound's resource. ``threads`` are those
    that it could have used, and ``functions`` is True if it computes transcendental ones.
    """

    seconds: float
    fraction: float
    limit: Limit
    profile: ProgramProfile
    threads: int
    functions: bool

    def share(self, *kinds: StepKind) -> float:
        """Return the share of the calls' time that some kinds of steps take."""
        return sum(self.profile.steps.get(kind, 0.0) for kind in kinds)

    @property
    def passes(self) -> float:
        """Share of element-wise passes and reductions."""
        return self.share(StepKind.VECTOR, StepKind.ROWS)

    @property
    def idle(self) -> float:
        """Share of the threads' time that is lost if equal parts are dealt out to them in turns."""
        turns = -(-self.profile.parts // self.threads)
        return 1 - self.profile.parts / (turns * self.threads)


Guess = tuple[Callable[[Evidence], bool], Callable[[Evidence], str]]

GUESSES: tuple[Guess, ...] = (
    (lambda e: not e.profile.steps, lambda e: "computed in place before"),
    (lambda e: e.fraction >= NEAR, lambda e: ""),
    (lambda e: e.seconds < SHORT_SECONDS, lambda e: "short: starting it takes as long"),
    (
        lambda e: e.share(StepKind.COMPILED) >= MUCH,
        lambda e: f"kernels that are not generated ({e.share(StepKind.COMPILED):.0%})",
    ),
    (
        lambda e: e.idle >= MUCH,
        lambda e: f"{_count(e.profile.parts, 'part')} for {e.threads} threads",
    ),
    (lambda e: e.share(StepKind.COPY) >= MUCH, lambda e: f"copies ({e.share(StepKind.COPY):.0%})"),
    (
        lambda e: e.share(StepKind.TRANSFORM) >= 2 * MUCH,
        lambda e: f"Winograd's transforms ({e.share(StepKind.TRANSFORM):.0%})",
    ),
    (
        lambda e: e.passes >= MUCH and e.functions,
        lambda e: f"transcendental functions in passes ({e.passes:.0%})",
    ),
    (lambda e: e.limit is Limit.MEMORY, lambda e: "memory-bound, below the measured bandwidth"),
    (
        lambda e: e.passes >= 0.5,
        lambda e: f"passes of few operations per load ({e.passes:.0%})",
    ),
    (
        lambda e: e.profile.lanes is not None and e.profile.lanes < 0.9,
        lambda e: f"products fill {e.profile.lanes:.0%} of the lanes",
    ),
    (
        lambda e: e.profile.depth is not None and e.profile.depth < 64,
        lambda e: f"short sums ({e.profile.depth} products)",
    ),
    (lambda e: e.passes >= MUCH, lambda e: f"passes beside the products ({e.passes:.0%})"),
    (lambda e: e.share(StepKind.PRODUCT) >= 0.5, lambda e: "products below the peak"),
    (lambda e: True, lambda e: "not explained"),
)
"""What to look for, in order, and what to say; the first that holds is the reason."""


def reason(evidence: Evidence) -> str:
    """The likeliest reason in a few words; nothing for a group near its bound."""
    return next(say(evidence) for holds, say in GUESSES if holds(evidence))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
