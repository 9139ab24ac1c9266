"""``python -m tests.soak``: serves for some minutes while faults strike; says what was wrong, and how to repeat it."""

from __future__ import annotations

import argparse
import faulthandler
import os
import signal
import sys
import tempfile
import threading
from pathlib import Path


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0, help="draws faults, requests and plans")
    parser.add_argument("--fault-seconds", type=float, default=4.0, help="mean length of a fault")
    parser.add_argument("--short", action="store_true", help="do not judge growth: all is warm-up")
    return parser


def main() -> int:
    """Soak as asked; return 0 if all was well, else 1."""
    asked = _arguments().parse_args()
    stopping = threading.Event()
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        os.environ["AUTOTUNE_HOME"] = folder
        from tests.soak.report import lines  # after the home is set
        from tests.soak.soak import Options, Soak

        options = Options(
            60 * asked.minutes, asked.seed, asked.fault_seconds, judges_growth=not asked.short
        )
        soak = Soak(options, Path(folder), lambda line: print(line, flush=True), stopping)
        soak.run()
        for line in lines(soak):
            print(line, flush=True)
    return 1 if soak.complaints() else 0


if __name__ == "__main__":
    sys.exit(main())
