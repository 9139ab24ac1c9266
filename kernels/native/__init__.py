"""The native executor and its thread pool."""
