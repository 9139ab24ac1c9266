"""Reads how often each component acted from a Timeloop ``stats.txt``; ``accelergy`` prices it.

How Timeloop maps the lines of a level to priced actions (NVlabs/timeloop, ``src/model/buffer.cpp``:
``ComputeVectorAccesses``, ``ComputeBufferEnergy``; the leakage rule was found by the comparison):

- A level moves whole blocks ("vectors") of *Block size* words. Of each data space (weights, inputs,
  outputs) and kind of access, an instance does ⌈scalar accesses ÷ block size⌉ actions: rounded up
  per data space and kind, not over their sum.
- Reads are the action ``read``, fills ``write``, updates ``update``. An update writes a partial
  sum; where it adds to a stored one, that is read first, and the read is among the reads. Both
  published tables price ``write`` and ``update`` alike: the comparison cannot tell them apart.
- Statistics are per instance; times *Utilized instances (max)* they are those of the level.
- Each utilized instance leaks (``leak``) once per cycle; idle instances count as power-gated.
- A multiply-accumulate unit does ``compute`` *Computes (total)* times. Timeloop leaves its ``leak``
  out of the energy, though Accelergy prices it; so does this reader.
- Address generation is a part of ``read`` and ``write``: Accelergy prices a memory with its address
  generators, and Timeloop's separate energy for it is 0. So it is for temporal reductions.
- Networks between levels are free in both published designs.

Energies in the file are never counted; those of what an energy table does not price must be 0.
Files where a rule not verified by the comparison would apply are refused: ``_VERIFIED``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from autotune.disk.regular_file import regular_text
from autotune.errors import SpecError
from autotune.targets.emulator.ledger import Action

_SIZE_LIMIT_BYTES = 1 << 24
"""More than any statistics; protects against being handed something else."""

_ACCESSES = {
    "read": "Scalar reads (per-instance)",
    "write": "Scalar fills (per-instance)",
    "update": "Scalar updates (per-instance)",
}
"""Action in the energy table to the line of a data space that counts it."""

_INSTANCES = "Utilized instances (max)"
_COMPUTES = "Computes (total)"

_VERIFIED = {
    "Cluster size": 1.0,
    "Instances sharing power gating": 1.0,
    "Non-power-gated utilization": 100.0,
    "Temporal Reduction Energy (total)": 0.0,
    "Address Generation Energy (total)": 0.0,
}
"""Lines that must have this value where they stand: else energy would be missing or misplaced."""

_SECTIONS = ("SPECS", "MAPPING", "STATS")
_END = "Networks"
_AFTER_NETWORKS = "Operational Intensity Stats"


@dataclass(slots=True)
class _Block:
    """Lines ``key : value`` of a level, or of one data space in it; values with line numbers."""

    name: str
    line: int
    values: dict[str, tuple[str, int]] = field(default_factory=dict)

    def whole(self, key: str, least: int = 0) -> int:
        """The value of ``key``; raises ``SpecError`` if it is missing or not a whole number."""
        if key not in self.values:
            raise SpecError(f"line {self.line}: {self.name} has no line {key!r}; the file is cut")
        text, line = self.values[key]
        if not re.fullmatch(r"[0-9]{1,18}", text) or int(text) < least:
            raise SpecError(
                f"line {line}: {key} of {self.name}: {text!r} is not a whole number from {least} up"
            )
        return int(text)

    def check_verified(self) -> None:
        """Guard: no line asks for a rule that the comparison does not cover."""
        for key, (text, line) in self.values.items():
            wanted = _VERIFIED.get(key)
            number = re.match(r"[0-9.]+", text)
            if wanted is not None and (number is None or float(number[0]) != wanted):
                raise SpecError(
                    f"line {line}: {key} of {self.name} is {text!r}; only {wanted:g} is supported"
                )


@dataclass(slots=True)
class _Level:
    """A component of the file: lines of its own, and lines per data space."""

    own: _Block
    spaces: list[_Block] = field(default_factory=list)


def read_action_counts(path: Path) -> dict[Action, int]:
    """Actions over all instances of each component, in file order; none that is never done.

    Raises ``SpecError`` naming file, line and what was expected there.
    """
    try:
        if path.stat().st_size > _SIZE_LIMIT_BYTES:
            raise SpecError(f"larger than {_SIZE_LIMIT_BYTES} bytes; not Timeloop statistics")
        text = regular_text(path)
    except OSError as error:
        raise SpecError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SpecError(f"{path}: not a text file; expected Timeloop's stats.txt") from None
    except SpecError as error:
        raise SpecError(f"{path}: {error}") from None
    try:
        return parse_action_counts(text)
    except SpecError as error:
        raise SpecError(f"{path}: {error}") from None


def parse_action_counts(text: str) -> dict[Action, int]:
    """``read_action_counts`` on a text; messages give the line."""
    counts: Counter[Action] = Counter()
    for level in _levels(text.splitlines()):
        for action, count in _actions(level):
            counts[action] += count
    return {action: count for action, count in counts.items() if count}


def _actions(level: _Level) -> Iterator[tuple[Action, int]]:
    own = level.own
    for block in (own, *level.spaces):
        block.check_verified()
    if _COMPUTES in own.values:
        yield Action(own.name, "compute"), own.whole(_COMPUTES)
        return
    block_size = own.whole("Block size", least=1)
    for space in level.spaces:
        for name, key in _ACCESSES.items():
            vectors = -(-space.whole(key) // block_size)
            yield Action(own.name, name), vectors * space.whole(_INSTANCES)
    awake = max((space.whole(_INSTANCES) for space in level.spaces), default=0)
    yield Action(own.name, "leak"), awake * own.whole("Cycles")


def _levels(lines: list[str]) -> list[_Level]:
    if _END not in lines:
        raise SpecError(
            f"line {len(lines)}: ends before the section {_END!r}; expected a whole stats.txt"
        )
    end = lines.index(_END)
    _check_no_networks(lines, end)
    levels: list[_Level] = []
    section = ""
    for number, line in enumerate(lines[:end], start=1):
        if title := re.fullmatch(r"=== (\S+) ===", line):
            if any(title[1] == level.own.name for level in levels):
                raise SpecError(f"line {number}: second level {title[1]}; names must differ")
            levels.append(_Level(_Block(title[1], number)))
        elif line.strip() in _SECTIONS:
            section = line.strip()
        elif levels and section != "MAPPING":  # loop nests have colons of their own
            _note(levels[-1], line, number)
    if not levels:
        raise SpecError("line 1: no level ('=== name ==='); expected Timeloop's stats.txt")
    return levels


def _note(level: _Level, line: str, number: int) -> None:
    """Puts one line where it belongs: the heading of a data space, or a value."""
    key, colon, value = (part.strip() for part in line.partition(":"))
    if not colon:
        return
    if not value:
        level.spaces.append(_Block(f"{level.own.name} {key}", number))
        return
    block = level.spaces[-1] if level.spaces else level.own
    block.values[key] = value, number


def _check_no_networks(lines: list[str], start: int) -> None:
    for number, line in enumerate(lines[start + 1 :], start=start + 2):
        if line == _AFTER_NETWORKS:
            return
        if line.strip("- "):
            raise SpecError(
                f"line {number}: network {line.strip()!r}: networks are not supported; "
                "use a design whose networks are free"
            )
