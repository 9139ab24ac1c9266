"""The writer of IR text."""

from __future__ import annotations

from functools import partial

from autotune.targets.native.codegen.writing.ir import FunctionWriter


def test_parts_in_turns_are_written_a_line_of_each_until_the_longest_ends() -> None:
    writer = FunctionWriter(0)

    def part(name: str, lines: int) -> None:
        for i in range(lines):
            writer.line(f"{name}{i}")

    writer.line("before")
    writer.in_turns(partial(part, name, lines) for name, lines in (("a", 1), ("b", 3), ("c", 2)))
    body = writer.finish().ir.split("entry:\n")[1].split("ret void")[0]
    assert body.split() == ["before", "a0", "b0", "c0", "b1", "c1", "b2"]
