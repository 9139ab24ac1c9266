"""The emulator's maths, generated from the formulas of maths.py; kept as ``kernels/maths/maths_code.h``.

``python -m autotune.targets.native.codegen.maths.c_maths > kernels/maths/maths_code.h`` renews the file; a test
compares the two. Both engines so compute the same bits on processors of equal instructions.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator

from autotune.isa.functions import UnaryFn
from autotune.targets.native.codegen.maths.c_lanes import CLanes, Scalar
from autotune.targets.native.codegen.maths.maths import unary
from autotune.targets.native.cpu.vector_isa import AVX2, SSE2, VectorIsa

FUNCTIONS = tuple(fn for fn in UnaryFn if fn.row.c is None)
"""Those that C compilers make slow calls of; the others they vectorise by themselves."""

HEAD = """\
/* Vector maths, generated: python -m autotune.targets.native.codegen.maths.c_maths. Included by
 * maths_lanes.h once per processor. */
"""
SCALARS = (Scalar("p0"), Scalar("p1"))


def code() -> str:
    """The whole file: one function of a register for each of ``FUNCTIONS``."""
    return HEAD + "\n".join(line for fn in FUNCTIONS for line in _function(fn))


def _function(fn: UnaryFn) -> Iterator[str]:
    fused, parted = _body(fn, AVX2), _body(fn, SSE2)
    yield ""
    yield f"REGISTERS VECTOR OWN({fn.name.lower()})(VECTOR x, float p0, float p1) {{"
    if not fn.row.parameters:
        yield "    (void)p0, (void)p1;"
    if fused == parted:
        yield fused
    else:
        yield f"#if FUSED\n{fused}\n#else\n{parted}\n#endif"
    yield "}\n" if fn is FUNCTIONS[-1] else "}"


def _body(fn: UnaryFn, isa: VectorIsa) -> str:
    v = CLanes(isa)
    result = unary(v, fn, "x", *SCALARS[: len(fn.row.parameters)])
    # a no-break space within a statement keeps it on one line
    text = " ".join(
        line.replace(" ", "\N{NO-BREAK SPACE}") for line in (*v.lines, f"return {result};")
    )
    filled = textwrap.fill(text, 112, initial_indent="    ", subsequent_indent="    ")
    return filled.replace("\N{NO-BREAK SPACE}", " ")


if __name__ == "__main__":
    sys.stdout.write(code())
