"""The tile instruction set: table, programs, codec, assembler, verifier."""
