"""The kinds of work that bound programs do: ``kernel_work.py`` and ``program_work.py`` count them.

A row of ``KERNEL_KINDS`` is a kind: its name, the family of kernels that does it, a typical price in cycles
(Sapphire Rapids, AVX-512) and its meaning. To add one, add a row and count it: stored models of other rows are
refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from autotune.isa.functions import BinaryFn, Origin, UnaryFn

Floats = npt.NDArray[np.float64]


class KernelFamily(StrEnum):
    """Kernels that share a price list; the memory traffic of one family overlaps with its arithmetic."""

    PROGRAM = "program"
    PRODUCT = "product"
    RUN = "run"
    ROW = "row"
    REDUCE = "reduce"
    TRANSFORM = "transform"
    COPY = "copy"


@dataclass(frozen=True, slots=True)
class KernelKind:
    """A kind of work; ``price_cycles`` is what a unit of it costs before anything was measured.
    ``traffic`` is in bytes and overlaps with the family's other work."""

    name: str
    family: KernelFamily
    price_cycles: float
    doc: str
    traffic: bool = False


_F = KernelFamily

COSTLY = tuple(fn for fn in (*UnaryFn, *BinaryFn) if fn.row.cpu_cycles)
"""Functions that take more than some instructions. Each has a kind of its own: between machines, costs of one change by
other factors than those of another."""

_OVERLAPPED = 0.7
"""Of a polynomial's cycles by itself, what it takes beside the loads and stores of a run."""


def function_kind(fn: UnaryFn | BinaryFn) -> str:
    """Return the name of a costly function's kind."""
    return fn.name.lower()


def _functions(family: KernelFamily, prefix: str = "", library: bool = False) -> list[KernelKind]:
    """Return a kind for each function by a polynomial, or for each that the C library computes."""
    found = []
    for fn in COSTLY:
        if (fn.row.origin is Origin.LIBRARY) != library:
            continue
        price = fn.row.cpu_cycles * (1.0 if library else _OVERLAPPED)
        doc = f"{'elements' if library else 'registers'} of {fn.name}"
        found.append(KernelKind(prefix + function_kind(fn), family, price, doc))
    return found


