"""The C header of function codes, generated from their rows; kept as ``kernels/maths/functions.h``.

``python -m autotune.isa.c_header > kernels/maths/functions.h`` renews the file; a test compares the two.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Iterator

from autotune.isa.functions import BinaryFn, CostClass, ElementwiseFn, ReduceFn, UnaryFn

WIDTH = 110

HEAD = """\
/* Codes, cost classes and C expressions of functions, generated: python -m autotune.isa.c_header. */
#ifndef AUTOTUNE_FUNCTIONS_H
#define AUTOTUNE_FUNCTIONS_H

#include "maths/scalars.h"
"""


def header() -> str:
    """Return the whole file."""
    return "\n".join((HEAD, *_enumerations(), *_classes(), *_expressions(), "#endif\n"))


def _enumerations() -> Iterator[str]:
    yield _list("enum", [*(cost.name for cost in CostClass), "CLASSES"])
    for prefix, functions in (("UN", UnaryFn), ("BI", BinaryFn), ("RE", ReduceFn)):
        assert [int(fn) for fn in functions] == list(range(len(functions)))
        yield _list("enum", [f"{prefix}_{fn.name}" for fn in functions])
    yield ""


def _classes() -> Iterator[str]:
    yield "/* Cost class of an element, by code. */"
    functions: type[ElementwiseFn]
    for name, functions in (("UNARY", UnaryFn), ("BINARY", BinaryFn)):
        costs = [fn.row.cost.name for fn in functions]
        yield _list(f"static const unsigned char {name}_CLASS[] =", costs)
    yield ""


def _list(start: str, names: list[str]) -> str:
    return textwrap.fill(f"{start} {{ {', '.join(names)} }};", WIDTH, subsequent_indent="    ")


def _expressions() -> Iterator[str]:
    yield "/* F(code, expression of x, p0 and p1) and F(code, expression of x and y). */"
    yield from _macro("UNARY_EXPRESSIONS", _written(UnaryFn))
    yield from _macro("BINARY_EXPRESSIONS", _written(BinaryFn))
    yield ""
    yield "/* F(code, name in maths_code.h): what has no expression. */"
    rows = (fn for fn in UnaryFn if fn.row.c is None)
    yield from _macro("MATHS_FUNCTIONS", (f"F({fn.name}, {fn.name.lower()})" for fn in rows))
    yield ""


def _written(functions: Iterable[ElementwiseFn]) -> Iterator[str]:
    return (f"F({fn.name}, {fn.row.c})" for fn in functions if fn.row.c is not None)


def _macro(name: str, entries: Iterable[str]) -> Iterator[str]:
    """Yield a macro of one entry a line."""
    lines = [f"#define {name}(F)", *(f"    {entry}" for entry in entries)]
    yield from (f"{line} \\" for line in lines[:-1])
    yield lines[-1]


if __name__ == "__main__":
    sys.stdout.write(header())
