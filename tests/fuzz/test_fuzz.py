"""An accepted program never faults: fuzzed under AddressSanitizer and UBSan."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from autotune.errors import ProgramError
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Instruction, Program
from autotune.isa.verifier.proof import verify
from tests.fuzz import sanitized
from tests.fuzz.__main__ import Worker, ending, fuzz
from tests.fuzz.cases import KINDS, case
from tests.fuzz.corpus import corpus, lowered
from tests.fuzz.draws import Rng, changed_field
from tests.fuzz.judge import Outcome, judge
from tests.fuzz.share import Note, Share
from tests.fuzz.shrink import shrunk

CASES = 10_000
needs_sanitizers = pytest.mark.skipif(
    not sanitized.available(), reason="the compiler has no libasan and libubsan"
)


@pytest.fixture(scope="module")
def modules() -> Path:
    return sanitized.build()


@pytest.mark.slow
@needs_sanitizers
def test_ten_thousand_cases_neither_crash_nor_hang_nor_leave_their_memory(
    modules: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    status = fuzz(Share(seed=0, first=0, end=CASES), 2, modules)
    printed = capfd.readouterr().out
    assert status == 0, printed
    assert f"{CASES} cases in" in printed


@pytest.mark.slow
@needs_sanitizers
@pytest.mark.parametrize("opcode", ["fill", "unary", "load", "store", "gather", "matmul", "online"])
def test_the_sanitizer_sees_one_word_beyond_the_scratchpad(modules: Path, opcode: str) -> None:
    def ended(elements: int) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tests.fuzz.beyond", str(modules), opcode, str(elements)]
        return subprocess.run(
            command,
            cwd=sanitized.ROOT,
            env=sanitized.environment(),
            capture_output=True,
            text=True,
            check=False,
        )

    inside, outside = ended(elements=64), ended(elements=63)
    assert inside.returncode == 0, inside.stderr
    assert outside.returncode != 0
    assert "AddressSanitizer: heap-buffer-overflow" in outside.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_a_case_is_the_same_in_every_run(kind: str) -> None:
    for number in range(20):
        assert repr(case(5, number, kind)[1]) == repr(case(5, number, kind)[1])


@pytest.mark.parametrize("kind", KINDS)
def test_cases_of_every_kind_get_as_far_as_numbers_and_are_refused(kind: str) -> None:
    subjects = [case(2, number, kind) for number in range(120)]
    outcomes = {judge(subject, rng).outcome for _, subject, rng in subjects}
    assert outcomes & {Outcome.RAN, Outcome.RACED}
    assert outcomes & {Outcome.REFUSED, Outcome.MALFORMED}


def test_mutations_begin_from_valid_programs_with_every_opcode() -> None:
    used = {word.opcode for program in corpus() for stream in program.streams for word in stream}
    assert used == set(Opcode)
    for program in corpus():
        verify(program)
        assert judge(program, Rng(1)).outcome in (Outcome.RAN, Outcome.RACED)


def test_an_instruction_whose_opcode_was_changed_can_be_changed_again() -> None:
    short = Instruction((int(Opcode.MATMUL), *Instruction.make(Opcode.HALT).values[1:]))
    for seed in range(50):
        assert len(changed_field(Rng(seed, 0, 0), short).values) == len(short.values)


def test_lowered_programs_run_without_races_and_are_searched_for_them() -> None:
    for program in lowered():
        assert judge(program, Rng(1)).outcome is Outcome.RAN
    assert {judge(program, Rng(1)).outcome for program in corpus()} > {Outcome.RACED}


def test_programs_by_hand_fill_their_scratchpad_to_the_last_word() -> None:
    by_hand = [program for program in corpus() if program.tensors == corpus()[0].tensors]
    assert len(by_hand) > 10
    for program in by_hand:
        with pytest.raises(ProgramError):
            verify(program, program.scratchpad_elements - 1)
        smaller = Program(
            program.name,
            program.tensors,
            program.streams,
            program.credits,
            program.scratchpad_elements - 1,
        )
        with pytest.raises(ProgramError):
            verify(smaller)


def test_a_failure_shrinks_to_the_instruction_that_makes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def judged(subject: object, rng: object) -> None:
        assert isinstance(subject, Program)
        for word in subject.streams[0]:
            assert word.opcode is not Opcode.ONLINE or word.get("state_stride0") != 3

    monkeypatch.setattr("tests.fuzz.shrink.judge", judged)
    online = next(program for program in corpus() if program.name == "online")
    smallest = shrunk(online, (0,))
    assert isinstance(smallest, Program)
    assert smallest.streams == ((Instruction.make(Opcode.ONLINE, state_stride0=3),),)


@pytest.mark.parametrize(
    ("code", "ended"),
    [("import os; os.abort()", "SIGABRT"), ("import sys; sys.exit(3)", "status 3")],
)
def test_a_dead_worker_names_the_signal_that_ended_it(
    code: str, ended: str, tmp_path: Path
) -> None:
    process = subprocess.Popen([sys.executable, "-c", code])
    process.wait()
    assert ending(Worker(process, Share(0, 0, 1), tmp_path, Note(tmp_path / "note"))) == ended


@pytest.mark.parametrize(("code", "hangs"), [("while True: pass", True), ("input()", False)])
def test_a_worker_hangs_that_computes_at_one_case_and_not_one_that_is_held_up(
    code: str, hangs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.fuzz.__main__.HANG_SECONDS", 0.3)
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    worker = Worker(process, Share(0, 0, 1), tmp_path, Note(tmp_path / "note"))
    worker.note.write(0)
    try:
        assert not worker.hangs()
        limit = time.monotonic() + (30 if hangs else 1)
        while not worker.hangs() and time.monotonic() < limit:
            time.sleep(0.05)
        assert worker.hangs() is hangs
    finally:
        process.kill()
        process.communicate()
