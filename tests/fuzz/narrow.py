"""``python -m tests.fuzz.narrow``: tries drawn products of narrow numbers on both engines, in kernels that watch their memory.

A case is a product or a convolution, also a transposed one. Its numbers are bytes, bf16, or fp16 in memory; formats, zero points,
scales, rounding, saturation and the schedule are drawn. The emulator, the native engine's generated code and its compiled
kernels each have to give the evaluator's numbers. Generated code is not watched; its own tests see what it writes beside
its results.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from tests.fuzz import sanitized

BATCH = 250
"""Cases of one run of Hypothesis, which goes over the same ground more often the longer it runs."""
CHILD = "--modules"


def fuzz(cases: int, number: int, folder: Path) -> tuple[Counter[str], bool]:
    """Try cases of a seed: how many there were of each kind, and whether all held."""
    from hypothesis import HealthCheck, Phase, given, seed, settings
    from hypothesis import strategies as st

    from autotune.isa.opcodes import Opcode
    from autotune.isa.program import Program
    from autotune.targets.native.compiling.compiler import Compiler
    from tests.lowering import test_bf16, test_fp16, test_narrow
    from tests.lowering.lowering_case import lowered
    from tests.targets.native.linking import (
        test_bf16_programs,
        test_fp16_programs,
        test_narrow_programs,
    )

    counts: Counter[str] = Counter()
    tried: list[Program] = []
    compiler = Compiler(cache_dir=folder)
    kinds = {
        "bytes": (test_narrow, test_narrow_programs),
        "bf16": (test_bf16, test_bf16_programs),
        "fp16": (test_fp16, test_fp16_programs),
    }

    @seed(number)
    @settings(
        max_examples=cases,
        derandomize=False,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(kind=st.sampled_from(sorted(kinds)), data=st.data())
    def attempt(kind: str, data: st.DataObject) -> None:
        emulated, native = kinds[kind]
        graph = data.draw(emulated.products())
        program = lowered(graph, data)
        tried[:] = [program]
        emulated.assert_exact(graph, program)
        for how in (compiler, None):
            native.check(graph, program, how)
        counts[kind] += 1
        stream = [x for part in program.streams for x in part]
        counts["products"] += sum(x.opcode is Opcode.MATMUL for x in stream)
        counts["conversions"] += sum(x.opcode is Opcode.CONVERT for x in stream)

    try:
        attempt()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what we look for
        traceback.print_exception(error.with_traceback(error.__traceback__), limit=-6)
        print(f"# seed {number}\n" + "\n".join(map(str, tried)), flush=True)
        return counts, False
    return counts, True


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("tests.fuzz.narrow", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plain", action="store_true", help="kernels of the usual build")
    parser.add_argument(CHILD, type=Path, help=argparse.SUPPRESS)
    return parser


def main() -> int:
    """Run the command; in a process of its own where kernels are sanitized."""
    asked = _arguments().parse_args()
    if asked.modules is None and not asked.plain:
        if not sanitized.available():
            print("no sanitizers here: give --plain", file=sys.stderr)
            return 2
        given = ["-m", "tests.fuzz.narrow", *sys.argv[1:], CHILD, str(sanitized.build())]
        path = os.pathsep.join(filter(None, (str(sanitized.ROOT), os.environ.get("PYTHONPATH"))))
        environment = sanitized.environment() | {"PYTHONPATH": path}
        return subprocess.run([sys.executable, *given], env=environment, check=False).returncode
    if asked.modules is not None:
        sanitized.use(asked.modules)
    begin, total, failed = time.process_time(), Counter[str](), 0
    with tempfile.TemporaryDirectory() as folder:
        for batch in range(-(-asked.cases // BATCH)):
            cases = min(BATCH, asked.cases - batch * BATCH)
            counts, held = fuzz(cases, 1000 * asked.seed + batch, Path(folder))
            total += counts
            failed += not held
    print(f"{dict(total)} in {time.process_time() - begin:.0f} s of CPU time", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
