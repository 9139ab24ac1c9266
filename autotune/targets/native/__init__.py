"""The native engine: tile programs on the host CPU, each instruction a compiled micro-kernel."""
