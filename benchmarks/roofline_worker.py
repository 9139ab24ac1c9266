"""Profiles one network for `roofline.py` in a process of its own.

Arguments: network, threads, seconds. Prints what `autotune run --profile --json` says of the groups.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import numpy as np

from autotune.cli.host_profile import documents, summary
from autotune.runtime.session.host_profile import host_profile
from autotune.runtime.session.session import Session
from benchmarks.child import raise_priority
from benchmarks.cpu_networks import make_case


def main() -> None:
    """Measure and print."""
    name, threads, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    raise_priority()
    with tempfile.TemporaryDirectory() as folder:
        case = make_case(name, Path(folder))
        with Session(case.network, target="cpu", threads=threads) as session:
            profile = host_profile(session, dict(np.load(case.inputs)), seconds)
    print(json.dumps({"groups": documents(profile), "roofline": summary(profile)}))


if __name__ == "__main__":
    main()
