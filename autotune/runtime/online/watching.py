"""How many requests learning looks at where no trial compares them: for those who serve, and those who look."""

WATCHED = 64
"""Requests of which one is watched. What a request touches beside its network costs most: the caches hold none of it. At
each request, learning cost 4 to 7 µs."""
ON_TRIAL = -1
"""Plan version, to the trainer, of a run by a version on trial: its groups cost what they took, but it shows no drift."""
