"""The emulated accelerator: target, counters, energy, profile, trace and race check."""
