# What a run gives back, and how its sums and events lie in memory.

SUMS = (
    ("executed", OPCODES), ("spent", UNITS * SPENDINGS), ("waits", UNITS), ("signals", UNITS),
    ("trips", 1), ("cases", 1), ("transfers", 2), ("bursts", 2), ("wanted_bytes", 2), ("closed", 2),
    ("conflicts", 2), ("turnarounds", 2), ("data_cycles", 2), ("row_cycles", 2), ("turn_cycles", 2),
    ("folds", 1), ("stream_cycles", 1), ("fill_cycles", 1), ("macs_issued", 3), ("macs_useful", 3),
    ("elements", 3), ("work", 1), ("passes", 1), ("slots", 1), ("read_bytes", UNITS),
    ("written_bytes", UNITS), ("padded_bytes", 1), ("first", 1), ("last", 1), ("peak_bytes", 1),
)
"""Name and length of each part of a row of sums (struct Sums of account.h)."""

SUM_COUNT = sum(length for _, length in SUMS)
assert SUM_COUNT * sizeof(int64_t) == sizeof(Sums)

EVENT = np.dtype([
    ("since", "i8"), ("start", "i8"), ("end", "i8"),
    ("core", "i4"), ("unit", "i4"), ("word", "i4"), ("cause", "i4"),
])
"""One row of a trace: what a unit (or, as unit 4, the DRAM channel) did from ``start`` to ``end``; it
had been free since ``since``, waiting by ``cause``."""
assert EVENT.itemsize == sizeof(Event)


class By(IntEnum):
    """What a run's sums are summed over."""

    PROGRAM = 0
    MARK = 1
    INSTRUCTION = 2


class Outcome:
    """What a run counted.

    ``sums`` holds ``[regions, SUM_COUNT]`` int64 per ``By`` asked for; ``sequencers`` per core (clock, cycles held by a full
    queue, cycles waiting for a semaphore); ``events`` a trace of EVENT rows or None, ``dropped`` the
    events beyond its limit.
    """

    __slots__ = ("cycles", "dropped", "events", "sequencers", "sums")

    def __init__(self, cycles, sequencers, sums, events, dropped):
        self.cycles = cycles
        self.sequencers = sequencers
        self.sums = sums
        self.events = events
        self.dropped = dropped
