"""A cost model's trees as one C file and its header, which need nothing but a C99 compiler.

``autotune predict --export model.c`` writes them; ``kernels/trees/forest.h`` walks the tables there too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from string import Template

import numpy as np
import numpy.typing as npt

from autotune.cost_model.forest import Forest
from autotune.cost_model.packing import PackedTables

_HEADER = Template("""\
/* Learned cost model of $machine, exported by autotune; see $stem.c.
 *
 * A row x has $count features, each at its place in the enum below; NaN is a missing number. Costs are ratios to
 * the analytic ones, as natural logarithms: cycles = analytic cycles * exp(${prefix}_log_ratio(x)). Nine of ten
 * measurements lie within exp(+-${prefix}_log_spread(x)) of that. Functions are pure: threads may share them. */
#ifndef $guard
#define $guard

#ifdef __cplusplus
extern "C" {
#endif

enum {
$features
    ${guard}_FEATURES = $count
};

enum { $parts };

/* Sum of one part's trees: the same float that autotune finds. */
float ${prefix}_trees(int part, const float *x);
double ${prefix}_log_ratio(const float *x);
double ${prefix}_log_spread(const float *x);

#ifdef __cplusplus
}
#endif
#endif
""")
_SOURCE = Template("""\
/* Learned cost model of $machine, exported by autotune: C99, no library but libm. */
#include "$stem.h"

#include <math.h>

$walker
$tables
static const Forest forests[] = {
$forests
};

float ${prefix}_trees(int part, const float *x) { return forest_row(&forests[part], x); }

double ${prefix}_log_ratio(const float *x) { return $ratio; }

double ${prefix}_log_spread(const float *x) {
    const double size = exp(${prefix}_trees(${guard}_SCALE, x));
    const double spread = $factor * (size > $least ? size : $least);
    return spread < $widest ? spread : $widest;
}
""")


def export_c(
    stem: str,
    machine: str,
    feature_names: Iterable[str],
    trees: Mapping[str, Forest],
    factor: float,
    least_scale: float,
    widest: float,
) -> tuple[str, str]:
    """Return the texts of ``stem.c`` and ``stem.h``.

    ``trees`` are a model's forests by name, ``scale`` among them; ``factor`` times the scale, which
    is at least ``least_scale``, is the interval's half width in logarithms, at most ``widest``.
    """
    prefix = _identifier(stem)
    guard = prefix.upper()
    names = [f"    {guard}_{_identifier(name).upper()}," for name in feature_names]
    parts = {name: f"{guard}_{_identifier(name).upper()}" for name in trees}
    ratios = [f"{prefix}_trees({parts[x]}, x)" for x in ("cycles", "base cycles") if x in parts]
    packed = {_identifier(name): (forest, forest.tables) for name, forest in trees.items()}
    known = {
        "stem": stem,
        "machine": re.sub(r"[^\w .:+-]", "_", machine),
        "prefix": prefix,
        "guard": guard,
        "count": str(len(names)),
        "features": "\n".join(names),
        "parts": ", ".join(parts.values()),
        "ratio": " + ".join(f"(double){ratio}" for ratio in ratios) or "0 * (double)x[0]",
        "walker": files("autotune.kernels").joinpath("trees/forest.h").read_text("utf-8"),
        "tables": "\n".join(_tables(name, tables) for name, (_, tables) in packed.items()),
        "forests": "\n".join(_forest(name, *both) for name, both in packed.items()),
        "factor": repr(factor),
        "least": repr(least_scale),
        "widest": repr(widest),
    }
    return _SOURCE.substitute(known), _HEADER.substitute(known)


_KINDS = {
    "feature": "int32_t",
    "nan_left": "uint8_t",
    "levels": "uint8_t",
    "first": "int32_t",
    "threshold": "float",
    "depth": "uint8_t",
    "node": "int32_t",
    "leaf": "int32_t",
    "column": "uint16_t",
    "rank": "uint8_t",
    "value": "float",
}
"""Tables of ``Forest`` in ``forest.h``, in the order of its fields."""


def _identifier(text: str) -> str:
    """Return a C identifier."""
    plain = re.sub(r"[^0-9A-Za-z_]", "_", text)
    return f"m{plain}" if plain[:1].isdigit() else plain


def _tables(name: str, tables: PackedTables) -> str:
    """Return the tables of one forest; an empty one has a zero that nothing reads."""
    return "\n".join(
        f"static const {kind} {name}_{table}[] = {{{_numbers(getattr(tables, table), kind)}}};"
        for table, kind in _KINDS.items()
    )


def _forest(name: str, forest: Forest, tables: PackedTables) -> str:
    counts = (forest.features, len(tables.feature), len(tables.depth))
    base = _single(forest.base)
    return f"    {{{', '.join(map(str, counts))}, {base}, {', '.join(f'{name}_{t}' for t in _KINDS)}}},"


def _numbers(column: npt.NDArray[np.generic], kind: str) -> str:
    write = _single if kind == "float" else str
    return ", ".join(map(write, column.tolist())) or "0"


def _single(value: float) -> str:
    """Return a C literal of exactly this float."""
    return "INFINITY" if np.isinf(value) else f"{float(value).hex()}f"
