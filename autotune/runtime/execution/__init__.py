"""Program tables and how one runs: inputs and outputs, profile, events."""
