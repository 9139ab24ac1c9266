"""Times one case of `systolic.py` on the emulator, in a process that imports only what that needs.

Arguments: the position in ``CASES``, then the layers' names. Prints one JSON object: cycles and executed instructions of
each layer, CPU seconds of all layers for making the programs, for verifying and loading them, for
executing them once they are loaded, and what the process took in all.
"""

from __future__ import annotations

import json
import sys
import time

from autotune.targets.emulator import EmulatorTarget
from child import best_cpu_seconds, spent
from fold_programs import array_spec, fold_program
from topology import CASES


def main() -> None:
    """Measure and print."""
    case = CASES[int(sys.argv[1])]
    layers = [layer for layer in case.layers(full=True) if layer.name in sys.argv[2:]]
    start = time.process_time()
    programs = [fold_program(layer, case) for layer in layers]
    made = time.process_time()
    machine = EmulatorTarget(array_spec(case))
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
