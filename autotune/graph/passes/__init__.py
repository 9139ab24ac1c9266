"""Simplification: passes that shrink a graph and say what they removed and why."""

from autotune.graph.passes.note import Note, Pass, PassResult
from autotune.graph.passes.pipeline import PASSES, laid_out, simplify

__all__ = ["PASSES", "Note", "Pass", "PassResult", "laid_out", "simplify"]
