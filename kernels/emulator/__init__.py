"""The emulator's engine and its race check."""
