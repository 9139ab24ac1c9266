"""A target of somebody else's: the edge machine, which hangs, crashes or fails for some programs."""

from __future__ import annotations

import os
import signal
import time
import zlib
from enum import Enum
from typing import Any

from autotune.isa.program import Program
from autotune.targets.protocol import Execution
from tests.tuner.search_case import EDGE


class Fate(Enum):
    """What becomes of a program."""

    HANGS = "hangs"
    CRASHES = "crashes"
    BREAKS = "breaks"


class StandIn:
    """Costs what the edge machine costs, but for one of ``share`` programs. Not an emulator of
    ours: nobody knows that it ends."""

    def __init__(self, fate: Fate, share: int) -> None:
        self.name, self.spec = f"edge that {fate.value}", EDGE.spec
        self.fate, self.share = fate, share

    def is_struck(self, program: Program) -> bool:
        """Whether the fate is this program's."""
        return zlib.crc32(repr(program.streams).encode()) % self.share == 0

    def time(self, program: Program, parameters: Any = None) -> Execution:
        """The edge machine's cost, or the fate."""
        if self.is_struck(program):
            match self.fate:
                case Fate.HANGS:
                    time.sleep(600)
                case Fate.CRASHES:
                    os.kill(os.getpid(), signal.SIGSEGV)
                case Fate.BREAKS:
                    raise AssertionError("a broken invariant")
        return EDGE.time(program, parameters)

    def run(self, program: Program, tensors: Any, parameters: Any = None) -> Any:
        """Nobody asks for numbers here."""
        raise NotImplementedError
