"""How many requests learning looks at where no trial compares them: for those who serve, and those who look."""

import math

MOST_APART = 256
"""Requests of which one is watched where they are short: so few that the slowest in a hundred are others."""
LOOK_SECONDS, SHARE = 3e-5, 0.001
"""Time that a look takes of a request, and the share of all requests' time that looks may take. What a request touches beside its
network costs most: the caches hold none of it."""
ON_TRIAL = -1
"""Plan version, to the trainer, of a run by a version on trial: its groups cost what they took, but it shows no drift."""


def requests_apart(run_seconds: float) -> int:
    """Return how many requests that take so long come with one that is watched."""
    return min(MOST_APART, max(1, math.ceil(LOOK_SECONDS / (SHARE * run_seconds))))
