"""Step tables of the native executor, built row by row, and what walking them must do."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from autotune.kernels.native.executor import CASE, END, LOOP, NULL_BASE, RUN, SAMPLE_KERNELS, Stream

Row = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Operand:
    """An operand: base, byte, terms of (step, level), turns of (slot, level)."""

    base: int
    byte: int = 0
    terms: Pairs = ()
    turns: Pairs = ()


@dataclass(frozen=True)
class Number:
    """An integer: constant, terms of (step, level)."""

    constant: int
    terms: Pairs = ()


NULL = Operand(NULL_BASE)


@dataclass
class Tables:
    """The five tables of a stream."""

    steps: list[Row] = field(default_factory=list)
    operands: list[Row] = field(default_factory=list)
    terms: list[Row] = field(default_factory=list)
    turns: list[Row] = field(default_factory=list)
    numbers: list[Row] = field(default_factory=list)
    _opened: list[int] = field(default_factory=list)

    def loop(self, trips: int) -> None:
        self.steps.append((LOOP, trips, len(self._opened), 0, 0, 0))
        self._opened.append(len(self.steps) - 1)

    def case(self, parameter: int, low: int, high: int) -> None:
        self.steps.append((CASE, parameter, low, high, len(self._opened), -1))
        self._opened.append(len(self.steps) - 1)

    def end(self) -> None:
        opener = self._opened.pop()
        if self.steps[opener][0] == CASE:
            self.steps[opener] = (*self.steps[opener][:5], len(self.steps))
        self.steps.append((END, len(self._opened), 0, 0, 0, 0))

    def run(
        self, kernel: str, operands: list[Operand], numbers: list[Number] | None = None
    ) -> None:
        given = numbers or []
        first_operand, first_number = len(self.operands), len(self.numbers)
        for o in operands:
            terms, turns = len(self.terms), len(self.turns)
            self.operands.append((o.base, o.byte, terms, len(o.terms), turns, len(o.turns)))
            self.terms += o.terms
            self.turns += o.turns
        for n in given:
            self.numbers.append((n.constant, len(self.terms), len(n.terms)))
            self.terms += n.terms
        address = SAMPLE_KERNELS[kernel]
        counts = (first_operand, len(operands), first_number, len(given))
        self.steps.append((RUN, address, *counts))

    def record(self, operands: list[Operand], numbers: list[Number]) -> None:
        """Append these operands and numbers to the log, which is base 1."""
        counts = [Number(len(operands)), Number(len(numbers))]
        self.run("record", [Operand(1), *operands], [*counts, *numbers])

    def stream(self, scratchpad_bytes: int = 0, before: Stream | None = None) -> Stream:
        tables = self.steps, self.operands, self.terms, self.turns, self.numbers
        return Stream(*tables, scratchpad_bytes, before)

    def expected(self, bases: list[int], parameters: np.ndarray) -> list[int]:
        """What RUNs of `record` log, by the definition of addresses in docs/isa.md."""
        log: list[int] = []
        begun = dict.fromkeys(range(len(self.steps)), 0)
        self._walk(0, len(self.steps), [], begun, log, bases, parameters)
        return log

    def _walk(self, at, stop, blocks, begun, log, bases, parameters) -> None:
        """``blocks`` are the open blocks' (row, index)."""
        while at < stop:
            row = self.steps[at]
            if row[0] == RUN:
                self._log(row, blocks, begun, log, bases)
                at += 1
                continue
            end = self._end_of(at)
            entered = row[0] == LOOP or row[2] <= parameters[row[1]] <= row[3]
            for index in range((row[1] if row[0] == LOOP else 1) if entered else 0):
                begun[at] += 1
                self._walk(at + 1, end, [*blocks, (at, index)], begun, log, bases, parameters)
            at = end + 1

    def _end_of(self, at: int) -> int:
        depth = 0
        for i in range(at, len(self.steps)):
            depth += {LOOP: 1, CASE: 1, END: -1}.get(self.steps[i][0], 0)
            if depth == 0:
                return i
        raise AssertionError("a block without its end")

    def _log(self, row: Row, blocks, begun, log: list[int], bases: list[int]) -> None:
        _, _, first, count, first_number, number_count = row
        for base, byte, term, terms, turn, turns in self.operands[first + 1 : first + count]:
            address = bases[base] + byte + self._affine(term, terms, blocks)
            for slot, level in self.turns[turn : turn + turns]:
                address += slot * ((begun[blocks[level][0]] - 1) % 2)
            log.append(0 if base == NULL_BASE else address)
        for value, term, terms in self.numbers[first_number + 2 : first_number + number_count]:
            log.append(value + self._affine(term, terms, blocks))

    def _affine(self, term: int, terms: int, blocks) -> int:
        return sum(step * blocks[level][1] for step, level in self.terms[term : term + terms])
