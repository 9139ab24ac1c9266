"""Simplification: each pass shrinks or rewrites a graph and notes every change with its reason."""

from autotune.graph.passes.note import Note, Pass, PassResult
from autotune.graph.passes.pipeline import PASSES, laid_out, simplify, specialise

__all__ = ["PASSES", "Note", "Pass", "PassResult", "laid_out", "simplify", "specialise"]
