"""Fuzzing of decoder, assembler, verifier and engine: ``python -m tests.fuzz --help``."""
