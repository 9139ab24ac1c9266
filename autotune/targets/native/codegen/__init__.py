"""Generators of micro-kernels: from the constants of an instruction to LLVM IR text."""
