"""Times one case of `systolic.py` on the emulator, in a process that imports only what that needs.

Arguments: the position in ``CASES``, then the layers' names. Prints one JSON object: cycles and executed instructions of
each layer, CPU seconds of all layers for making the programs, for verifying and loading them, for
executing them once they are loaded, and what the process took in all.
"""

from __future__ import annotations

import json
import sys
import time

from autotune.isa.program import Program
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.spec import HardwareSpec
from benchmarks.child import best_cpu_seconds, spent
from benchmarks.peers import scalesim_layers
from benchmarks.topology import CASES, Layer


def program_of(layer: Layer, spec: HardwareSpec) -> Program:
    """The layer's tile program: one MATMUL per fold of the array."""
    # the cycles that SCALE-Sim found are what the bench is about to measure, hence 0 here
    row = scalesim_layers.Layer(layer.name, *layer.product, last_cycle=0)
    return scalesim_layers.layer_program(row, spec.matrix)


def main() -> None:
    """Measure and print."""
    case = CASES[int(sys.argv[1])]
    spec = scalesim_layers.systolic_machine(case.rows, case.cols, case.dataflow)
    layers = [layer for layer in case.layers(full=True) if layer.name in sys.argv[2:]]
    start = time.process_time()
    programs = [program_of(layer, spec) for layer in layers]
    made = time.process_time()
    machine = EmulatorTarget(spec)
    counters = [machine.time(program).counters for program in programs]
    first = time.process_time()
    execute = best_cpu_seconds(lambda: [machine.time(program) for program in programs])
    figures = {
        "layers": {
            layer.name: {
                "cycles": found["matrix_busy_cycles"],
                "instructions": found["instructions"],
                "cpu_seconds": best_cpu_seconds(lambda: machine.time(program)),  # noqa: B023
            }
            for layer, program, found in zip(layers, programs, counters, strict=True)
        },
        "make_seconds": made - start,
        "first_seconds": first - made,
        "execute_seconds": execute,
    }
    print(json.dumps({**figures, **spent()}))


if __name__ == "__main__":
    main()
