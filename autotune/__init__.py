"""autotune: learns what fused operators cost on a machine, and fuses, tiles and lays out by it."""