_COMPUTED = (
    KernelKind("programs", _F.PROGRAM, 60.0, "programs"),
    KernelKind("synchronised", _F.PROGRAM, 2000.0, "programs whose parts several threads take"),
    KernelKind("parts", _F.PROGRAM, 20.0, "parts that threads take"),
    KernelKind("exchanged", _F.PROGRAM, 0.03, "bytes that another thread's cache may hold"),
    KernelKind("contended", _F.PROGRAM, 0.2, "typical cycles while other threads work, too"),
    KernelKind("calls", _F.PROGRAM, 4.0, "calls of kernels"),
    KernelKind("trips", _F.PROGRAM, 3.0, "loop bodies between calls"),
    KernelKind("products", _F.PRODUCT, 20.0, "products"),
    KernelKind("product_fmas", _F.PRODUCT, 1.1, "cycles of multiply-adds of whole registers"),
    KernelKind("product_waits", _F.PRODUCT, 0.55, "cycles by which loads and latency exceed them"),
    KernelKind("product_steps", _F.PRODUCT, 0.05, "steps of register tiles"),
    KernelKind("product_broadcasts", _F.PRODUCT, 0.03, "elements of the broadcast factor"),
    KernelKind("product_set", _F.PRODUCT, 0.1, "of them, those of rows that fall into few sets"),
    KernelKind("product_far", _F.PRODUCT, 0.15, "registers of panels beyond an L1 cache"),
    KernelKind("product_tiles", _F.PRODUCT, 6.0, "register tiles"),
    KernelKind("product_ends", _F.PRODUCT, 0.5, "registers of results, stored or loaded"),
    KernelKind("product_scattered", _F.PRODUCT, 2.0, "rows of tiles that span several lines"),
    KernelKind("product_sides", _F.PRODUCT, 1.0, "registers of residuals, biases and old sums"),
    KernelKind("product_functions", _F.PRODUCT, 0.3, "registers of an epilogue's function"),
    KernelKind("product_strided_ends", _F.PRODUCT, 8.0, "results stored one by one"),
    KernelKind("product_gathers", _F.PRODUCT, 1.2, "elements of a factor in lanes read one by one"),
    KernelKind("product_blocked", _F.PRODUCT, 0.3, "elements copied into blocks of rows"),
    KernelKind("packed_dense", _F.PRODUCT, 0.05, "elements packed in panels, lanes neighbours"),
    KernelKind("packed_across", _F.PRODUCT, 0.36, "elements packed in panels by transposing"),
    KernelKind("packed_gather", _F.PRODUCT, 1.5, "elements packed in panels one by one"),
    KernelKind("runs", _F.RUN, 15.0, "vector runs"),
    KernelKind("run_rows", _F.RUN, 2.0, "rows of them"),
    KernelKind("run_tails", _F.RUN, 2.0, "rows that end within a register"),
    KernelKind("run_tiles", _F.RUN, 3.0, "registers computed in tiles of positions"),
    KernelKind("loads", _F.RUN, 0.3, "registers loaded"),
    KernelKind("splats", _F.RUN, 0.3, "elements broadcast"),
    KernelKind("stores", _F.RUN, 0.5, "registers stored"),
    KernelKind("streams", _F.RUN, 1.0, "registers stored past the caches"),
    KernelKind("gathers", _F.RUN, 1.1, "elements loaded one by one, several of a line"),
    KernelKind("gathers_far", _F.RUN, 1.8, "elements loaded one by one, each of its own line"),
    KernelKind("gathers_set", _F.RUN, 3.0, "the same, of lines that fall into few sets"),
    KernelKind("scatters", _F.RUN, 1.5, "elements stored one by one, several to a line"),
    KernelKind("scatters_far", _F.RUN, 3.3, "elements stored one by one, each to its own line"),
    KernelKind("scatters_set", _F.RUN, 5.0, "the same, to lines that fall into few sets"),
    KernelKind("arithmetic", _F.RUN, 0.4, "registers of additions and the like"),
    KernelKind("divisions", _F.RUN, 9.0, "registers of quotients"),
    KernelKind("roots", _F.RUN, 12.0, "registers of roots"),
    *_functions(_F.RUN),
    *_functions(_F.RUN, library=True),
    KernelKind("decoded", _F.RUN, 1.0, "elements of instructions that compiled kernels decode"),
    KernelKind("interleaved", _F.RUN, 2.8, "registers put side by side"),
    KernelKind("squares", _F.RUN, 1.0, "squares of transposing copies"),
    KernelKind("squared", _F.RUN, 0.3, "elements of them"),
    KernelKind("squared_set", _F.RUN, 1.0, "elements of them whose lines fall into few sets"),
    KernelKind("row_calls", _F.ROW, 10.0, "row runs"),
    KernelKind("row_rows", _F.ROW, 5.0, "rows of them"),
    KernelKind("row_passes", _F.ROW, 3.0, "passes over rows"),
    KernelKind("row_loads", _F.ROW, 0.4, "registers loaded"),
    KernelKind("row_stores", _F.ROW, 0.5, "registers stored"),
    KernelKind("row_kept", _F.ROW, 2.0, "registers kept for a later pass"),
    KernelKind("row_reduced", _F.ROW, 0.7, "registers that reductions add up"),
    KernelKind("row_folds", _F.ROW, 6.0, "registers folded to one element"),
    KernelKind("row_arithmetic", _F.ROW, 0.4, "registers of additions and the like"),
    KernelKind("row_divisions", _F.ROW, 9.0, "registers of quotients"),
    KernelKind("row_roots", _F.ROW, 12.0, "registers of roots"),
    *_functions(_F.ROW, "row_"),
    KernelKind("reductions", _F.REDUCE, 15.0, "reductions"),
    KernelKind("reduced", _F.REDUCE, 0.6, "registers that they read"),
    KernelKind("reduction_results", _F.REDUCE, 0.1, "results"),
    KernelKind("reduction_columns", _F.REDUCE, 1.0, "registers of results side by side"),
    KernelKind("reduction_gathers", _F.REDUCE, 1.5, "elements read one by one"),
    KernelKind("folds", _F.REDUCE, 6.0, "registers folded to one element"),
    KernelKind("transforms", _F.TRANSFORM, 30.0, "transforms of Winograd's convolution"),
    KernelKind("transformed_f4_input", _F.TRANSFORM, 110.0, "registers of tiles of F(4×4) there"),
    KernelKind("transformed_f4_output", _F.TRANSFORM, 70.0, "registers of tiles of F(4×4) back"),
    KernelKind("transformed_f2_input", _F.TRANSFORM, 30.0, "registers of tiles of F(2×2) there"),
    KernelKind("transformed_f2_output", _F.TRANSFORM, 20.0, "registers of tiles of F(2×2) back"),
    KernelKind("copies", _F.COPY, 200.0, "transfers that compiled kernels decode"),
    KernelKind("copied", _F.COPY, 0.15, "elements of them"),
    KernelKind("copied_rows", _F.COPY, 8.0, "rows of them"),
    KernelKind("panel_copies", _F.COPY, 30.0, "copies of factors into panels"),
    KernelKind("panels_dense", _F.COPY, 0.1, "elements of them, lanes neighbours"),
    KernelKind("panels_across", _F.COPY, 0.4, "elements of them, transposed"),
    KernelKind("masks", _F.COPY, 150.0, "masks"),
    KernelKind("masked", _F.COPY, 0.05, "elements of tiles that they may write"),
    KernelKind("masked_rows", _F.COPY, 2.0, "rows of such tiles"),
    KernelKind("looked_up", _F.COPY, 0.3, "elements looked up in tables"),
    KernelKind("online", _F.COPY, 1.0, "elements of online softmax"),
    KernelKind("online_rows", _F.COPY, 20.0, "rows of it"),
)
_BYTES = (
    ("read_2", 0.015, "bytes read from beyond an L1 cache"),
    ("read_3", 0.05, "bytes read from beyond an L2 cache"),
    ("read_4", 0.1, "bytes read from beyond what a core may keep"),
    ("written_2", 0.02, "bytes written that an L1 cache does not hold"),
    ("written_3", 0.05, "bytes written that an L2 cache does not hold"),
    ("written_4", 0.1, "bytes written that no cache holds"),
    ("rows_2", 0.5, "rows of bytes beyond an L1 cache"),
    ("rows_3", 2.5, "rows of bytes beyond an L2 cache"),
)
KERNEL_KINDS: tuple[KernelKind, ...] = (
    *_COMPUTED,
    *(
        KernelKind(f"{family}_{name}", family, price, doc, traffic=True)
        for family in KernelFamily
        if family is not KernelFamily.PROGRAM
        for name, price, doc in _BYTES
    ),
)
KIND_INDEX = {kind.name: column for column, kind in enumerate(KERNEL_KINDS)}
KERNEL_PRICES: Floats = np.array([kind.price_cycles for kind in KERNEL_KINDS])
"""Prices before anything was measured."""
