"""Operators: kinds, shapes, reference semantics, intervals and operation counts."""
