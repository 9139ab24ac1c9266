"""Fuzzing of decoder, assembler, verifier and engine: ``PYTHONPATH=tests python -m fuzz --help``."""
