"""The emulator's counters by name and family, and those of one run; counter_rows.py and resource_rows.py
have the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from autotune.targets.emulator.counter import Counter
from autotune.targets.emulator.counter_rows import energy_rows, program_rows, sequencer_rows
from autotune.targets.emulator.reading import Reading
from autotune.targets.emulator.resource_rows import (
    dram_rows,
    matrix_rows,
    scratchpad_rows,
    vector_rows,
)

FAMILIES: dict[str, tuple[Counter, ...]] = {
    "Program and units": tuple(program_rows()),
    "Sequencers": tuple(sequencer_rows()),
    "DRAM": tuple(dram_rows()),
    "Matrix array": tuple(matrix_rows()),
    "Vector unit": tuple(vector_rows()),
    "Scratchpad": tuple(scratchpad_rows()),
    "Energy": tuple(energy_rows()),
}
"""The counters by what they count."""

COUNTERS: dict[str, Counter] = {row.name: row for rows in FAMILIES.values() for row in rows}
"""Every counter, in the order in which they print."""

PART_COUNTERS = tuple(name for name, row in COUNTERS.items() if not row.whole)
"""Names of those that a profile mark has too."""


class Counters(Mapping[str, int]):
    """The counters of one reading, each worked out when it is asked for."""

    __slots__ = ("_reading", "_rows")

    def __init__(self, reading: Reading, names: tuple[str, ...] | None = None) -> None:
        self._reading = reading
        self._rows = COUNTERS if names is None else {name: COUNTERS[name] for name in names}

    def __getitem__(self, name: str) -> int:
        return self._rows[name].read(self._reading)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def counted(self) -> dict[str, int]:
        """All of them, worked out now."""
        reading = self._reading
        return {name: row.read(reading) for name, row in self._rows.items()}

    def __reduce__(self) -> tuple[Callable[..., dict[str, int]], tuple[object, ...]]:
        counted = self.counted()
        if self._rows is COUNTERS:  # a worker sends thousands: their names take longer than they do
            return _by_name, (tuple(counted.values()),)
        return dict, (counted,)


def _by_name(values: tuple[int, ...]) -> dict[str, int]:
    """All counters of a pickled run, in the order of the table."""
    return dict(zip(COUNTERS, values, strict=True))
