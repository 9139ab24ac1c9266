"""``python -m tests.fuzz.schedules``: checks that every legal schedule lowers, verifies and binds.

A case is a group of a shipped network or of odd shapes with a legal schedule, on one target. Emulated targets
verify and decode its program; the CPU verifies and binds it, and writes the code of every kernel it
has not written before. Any error is a failure, shrunk and printed; so is a case that takes too long.
"""

from __future__ import annotations

import argparse
import multiprocessing
import signal
import sys
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field

from autotune.errors import AutotuneError
from autotune.fusion.analysis import analyse
from autotune.fusion.nest import Rejection
from autotune.isa.program import Program
from autotune.isa.verifier.proof import verify
from autotune.kernels.emulator.engine import Loaded
from autotune.lowering.lower import lower
from autotune.schedule.fit import check
from autotune.targets.native.codegen.kernel_spec import KernelSpec
from autotune.targets.native.cpu.host import host_isa
from autotune.targets.native.linking.loader import bind, linkable
from autotune.targets.native.running.target import NativeTarget
from tests.fuzz.schedule_cases import Case, case, smaller_cases, target_of

PORTION = 400
"""Cases that a process is given at a time."""
CASE_SECONDS = 60
"""CPU time of a case at most."""
_WRITTEN: set[str] = set()
"""Digests of kernels whose code was written."""


class Slow(Exception):
    """A case took more than ``CASE_SECONDS``."""


def judge(tried: Case) -> str:
    """Lower, verify and bind a case; the outcome by name. Raises whatever goes wrong."""
    if tried.group.is_view:
        return "view"
    if tried.schedule is None:
        return "no legal schedule"
    target = target_of(tried.target)
    program = lower(tried.group, tried.schedule, target.spec)
    load(program, tried.target)
    return "loaded"


def load(program: Program, name: str) -> None:
    """Verify and load a program as its target does, without running it."""
    target = target_of(name)
    verify(program, target.spec.scratchpad_elements)
    if not isinstance(target, NativeTarget):
        Loaded(program, target.spec)
        return
    bound = bind(program, host_isa())
    linkable(bound)
    for call in bound.calls:
        if isinstance(call.kernel, KernelSpec) and call.kernel.digest not in _WRITTEN:
            call.kernel.written()
            _WRITTEN.add(call.kernel.digest)


def _stop(*_: object) -> None:
    raise Slow(f"more than {CASE_SECONDS} s")


def bounded(tried: Case) -> str:
    """``judge`` within ``CASE_SECONDS``."""
    signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, CASE_SECONDS)
    try:
        return judge(tried)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _fails(tried: Case) -> bool:
    nests = analyse(tried.group)
    spec = target_of(tried.target).spec
    if tried.schedule is None or isinstance(nests, Rejection):
        return False
    if check(nests, tried.schedule, spec.capacity, spec.cores) is not None:
        return False
    try:
        bounded(tried)
    except Exception:  # noqa: BLE001 - whatever it is, it is what we look for
        return True
    return False


def shrunk(tried: Case) -> Case:
    """The plainest schedule found that is legal and fails as well."""
    smaller = next((x for x in smaller_cases(tried) if _fails(x)), None)
    return tried if smaller is None else shrunk(smaller)


def described(tried: Case) -> str:
    """A case for reading: where it is from, its schedule and its operators with their shapes."""
    shape = {x: list(kind.shape) for x, kind in tried.group.types}
    lines = [f"{tried.source} ({tried.kind}) on {tried.target}, outputs {tried.group.outputs}"]
    lines.append(f"by {tried.schedule and tried.schedule.to_json()}")
    for op in tried.group.ops:
        operands = ", ".join(f"{x}{shape[x]}" for x in op.inputs)
        lines.append(f"  {op.output}{shape[op.output]} = {op.kind} {operands} {dict(op.attrs)}")
    return "\n".join(lines)


@dataclass(slots=True)
class Tally:
    """Counts of outcomes, reasons of failures by their count, and the numbers of failed cases."""

    outcomes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    failures: list[int] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Counts of another share."""
        self.outcomes += other.outcomes
        self.reasons += other.reasons
        self.failures += other.failures


def fuzz(seed: int, numbers: range, explain: bool = True) -> Tally:
    """Try cases of a seed, and print those that fail."""
    tally = Tally()
    for number in numbers:
        tried = case(seed, number)
        try:
            tally.outcomes[bounded(tried)] += 1
        except Exception as error:  # noqa: BLE001 - no error of any kind may come out of a case
            tally.outcomes["FAILED"] += 1
            tally.reasons[f"{type(error).__name__}: {_place(error)}"] += 1
            tally.failures.append(number)
            if explain:
                print(f"# seed {seed}, case {number}\n{described(shrunk(tried))}")
                print(f"{type(error).__name__}: {error}", flush=True)
    return tally


def _place(error: Exception) -> str:
    """The end of a message, or of any other error the line that raised it."""
    if isinstance(error, AutotuneError):
        return str(error).rpartition(": ")[2]
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{error} ({frame.name}, line {frame.lineno})"


def _share(job: tuple[int, range]) -> Tally:
    return fuzz(*job)


def fuzz_by_processes(seed: int, numbers: range, jobs: int) -> Tally:
    """``fuzz`` by several processes."""
    total = Tally()
    shares = [(seed, numbers[job::jobs]) for job in range(jobs)]
    with multiprocessing.Pool(jobs) as pool:
        for tally in pool.imap_unordered(_share, shares):
            total.add(tally)
    return total


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser("tests.fuzz.schedules", description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="go on from this case")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    given = parser.parse_args()
    begin = time.monotonic()
    numbers = range(given.first, given.first + given.cases)
    tally = fuzz_by_processes(given.seed, numbers, given.jobs)
    for name, count in (*sorted(tally.outcomes.items()), *tally.reasons.most_common()):
        print(f"{count:9} {name}")
    print(f"{given.cases} cases in {time.monotonic() - begin:.0f} s, seed {given.seed}")
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
