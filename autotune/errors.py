"""The errors a user can cause or meet; each message names the place and the way out."""

LONGEST_MESSAGE = 1000
"""Characters of a message; names in files may be of any length."""


class AutotuneError(Exception):
    """Root of every error that is the user's to mend. The CLI prints it and exits with 2."""


class ModelError(AutotuneError):
    """A network file that cannot be read, or holds something that is not supported."""


class SpecError(AutotuneError):
    """A hardware spec with a missing, unknown or absurd number."""


class ProgramError(AutotuneError):
    """A tile program that the assembler or the verifier refuses."""


class ScheduleError(AutotuneError):
    """No legal schedule exists for a group, or the one given is not legal."""


class TargetError(AutotuneError):
    """A target that does not answer."""


class StoreError(AutotuneError):
    """A store that is corrupt, read-only, full, or of another schema version."""


class PlanError(AutotuneError):
    """A plan file that is broken, or made for another machine or network."""


class InputError(AutotuneError):
    """Arrays or options handed to the program that do not fit the network."""


class ExactnessError(InputError):
    """Integers that float32 programs are not proved to hold exactly."""


class RangeError(InputError):
    """An array outside of the ranges that a network was opened for."""


def one_line(message: str) -> str:
    """A message in which names come from files, fit for a terminal: control characters spelt out,
    and the middle left out of one that is very long."""
    text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in message)
    if len(text) <= LONGEST_MESSAGE:
        return text
    half = LONGEST_MESSAGE // 2
    return f"{text[:half]} … {text[-half:]}"
