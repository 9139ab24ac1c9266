"""The commands of ``autotune``, a file for each; ``main`` puts them together."""
