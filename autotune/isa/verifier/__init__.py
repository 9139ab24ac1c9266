"""Proof that a program is safe to run: legal values, balanced semaphores, accesses in bounds."""
