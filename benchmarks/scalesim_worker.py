"""Runs SCALE-Sim on the layers that `scalesim_peer.py` wrote; the interpreter is SCALE-Sim's own.

Arguments: the folder, then the layers' names. Prints one JSON object.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from pathlib import Path

from scalesim.scale_sim import scalesim

from benchmarks.child import spent


def simulate(folder: Path, layer: str) -> dict[str, float]:
    """One layer: cycles of compute, of stalls, and CPU seconds from reading its files to reports."""
    start = time.process_time()
    simulator = scalesim(
        save_disk_space=True,
        verbose=False,
        config=str(folder / "scale.cfg"),
        topology=str(folder / layer / "topology.csv"),
        layout=str(folder / layer / "layout.csv"),
    )
    simulator.run_scale(top_path=str(folder / layer))
    seconds = time.process_time() - start
    _, cycles, stalls, *_ = simulator.runner.single_layer_sim_object_list[
        0
    ].get_compute_report_items()
    return {"cycles": int(cycles), "stall_cycles": int(stalls), "cpu_seconds": seconds}


def main() -> None:
    """Simulate every layer; what SCALE-Sim prints goes to stderr."""
    folder = Path(sys.argv[1])
    with contextlib.redirect_stdout(sys.stderr):
        layers = {layer: simulate(folder, layer) for layer in sys.argv[2:]}
    print(json.dumps({"layers": layers, **spent()}))


if __name__ == "__main__":
    main()
