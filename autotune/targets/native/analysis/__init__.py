"""Analysis of a program's streams: memory accesses, coverage and elision of copies."""
