"""The errors a user can cause or meet; each message names the place and the way out."""


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


class StoreError(AutotuneError):
    """A store that is corrupt, read-only, full, or of another schema version."""


class PlanError(AutotuneError):
    """A plan file that is broken, or made for another machine or network."""


class InputError(AutotuneError):
    """Arrays or options handed to the program that do not fit the network."""
